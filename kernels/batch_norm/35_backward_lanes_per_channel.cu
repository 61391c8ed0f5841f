// Idea: what a channel has in a sample is some lanes' of a warp, or all of one's, which keep grad
//   and x in registers. A block has the channels of whole groups, whose sums meet in shared memory.
// From backward_groups: grad and x are read once, and dx needs no launch of its own.
// Traffic: two reads, one write; 8 bytes a channel and sample.
// Limits: backward_groups', and channels of up to 256 windows of 16 bytes in a sample, of which a
//   group has no more than a block: 8 to 32.
#include "kernels/batch_norm/groups.hpp"
#include "kernels/batch_norm/lanes.hpp"

namespace ws::batch_norm {
namespace {

template <class T, class Shape>
struct BackwardLanesKernel {
  static constexpr int kThreads = Shape::kThreads;
  using Set = LanesOfSet<T, Shape, 2>;
  struct Arguments {
    Runs<T> runs;  // a set for each channel of each sample
    GroupRule of;
    Sums* parts;  // [samples, channels]
    int64_t groups;
    int groups_a_block;
  };
  struct SharedStorage {
    SharedArray<Sums, Shape::kSets> weighed;
  };

  __device__ void operator()(SharedStorage& shared, const Arguments& a) const {
    const auto width = static_cast<int>(a.of.width);
    const int mine = thread_index() / Shape::kLanes;  // of the block's channels
    const int first = mine / width * width;           // of the same group
    const int64_t group = block_index() * a.groups_a_block + mine / width;
    const bool exists = mine / width < a.groups_a_block && group < a.groups;
    const int64_t row = group * width + (mine - first);
    const Set set(a.runs, row, exists);
    const auto& grad = set.elements[0];
    const auto& x = set.elements[1];
    Normal normal{};
    float weight = 0;
    if (exists) {
      const int64_t sample = a.runs.sample_of(row);
      normal = a.of.normal(sample, group - sample * a.of.groups);
      weight = a.of.weight(a.runs.number(row));
    }
    Sums sums = Sums::none();
    set.each([&](int v, int i) { sums.add(grad[v][i], x[v][i] - normal.mean); });
    sums = warp::all_reduce<Shape::kLanes>(sums, PlusSums{});
    if (exists && Set::lane() == 0) {
      thread::store(a.parts + row, Vec<Sums, 1>{{sums}});
      shared.weighed[mine] = {weight * sums.grad, weight * sums.product};
    }
    ptx::barrier_sync();
    if (!exists) return;
    Sums total = Sums::none();
    for (int c = first; c < first + width; ++c) {
      const Sums of_channel = shared.weighed[c];
      total = PlusSums{}(total, of_channel);
    }
    const Gradient gradient = a.of.gradient(normal, weight, total);
#pragma unroll
    for (int v = 0; v < Shape::kWindows; ++v) {
      const Window& window = set.windows[v];
      if (window.last > window.first) {
        store_gradient(a.runs, window, gradient, grad[v], x[v]);
      }
    }
  }
};

struct BackwardLanesPerChannel {
  static bool supports(const BackwardCall& call, Why& why) {
    if (!lanes_supported(call.rows, call.dtype, why)) return false;
    const int64_t width = call.layout.width;
    int64_t most = 0;
    with_lanes(windows_of_set(call.rows, call.dtype), [&]<class Shape>() { most = Shape::kSets; });
    return why.unless(width <= most, "takes groups of up to ", most, " such channels, not ", width);
  }
  static Workspace workspace(const BackwardCall& call) {
    return {.bytes = static_cast<size_t>(call.rows.sets) * sizeof(float) * 2};
  }
  static void run(const BackwardCall& call, const Context& context) {
    with_type<kFloats>(call.dtype, [&]<class T>() {
      with_lanes(windows_of_set(call.rows, call.dtype), [&]<class Shape>() {
        using Kernel = BackwardLanesKernel<T, Shape>;
        const GroupRule of = GroupRule::of(call);
        auto* const parts = static_cast<Sums*>(context.workspace);
        const int64_t groups = call.layout.sets;
        const auto together = static_cast<int>(Shape::kSets / of.width);
        launch<Kernel>(
            {.blocks = divide_up(groups, int64_t{together}), .threads = Kernel::kThreads},
            context.stream, {runs_of<T>(call.rows, call.dtype), of, parts, groups, together});
        FinishGroupsKernel::launch_on(
            {of, parts, nullptr, nullptr, call.rows.sets / of.channels, 1}, context.stream);
      });
    });
  }
};

}  // namespace

extern const Rung kBackwardLanesPerChannel;
const Rung kBackwardLanesPerChannel = rung_of<BackwardLanesPerChannel, GroupNormBackward>({
    .name = "backward_lanes_per_channel",
    .from = "backward_groups",
    .idea = "grad and x of a channel in registers of a warp, or of some of its lanes",
});

}  // namespace ws::batch_norm
