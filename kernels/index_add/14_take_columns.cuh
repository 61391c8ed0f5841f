// Idea: of few rows a block brings some columns to shared memory, and looks up there what its part
// of the indices names.
// From take_lines: the dimension is not the one that lies side by side. A thread's columns lie in
// banks of their own, so that 32 lanes meet 32 banks, whichever rows they are at.
// Traffic: indices and y once; a block's columns of x once for its part of the indices, from L2.
// Limits: columns that lie side by side in x, y and index, whole vectors of indices; rows whose
// columns fit into shared memory.
// Long: a vector with an index that is wrong is taken apart.
#pragma once

#include <algorithm>
#include <type_traits>

#include "kernels/index_add/elements.hpp"
#include "warpsmith/device_facts.hpp"
#include "warpsmith/ptx/barrier.hpp"
#include "warpsmith/shared.hpp"

namespace ws::index_add {

#if WS_DEVICE_CODE
// A block has a warp's columns, and its warps stand below each other.
template <class Word, class Index>
struct TakeColumnsKernel {
  static constexpr int kThreads = 256;
  static constexpr int kMinBlocks = 3;
  static constexpr int kWarps = kThreads / kWarpSize;
  static constexpr int kStep = 16 / sizeof(Index);  // columns of a thread
  static constexpr int kColumns = kWarpSize * kStep;
  // Vectors of indices under way.
  static constexpr int kAhead = (sizeof(Word) == 8 ? 8 : sizeof(Word) == 4 ? 16 : 12) / kStep;
  // Elements of a bank.
  static constexpr int kOfBank = sizeof(Word) < 4 ? 4 / sizeof(Word) : 1;
  struct Arguments {
    IndexCheck check;
    const Index* index;
    const Word* table;
    Word* each;
    int64_t around[kOperands];    // strides of what lies around
    uint32_t strides[kOperands];  // from row to row of indices; of x from row to row
    uint32_t rows;                // of x
    uint32_t count;               // of indices of a column
    uint32_t columns;
    uint32_t of_part;  // rows of indices of a block
    thread::Divider tiles;
    thread::Divider parts;
  };
  struct SharedStorage {};

  __device__ void operator()(SharedStorage& shared, const Arguments& a) const {
    const Place at(a);
    const uint32_t end = at.end;
    uint32_t i = at.first;
    const Index* index = a.index + (at.outer * a.around[kIndex] + at.column);
    Word* each = a.each + (at.outer * a.around[kEach] + at.column);
    const SharedSpan<Word> x = dynamic_shared<Word>(shared, int64_t{a.rows} * kColumns);
    Vec<Index, kStep> rows[kAhead];
    ask(a, index, i, end, rows);
    if (at.column < a.columns) {
      const Word* table = a.table + (at.outer * a.around[kTable] + at.column);
#pragma unroll 4
      for (auto row = static_cast<uint32_t>(warp_index()); row < a.rows; row += kWarps) {
        const auto values = thread::load<kStep>(table + uint64_t{row} * a.strides[kTable]);
#pragma unroll
        for (int k = 0; k < kStep; ++k) x[place_of(row, k)] = values[k];
      }
    }
    ptx::barrier_sync();
    while (i < end) {
      Vec<Word, kStep> values[kAhead];
      uint32_t wrong = 0;  // a bit a vector
#pragma unroll
      for (int j = 0; j < kAhead; ++j) {
#pragma unroll
        for (int k = 0; k < kStep; ++k) {
          const auto row = static_cast<std::make_unsigned_t<Index>>(rows[j][k]);
          const bool exists = row < a.rows;
          wrong |= exists ? 0 : 1U << j;
          values[j][k] = x[place_of(exists ? static_cast<uint32_t>(row) : 0, k)];
        }
      }
      const uint32_t now = i;
      i += kAhead * kWarps;
      ask(a, index, i, end, rows);
#pragma unroll
      for (int j = 0; j < kAhead; ++j) {
        const uint32_t row = now + static_cast<uint32_t>(j * kWarps);
        if (row < end && (wrong >> j & 1) == 0) {
          thread::store(each + uint64_t{row} * a.strides[kEach], values[j]);
        }
      }
      if (wrong != 0) one_by_one(a, x, now);
    }
  }

