// What the rungs share that multiply f32 on the tensor cores as TF32: how their tiles are counted,
// and which operand lanes bring.
#pragma once

#include "kernels/gemm/35_warp_specialized.cuh"
#include "kernels/gemm/batched_plan.hpp"
#include "kernels/gemm/cut_tiles.hpp"
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

// Tiles of 128 x 256, 128 x 128 or 128 x 64, whichever's waves are fewer or fuller; or of 128 x
// 128, cut along K for as many SMs as there are.
enum class Tf32Tiles : uint8_t { kBig, kSmall, kNarrow, kCut };
using Tf32Narrow = BatchedNarrow;

struct Tf32Plan {
  Tf32Tiles tiles = Tf32Tiles::kSmall;
  double time = kNever;
};
// Of a call whose operands lie as the tiles take them.
inline Tf32Plan plan_tf32(const Call& call) {
  using enum Tf32Tiles;
  const Call counted = as_16_bits(call);
  if (!is_stored_by_boxes(call)) return {kSmall, whole_tiles_time<Wgmma128>(counted)};
  constexpr double kExchange = 12;
  const double waves = static_cast<double>(Wgmma128::raster(call).count()) / clusters_of(2);
  const double cut = kStart + kExchange + waves * wave_time<Wgmma128>(counted);
  Tf32Plan best;
  for (const Tf32Plan& plan :
       {Tf32Plan{kBig, whole_tiles_time<WgmmaBig>(counted)},
        Tf32Plan{kSmall, whole_tiles_time<Wgmma128>(counted)},
        Tf32Plan{kNarrow, whole_tiles_time<Tf32Narrow>(counted)}, Tf32Plan{kCut, cut}}) {
    if (plan.time < best.time) best = plan;
  }
  return best;
}

// What cut tiles want, then what is copied.
inline size_t bytes_before_copies(Tf32Tiles tiles) {
  return tiles == Tf32Tiles::kCut ? stream_k_workspace().bytes : 0;
}
inline Workspace tf32_workspace(Tf32Tiles tiles, size_t copied) {
  return {.bytes = bytes_before_copies(tiles) + copied,
          .zeroed = tiles == Tf32Tiles::kCut ? stream_k_workspace().zeroed : 0};
}
inline void* copies_at(Tf32Tiles tiles, void* workspace) {
  return static_cast<std::byte*>(workspace) + bytes_before_copies(tiles);
}

// Of an A that lies so, and a B along K.
template <Contiguous kA, class Output, class C>
void run_tf32(Tf32Tiles tiles, const C& call, void* workspace, Stream stream) {
  const auto run_whole = [&]<class Policy>() {
    WarpSpecializedKernel<float, kA, Contiguous::kRows, Policy, WholeTiles, Output>::run(
        call, device_facts().multiprocessors, stream);
  };
  using enum Tf32Tiles;
  switch (tiles) {
    case kBig: return run_whole.template operator()<WgmmaBig>();
    case kSmall: return run_whole.template operator()<Wgmma128>();
    case kNarrow: return run_whole.template operator()<Tf32Narrow>();
    case kCut: {
      using Policy = Wgmma128;
      using Kernel = WarpSpecializedKernel<float, kA, Contiguous::kRows, Policy, CutTiles, Output>;
      const tile::Raster raster = Policy::raster(call);
      const auto steps = static_cast<int>(divide_up(call.k, Kernel::kTileK));
      const CutTiles work = CutTiles::of<Policy>(raster.count(), steps, workspace);
      return Kernel::run(call, raster, CutTiles::clusters<Policy>(raster.count(), steps), work,
                         stream);
    }
  }
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
// A as lanes bring it, whichever way it lies: itself where the copy engine takes it, else a copy
// along K.
class BroughtA {
 public:
  template <class C>
  explicit BroughtA(const C& one)
      : copy_(one.a, Contiguous::kColumns, one.k, /*has_low=*/false,
              matrices_of_operand(one, one.a)) {
    Why nobody;
    is_copied_ = !can_be_copied("a", one.a, DType::kF32, nobody);
  }
  size_t bytes() const { return is_copied_ ? copy_.bytes() : 0; }
  double time() const { return is_copied_ ? copy_.time() : 0; }
  // Puts it into the call.
  template <class C>
  void make(C& one, void* place, Stream stream) {
    if (!is_copied_) return;
    copy_.make(place, stream);
    const int64_t batch = one.a.batch == 0 ? 0 : one.m * copy_.leading;
    one.a = matrix_of(copy_, Contiguous::kColumns, one.m, one.k);
    one.a.batch = batch;
  }

 private:
  KMajor copy_;
  bool is_copied_ = false;
};

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
