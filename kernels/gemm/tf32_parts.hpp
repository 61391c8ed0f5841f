// What the rungs share that multiply f32 on the tensor cores as TF32: how their tiles are counted,
// and which operand lanes bring.
#pragma once

#include "kernels/gemm/batched_plan.hpp"
#include "kernels/gemm/k_major.hpp"

namespace ws::gemm {

// A call whose tiles take as long in 16 bits: steps of 128 bytes, 64 of K, and rows by 2 bytes an
// element.
inline Call as_16_bits(Call call) {
  call.k *= 2;
  call.a.leading *= 2;
  call.b.leading *= 2;
  return call;
}
template <class Policy>
double tf32_tiles_time(const Call& call) {
  return whole_tiles_time<Policy>(as_16_bits(call));
}
// The big tile, or the one of 128 x 128 where its waves are fewer.
inline bool takes_big_tile(const Call& call) {
  return tf32_tiles_time<WgmmaBig>(call) <= tf32_tiles_time<Wgmma128>(call);
}

// Of a batch. Rows of copies are whole sectors.
using BatchedTf32Policies = PolicyList<WgmmaBig, BatchedTurns128, Pingpong128Alone, Low64>;
template <class Policies>
WgmmaPlan plan_batched_tf32(const BatchedCall& call) {
  BatchedCall counted = call;
  counted.k *= 2;
  counted.a.contiguous = Contiguous::kColumns;
  counted.b.contiguous = Contiguous::kRows;
  counted.a.leading = counted.b.leading = 2 * KMajor::leading_of(call.k);
  return plan_batched<Policies>(counted, device_facts().multiprocessors);
}

// `rows` of A, or columns of B, as they lie along K.
inline Matrix matrix_of(const KMajor& operand, Contiguous along_k, int64_t rows, int64_t k) {
  Matrix matrix{};
  matrix.data = const_cast<float*>(operand.data);
  matrix.contiguous = along_k;
  matrix.runs = rows;
  matrix.length = k;
  matrix.leading = operand.leading;
  return matrix;
}

// ---- An operand that lanes bring ----------------------------------------------------------------

// Whether A lies across K, where the copy engine takes it.
inline bool lies_across(const Call& call) {
  Why nobody;
  return call.a.contiguous == Contiguous::kRows && can_be_copied("a", call.a, DType::kF32, nobody);
}
template <class C>
bool takes_across(const C& call, Why& why) {
  return why.unless(lies_across(call) || lies_across(transposed(call)),
                    "a and b lie along K, or not at multiples of 16 bytes") &&
         why.unless(is_stored_by_boxes(call), "rows of c are no multiples of 16 bytes");
}
// The call with an A that does. Where B does too it is copied: so that is the smaller one.
template <class C>
C across_first(const C& call) {
  const C other = transposed(call);
  if (!lies_across(call)) return other;
  const int64_t rows = call.m * matrices_of_operand(call, call.a);
  const int64_t columns = call.n * matrices_of_operand(call, call.b);
  return lies_across(other) && columns > rows ? other : call;
}
// Its B along K.
template <class C>
KMajor b_along(const C& one) {
  return {one.b, Contiguous::kRows, one.k, /*has_low=*/false, matrices_of_operand(one, one.b)};
}
// Of making that.
inline double time_along(const KMajor& b) {
  return static_cast<double>(b.bytes()) > kMostWorkspace ? kNever : b.time();
}

}  // namespace ws::gemm