 private:
  // What a thread takes; who comes behind the last column takes nothing.
  struct Place {
    uint32_t outer;
    uint32_t column;
    uint32_t first;
    uint32_t end;

    __device__ __forceinline__ explicit Place(const Arguments& a) {
      const auto block = static_cast<uint32_t>(block_index());
      const uint32_t line = a.tiles.quotient(block);
      const uint32_t tile = block - line * a.tiles.divisor();
      outer = a.parts.quotient(line);
      const uint32_t part = line - outer * a.parts.divisor();
      column = tile * kColumns + static_cast<uint32_t>(lane_index()) * kStep;
      end = std::min((part + 1) * a.of_part, a.count);
      first = column < a.columns ? part * a.of_part + static_cast<uint32_t>(warp_index()) : end;
    }
  };
  // Behind the last row the first of them again: loads without a branch.
  static __device__ __forceinline__ void ask(const Arguments& a, const Index* index, uint32_t i,
                                             uint32_t end, Vec<Index, kStep> (&rows)[kAhead]) {
    if (i >= end) return;
#pragma unroll
    for (int j = 0; j < kAhead; ++j) {
      const uint32_t row = i + static_cast<uint32_t>(j * kWarps);
      rows[j] = thread::load<kStep>(index + uint64_t{row < end ? row : i} * a.strides[kIndex]);
    }
  }
  // Where shared memory has a lane's column `k`: 32 lanes are in 32 banks, whichever rows they are
  // at.
  static __device__ __forceinline__ uint32_t place_of(uint32_t row, int k) {
    return (row * (kStep / kOfBank) + k / kOfBank) * (kWarpSize * kOfBank) +
           static_cast<uint32_t>(lane_index()) * kOfBank + k % kOfBank;
  }
  // The vectors from a row on again: an index that is wrong is told, the others are looked up.
  static __device__ void one_by_one(const Arguments& a, const SharedSpan<Word>& x, uint32_t i) {
    const Place at(a);
    const uint32_t end = std::min(at.end, i + kAhead * kWarps);
    for (; i < end; i += kWarps) {
      const auto start = [&](Operand k) {
        return at.outer * a.around[k] + int64_t{i} * a.strides[k] + at.column;
      };
      for (int k = 0; k < kStep; ++k) {
        const Index row = thread::load(a.index + start(kIndex) + k);
        if (!a.check(row, start(kPosition) + k)) continue;
        const Word value = x[place_of(static_cast<uint32_t>(row), k)];
        thread::store(a.each + start(kEach) + k, value);
      }
    }
  }
};

struct TakeColumns {
  static bool supports(const Indexed& call, Why& why) {
    return why.unless(has_columns(call),
                      "takes columns along the dimension that lie side by side in x, y and index, "
                      "whole vectors of indices") &&
           why.unless(call.rows > 0 && bytes_of_block(call) <= kMostBytes, "takes up to ",
                      kMostBytes * call.rows / std::max<int64_t>(bytes_of_block(call), 1),
                      " rows, not ", call.rows) &&
           is_quick(call, why);
  }
  // Where rows come to a block for many indices each, and there is work for a whole GPU.
  static bool is_worth(const Indexed& call) {
    constexpr int64_t kLeastElements = int64_t{1} << 20;
    return call.nest.loops >= 2 && call.nest.count >= kLeastElements &&
           extent(call, 2) >= 4 * call.rows;
  }
  static void run(const Gather::Call& call, const Context& context) {
    with_word<kMoved>(call.dtype, [&]<class Word>() {
      (call.wide_index ? take_columns<Word, int64_t> : take_columns<Word, int32_t>)(call, context);
    });
  }

 private:
  static constexpr int64_t kMostBytes = int64_t{96} << 10;  // of a block: an SM has two

