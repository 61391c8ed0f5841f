// Idea: any strides of values and weights; bins by value, or between edges.
// From weights: a thread divides the number of its element to find both.
// Traffic: every element and weight once where strides allow; an atomic of the L2 for each.
// Limits: none. Sums differ from run to run.
#include "kernels/histogram/any_layout.hpp"
#include "kernels/histogram/private_counts.hpp"
#include "kernels/reduce/walk.hpp"

namespace ws::histogram {
namespace {

template <class Binner>
struct WeightsAnyLayoutKernel {
  using T = typename Binner::Element;
  static constexpr int kThreads = 256;
  struct Arguments {
    Binner binner;
    const T* x;
    const float* weights;
    reduce::Walk walk;
    int64_t count;
    uint32_t bins;
    float* sums;
  };
  struct SharedStorage {
    SharedArray<uint32_t, 1> wrong;
  };

  __device__ void operator()(SharedStorage& shared, const Arguments& a) const {
    if (!has_right_edges(a.binner, shared.wrong, kThreads)) return;
    const int64_t step = grid_blocks() * kThreads;
    for (int64_t i = block_index() * kThreads + thread_index(); i < a.count; i += step) {
      const reduce::Walk::Place place = a.walk(i);
      const T value = thread::load(a.x + place.at[0]);
      const float weight = thread::load(a.weights + place.at[1]);
      const uint32_t bin = a.binner(value);
      if (bin < a.bins) {
        ptx::red_global_add(a.sums + bin, weight);
      } else if constexpr (Binner::kReports) {
        a.binner.check(static_cast<int64_t>(value), i);
      }
    }
  }
};

struct WeightsAnyLayout {
  static const char* name(const SumBins::Call& /*call*/) { return "sum_bins/weights_any_layout"; }
  static const char* name(const SumBetween::Call& /*call*/) {
    return "sum_between/weights_any_layout";
  }

  template <class Call>
  static Workspace workspace(const Call& call) {
    return Totals::workspace(call.bins);
  }
  template <class Call>
  static void run(const Call& call, const Context& context) {
    auto* sums = static_cast<float*>(context.workspace);
    with_binner<true>(call, name(call), [&]<class Binner>(const Binner& binner) {
      using Kernel = WeightsAnyLayoutKernel<Binner>;
      launch<Kernel>(
          {.blocks = walking_blocks(call.count, Kernel::kThreads), .threads = Kernel::kThreads},
          context.stream,
          {binner, static_cast<const typename Kernel::T*>(call.x), call.weights,
           reduce::Walk(call.loop, call.loops, call.count), call.count,
           static_cast<uint32_t>(call.bins), sums});
    });
    FinishKernel<float>::run(sums, call, context.stream);
  }
};

}  // namespace

extern const Rung kWeightsAnyLayout;
const Rung kWeightsAnyLayout = rung_of<WeightsAnyLayout, SumBins, SumBetween>(
    {.name = "weights_any_layout",
     .from = "weights",
     .idea = "weighted sums of any strides and number of bins",
     .deterministic = false});

}  // namespace ws::histogram
