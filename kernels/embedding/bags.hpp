// Bags of indices as kernels see them.
//
// What is wrong is reported and skipped: a bag whose end lies below its beginning or beyond the
// entries is empty, an index that is no row does not count. Whatever `offsets` and `index` hold,
// nothing is read or written out of bounds.
#pragma once

#include "kernels/embedding/indices.hpp"
#include "kernels/embedding/operations.hpp"
#include "warpsmith/launch.hpp"

namespace ws::embedding {

#if WS_DEVICE_CODE

struct BagEntries {
  int64_t first;
  int64_t end;
};

template <class T>
struct Bags {
  static constexpr int kBatch = 4;  // rows under way of a thread

  const T* weight;
  std::array<int64_t, 2> strides;
  Indices index;
  int64_t index_of_bag;
  const T* factors;
  EntryStrides factor_strides;
  Indices offsets;
  bool has_offsets;
  int64_t offset_count;
  int64_t length;
  int64_t entries;
  int64_t ignored;
  BagMode mode;

  // `rung` is of static storage.
  Bags(const BagCall& call, const char* rung)
      : weight(static_cast<const T*>(call.table)),
        strides(call.strides),
        index(call.index, call.wide_index, call.index_strides.step, rung, call.table_rows),
        index_of_bag(call.index_strides.of_bag),
        factors(static_cast<const T*>(call.factors)),
        factor_strides(call.factor_strides),
        offsets(call.offsets, call.wide_index, call.offset_step, rung, call.entries + 1, "offsets"),
        has_offsets(call.has_offsets),
        offset_count(call.offset_count),
        length(call.length),
        entries(call.entries),
        ignored(call.ignored),
        mode(call.mode) {}

  // A beginning that is wrong is the end of the bag before, which reports it.
  __device__ __forceinline__ BagEntries entries_of(int64_t bag) const {
    if (!has_offsets) return {bag * length, (bag + 1) * length};
    const int64_t first = offsets[bag];
    const int64_t end = bag + 1 < offset_count ? offsets[bag + 1] : entries;
    const bool begins = bag == 0 ? offsets.check().below(1)(first, 0) : offsets.exists(first);
    return begins && offsets.check()(end, bag + 1, first) ? BagEntries{first, end}
                                                          : BagEntries{0, 0};
  }

  __device__ __forceinline__ const T* factor_of(int64_t bag, int64_t entry) const {
    return factors + bag * factor_strides.of_bag + entry * factor_strides.step;
  }

  // `kWidth` columns of a bag from `column` on. Indices of a batch are checked without a branch, so
  // that all its rows are under way before the first is added; what is wrong is reported then.
  template <int kWidth>
  __device__ __forceinline__ Vec<T, kWidth> reduced(int64_t bag, int64_t column) const {
    const auto [first, end] = entries_of(bag);
    const T* from = weight + column * strides[1];
    Vec<float, kWidth> totals{};
    int64_t count = 0;
    for (int64_t start = first; start < end; start += kBatch) {
      int64_t at[kBatch];
      T factor[kBatch];
#pragma unroll
      for (int j = 0; j < kBatch; ++j) {
        const int64_t entry = start + j < end ? start + j : start;  // what follows is not used
        at[j] = bag * index_of_bag + entry * index.stride();
        if (factors != nullptr) factor[j] = thread::load(factor_of(bag, entry));
      }
      int64_t row[kBatch];
      index.read(at, row);
      Vec<T, kWidth> values[kBatch];
      bool counts[kBatch];
      int wrong = -1;
      int64_t wrong_row = 0;
#pragma unroll
      for (int j = 0; j < kBatch; ++j) {
        const bool is_known = start + j < end;
        const bool exists = index.exists(row[j]);
        if (is_known && !exists) {
          wrong = j;
          wrong_row = row[j];
        }
        counts[j] = is_known && exists && row[j] != ignored;
        if (counts[j]) values[j] = thread::load<kWidth>(from + row[j] * strides[0]);
      }
#pragma unroll
      for (int j = 0; j < kBatch; ++j) {
        if (!counts[j]) continue;
        if (mode == BagMode::kMax) {
#pragma unroll
          for (int e = 0; e < kWidth; ++e) {
            const float value = to_float(values[j][e]);
            if (count == 0 || value > totals[e]) totals[e] = value;
          }
        } else {
          const float scale = factors == nullptr ? 1.0F : to_float(factor[j]);
#pragma unroll
          for (int e = 0; e < kWidth; ++e) totals[e] += scale * to_float(values[j][e]);
        }
        ++count;
      }
      if (wrong >= 0) index.is_right(wrong_row, start + wrong);
    }
    const float scale = mode == BagMode::kMean && count > 0 ? 1 / static_cast<float>(count) : 1.0F;
#pragma unroll
    for (int e = 0; e < kWidth; ++e) totals[e] *= scale;
    return thread::convert<T>(totals);
  }
};

#endif

}  // namespace ws::embedding
