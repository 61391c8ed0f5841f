// Idea: the next indices of a bag are asked for before its rows are added up, and blocks are of one
// warp, so that a short bag does not keep its place while a long one ends.
// From bag_vector: no wait for indices but a bag's first. What a bag is reduced to, and whether it
// has weights, is known when the kernel is compiled; offsets are of 32 bits by 32.
// Traffic: a read of a row for each index, 512 bytes a warp; a write of each bag.
// Limits: table and result of rows of whole vectors of 16 bytes; fewer than 2^31 vectors. A bag is
// not split: one that has most of the indices is waited for.
// Long: a bag with an index that is wrong is gone through again.
#pragma once

#include "kernels/embedding/10_bag_vector.cuh"
#include "warpsmith/thread/math.hpp"

namespace ws::embedding {

#if WS_DEVICE_CODE
// Index: of the indices and of where bags begin.
template <class T, class Index, bool kIsMax, bool kHasFactors>
struct BagAheadKernel {
  using Element = T;
  static constexpr int kThreads = 32;
  static constexpr int kMinBlocks = 32;
  static constexpr int kBatch = 4;
  static constexpr int kWidth = 16 / static_cast<int>(sizeof(T));
  struct Arguments {
    Bags<T> bags;
    T* y;
    int64_t y_stride;
    uint32_t vectors;
    uint32_t row_stride;
    uint32_t index_stride;
    uint32_t factor_stride;
    thread::Divider bag;  // vectors of a row
  };
  struct SharedStorage {};

  __device__ void operator()(SharedStorage& /*shared*/, const Arguments& a) const {
    const uint32_t vector =
        static_cast<uint32_t>(block_index()) * kThreads + static_cast<uint32_t>(thread_index());
    if (vector >= a.vectors) return;
    const uint32_t bag = a.bag.quotient(vector);
    const uint32_t column = (vector - bag * a.bag.divisor()) * kWidth;
    thread::store(a.y + bag * a.y_stride + column, reduced(a, bag, column));
  }

 private:
  // Entries of a bag: which rows they are, and what these are multiplied with.
  struct Batch {
    Index row[kBatch];
    T factor[kHasFactors ? kBatch : 1];
  };
  // `count` of them from some entry on; behind the last one that one again: loads without a branch.
  __device__ __forceinline__ static Batch ask(const Arguments& a, const Index* index,
                                              const T* factors, uint32_t count) {
    Batch batch;
#pragma unroll
    for (uint32_t j = 0; j < kBatch; ++j) {
      const uint32_t k = j < count ? j : count - 1;
      batch.row[j] = thread::load(index + static_cast<uint64_t>(k) * a.index_stride);
      if constexpr (kHasFactors) {
        batch.factor[j] = thread::load(factors + static_cast<uint64_t>(k) * a.factor_stride);
      }
    }
    return batch;
  }

