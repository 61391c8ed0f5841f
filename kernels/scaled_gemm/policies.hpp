// Tiles of the tensor-core rungs, and which of two a call gets.
#pragma once

#include "kernels/gemm/plan.hpp"
#include "kernels/scaled_gemm/operations.hpp"
#include "warpsmith/device_facts.hpp"

namespace ws::scaled_gemm {

// ---- Tiles --------------------------------------------------------------------------------------

// A slice of 128 bytes of K costs what it costs gemm's 16-bit operands: copies of the same bytes,
// products of the same clocks. So tiles, their constants and their plans are gemm's, of a call of
// 16 bits and half of K.
inline gemm::Call in_halves(const Call& call) {
  gemm::Call halves = call;
  halves.dtype = DType::kF16;
  halves.k = divide_up(call.k, int64_t{2});
  halves.a.leading = call.a.leading / 2;
  halves.b.leading = call.b.leading / 2;
  halves.b.contiguous = Contiguous::kRows;
  return halves;
}

// wgmma's: 128 x 256, two blocks share B; of integers also a smaller one.
using Wide = gemm::WgmmaBig;
using Small = gemm::WgmmaPolicy<gemm::WgmmaShape{.tile_m = 128, .tile_n = 128, .stages = 6}>;

// pingpong's.
using PingpongTiles =
    gemm::PolicyList<gemm::Low64, gemm::Low128, gemm::Pingpong128, gemm::Pingpong192>;

// promoted's, of three sets of 64 or 32 registers; one store buffer leaves room for scales.
struct PromotedPair
    : gemm::WgmmaPolicy<gemm::WgmmaShape{
          .tile_m = 128, .tile_n = 128, .stages = 6, .cluster_m = 2, .store_buffers = 1}> {
  static constexpr double kStep = 0.385;
};
struct PromotedNarrow : gemm::WgmmaPolicy<gemm::WgmmaShape{
                            .tile_m = 128, .tile_n = 64, .stages = 8, .store_buffers = 1}> {
  static constexpr double kStep = 0.25;
};
using PromotedTiles = gemm::PolicyList<PromotedPair, PromotedNarrow>;

// split_k's: few rows of A are the narrow side.
using SplitTiles = gemm::PolicyList<gemm::SplitThin16, gemm::SplitLow32, gemm::SplitThin64,
                                    gemm::SplitWide64, gemm::SplitLow96>;

inline double pingpong_time(const Call& call) {
  return gemm::plan_whole_tiles<PingpongTiles>(in_halves(call)).time;
}
inline double promoted_time(const Call& call) {
  return gemm::plan_whole_tiles<PromotedTiles>(in_halves(call)).time;
}
inline double split_time(const Call& call) {
  return gemm::plan_split_k<SplitTiles>(in_halves(call)).time;
}

// Whether waves of the wide tiles are thought to take less time than waves of small ones, which
// read more bytes for each product.
inline bool prefers_wide(const Call& call) {
  constexpr double kSmallTile = 1.25;
  const auto waves = [&]<class Of>() {
    const int tiles = Of::raster(call).count() * Of::kCluster;
    return static_cast<double>(divide_up(tiles, device_facts().multiprocessors)) * Of::kTileM *
           Of::kTileN;
  };
  return waves.template operator()<Wide>() <= kSmallTile * waves.template operator()<Small>();
}

// ---- What they take -----------------------------------------------------------------------------

// Whether the copy engine stores c: row by row, all rows of multiples of 16 bytes, which it cuts
// at.
inline bool is_stored(const Call& call, Why& why) {
  return why.unless(call.c.contiguous == Contiguous::kColumns, "needs a c row by row") &&
         gemm::can_be_copied("c", call.c, call.c_dtype, why) &&
         why.unless(call.c.length * static_cast<int64_t>(size_of(call.c_dtype)) % 16 == 0,
                    "rows of c are not multiples of 16 bytes long");
}

// Kernels count what is not of a matrix in 32 bits.
inline bool has_short_steps(const Call& call, Why& why) {
  constexpr int64_t kMostStep = 0x7FFFFFFF;
  return why.unless(std::max({std::abs(call.a_row), std::abs(call.a_block), std::abs(call.b_block),
                              std::abs(call.b_column), std::abs(call.bias_step)}) <= kMostStep,
                    "a stride of the scales or of the bias is over ", kMostStep);
}

// What wgmma asks of operands: K contiguous in both, in rows of multiples of 16 bytes.
inline bool has_k_major_operands(const Call& call, Why& why) {
  return why.unless(call.a.contiguous == Contiguous::kColumns, "needs an a of contiguous K") &&
         why.unless(call.b.contiguous == Contiguous::kColumns,
                    "needs a b of contiguous K, column by column") &&
         has_short_steps(call, why) && gemm::operands_can_be_copied(call, why);
}

// The same, and what the copy engine asks of C, which torch does too.
inline bool is_k_major(const Call& call, Why& why) {
  return has_k_major_operands(call, why) && is_stored(call, why);
}

// Whether the tensor core may add up all of K: it sums integers exactly, floats with some 14 bits,
// and has no place for scales along K.
inline bool leaves_sums(const Call& call) {
  return call.dtype == DType::kI8 || (call.fast && !call.by_blocks);
}

// The pairs of types that kernels are made for: f.template operator()<A, B>().
template <class F>
void with_pair(const Call& call, F&& f) {
  with_type<kFp8>(call.dtype, [&]<class A>() {
    with_type<kFp8>(call.b_dtype, [&]<class B>() { f.template operator()<A, B>(); });
  });
}

// ---- Copies of what lies otherwise --------------------------------------------------------------

inline bool takes_copies(const Call& call, Why& why) {
  constexpr int64_t kMostExtent = 0x7FFFFFFF - 512;  // a tile more does not overflow
  return why.unless(call.k > 0, "K = 0 leaves nothing to copy") &&
         why.unless(call.a.contiguous != Contiguous::kNeither, "needs a stride of 1 in a") &&
         why.unless(call.b.contiguous != Contiguous::kNeither, "needs a stride of 1 in b") &&
         why.unless(call.c.contiguous == Contiguous::kColumns, "needs a c row by row") &&
         why.unless(std::max({call.m, call.n, call.k}) <= kMostExtent, "an extent is over ",
                    kMostExtent) &&
         has_short_steps(call, why);
}

// Whether an operand is read where it lies.
inline bool is_operand(const Matrix& matrix, const Call& call) {
  Why nobody;
  return matrix.contiguous == Contiguous::kColumns &&
         gemm::can_be_copied("", matrix, call.dtype, nobody);
}
inline bool is_stored(const Call& call) {
  Why nobody;
  return is_stored(call, nobody);
}

// Rows of copies start at multiples of 128 bytes: a row of a tile is then a line of L2, not two.
inline int64_t copied_leading(int64_t k) { return round_up(k, int64_t{128}); }
inline int64_t stored_leading(const Call& call) {
  return round_up(call.n, static_cast<int64_t>(128 / size_of(call.c_dtype)));
}

// Bytes of the copies of both operands, and of C's.
struct Copies {
  size_t operands = 0;
  size_t c = 0;
};
inline Copies copies_of(const Call& call) {
  const int64_t rows =
      (is_operand(call.a, call) ? 0 : call.m) + (is_operand(call.b, call) ? 0 : call.n);
  Copies copies{.operands = static_cast<size_t>(rows * copied_leading(call.k))};
  if (!is_stored(call)) {
    copies.c = static_cast<size_t>(call.m * stored_leading(call)) * size_of(call.c_dtype);
  }
  return copies;
}

// ---- What a call is thought to take, in us of an H200; not yet measured -------------------------

// Copies, each read and written once; the copy engine's stores come instead of those to C.
inline double copying_time(const Call& call) {
  constexpr double kLaunch = 2.5;
  constexpr double kAcross = 1.3;  // times as long a byte, where one is turned
  const auto [operands, c] = copies_of(call);
  const auto of_operands = static_cast<double>(operands);
  const auto of_c = static_cast<double>(c);
  if (of_operands + of_c > gemm::kMostWorkspace) return gemm::kNever;
  const bool turns =
      call.a.contiguous != Contiguous::kColumns || call.b.contiguous != Contiguous::kColumns;
  return (operands > 0 ? 2 * kLaunch : 0) + (c > 0 ? kLaunch : 0) +
         2 * (of_operands * (turns ? kAcross : 1) + of_c) / gemm::kMemory;
}

// The tensor cores' product, of copies where there are any.
inline double tiles_time(const Call& call) {
  return leaves_sums(call) ? pingpong_time(call) : promoted_time(call);
}
inline bool splits(const Call& call) { return split_time(call) < tiles_time(call); }

// The scalar rungs: a thread an element, as gemm's batched_naive.
inline double scalar_time(const Call& call) {
  return gemm::thread_an_element_time(static_cast<double>(call.m) * static_cast<double>(call.n),
                                      call.k);
}

// Whether the tensor cores are sooner done, copies and all.
inline bool pays_to_copy(const Call& call) {
  return copying_time(call) + std::min(split_time(call), tiles_time(call)) < scalar_time(call);
}

}  // namespace ws::scaled_gemm
