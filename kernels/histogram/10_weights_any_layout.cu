// Idea: any strides of values and weights.
// From weights: a thread divides the number of its element to find both.
// Traffic: every element and weight once where strides allow; an atomic of the L2 for each.
// Limits: none. Sums differ from run to run.
#include "kernels/histogram/binning.hpp"
#include "kernels/histogram/private_counts.hpp"
#include "kernels/reduce/walk.hpp"
#include "warpsmith/device_facts.hpp"

namespace ws::histogram {
namespace {

template <class T>
struct WeightsAnyLayoutKernel {
  static constexpr int kThreads = 256;
  struct Arguments {
    const T* x;
    const float* weights;
    reduce::Walk walk;
    int64_t count;
    float* sums;
    IndexCheck check;
  };
  struct SharedStorage {};

  __device__ void operator()(SharedStorage& /*shared*/, const Arguments& a) const {
    const int64_t step = grid_blocks() * kThreads;
    for (int64_t i = block_index() * kThreads + thread_index(); i < a.count; i += step) {
      const reduce::Walk::Place place = a.walk(i);
      const auto bin = static_cast<int64_t>(thread::load(a.x + place.at[0]));
      const float weight = thread::load(a.weights + place.at[1]);
      if (a.check(bin, i)) ptx::red_global_add(a.sums + bin, weight);
    }
  }
};

struct WeightsAnyLayout {
  static Workspace workspace(const SumBins::Call& call) { return Totals::workspace(call.bins); }
  static void run(const SumBins::Call& call, const Context& context) {
    auto* sums = static_cast<float*>(context.workspace);
    with_type<kValues>(call.dtype, [&]<class T>() {
      using Kernel = WeightsAnyLayoutKernel<T>;
      const int64_t places = int64_t{8} * device_facts().multiprocessors;
      launch<Kernel>({.blocks = std::clamp<int64_t>(
                          divide_up(call.count, int64_t{Kernel::kThreads}), 1, places),
                      .threads = Kernel::kThreads},
                     context.stream,
                     {static_cast<const T*>(call.x), call.weights,
                      reduce::Walk(call.loop, call.loops, call.count), call.count, sums,
                      IndexCheck("sum_bins/weights_any_layout", "x", call.bins)});
    });
    FinishKernel<float>::run(sums, call, context.stream);
  }
};

}  // namespace

extern const Rung kWeightsAnyLayout;
const Rung kWeightsAnyLayout =
    rung_of<WeightsAnyLayout, SumBins>({.name = "weights_any_layout",
                                        .from = "weights",
                                        .idea = "weighted sums of any strides and number of bins",
                                        .deterministic = false});

}  // namespace ws::histogram
