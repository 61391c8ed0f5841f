// Idea: the copy engine fetches the tile and swizzles it on its way: one thread asks for 16 KiB,
//   nobody holds registers for what is in flight, and edges are the engine's care.
// From swizzled: the tile lies as x does, in the engine's own 128-byte swizzle; the corner is
//   turned between shared memory and registers, where a thread gathers pieces of y's rows.
// Traffic: every byte once, 128 bytes of a row of x, 128 to 1024 of a row of y. Words of elements
//   of up to 2 bytes are read with conflicts of 4 ways, 4 bytes of 2: a third of what there is time
//   for.
// Limits: a batch of matrices; rows at multiples of 16 bytes, those of y whole pieces of as many.
#include "catalogue/row_layout.hpp"
#include "kernels/transpose/tiles.hpp"
#include "warpsmith/launch.hpp"
#include "warpsmith/ptx/barrier.hpp"
#include "warpsmith/ptx/mbarrier.hpp"
#include "warpsmith/ptx/tensor.hpp"
#include "warpsmith/shared.hpp"
#include "warpsmith/thread/memory.hpp"
#include "warpsmith/thread/transpose.hpp"

namespace ws::transpose {
namespace {

template <class T>
struct TmaKernel {
  static constexpr Arch kArch = Arch::kSm90;
  static constexpr int kThreads = 256;
  static constexpr int kMinBlocks = 6;  // not yet measured: 96 KiB in flight an SM
  static constexpr int kBytes = sizeof(T);
  static constexpr int kRowBytes = 128;  // of the tile: one row of the swizzle
  static constexpr int kRows = 128;
  static constexpr int kColumns = kRowBytes / kBytes;
  using Word = std::conditional_t<kBytes == 8, uint64_t, uint32_t>;
  static constexpr int kWords = kRowBytes / static_cast<int>(sizeof(Word));
  static constexpr int kGroup = thread::elements_of_word(kBytes);
  static constexpr int kWidth = 16 / kBytes;  // rows of x in a piece of y
  static constexpr int kUnits = kWords * kRows / kWidth / kThreads;
  using Piece = Vec<Word, kWidth / kGroup>;

  struct Arguments {
    ptx::TensorMap x;
    T* y;
    Matrices matrices;
    Tiles tiles;
  };
  struct SharedStorage {
    SharedArray<Word, kRows * kWords, 1024> tile;
    ptx::Mbarrier landed;
  };

  // A word of x's rows, and the piece of y's that begins at row `row`: lanes take 4 pieces of each
  // of 8 words, so that 64 bytes of a row of y are written together.
  struct Unit {
    int word;
    int row;
  };
  __device__ __forceinline__ static Unit unit(int n) {
    const int number = n * kThreads + thread_index();
    const int high = number / 32;
    return {high % (kWords / 8) * 8 + number / 4 % 8,
            (high / (kWords / 8) * 4 + number % 4) * kWidth};
  }

  __device__ void operator()(SharedStorage& shared, const Arguments& a) const {
    const auto tile = a.tiles.in_order_of_y(static_cast<uint32_t>(block_index()));
    const int first_column = static_cast<int>(tile.column) * kColumns;
    const int first_row = static_cast<int>(tile.row) * kRows;
    if (thread_index() == 0) {
      ptx::mbarrier_init(shared.landed, 1);
      ptx::fence_mbarrier_init();
      ptx::mbarrier_arrive_expect_tx(shared.landed, kRows * kRowBytes);
      ptx::tensor_load_3d(shared.tile.pointer(), a.x, shared.landed, first_column, first_row,
                          static_cast<int>(tile.matrix));
    }
    ptx::barrier_sync();
    ptx::mbarrier_wait_parity(shared.landed, 0);

    const Matrices& m = a.matrices;
    T* y = a.y + tile.matrix * m.y_batch + first_column * m.y_pitch + first_row;
#pragma unroll
    for (int n = 0; n < kUnits; ++n) {
      const Unit from = unit(n);
      if (first_row + from.row >= m.rows) continue;
      Piece pieces[kGroup];
      gather(shared, from, pieces);
#pragma unroll
      for (int i = 0; i < kGroup; ++i) {
        const int column = from.word * kGroup + i;
        if (first_column + column >= m.columns) continue;
        thread::store(reinterpret_cast<Word*>(y + column * m.y_pitch + from.row), pieces[i]);
      }
    }
  }

  // The pieces of the columns that share the unit's word.
  __device__ __forceinline__ static void gather(SharedStorage& shared, Unit from,
                                                Piece (&pieces)[kGroup]) {
#pragma unroll
    for (int group = 0; group < kWidth / kGroup; ++group) {
      Word square[kGroup];
#pragma unroll
      for (int i = 0; i < kGroup; ++i) {
        const int row = from.row + group * kGroup + i;
        const auto offset = static_cast<uint32_t>(row * kRowBytes) +
                            static_cast<uint32_t>(from.word) * sizeof(Word);
        square[i] = shared.tile[ptx::swizzled(ptx::Swizzle::k128, static_cast<uint32_t>(offset)) /
                                sizeof(Word)];
      }
      thread::transpose_square<kBytes>(square);
#pragma unroll
      for (int i = 0; i < kGroup; ++i) pieces[i][group] = square[i];
    }
  }
};

struct Tma {
  static bool supports(const Permutation& call, Why& why) {
    if (!are_matrices(call, why)) return false;
    const Matrices m = matrices_of(call);
    return why.unless(m.x_pitch > 0 && (m.batch == 1 || m.x_batch > 0),
                      "takes rows and matrices that lie one behind the other, not ", m.x_pitch,
                      " and ", m.x_batch, " elements apart") &&
           why.unless(m.rows < kMostBlocks && m.columns < kMostBlocks, "takes up to ", kMostBlocks,
                      " rows and columns, not ", m.rows, " and ", m.columns);
  }
  static void run(const Permutation& call, const Context& context) {
    const Matrices m = matrices_of(call);
    with_element(call.element_bytes, [&]<class T>() {
      using Kernel = TmaKernel<T>;
      const Tiles tiles(m, Kernel::kRows, Kernel::kColumns);
      const ptx::TensorMap map = ptx::make_tensor_map_3d(
          static_cast<const T*>(call.x), {m.batch, m.x_batch}, m.rows, m.columns, m.x_pitch,
          Kernel::kRows, Kernel::kColumns, ptx::Swizzle::k128);
      launch<Kernel>({.blocks = m.batch * tiles.count(), .threads = Kernel::kThreads},
                     context.stream, {map, static_cast<T*>(call.y), m, tiles});
    });
  }
};

}  // namespace

extern const Rung kTma;
constinit const Rung kTma = rung_of<Tma, Transpose, Permute>({
    .name = "tma",
    .from = "swizzled",
    .idea = "the copy engine fetches and swizzles tiles of 16 KiB, threads turn what has landed",
    .arch = Arch::kSm90,
});

}  // namespace ws::transpose
