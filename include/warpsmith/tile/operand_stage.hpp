// An operand's tile in a stage of shared memory, between the copy engine that writes it and wgmma
// that reads it: rows of 128 bytes, swizzled, in groups of eight.
//
// The tile is kOuter rows of A or columns of B (outer) by kK of the inner dimension. K-major, a row
// of 128 bytes is 64 of K (of 8 bits 128, of 32 bits 32), and the rows count the outer dimension.
// MN-major, a row is 64 (32) of the outer dimension and the rows count K; such panels lie one after
// the other. The last may be narrower: rows of the copy are then shorter than the swizzle row,
// which they still lie apart. Of MN-major operands wgmma reads those of 16 bits; those of 32 lanes
// bring it in registers (mn_fragments.hpp).
#pragma once

#include <type_traits>

#include "warpsmith/ptx/tensor.hpp"
#include "warpsmith/ptx/tensor_map.hpp"
#include "warpsmith/ptx/wgmma.hpp"

namespace ws::tile {

// kSharers blocks of a cluster use the same tile, and each loads its share for all of them.
// kBatched: of one of several matrices.
template <class T, ptx::Major kContiguous, int kOuter, int kK, int kSharers, bool kBatched = false>
struct OperandStage {
  using Element = T;
  static constexpr bool kOfBatch = kBatched;
  static constexpr ptx::Major kMajor = kContiguous;
  static constexpr bool kKMajor = kMajor == ptx::Major::kK;
  static constexpr int kRow = 128 / static_cast<int>(sizeof(T));  // elements of a swizzle row
  static constexpr int kStep = kRow / 4;                          // K of one wgmma: 32 bytes
  static_assert(kK == kRow, "a swizzle row of K");
  static_assert(sizeof(T) != 1 || kKMajor, "nobody reads 8 bits MN-major");
  static constexpr int kPanels = kKMajor ? kOuter / 64 : (kOuter + kRow - 1) / kRow;
  static constexpr int kRest = kKMajor ? 0 : kOuter % kRow;  // columns of a last, narrow panel
  static_assert(kOuter % 8 == 0, "whole swizzle patterns, or chunks of 16 bytes");

  static constexpr int kPanelElements = (kKMajor ? 64 : kK) * kRow;
  static constexpr int kElements = kKMajor ? kOuter * kK : kPanels * kPanelElements;
  // A share is some rows of a K-major tile, or some panels; where they do not divide, some of K of
  // all. Of two shares of rows the first may be a pattern of 8 larger.
  static constexpr bool kUneven = kKMajor && kOuter / kSharers % 8 != 0;
  static constexpr bool kShareOfK = !kKMajor && (kPanels % kSharers != 0 || kRest != 0);
  static constexpr int kBoxRows = kKMajor     ? (kOuter / kSharers + 7) / 8 * 8
                                  : kShareOfK ? kK / kSharers
                                              : kK;
  static constexpr int kBoxes = kKMajor ? 1 : kShareOfK ? kPanels : kPanels / kSharers;
  static_assert(kBoxRows % 8 == 0 && kBoxRows <= 256, "whole swizzle patterns, one tensor copy");
  static_assert(!kUneven || kSharers == 2, "others have not been needed");
  static_assert(kUneven || kRest != 0 || kBoxes * kBoxRows * kRow * kSharers == kElements,
                "the shares make up the tile");
  // What the copies of all shares write: less than the tile's place where a panel is narrow.
  static constexpr int kCopiedBytes = kOuter * kK * static_cast<int>(sizeof(T));

  // The matrix as the copies see it: `other` is of the narrow panel, or of the smaller share.
  struct TwoMaps {
    ptx::TensorMap map;
    ptx::TensorMap other;
  };
  using Maps = std::conditional_t<kRest == 0 && !kUneven, ptx::TensorMap, TwoMaps>;

  // Which share this block loads, and the blocks that it is for: first_rank, first_rank + rank_step
  // ...
  struct Sharing {
    int share;
    int first_rank;
    int rank_step;
  };

