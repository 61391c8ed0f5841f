// Idea: the result's vectors are one list, which small blocks walk in the order of addresses; a
// thread has four rows' indices on their way, then four vectors.
// From vector: a block is as full with rows of 64 elements as with long ones, and what it waits for
// is there for four vectors at once. A vector's number becomes row and column by a multiplication
// that the host prepares; the index of a row comes from L1 for all threads but the first.
// Traffic: a read and a write of every row; writes reach the memory as whole pages.
// Limits: rows of whole vectors of 16 bytes, at one stride; fewer than 2^31 vectors.
#pragma once

#include "kernels/embedding/lookup.hpp"

namespace ws::embedding {

#if WS_DEVICE_CODE
template <class Word>
struct CompactFrontKernel {
  static constexpr int kThreads = 128;
  static constexpr int kLoads = 4;
  static constexpr int kMinBlocks = 12;
  static constexpr int kWidth = 16 / sizeof(Word);
  static constexpr int kTile = kThreads * kLoads;
  struct Arguments {
    Indices index;
    const Word* weight;
    Word* y;
    int64_t weight_stride;
    int64_t y_stride;
    uint32_t vectors;
    thread::Divider row;  // vectors of a row
  };
  struct SharedStorage {};

  __device__ void operator()(SharedStorage& /*shared*/, const Arguments& a) const {
    const uint32_t first =
        static_cast<uint32_t>(block_index()) * kTile + static_cast<uint32_t>(thread_index());
    uint32_t row[kLoads];
    uint32_t column[kLoads];
    int64_t from[kLoads];
    bool is_there[kLoads];
#pragma unroll
    for (int j = 0; j < kLoads; ++j) {
      const uint32_t vector = first + static_cast<uint32_t>(j * kThreads);
      is_there[j] = vector < a.vectors;
      row[j] = a.row.quotient(vector);
      column[j] = (vector - row[j] * a.row.divisor()) * kWidth;
      from[j] = is_there[j] ? a.index[row[j]] : 0;
    }
    Vec<Word, kWidth> values[kLoads];
#pragma unroll
    for (int j = 0; j < kLoads; ++j) {
      is_there[j] = is_there[j] && a.index.is_right(from[j], row[j]);
      if (is_there[j]) {
        values[j] = thread::load<kWidth>(a.weight + (from[j] * a.weight_stride + column[j]));
      }
    }
#pragma unroll
    for (int j = 0; j < kLoads; ++j) {
      if (is_there[j]) thread::store(a.y + (row[j] * a.y_stride + column[j]), values[j]);
    }
  }
};

struct CompactFront {
  static bool supports(const Embedding::Call& call, Why& why) {
    const int64_t vectors = call.rows.columns / width_of(call) * call.rows.rows;
    return is_even(call, why) && needs_vectors(call, why) &&
           why.unless(vectors < (int64_t{1} << 31) - CompactFrontKernel<uint16_t>::kTile,
                      "takes fewer than 2^31 vectors, not ", vectors);
  }
  static void run(const Embedding::Call& call, const Context& context) {
    with_word<kFloats>(call.dtype, [&]<class Word>() {
      using Kernel = CompactFrontKernel<Word>;
      const int64_t of_row = call.rows.columns / Kernel::kWidth;
      const int64_t vectors = of_row * call.rows.rows;
      launch<Kernel>(
          {.blocks = divide_up(vectors, int64_t{Kernel::kTile}), .threads = Kernel::kThreads},
          context.stream,
          {indices_of(call, "embedding/compact_front"), static_cast<const Word*>(call.table),
           call.rows.as<Word>(kRow), call.strides[0], call.rows.stride(kRow),
           static_cast<uint32_t>(vectors), thread::Divider(of_row)});
    });
  }
};

inline constexpr Rung kCompactFront = rung_of<CompactFront, Embedding>(
    {.name = "compact_front",
     .from = "vector",
     .idea = "all rows' vectors as one list, four of a thread on their way"});
#endif

}  // namespace ws::embedding