  // Of the nth loop from inside, from 1 on.
  static int64_t extent(const Indexed& call, int n) {
    return call.nest.loops < n ? 1 : call.nest.extents[static_cast<size_t>(call.nest.loops - n)];
  }
  static int64_t stride(const Indexed& call, Operand k, int n) {
    return call.nest.loops < n ? 0 : call.nest.strides[k][static_cast<size_t>(call.nest.loops - n)];
  }
  static int64_t stride_of_rows(const Indexed& call, Operand k) {
    return k == kTable ? call.table_stride : stride(call, k, 2);
  }
  // Columns of a thread.
  static int64_t step_of(const Indexed& call) { return call.wide_index ? 2 : 4; }
  static int64_t bytes_of_block(const Indexed& call) {
    return call.rows * kWarpSize * step_of(call) * static_cast<int64_t>(size_of(call.dtype));
  }
  static bool has_columns(const Indexed& call) {
    const Nest<kOperands>& nest = call.nest;
    if (nest.loops < 2 || nest.loops > 3 || nest.count == 0) return false;
    const auto size = static_cast<int64_t>(size_of(call.dtype));
    const int64_t step = step_of(call);
    const int64_t width = std::min(step, 16 / size);
    bool fits = stride(call, kTable, 2) == 0 && extent(call, 1) % step == 0;
    for (const Operand k : {kEach, kIndex, kPosition, kTable}) {
      const int64_t rows = stride_of_rows(call, k);
      fits = fits && stride(call, k, 1) == 1 && rows >= 0 && rows < int64_t{1} << 32;
    }
    return fits && call.table_stride % width == 0 &&
           lines_start_at(nest, kIndex, call.index, step, 16 / step) &&
           lines_start_at(nest, kTable, call.table, width, size) &&
           lines_start_at(nest, kEach, call.each, width, size);
  }
  template <class Word, class Index>
  static void take_columns(const Indexed& call, const Context& context) {
    using Kernel = TakeColumnsKernel<Word, Index>;
    const int64_t count = extent(call, 2);
    const int64_t columns = extent(call, 1);
    const int64_t tiles = divide_up(columns, int64_t{Kernel::kColumns});
    // Ten indices for each row that a block brings, fewer where blocks would not fill the GPU (H200
    // 2026-11-30: 91 to 100 % of copy; of four indices a row 79 to 93).
    const int64_t of_sm = std::clamp<int64_t>(
        static_cast<int64_t>(device_facts().shared_bytes) / (bytes_of_block(call) + 1024), 1,
        Kernel::kMinBlocks);
    const int64_t resident = of_sm * device_facts().multiprocessors;
    const int64_t wanted = std::max(count / std::max<int64_t>(10 * call.rows, 256),
                                    resident / (tiles * extent(call, 3)));
    const int64_t most = count / std::max<int64_t>(4 * call.rows, 64);
    const int64_t of_part = divide_up(count, std::max<int64_t>(std::min(wanted, most), 1));
    const int64_t parts = divide_up(count, of_part);
    typename Kernel::Arguments arguments{
        .check = IndexCheck("gather/take_columns", "index", call.rows),
        .index = static_cast<const Index*>(call.index),
        .table = static_cast<const Word*>(call.table),
        .each = static_cast<Word*>(call.each),
        .around = {},
        .strides = {},
        .rows = static_cast<uint32_t>(call.rows),
        .count = static_cast<uint32_t>(count),
        .columns = static_cast<uint32_t>(columns),
        .of_part = static_cast<uint32_t>(of_part),
        .tiles = thread::Divider(tiles),
        .parts = thread::Divider(parts)};
    for (const Operand k : {kEach, kIndex, kPosition, kTable}) {
      arguments.around[k] = stride(call, k, 3);
      arguments.strides[k] = static_cast<uint32_t>(stride_of_rows(call, k));
    }
    launch<Kernel>({.blocks = extent(call, 3) * parts * tiles,
                    .threads = Kernel::kThreads,
                    .dynamic_shared = static_cast<size_t>(bytes_of_block(call))},
                   context.stream, arguments);
  }
};

inline constexpr Rung kTakeColumns = rung_of<TakeColumns, Gather>(
    {.name = "take_columns",
     .from = "take_lines",
     .idea = "of few rows some columns come to shared memory, where elements are looked up"});
#endif

}  // namespace ws::index_add
