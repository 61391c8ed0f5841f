// Idea: an operand whose rows do not start at multiples of 16 bytes is copied once, into rows that
//   do. The copy costs two passes over it; then the copy engine and wgmma take the product.
// From split_k: any M, N, K at tensor-core speed. The product's kernel, stream_k's excepted, is
//   launched before the copies end, and waits for them when its barriers are set up.
// Traffic: 4 bytes an element of each copied operand more.
// Limits: sm_90a; a workspace as large as the copied operands.
#pragma once

#include "kernels/gemm/35_warp_specialized.cuh"
#include "kernels/gemm/36_split_k.cuh"
#include "kernels/gemm/37_stream_k.cuh"
#include "kernels/gemm/45_pingpong.cuh"
#include "kernels/gemm/realign.hpp"

namespace ws::gemm {

// Long: which product takes the copies, and how each is started.
struct Realigned {
  static constexpr int64_t kRow = 8;  // elements: 16 bytes

  static bool supports(const Call& call, Why& why) {
    return why.unless(call.k > 0, "K = 0 leaves nothing to copy") && runs_supported(call, why) &&
           why.unless(needs_realigning(call.a, call.dtype) ||
                          needs_realigning(call.b, call.dtype) || call.c.length % kRow != 0 ||
                          alignment_of(call.c, call.dtype) < 16,
                      "all rows start at multiples of 16 bytes: nothing to realign");
  }
  // What stream_k wants, then the copies.
  static Workspace workspace(const Call& call) {
    Workspace all = stream_k_workspace();
    all.bytes += realigned_bytes(call);
    return all;
  }
  static void run(const Call& call, const Context& context) {
    call.dtype == DType::kF16 ? run_typed<half>(call, context) : run_typed<bf16>(call, context);
  }

 private:
  template <class T>
  static void run_typed(const Call& call, const Context& context) {
    auto* const place = static_cast<std::byte*>(context.workspace) + stream_k_workspace().bytes;
    Call aligned = call;
    const bool copies = realign<T>(aligned, place, context.stream);
    const int blocks = device_facts().multiprocessors;
    const SplitPlan plan = plan_split_k(aligned);
    const WgmmaPlan tiles = plan_realigned(aligned);
    const double cut = stream_k_time(aligned);
    if (plan.time < std::min(tiles.time, cut)) {
      return run_split_k<T>(aligned, plan, context.stream, /*overlaps=*/copies);
    }
    with_contiguous(aligned, [&]<Contiguous kA, Contiguous kB>() {
      if (cut < tiles.time) {
        run_stream_k<T, kA, kB, PlainOutput<T>>(aligned, context.workspace, context.stream);
        return;
      }
      RealignedPolicies::with(tiles.policy, [&]<class Policy>() {
        using Kernel = KernelOf<T, kA, kB, Policy, PlainOutput<T>>;
        Kernel::run(aligned, blocks, context.stream);
      });
    });
  }
};

}  // namespace ws::gemm
