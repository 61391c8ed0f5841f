// Rows of one head in shared memory, between the copy engine that writes them and wgmma that reads
// them: panels of 128 bytes a row, or of as many as there are, swizzled.
//
// The map of a dense tensor has four dimensions: columns, rows, heads, and batches. Of packed
// sequences what lies behind a sequence's last row is the next one's, and should be outside: loads
// should fill it with zeros, stores leave it out. So two dimensions count rows. Row r of the
// sequence of n rows that ends before row `last` is at (O - n + r, last), and the first of the two
// ends at O. These are O rows too far. For stores the base lies O rows before the tensor. Loads
// want memory at their base (ptx/tensor.hpp); so they have a fifth dimension, at whose coordinate
// 2^30 is the address 2^64 - O rows: addresses wrap around.
#pragma once

#include "kernels/attention/operations.hpp"
#include "warpsmith/ptx/tensor.hpp"
#include "warpsmith/ptx/wgmma.hpp"

namespace ws::attention {

// Where row 0 of a head is: of a dense tensor row 0 of a batch, `last`; of a packed sequence -n.
struct HeadPlace {
  int row = 0;
  int head = 0;
  int last = 0;
};

// O of a map to load.
inline constexpr int kOrigin = 1 << 30;

// The columns of a panel, and how its rows are swizzled, of tiles that have so many columns.
template <class T>
constexpr int panel_columns(int columns) {
  const int widest = 128 / static_cast<int>(sizeof(T));
  return columns < widest ? columns : widest;
}
template <class T>
constexpr ptx::Swizzle panel_swizzle(int columns) {
  return ptx::swizzle_of_row(panel_columns<T>(columns) * static_cast<int>(sizeof(T)));
}

// The map of `heads`, for boxes of box_rows, panels of tiles of tile_columns. `packed`: `rows` are
// those of all sequences, and O to store.
template <class T>
ptx::TensorMap head_map(const Heads& heads, int64_t columns, int64_t rows, int64_t head_count,
                        int64_t batches, bool packed, int box_rows, bool to_load,
                        int tile_columns = 64) {
  constexpr auto kBytes = static_cast<int64_t>(sizeof(T));
  // Of one head or one batch the stride does not matter, but has to be a stride.
  const auto stride = [](int64_t count, int64_t stride) {
    return count > 1 ? stride * kBytes : 16;
  };
  const int64_t row = stride(rows, heads.row);
  const int64_t head = stride(head_count, heads.head);
  const T* const base = heads.as<const T>();
  ptx::TensorMapShape shape{.base = base,
                            .element_bytes = static_cast<int>(kBytes),
                            .rank = 4,
                            .extents = {columns, rows, head_count, batches},
                            .strides = {0, row, head, stride(batches, heads.batch)},
                            .box = {panel_columns<T>(tile_columns), box_rows, 1, 1},
                            .swizzle = panel_swizzle<T>(tile_columns)};
  if (packed && to_load) {
    shape.rank = 5;
    shape.extents = {columns, kOrigin, head_count, int64_t{kOrigin} + 1, rows + 1};
    shape.strides = {0, row, head, (int64_t{1} << 34) - row, row};
    shape.box = {panel_columns<T>(tile_columns), box_rows, 1, 1, 1};
  } else if (packed) {
    shape.base = reinterpret_cast<const T*>(reinterpret_cast<uintptr_t>(base) -
                                            static_cast<uintptr_t>(rows * row));
    shape.extents = {columns, rows, head_count, rows + 1};
    shape.strides = {0, row, head, row};
  }
  return ptx::make_tensor_map(shape);
}

// Whether the copy engine takes such rows. Of packed ones a stride has to be below 2^34 bytes,
// which head_map takes it from.
inline bool can_be_copied(const char* name, const Heads& heads, int64_t rows, int64_t head_count,
                          int64_t batches, bool packed, DType dtype, Why& why) {
  const auto bytes = static_cast<int64_t>(size_of(dtype));
  const int64_t most = int64_t{1} << (packed ? 34 : 40);
  const auto fits = [&](int64_t count, int64_t stride) {
    return count <= 1 || (stride > 0 && stride * bytes % 16 == 0 && stride * bytes < most);
  };
  return why.unless(heads.column == 1, "needs dense columns of ", name) &&
         why.unless(reinterpret_cast<uintptr_t>(heads.data) % 16 == 0, "needs ", name,
                    " at a multiple of 16 bytes") &&
         why.unless(
             fits(rows, heads.row) && fits(head_count, heads.head) && fits(batches, heads.batch),
             "needs strides of ", name, " that are positive multiples of 16 bytes, not ",
             heads.batch, ", ", heads.head, ", ", heads.row, " elements");
}

#if WS_DEVICE_CODE
template <class T, int kRows_, int kColumns_>
struct HeadTile {
  static constexpr int kRows = kRows_;
  static constexpr int kColumns = kColumns_;
  static_assert(kColumns % 64 == 0 && kRows % 8 == 0 && kRows <= 256);
  static constexpr int kPanel = panel_columns<T>(kColumns);
  static constexpr ptx::Swizzle kSwizzle = panel_swizzle<T>(kColumns);
  static constexpr int kPanelElements = kRows * kPanel;
  static constexpr int kElements = kRows * kColumns;
  static constexpr uint32_t kBytes = kElements * sizeof(T);

