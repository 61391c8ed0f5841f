// The mask of a row, for the rungs that take elements side by side.
#pragma once

#include <type_traits>

#include "catalogue/row_layout.hpp"
#include "warpsmith/ptx/prefetch.hpp"
#include "warpsmith/thread/divide.hpp"
#include "warpsmith/thread/memory.hpp"

namespace ws::softmax {

// Dimensions of a mask before the last: batch, heads that share it, queries.
inline constexpr int kMaxMaskOuter = 3;

#if WS_DEVICE_CODE

// Where the mask of a row starts, without a loop, whose end the loads behind it would wait for.
//
// Heads that share a mask too large to stay in the L2 beside their own streams are walked through
// first: all of them for one query, so that the mask is read from memory once, not once a head.
class MaskRows {
 public:
  // H200 2026-11-21: masks of 1 MiB stay (98 to 99 % of copy under 128 heads), of 16 MiB do not (82
  // % under 16 heads, 94 % once heads go first).
  static constexpr int64_t kMaskThatStays = int64_t{4} << 20;

  MaskRows() = default;
  explicit MaskRows(const RowLayout<1>& mask) : data_(mask.as<const uint8_t>(0)) {
    for (int d = 0; d < mask.outer; ++d) {  // innermost first
      const auto from = static_cast<size_t>(mask.outer - 1 - d);
      extents_[d] = thread::Divider(mask.extents[from]);
      strides_[d] = mask.strides[0][from];
    }
    if (strides_[1] == 0 && extents_[0].divisor() * mask.columns > kMaskThatStays) {
      heads_ = extents_[1];
      queries_ = extents_[0];
    }
  }
  // The row to be done at place i.
  __device__ __forceinline__ int64_t nth(int64_t i) const {
    const auto place = static_cast<uint32_t>(i);
    const uint32_t rest = heads_.quotient(place);
    const uint32_t head = place - rest * heads_.divisor();
    const uint32_t batch = queries_.quotient(rest);
    const uint32_t query = rest - batch * queries_.divisor();
    return (batch * heads_.divisor() + head) * int64_t{queries_.divisor()} + query;
  }
  __device__ __forceinline__ const uint8_t* operator[](int64_t row) const {
    const auto inner = static_cast<uint32_t>(row);
    const uint32_t middle = extents_[0].quotient(inner);
    const uint32_t outer = extents_[1].quotient(middle);
    return data_ + (inner - middle * extents_[0].divisor()) * strides_[0] +
           (middle - outer * extents_[1].divisor()) * strides_[1] + outer * strides_[2];
  }

 private:
  const uint8_t* data_ = nullptr;
  thread::Divider extents_[kMaxMaskOuter];
  int64_t strides_[kMaxMaskOuter] = {};
  thread::Divider heads_;  // both 1 where rows are done as they lie
  thread::Divider queries_;
};

// The mask of N neighbouring elements, as the words that hold it: a byte is looked at where it is.
template <int N>
struct PackedMask {
  using Word = std::conditional_t<(N >= 4), uint32_t, uint8_t>;
  static constexpr int kPerWord = static_cast<int>(sizeof(Word));
  Vec<Word, N / kPerWord> words;

  __device__ __forceinline__ static PackedMask load(const uint8_t* pointer) {
    return {thread::load<N / kPerWord>(reinterpret_cast<const Word*>(pointer))};
  }
  __device__ __forceinline__ bool operator[](int i) const {
    return (words[i / kPerWord] & (Word{0xFF} << (8 * (i % kPerWord)))) != 0;
  }
};

// Asks L2 for the masks of that many elements, so that loads to come do not wait for memory: for
// what lies between two multiples of 16 bytes. By one thread, on sm_90.
__device__ __forceinline__ void prefetch_mask(const uint8_t* first, int64_t elements) {
  const auto before = static_cast<int64_t>(-reinterpret_cast<uintptr_t>(first) & 15);
  const int64_t bytes = (elements - before) & ~int64_t{15};
  if (bytes > 0) ptx::bulk_prefetch(first + before, static_cast<uint32_t>(bytes));
}

#endif

// Whether MaskRows can find the rows' masks, and they are cut as the rows are in accesses of
// `width` elements. After rows_supported().
inline bool mask_supported(const RowLayout<3>& rows, const RowLayout<1>& mask, int width,
                           Why& why) {
  if (!why.unless(mask.inner[0] == 1, "takes masks whose elements lie side by side, not ",
                  mask.inner[0], " apart") ||
      !why.unless(mask.outer <= kMaxMaskOuter, "takes masks of up to ", kMaxMaskOuter,
                  " dimensions that are walked through unevenly, not ", mask.outer)) {
    return false;
  }
  const int64_t first = misaligned(rows, 0, width);
  const int64_t here = misaligned(mask, 0, width);
  bool alike = first == here;
  int64_t row_stride = rows.stride(0);  // of the first operand, from step to step of d
  for (int d = mask.outer - 1; d >= 0; --d) {
    const auto outer = static_cast<size_t>(d);
    alike = alike && ((mask.strides[0][outer] - row_stride) & (width - 1)) == 0;
    row_stride *= mask.extents[outer];
  }
  return why.unless(alike, "accesses ", width,
                    " elements at a time, but rows and their masks start at different distances "
                    "from a multiple of that: the first ones ",
                    first, " and ", here, " elements past it");
}

}  // namespace ws::softmax