  __device__ __forceinline__ static Vec<T, kWidth> reduced(const Arguments& a, uint32_t bag,
                                                           uint32_t column) {
    const Bags<T>& bags = a.bags;
    const auto [first, end] = bags.entries_of(bag);
    Vec<float, kWidth> totals{};
    if (first >= end) return thread::convert<T>(totals);
    const T* from = bags.weight + column;
    const Index* index =
        bags.index.template as<Index>() + (bag * bags.index_of_bag + first * bags.index.stride());
    const T* factors = kHasFactors ? bags.factor_of(bag, first) : nullptr;
    int64_t left = end - first;
    uint32_t found = 0;
    bool are_right = true;
    uint32_t count = left < kBatch ? static_cast<uint32_t>(left) : kBatch;
    Batch batch = ask(a, index, factors, count);
    while (true) {
      Vec<T, kWidth> values[kBatch];
      bool counts[kBatch];
      float by[kHasFactors ? kBatch : 1];
#pragma unroll
      for (uint32_t j = 0; j < kBatch; ++j) {
        const bool exists = bags.index.exists(batch.row[j]);
        const auto row = static_cast<uint32_t>(batch.row[j]);
        are_right = are_right && exists;
        counts[j] = j < count && exists && row != static_cast<uint32_t>(bags.ignored);
        if (counts[j]) {
          values[j] = thread::load<kWidth>(from + static_cast<uint64_t>(row) * a.row_stride);
        }
        if constexpr (kHasFactors) by[j] = to_float(batch.factor[j]);
      }
      left -= kBatch;
      if (left > 0) {
        // They come while the rows do.
        index += uint64_t{kBatch} * a.index_stride;
        if constexpr (kHasFactors) factors += uint64_t{kBatch} * a.factor_stride;
        count = left < kBatch ? static_cast<uint32_t>(left) : kBatch;
        batch = ask(a, index, factors, count);
      }
#pragma unroll
      for (int j = 0; j < kBatch; ++j) {
        if (!counts[j]) continue;
#pragma unroll
        for (int e = 0; e < kWidth; ++e) {
          const float value = to_float(values[j][e]);
          if constexpr (kIsMax) {
            if (found == 0 || value > totals[e]) totals[e] = value;
          } else {
            totals[e] = kHasFactors ? thread::fma(by[j], value, totals[e]) : totals[e] + value;
          }
        }
        ++found;
      }
      if (left <= 0) break;
    }
    if (!are_right) tell(bags, bag);
    if (!kIsMax && bags.mode == BagMode::kMean && found > 0) {
      const float scale = 1 / static_cast<float>(found);
#pragma unroll
      for (int e = 0; e < kWidth; ++e) totals[e] *= scale;
    }
    return thread::convert<T>(totals);
  }
  // The bag's indices again: so they are in no register while rows are.
  __device__ static void tell(const Bags<T>& bags, int64_t bag) {
    const auto [first, end] = bags.entries_of(bag);
#pragma unroll 1
    for (int64_t entry = first; entry < end; ++entry) {
      const int64_t at = bag * bags.index_of_bag + entry * bags.index.stride();
      bags.index.is_right(bags.index.at_offset(at), entry);
    }
  }
};

struct BagAhead {
  static bool supports(const BagCall& call, Why& why) {
    constexpr int64_t kMost = int64_t{1} << 32;
    const auto is_small = [](int64_t value) { return value >= 0 && value < kMost; };
    return BagVector::supports(call, why) &&
           why.unless(call.table_rows < kMost && is_small(call.strides[0]) &&
                          is_small(call.index_strides.step) && is_small(call.factor_strides.step),
                      "takes fewer than 2^32 rows, at strides of 32 bits");
  }
  static void run(const BagCall& call, const Context& context) {
    with_type<kFloats>(call.dtype, [&]<class T>() {
      (call.wide_index ? run_with<T, int64_t> : run_with<T, int32_t>)(call, context);
    });
  }

 private:
  template <class T, class Index>
  static void run_with(const BagCall& call, const Context& context) {
    if (call.mode == BagMode::kMax)
      return start<BagAheadKernel<T, Index, true, false>>(call, context);
    if (call.factors != nullptr) return start<BagAheadKernel<T, Index, false, true>>(call, context);
    start<BagAheadKernel<T, Index, false, false>>(call, context);
  }
  template <class Kernel>
  static void start(const BagCall& call, const Context& context) {
    const int64_t of_row = call.columns / Kernel::kWidth;
    const int64_t vectors = of_row * call.bags;
    launch<Kernel>(
        {.blocks = divide_up(vectors, int64_t{Kernel::kThreads}), .threads = Kernel::kThreads},
        context.stream,
        {Bags<typename Kernel::Element>(call, "embedding_bag/bag_ahead"),
         static_cast<typename Kernel::Element*>(call.y), call.y_strides[0],
         static_cast<uint32_t>(vectors), static_cast<uint32_t>(call.strides[0]),
         static_cast<uint32_t>(call.index_strides.step),
         static_cast<uint32_t>(call.factor_strides.step), thread::Divider(of_row)});
  }
};

inline constexpr Rung kBagAhead = rung_of<BagAhead, EmbeddingBag>(
    {.name = "bag_ahead",
     .from = "bag_vector",
     .idea = "a bag's next indices come while its rows do; blocks of one warp"});
#endif

}  // namespace ws::embedding
