// What the rungs share that multiply f32 on the tensor cores by parts of K: which operand lanes may
// bring, in tiles of C or of C^T, and which is copied, if it does not lie along K.
#pragma once

#include "kernels/gemm/36_split_k.cuh"
#include "kernels/gemm/tf32_parts.hpp"

namespace ws::gemm {

// Tiles: policies of tiles of C and of C^T, and the kernel that multiplies them.
template <class Tiles>
struct SplitF32 {
  template <bool kTurned>
  using Policies = typename Tiles::template Policies<kTurned>;

  struct Plan {
    bool is_turned = false;
    Call call;  // turned, if so
    KMajor b;   // its operand that is not brought by lanes
    SplitPlan split;
    double time = kNever;
  };
  // In tiles of C, or of C^T.
  static Plan plan(const Call& call, bool is_turned) {
    const Call one = is_turned ? transposed(call) : call;
    const KMajor b(one.b, Contiguous::kRows, one.k, /*has_low=*/false);
    Call counted = as_16_bits(call);
    counted.dtype = DType::kF16;
    // Where the operand is then.
    is_turned ? counted.a.contiguous = Contiguous::kColumns
              : counted.b.contiguous = Contiguous::kRows;
    const SplitPlan split =
        is_turned ? plan_split_k<Policies<true>>(counted) : plan_split_k<Policies<false>>(counted);
    Why nobody;
    const bool copies = can_be_copied("a", one.a, DType::kF32, nobody);
    return {is_turned, one, b, split, copies ? b.time() + split.time : kNever};
  }
  static Plan plan(const Call& call) {
    const Plan straight = plan(call, false);
    const Plan turned = plan(call, true);
    return turned.time <= straight.time ? turned : straight;
  }

  static bool supports(const Call& call, Why& why) {
    return why.unless(call.k > 0, "K = 0 leaves nothing to copy") && runs_supported(call, why) &&
           why.unless(plan(call).time < kNever,
                      "rows of a and of b do not start at multiples of 16 bytes");
  }
  static Workspace workspace(const Call& call) { return {.bytes = plan(call).b.bytes()}; }
  static void run(const Call& call, const Context& context) {
    run_as(plan(call), LinesOutput<float>::of(call), context);
  }
  template <class Output>
  static void run_as(Plan plan, const Output& output, const Context& context) {
    plan.b.make(context.workspace, context.stream);
    plan.call.b = matrix_of(plan.b, Contiguous::kRows, plan.call.n, plan.call.k);
    const auto run_with = [&]<class Policy>() {
      const auto run_lying = [&]<Contiguous kA>() {
        using Kernel = typename Tiles::template Kernel<kA, Policy, Output>;
        Kernel::template start<Kernel>(plan.call, output, plan.split.parts, context.stream,
                                       plan.b.bytes() > 0);
      };
      plan.call.a.contiguous == Contiguous::kColumns
          ? run_lying.template operator()<Contiguous::kColumns>()
          : run_lying.template operator()<Contiguous::kRows>();
    };
    plan.is_turned ? Policies<true>::with(plan.split.policy, run_with)
                   : Policies<false>::with(plan.split.policy, run_with);
  }
  static double time(const Call& call) { return plan(call).time; }
};

}  // namespace ws::gemm
