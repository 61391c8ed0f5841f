// What the rungs share that multiply f32 on the tensor cores by parts of K: which operand lanes may
// bring, in tiles of C or of C^T, and what is copied: that one where it starts anywhere, the other
// where it does not lie along K.
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
    Call call;   // turned, if so
    BroughtA a;  // its operand that lanes bring
    KMajor b;    // the other
    SplitPlan split;
    double time = kNever;

    size_t bytes() const { return a.bytes() + b.bytes(); }  // of copies
  };
  // In tiles of C, or of C^T.
  static Plan plan(const Call& call, bool is_turned) {
    const Call one = is_turned ? transposed(call) : call;
    const BroughtA a(one);
    const KMajor b(one.b, Contiguous::kRows, one.k, /*has_low=*/false);
    Call counted = as_16_bits(call);
    counted.dtype = DType::kF16;
    // Where the operand is then.
    is_turned ? counted.a.contiguous = Contiguous::kColumns
              : counted.b.contiguous = Contiguous::kRows;
    const SplitPlan split =
        is_turned ? plan_split_k<Policies<true>>(counted) : plan_split_k<Policies<false>>(counted);
    const bool fits = static_cast<double>(a.bytes() + b.bytes()) <= kMostWorkspace;
    return {is_turned, one, a, b, split, fits ? a.time() + b.time() + split.time : kNever};
  }
  static Plan plan(const Call& call) {
    const Plan straight = plan(call, false);
    const Plan turned = plan(call, true);
    return turned.time <= straight.time ? turned : straight;
  }

  static bool supports(const Call& call, Why& why) {
    return why.unless(call.k > 0, "K = 0 leaves nothing to copy") && runs_supported(call, why) &&
           why.unless(plan(call).time < kNever, "copies of a and b would be too large");
  }
  static Workspace workspace(const Call& call) { return {.bytes = plan(call).bytes()}; }
  static void run(const Call& call, const Context& context) {
    run_as(plan(call), LinesOutput<float>::of(call), context);
  }
  template <class Output>
  static void run_as(Plan plan, const Output& output, const Context& context) {
    plan.a.make(plan.call, context.workspace, context.stream);
    plan.b.make(static_cast<std::byte*>(context.workspace) + plan.a.bytes(), context.stream);
    plan.call.b = matrix_of(plan.b, Contiguous::kRows, plan.call.n, plan.call.k);
    const auto run_with = [&]<class Policy>() {
      const auto run_lying = [&]<Contiguous kA>() {
        using Kernel = typename Tiles::template Kernel<kA, Policy, Output>;
        Kernel::template start<Kernel>(plan.call, output, plan.split.parts, context.stream,
                                       plan.bytes() > 0);
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
