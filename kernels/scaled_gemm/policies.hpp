// Tiles of the tensor-core rungs, and which of two a call gets.
#pragma once

#include "kernels/gemm/policies.hpp"
#include "kernels/scaled_gemm/operations.hpp"
#include "warpsmith/device_facts.hpp"

namespace ws::scaled_gemm {

// Not yet measured: chosen by what a stage of 128 bytes of K costs, which is what it costs gemm's
// 16-bit operands: copies of the same bytes, products of the same clocks.
using Wide = gemm::WgmmaBig;  // 128 x 256; two blocks share B
// Sums beside the parts that are added to them: 128 x 256 would be 256 registers of a thread. Its
// warpgroups take 128 rows each, a part of 64 at a time. Two blocks share A.
using Tall =
    gemm::WgmmaPolicy<gemm::WgmmaShape{.tile_m = 256, .tile_n = 128, .stages = 4, .cluster_n = 2}>;
using Small = gemm::WgmmaPolicy<gemm::WgmmaShape{.tile_m = 128, .tile_n = 128, .stages = 6}>;

// Whether waves of Policy's tiles are thought to take less time than waves of small ones, which
// read more bytes for each product.
template <class Policy>
bool prefers(const Call& call) {
  constexpr double kSmallTile = 1.25;
  const auto waves = [&]<class Of>() {
    const int tiles = Of::raster(call).count() * Of::kCluster;
    return static_cast<double>(divide_up(tiles, device_facts().multiprocessors)) * Of::kTileM *
           Of::kTileN;
  };
  return waves.template operator()<Policy>() <= kSmallTile * waves.template operator()<Small>();
}

// What the copy engine and wgmma ask for: K contiguous in both operands, C row by row, all rows of
// multiples of 16 bytes, which torch asks for too.
inline bool is_k_major(const Call& call, Why& why) {
  constexpr int64_t kMostStep = 0x7FFFFFFF;
  return why.unless(call.a.contiguous == Contiguous::kColumns, "needs an a of contiguous K") &&
         why.unless(call.b.contiguous == Contiguous::kColumns,
                    "needs a b of contiguous K, column by column") &&
         why.unless(std::max({std::abs(call.a_row), std::abs(call.a_block), std::abs(call.b_block),
                              std::abs(call.b_column), std::abs(call.bias_step)}) <= kMostStep,
                    "a stride of the scales or of the bias is over ", kMostStep) &&
         why.unless(call.c.contiguous == Contiguous::kColumns, "needs a c row by row") &&
         gemm::operands_can_be_copied(call, why) &&
         gemm::can_be_copied("c", call.c, call.c_dtype, why) &&
         why.unless(call.c.length * static_cast<int64_t>(size_of(call.c_dtype)) % 16 == 0,
                    "rows of c are not multiples of 16 bytes long");
}

// The pairs of types that kernels are made for, torch's: f.template operator()<A, B>().
inline bool is_made(const Call& call, Why& why) {
  return why.unless(call.dtype != DType::kE5m2 || call.b_dtype != DType::kE5m2,
                    "is not made for e5m2 and e5m2");
}
template <class F>
void with_pair(const Call& call, F&& f) {
  if (call.dtype == DType::kE5m2) {
    f.template operator()<e5m2, e4m3>();
  } else if (call.b_dtype == DType::kE5m2) {
    f.template operator()<e4m3, e5m2>();
  } else {
    f.template operator()<e4m3, e4m3>();
  }
}

}  // namespace ws::scaled_gemm
