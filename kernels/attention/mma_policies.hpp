// The policies of mma_template.hpp, each from the one before: what a rung changes is what its
// policy says anew.
#pragma once

#include "kernels/attention/mma_template.hpp"

namespace ws::attention {

// Four warps share 64 rows: the keys are split among them.
struct SplitKeys {
  using Accumulator = float;
  static constexpr int warps_down(int /*dim*/) { return 1; }
  static constexpr int warps_across(int /*dim*/) { return 4; }
  // Blocks that an SM is to hold, which bounds a thread's registers.
  static constexpr int min_blocks(int dim) { return dim == 64 ? 3 : 2; }
  static constexpr int kRowTiles = 4;          // of 16 rows, a warp
  static constexpr int kKeys = 64;             // in a tile
  static constexpr int kBuffers = 4;           // of keys two and of values two, in turns
  static constexpr bool kValuesApart = false;  // have a buffer of their own beside those
  static constexpr Queries kQueries = Queries::kShared;
  static constexpr int kSlice = 0;       // columns of a tile of Q and K; 0: all
  static constexpr int kValueSlice = 0;  // of one of V
  // Whether tiles have their chunks permuted, or 16 bytes behind each row.
  static constexpr bool kSwizzlesQ = false;
  static constexpr bool kSwizzlesK = false;
  static constexpr bool kSwizzlesV = false;
  // The tensor cores add to what is gathered, where it lies; else to zero, and the sum is added.
  static constexpr bool kReusesSums = false;
  static constexpr bool kOutThroughShared = false;
};

// Each warp has 16 rows, and all keys and columns.
struct SplitQueries : SplitKeys {
  static constexpr int warps_down(int /*dim*/) { return 4; }
  static constexpr int warps_across(int /*dim*/) { return 1; }
  static constexpr int min_blocks(int dim) { return dim == 64 ? 4 : 2; }
  static constexpr int kRowTiles = 1;
};

// Three buffers for both: keys lie where values lay.
struct SharedKeysValues : SplitQueries {
  static constexpr int kBuffers = 3;
};

// A single one: nothing lands while a block multiplies.
template <class Policy>
struct OneBuffer : Policy {
  static constexpr int kBuffers = 1;
  static constexpr int min_blocks(int /*dim*/) { return 3; }
};

// Queries move into registers, and keys take their place.
struct SharedQueriesKeysValues : SharedKeysValues {
  static constexpr Queries kQueries = Queries::kRegisters;
  static constexpr int min_blocks(int dim) { return dim == 64 ? 3 : 2; }
};

// 64 columns of Q and K at a time: shared memory for them does not grow with D. V is whole. From 1
// KB on, what a row gathers is shared by two warps.
template <class Sum>
struct TilingQueriesKeys : SplitQueries {
  using Accumulator = Sum;
  static constexpr int warps_across(int dim) {
    return dim * static_cast<int>(sizeof(Sum)) >= 1024 ? 2 : 1;
  }
  static constexpr int min_blocks(int dim) { return warps_across(dim) == 1 ? 2 : 1; }
  static constexpr Queries kQueries = Queries::kSliced;
  static constexpr int kBuffers = 2;
  static constexpr bool kValuesApart = true;
  static constexpr int kSlice = 64;
  static constexpr bool kReusesSums = true;
};

// Of V too. A row is shared from 2 KB on, and by four warps, of fewer rows, from 4 KB.
template <class Sum>
struct TilingAll : TilingQueriesKeys<Sum> {
  static constexpr int warps_across(int dim) {
    return std::max(1, dim * static_cast<int>(sizeof(Sum)) / 1024);
  }
  static constexpr int warps_down(int dim) { return warps_across(dim) == 4 ? 2 : 4; }
  static constexpr int min_blocks(int dim) { return warps_across(dim) == 1 ? 2 : 1; }
  static constexpr bool kValuesApart = false;
  static constexpr int kBuffers = 4;
  static constexpr int kValueSlice = 64;
};

template <class Policy>
struct ReusingSums : Policy {
  // The registers of a tile's product are free: a block more, where they stood in its way.
  static constexpr int min_blocks(int dim) {
    const bool stood_in_the_way =
        dim == 128 || (dim == 64 && Policy::kQueries == Queries::kRegisters);
    return Policy::min_blocks(dim) + (stood_in_the_way ? 1 : 0);
  }
  static constexpr bool kReusesSums = true;
};
template <class Policy>
struct AccF16 : ReusingSums<Policy> {
  using Accumulator = half;
};
template <class Policy>
struct SwizzlingQ : Policy {
  static constexpr bool kSwizzlesQ = true;
};
template <class Policy>
struct SwizzlingQk : SwizzlingQ<Policy> {
  static constexpr bool kSwizzlesK = true;
};
template <class Policy>
struct SwizzlingQkv : SwizzlingQk<Policy> {
  static constexpr bool kSwizzlesV = true;
  // A permuted place is an address of its own, in a register.
  static constexpr int min_blocks(int dim) {
    return std::min(Policy::min_blocks(dim), dim == 64 ? 4 : 2);
  }
};
template <class Policy>
struct OutThroughShared : Policy {
  static constexpr bool kOutThroughShared = true;
};

}  // namespace ws::attention
