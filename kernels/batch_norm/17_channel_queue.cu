// Idea: clusters that stay take channels in turns. Those to come are on their way to a ring in
// shared memory; a channel's moments are sent to the other blocks before the channel ahead of it is
// written.
// From channel_on_chip: loads never pause for an exchange, and no block is launched for a channel.
// Traffic: one read, one write; 16 bytes between each two blocks of a cluster.
// Limits: 16 blocks of 112 KiB, whose runs have no gaps.
#include "kernels/batch_norm/queue.hpp"

namespace ws::batch_norm {
namespace {

template <class T>
struct Normalise {
  using Element = T;
  using Total = thread::Moments;
  using Merge = MergeMoments;
  using Sum = Running;
  using Fetched = Parameters;
  static constexpr int kInputs = 1;

  Values weight;
  Values bias;
  Statistics statistics;

  static Normalise of(const ForwardCall& call) {
    return {call.weight, call.bias, statistics_of(call)};
  }
  __device__ __forceinline__ Fetched fetch(const Runs<T>& runs, int64_t set) const {
    return Affine<T>::parameters(weight, bias, runs, set);
  }
  template <class X>
  __device__ __forceinline__ static void add(Sum& sum, const Fetched& /*fetched*/,
                                             const Window& window, const X& x) {
    batch_norm::add<Runs<T>::kWidth>(sum, window, x[0]);
  }
  __device__ __forceinline__ static Total total(const Sum& sum) { return sum.moments(); }
  __device__ __forceinline__ auto writer(const Runs<T>& runs, int64_t set, const Fetched& fetched,
                                         const Total& total) const {
    Affine<T> affine(weight, bias, runs, set, statistics.normal(total), fetched);
    return [&runs, affine](const Window& window, const auto& x) mutable {
      runs.store(window, affine(window, x[0]));
    };
  }
  __device__ __forceinline__ void finish(int64_t set, const Total& total) const {
    statistics.finish(set, total);
  }
};

using ChannelQueue = Queue<ForwardCall, Normalise, QueueShapes>;

}  // namespace

extern const Rung kChannelQueue;
const Rung kChannelQueue =
    rung_of<ChannelQueue, BatchNormForward, BatchNormTraining, GroupNormForward>({
        .name = "channel_queue",
        .from = "channel_on_chip",
        .idea = "clusters stay and take channels in turns, fetched ahead; the exchange is hidden",
        .arch = Arch::kSm90,
    });

}  // namespace ws::batch_norm
