// Idea: any strides: a thread divides the number of its element to find it, and adds in global
// memory.
// From global_atomics: walks of several dimensions, 64-bit places; totals in the workspace, which a
// second launch gives out in the output's dtype and stride.
// Traffic: every element once where strides allow; an atomic of the L2 for each.
// Limits: none. Equal values queue at one address.
#include "kernels/histogram/any_layout.hpp"
#include "kernels/histogram/private_counts.hpp"
#include "kernels/reduce/walk.hpp"

namespace ws::histogram {
namespace {

template <class Binner>
struct AnyLayoutKernel {
  using T = typename Binner::Element;
  static constexpr int kThreads = 256;
  struct Arguments {
    Binner binner;
    const T* x;
    reduce::Walk walk;
    int64_t count;
    uint32_t bins;
    uint64_t* totals;
  };
  struct SharedStorage {
    SharedArray<uint32_t, 1> wrong;
  };

  __device__ void operator()(SharedStorage& shared, const Arguments& a) const {
    if (!has_right_edges(a.binner, shared.wrong, kThreads)) return;
    const int64_t step = grid_blocks() * kThreads;
    for (int64_t i = block_index() * kThreads + thread_index(); i < a.count; i += step) {
      const T value = thread::load(a.x + a.walk(i).at[0]);
      const uint32_t bin = a.binner(value);
      if (bin < a.bins) {
        ptx::red_global_add(a.totals + bin, 1);
      } else if constexpr (Binner::kReports) {
        a.binner.check(static_cast<int64_t>(value), i);
      }
    }
  }
};

struct AnyLayout {
  static const char* name(const CountBins::Call& /*call*/) { return "count_bins/any_layout"; }
  static const char* name(const Histc::Call& /*call*/) { return "histc/any_layout"; }
  static const char* name(const CountBetween::Call& /*call*/) { return "count_between/any_layout"; }

  template <class Call>
  static Workspace workspace(const Call& call) {
    return Totals::workspace(call.bins);
  }
  template <class Call>
  static void run(const Call& call, const Context& context) {
    const Totals totals(context.workspace, call.bins);
    with_binner<true>(call, name(call), [&]<class Binner>(const Binner& binner) {
      using Kernel = AnyLayoutKernel<Binner>;
      launch<Kernel>(
          {.blocks = walking_blocks(call.count, Kernel::kThreads), .threads = Kernel::kThreads},
          context.stream,
          {binner, static_cast<const typename Kernel::T*>(call.x),
           reduce::Walk(call.loop, call.loops, call.count), call.count,
           static_cast<uint32_t>(call.bins), totals.of_bin});
    });
    FinishKernel<uint64_t>::run(totals.of_bin, call, context.stream);
  }
};

}  // namespace

extern const Rung kAnyLayout;
const Rung kAnyLayout = rung_of<AnyLayout, CountBins, Histc, CountBetween>(
    {.name = "any_layout",
     .from = "global_atomics",
     .idea = "any strides, range and number of bins: atomic additions in global memory"});

}  // namespace ws::histogram