  // `outer`, `k`: where the tile begins in the matrix, the batch's `matrix`-th. By one thread.
  __device__ __forceinline__ static void load(T* stage, const Maps& maps, ptx::Mbarrier& full,
                                              int outer, int k, const Sharing& sharing,
                                              [[maybe_unused]] int matrix = 0 WS_AND_PLACE) {
    uint32_t ranks = 0;
#pragma unroll
    for (int i = 0; i < kSharers; ++i) ranks |= 1u << (sharing.first_rank + i * sharing.rank_step);
#pragma unroll
    for (int box = 0; box < kBoxes; ++box) {
      const int panel = kShareOfK ? box : sharing.share * kBoxes + box;
      const ptx::TensorMap& map = *map_of(maps, kUneven ? sharing.share > 0 : box == kPanels - 1);
      const int row = kKMajor || kShareOfK ? sharing.share * kBoxRows : 0;
      T* const to = stage + (kKMajor ? 0 : panel * kPanelElements) + row * kRow;
      const int x = kKMajor ? k : outer + panel * kRow;
      const int y = kKMajor ? outer + row : k + row;
      if constexpr (kBatched && kSharers == 1) {
        ptx::tensor_load_3d(to, map, full, x, y, matrix WS_PASS_AND_PLACE);
      } else if constexpr (kBatched) {
        ptx::tensor_load_3d_multicast(to, map, full, x, y, matrix,
                                      static_cast<uint16_t>(ranks) WS_PASS_AND_PLACE);
      } else if constexpr (kSharers == 1) {
        ptx::tensor_load_2d(to, map, full, x, y WS_PASS_AND_PLACE);
      } else {
        ptx::tensor_load_2d_multicast(to, map, full, x, y,
                                      static_cast<uint16_t>(ranks) WS_PASS_AND_PLACE);
      }
    }
  }

  // Of the matrix that `load` reads: `outer` by `k`, runs `leading` elements apart.
  static Maps tensor_map(const T* data, int64_t outer, int64_t k, int64_t leading) {
    return maps_of([&](int rows, int columns) {
      return ptx::make_tensor_map_2d(data, kKMajor ? outer : k, kKMajor ? k : outer, leading, rows,
                                     columns, ptx::Swizzle::k128);
    });
  }
  static Maps tensor_map(const T* data, const ptx::MatrixBatch& batch, int64_t outer, int64_t k,
                         int64_t leading) {
    static_assert(kBatched);
    return maps_of([&](int rows, int columns) {
      return ptx::make_tensor_map_3d(data, batch, kKMajor ? outer : k, kKMajor ? k : outer, leading,
                                     rows, columns, ptx::Swizzle::k128);
    });
  }
  __device__ __forceinline__ static void prefetch(const Maps& maps) {
    ptx::prefetch_tensor_map(*map_of(maps, false));
    if constexpr (!std::is_same_v<Maps, ptx::TensorMap>) ptx::prefetch_tensor_map(maps.other);
  }

  __device__ __forceinline__ static uint64_t descriptor(const T* stage) {
    static_assert(sizeof(T) == 2 || kKMajor, "wgmma reads 8 and 32 bits K-major");
    // Eight rows are 1024 bytes; the next 64 of the outer dimension are the next panel.
    return ptx::wgmma_descriptor(stage, kPanelElements * sizeof(T), 1024, ptx::Swizzle::k128);
  }
  // The operand of one wgmma: from 64 * panel of the outer dimension and k on.
  __device__ __forceinline__ static uint64_t advance(uint64_t descriptor, int panel, int k) {
    const int elements = panel * kPanelElements + (kKMajor ? k : k * 64);
    return ptx::wgmma_advance(descriptor, static_cast<uint32_t>(elements) * sizeof(T));
  }

 private:
  __device__ __forceinline__ static const ptx::TensorMap* map_of(const Maps& maps,
                                                                 [[maybe_unused]] bool other) {
    if constexpr (std::is_same_v<Maps, ptx::TensorMap>) {
      return &maps;
    } else {
      return other ? &maps.other : &maps.map;
    }
  }
  template <class Make>
  static Maps maps_of(Make&& make) {
    if constexpr (kUneven) {
      return {make(kBoxRows, kRow), make(kOuter - kBoxRows, kRow)};
    } else if constexpr (kRest != 0) {
      return {make(kBoxRows, kRow), make(kBoxRows, kRest)};
    } else {
      return make(kBoxRows, kRow);
    }
  }
};

}  // namespace ws::tile
