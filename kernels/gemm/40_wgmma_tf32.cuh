// Idea: f32 on the tensor cores as tf32: 8 bits of exponent, 10 of mantissa. wgmma reads f32 as it
//   lies in shared memory and cuts off the low 13 bits; an instruction takes 8 of K, 32 bytes.
// From warp_specialized: a stage is 32 of K, and C is f32. Operands of 32 bits must be K-major: one
//   that is not (A of layouts tn and tt, B of nn and tn) is transposed once into the workspace.
// Traffic: per 128 x 256 x 32 step a block reads 32 KB from L2. A transposed operand costs 8 bytes
//   an element more: at 4.2 TB/s 32 us for 4096 x 4096, of some 360 that the product takes.
// Limits: sm_90a; calls that allow for tf32; rows at multiples of 16 bytes, but of an operand that
//   is transposed. Products err by up to 2^-9 of themselves, always towards zero.
#pragma once

#include "kernels/gemm/35_warp_specialized.cuh"
#include "kernels/gemm/k_major.hpp"

namespace ws::gemm {

struct WgmmaTf32 {
  static bool supports(const Call& call, Why& why) {
    const auto is_taken = [&](const char* name, const Matrix& matrix, Contiguous along_k) {
      return matrix.contiguous != along_k || can_be_copied(name, matrix, call.dtype, why);
    };
    return allows_tf32(call, why) && why.unless(call.k > 0, "K = 0 leaves nothing to copy") &&
           runs_supported(call, why) && is_taken("a", call.a, Contiguous::kColumns) &&
           is_taken("b", call.b, Contiguous::kRows) &&
           can_be_copied("c", call.c, call.dtype, why) &&
           why.unless(call.c.length % 4 == 0, "rows of c are ", call.c.length * 4,
                      " bytes long, the copy engine stores multiples of 16");
  }

  static Workspace workspace(const Call& call) {
    return {.bytes = KMajorOperands(call, /*has_low=*/false).bytes()};
  }

  static void run(const Call& call, const Context& context) {
    KMajorOperands operands(call, /*has_low=*/false);
    operands.make(context.workspace, context.stream);
    Call turned = call;
    turned.a = matrix_of(operands.a, Contiguous::kColumns, call.m, call.k);
    turned.b = matrix_of(operands.b, Contiguous::kRows, call.n, call.k);
    const int blocks = device_facts().multiprocessors;
    // The big tile, or the one of 128 x 128 where its waves are fewer.
    const auto run_with = [&]<class Policy>() {
      WarpSpecializedKernel<float, Contiguous::kColumns, Contiguous::kRows, Policy>::run(
          turned, blocks, context.stream);
    };
    whole_tiles_time<WgmmaBig>(turned) <= whole_tiles_time<Wgmma128>(turned)
        ? run_with.template operator()<WgmmaBig>()
        : run_with.template operator()<Wgmma128>();
  }

 private:
  static Matrix matrix_of(const KMajor& operand, Contiguous along_k, int64_t rows, int64_t k) {
    Matrix matrix{};
    matrix.data = const_cast<float*>(operand.data);
    matrix.contiguous = along_k;
    matrix.runs = rows;
    matrix.length = k;
    matrix.leading = operand.leading;
    return matrix;
  }
};

}  // namespace ws::gemm
