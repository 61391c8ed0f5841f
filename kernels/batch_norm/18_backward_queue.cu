// Idea: clusters that stay take channels in turns; grad and x of those to come are on their way to
// a ring in shared memory; a channel's sums are sent before the channel ahead of it is written.
// From backward_on_chip: loads never pause for an exchange, and no block is launched for a channel.
// Traffic: two reads, one write; 8 bytes between each two blocks of a cluster.
// Limits: 16 blocks of 56 KiB of each, whose runs have no gaps.
#include "kernels/batch_norm/queue.hpp"

namespace ws::batch_norm {
namespace {

template <class T>
struct Differentiate {
  struct Fetched {
    Normal normal;
    float weight;
  };
  using Element = T;
  using Total = Sums;
  using Merge = PlusSums;
  using Sum = Sums;
  static constexpr int kInputs = 2;  // grad, x

  GradientRule rule;

  static Differentiate of(const BackwardCall& call) { return {rule_of(call)}; }
  __device__ __forceinline__ Fetched fetch(const Runs<T>& /*runs*/, int64_t c) const {
    return {{rule.mean_of(c), of_channel(rule.rstd, c)}, of_channel(rule.weight, c, 1.0F)};
  }
  template <class X>
  __device__ __forceinline__ static void add(Sum& sum, const Fetched& fetched, const Window& window,
                                             const X& x) {
    batch_norm::add<Runs<T>::kWidth>(sum, window, x[0], x[1], fetched.normal.mean);
  }
  __device__ __forceinline__ static Total total(const Sum& sum) { return sum; }
  __device__ __forceinline__ auto writer(const Runs<T>& runs, int64_t /*c*/, const Fetched& fetched,
                                         const Total& total) const {
    const Gradient gradient = rule.gradient(fetched.normal, fetched.weight, total);
    return [&runs, gradient](const Window& window, const auto& x) {
      store_gradient(runs, window, gradient, x[0], x[1]);
    };
  }
  __device__ __forceinline__ void finish(int64_t c, const Total& total) const {
    rule.finish(c, total);
  }
};

using BackwardQueue = Queue<BackwardCall, Differentiate, QueueShapes>;

}  // namespace

extern const Rung kBackwardQueue;
const Rung kBackwardQueue = rung_of<BackwardQueue, BatchNormBackward>({
    .name = "backward_queue",
    .from = "backward_on_chip",
    .idea = "clusters stay and take channels in turns, grad and x fetched ahead",
    .arch = Arch::kSm90,
});

}  // namespace ws::batch_norm