  // Rows from `row` and columns from `column` on. By one thread; kBytes complete on `full`.
  __device__ __forceinline__ static void load(T* tile, const ptx::TensorMap& map,
                                              ptx::Mbarrier& full, bool packed,
                                              const HeadPlace& head, int row,
                                              int column = 0 WS_AND_PLACE) {
#pragma unroll
    for (int panel = 0; panel < kColumns / kPanel; ++panel) {
      T* const to = tile + panel * kPanelElements;
      const int first = column + panel * kPanel;
      if (packed) {
        ptx::tensor_load_5d(to, map, full, first, kOrigin + head.row + row, head.head, kOrigin,
                            head.last WS_PASS_AND_PLACE);
      } else {
        ptx::tensor_load_4d(to, map, full, first, head.row + row, head.head,
                            head.last WS_PASS_AND_PLACE);
      }
    }
  }

  // The same as far as L2.
  __device__ __forceinline__ static void prefetch(const ptx::TensorMap& map, bool packed,
                                                  const HeadPlace& head, int row) {
#pragma unroll
    for (int panel = 0; panel < kColumns / kPanel; ++panel) {
      if (packed) {
        ptx::tensor_prefetch_5d(map, panel * kPanel, kOrigin + head.row + row, head.head, kOrigin,
                                head.last);
      } else {
        ptx::tensor_prefetch_4d(map, panel * kPanel, head.row + row, head.head, head.last);
      }
    }
  }

  // The 16 bytes of a row from a column on, where ldmatrix and stmatrix find them.
  __device__ __forceinline__ static T* chunk(T* tile, int row, int column) {
    constexpr auto kBytes = static_cast<uint32_t>(sizeof(T));
    const uint32_t byte = ptx::swizzled_chunk<kSwizzle>(
        static_cast<uint32_t>(row), static_cast<uint32_t>(column % kPanel) * kBytes / 16);
    return tile + column / kPanel * kPanelElements + byte / kBytes;
  }

  // A chunk so many rows and columns further on. Rows are a multiple of 8, of which the swizzle
  // knows nothing; columns have no bit in common with the chunk's own, so that they are added as
  // the swizzle adds.
  __device__ __forceinline__ static T* further(T* chunk, int rows, int columns) {
    const auto bytes = static_cast<uintptr_t>(columns % kPanel) * sizeof(T);
    T* const row = reinterpret_cast<T*>(reinterpret_cast<uintptr_t>(chunk) ^ bytes);
    return row + columns / kPanel * kPanelElements + rows * kPanel;
  }

  // As an operand whose K is the columns: A or B of q k^T.
  __device__ __forceinline__ static uint64_t by_columns(const T* tile) {
    return ptx::wgmma_descriptor(tile, 16, ptx::swizzle_period(kSwizzle), kSwizzle);
  }
  __device__ __forceinline__ static uint64_t column_step(uint64_t tile, int column) {
    return ptx::wgmma_advance(
        tile,
        static_cast<uint32_t>((column / kPanel * kPanelElements + column % kPanel) * sizeof(T)));
  }
  // As an operand whose K is the rows: B of p v, of 16 bits.
  __device__ __forceinline__ static uint64_t by_rows(const T* tile) {
    return ptx::wgmma_descriptor(tile, kPanelElements * sizeof(T), 1024, ptx::Swizzle::k128);
  }
  __device__ __forceinline__ static uint64_t row_step(uint64_t tile, int row) {
    return ptx::wgmma_advance(tile, static_cast<uint32_t>(row * kPanel * sizeof(T)));
  }
};
#endif

}  // namespace ws::attention
