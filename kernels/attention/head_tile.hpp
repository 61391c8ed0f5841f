// Rows of one head in shared memory, between the copy engine that writes them and wgmma that reads
// them: panels of 64 columns, 128 bytes a row, swizzled.
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

// The map of `heads`, for boxes of box_rows by 64. `packed`: `rows` are those of all sequences, and
// O to store.
template <class T>
ptx::TensorMap head_map(const Heads& heads, int64_t columns, int64_t rows, int64_t head_count,
                        int64_t batches, bool packed, int box_rows, bool to_load) {
  constexpr auto kBytes = static_cast<int64_t>(sizeof(T));
  // Of one head or one batch the stride does not matter, but has to be a stride.
  const auto stride = [](int64_t count, int64_t stride) {
    return (count > 1 ? stride : 8) * kBytes;
  };
  const int64_t row = stride(rows, heads.row);
  const int64_t head = stride(head_count, heads.head);
  const T* const base = heads.as<const T>();
  ptx::TensorMapShape shape{.base = base,
                            .element_bytes = static_cast<int>(kBytes),
                            .rank = 4,
                            .extents = {columns, rows, head_count, batches},
                            .strides = {0, row, head, stride(batches, heads.batch)},
                            .box = {64, box_rows, 1, 1},
                            .swizzle = ptx::Swizzle::k128};
  if (packed && to_load) {
    shape.rank = 5;
    shape.extents = {columns, kOrigin, head_count, int64_t{kOrigin} + 1, rows + 1};
    shape.strides = {0, row, head, (int64_t{1} << 34) - row, row};
    shape.box = {64, box_rows, 1, 1, 1};
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
  static constexpr int kPanelElements = kRows * 64;
  static constexpr int kElements = kRows * kColumns;
  static constexpr uint32_t kBytes = kElements * sizeof(T);

  // Rows from `row` on. By one thread; kBytes complete on `full`.
  __device__ __forceinline__ static void load(T* tile, const ptx::TensorMap& map,
                                              ptx::Mbarrier& full, bool packed,
                                              const HeadPlace& head, int row WS_AND_PLACE) {
#pragma unroll
    for (int panel = 0; panel < kColumns / 64; ++panel) {
      T* const to = tile + panel * kPanelElements;
      if (packed) {
        ptx::tensor_load_5d(to, map, full, panel * 64, kOrigin + head.row + row, head.head, kOrigin,
                            head.last WS_PASS_AND_PLACE);
      } else {
        ptx::tensor_load_4d(to, map, full, panel * 64, head.row + row, head.head,
                            head.last WS_PASS_AND_PLACE);
      }
    }
  }

  // The same as far as L2.
  __device__ __forceinline__ static void prefetch(const ptx::TensorMap& map, bool packed,
                                                  const HeadPlace& head, int row) {
#pragma unroll
    for (int panel = 0; panel < kColumns / 64; ++panel) {
      if (packed) {
        ptx::tensor_prefetch_5d(map, panel * 64, kOrigin + head.row + row, head.head, kOrigin,
                                head.last);
      } else {
        ptx::tensor_prefetch_4d(map, panel * 64, head.row + row, head.head, head.last);
      }
    }
  }

  // Eight elements of a row from a column on that 8 divides, where ldmatrix finds them.
  __device__ __forceinline__ static const T* chunk(const T* tile, int row, int column) {
    const uint32_t byte = ptx::swizzled_chunk<ptx::Swizzle::k128>(
        static_cast<uint32_t>(row), static_cast<uint32_t>(column % 64 / 8));
    return tile + column / 64 * kPanelElements + byte / 2;  // T has 16 bits
  }

  // As an operand whose K is the columns: A or B of q k^T.
  __device__ __forceinline__ static uint64_t by_columns(const T* tile) {
    return ptx::wgmma_descriptor(tile, 16, 1024, ptx::Swizzle::k128);
  }
  __device__ __forceinline__ static uint64_t column_step(uint64_t tile, int column) {
    return ptx::wgmma_advance(
        tile, static_cast<uint32_t>((column / 64 * kPanelElements + column % 64) * sizeof(T)));
  }
  // As an operand whose K is the rows: B of p v.
  __device__ __forceinline__ static uint64_t by_rows(const T* tile) {
    return ptx::wgmma_descriptor(tile, kPanelElements * sizeof(T), 1024, ptx::Swizzle::k128);
  }
  __device__ __forceinline__ static uint64_t row_step(uint64_t tile, int row) {
    return ptx::wgmma_advance(tile, static_cast<uint32_t>(row * 64 * sizeof(T)));
  }
};
#endif

}  // namespace ws::attention
