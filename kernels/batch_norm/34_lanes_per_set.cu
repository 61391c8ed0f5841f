// Idea: a set of few numbers is some lanes' of a warp, or all of one's. They keep it in registers,
// and merge what they find by shuffles: its mean first, then the squares of distances from it.
// From vector: x is read once, a set has no block of its own, and nobody waits at a barrier.
// Traffic: one read, one write.
// Limits: vector's, and sets of up to 256 windows of 16 bytes.
#include "kernels/batch_norm/lanes.hpp"

namespace ws::batch_norm {
namespace {

template <class T, class Shape>
struct LanesPerSetKernel {
  static constexpr int kThreads = Shape::kThreads;
  using Set = LanesOfSet<T, Shape, 1>;
  struct Arguments {
    Runs<T> runs;
    Values weight;
    Values bias;
    Statistics statistics;
    int64_t sets;
  };
  struct SharedStorage {};

  __device__ void operator()(SharedStorage& /*shared*/, const Arguments& a) const {
    const int64_t s = block_index() * Shape::kSets + thread_index() / Shape::kLanes;
    const bool exists = s < a.sets;
    const Set set(a.runs, s, exists);
    const auto& x = set.elements[0];
    // Asked for with x: behind the sums it would be a second trip to memory.
    Parameters of_first{};
    if (exists) of_first = Affine<T>::parameters(a.weight, a.bias, a.runs, s);
    const auto add_lanes = [](float value) {
      return warp::all_reduce<Shape::kLanes>(value, Plus{});
    };
    // Distances from one of the numbers: sums of what lies far from 0 keep their digits.
    const float one = warp::shuffle(set.any(), lane_index() & -Shape::kLanes);
    float sum = 0;
    set.each([&](int v, int i) { sum += x[v][i] - one; });
    thread::Moments moments = thread::Moments::none();
    moments.count = a.statistics.count;
    moments.mean = thread::fma(add_lanes(sum), thread::reciprocal(moments.count), one);
    float squares = 0;
    set.each([&](int v, int i) {
      const float away = x[v][i] - moments.mean;
      squares = thread::fma(away, away, squares);
    });
    moments.squares = add_lanes(squares);
    if (!exists) return;
    if (Set::lane() == 0) a.statistics.finish(a.runs.sample_of(s), a.runs.number(s), moments);
    Affine<T> affine(a.weight, a.bias, a.runs, s, a.statistics.normal(moments), of_first);
#pragma unroll
    for (int v = 0; v < Shape::kWindows; ++v) {
      const Window& window = set.windows[v];
      if (window.last > window.first) a.runs.store(window, affine(window, x[v]));
    }
  }
};

struct LanesPerSet {
  static bool supports(const ForwardCall& call, Why& why) {
    return lanes_supported(call.layout, call.dtype, why);
  }
  static void run(const ForwardCall& call, const Context& context) {
    with_type<kFloats>(call.dtype, [&]<class T>() {
      with_lanes(windows_of_set(call.layout, call.dtype), [&]<class Shape>() {
        using Kernel = LanesPerSetKernel<T, Shape>;
        const int64_t sets = call.layout.sets;
        launch<Kernel>(
            {.blocks = divide_up(sets, int64_t{Shape::kSets}), .threads = Kernel::kThreads},
            context.stream,
            {runs_of<T>(call.layout, call.dtype), call.weight, call.bias, statistics_of(call),
             sets});
      });
    });
  }
};

}  // namespace

extern const Rung kLanesPerSet;
const Rung kLanesPerSet =
    rung_of<LanesPerSet, BatchNormForward, BatchNormTraining, GroupNormForward>({
        .name = "lanes_per_set",
        .from = "vector",
        .idea = "a set of few numbers in the registers of a warp, or of some of its lanes",
    });

}  // namespace ws::batch_norm
