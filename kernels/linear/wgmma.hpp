// What the Hopper rungs share: how the product of gemm/warp_specialized or gemm/pingpong is started
// with another output, and what the copy engine wants of that output.
#pragma once

#include "kernels/gemm/45_pingpong.cuh"
#include "kernels/linear/operations.hpp"

namespace ws::linear {

template <class T, gemm::Contiguous kA, gemm::Contiguous kB, class Policy, class Output>
using WgmmaKernel = gemm::KernelOf<T, kA, kB, Policy, Output>;

// Tiles for many rows, for some, and for few.
using AddmmPolicies = gemm::PolicyList<gemm::WgmmaBig, gemm::Pingpong128, gemm::Low128Pair,
                                       gemm::Low128, gemm::Low64Pair, gemm::Low64>;
// Of sums that leave as f32.
using WidePolicies = gemm::PolicyList<gemm::WgmmaBig, gemm::Low128, gemm::Low64>;

// Parts of K, of few rows or few tiles.
using SplitPolicies = gemm::PolicyList<gemm::SplitThin16, gemm::SplitLow32, gemm::SplitThin64,
                                       gemm::SplitWide64, gemm::SplitSquare>;
inline gemm::SplitPlan plan_parts_of_k(const gemm::Call& call) {
  return gemm::plan_split_k<SplitPolicies>(call);
}

// Whether the copy engine takes both operands, and stores c, of `dtype`: what it stores it cuts at
// multiples of 16 bytes, not at the tensor's edge.
inline bool can_be_stored(const gemm::Call& call, DType dtype, Why& why) {
  const auto bytes = call.c.length * static_cast<int64_t>(size_of(dtype));
  return gemm::operands_can_be_copied(call, why) &&
         why.unless(call.c.contiguous == gemm::Contiguous::kColumns, "c is stored by columns") &&
         gemm::can_be_copied("c", call.c, dtype, why) &&
         why.unless(bytes % 16 == 0, "rows of c are ", bytes,
                    " bytes long, the copy engine stores multiples of 16");
}

// The map of c for Kernel's stores.
template <class Kernel>
ptx::TensorMap output_map(const gemm::Call& call) {
  return Kernel::Store::tensor_map(call.c.as<const typename Kernel::Element>(), call.m, call.n,
                                   call.c.leading);
}

// `b_columns`: of b, which may have more than the output.
template <class Kernel, class T, class Output>
void start_wgmma(const gemm::Call& call, int64_t b_columns, const Output& output, Stream stream) {
  const tile::Raster raster = gemm::raster_of(call, Kernel::kTileM * Kernel::kClusterM,
                                              Kernel::kOutputN * Kernel::kClusterN);
  Kernel::start(
      {.a = Kernel::StageA::tensor_map(call.a.as<const T>(), call.m, call.k, call.a.leading),
       .b = Kernel::StageB::tensor_map(call.b.as<const T>(), b_columns, call.k, call.b.leading),
       .c = output,
       .raster = raster,
       .work = {raster.count(), static_cast<int>(divide_up(call.k, Kernel::kTileK))},
       .m = static_cast<int>(call.m),
       .n = static_cast<int>(call.n)},
      Kernel::clusters_of(raster, device_facts().multiprocessors), stream);
}

}  // namespace ws::linear
