// Idea: a block brings a line of x to shared memory, where its elements are looked up.
// From take_quick: 32 places in a line of 8 KiB lie in some 26 lines of the L1, a pass for each; in
// 32 banks they are 3.5 passes. Indices come 16 bytes a load, eight loads of a thread on their way
// beside the line's copy; a line is found once a block, and offsets in it are of 32 bits.
// Traffic: indices and y once; a line of x once for as many indices as it has elements, or more.
// Limits: along what lies side by side in x, y and index, whole vectors of it; lines of 96 KiB.
// Long: a vector with an index that is wrong is taken apart.
#pragma once

#include <algorithm>
#include <type_traits>

#include "kernels/index_add/elements.hpp"
#include "warpsmith/ptx/barrier.hpp"
#include "warpsmith/ptx/cp_async.hpp"
#include "warpsmith/shared.hpp"

namespace ws::index_add {

#if WS_DEVICE_CODE
template <class Word, class Index>
struct TakeLinesKernel {
  static constexpr int kThreads = 512;  // at most
  static constexpr int kAhead = 8;      // vectors of indices
  static constexpr int kStep = 16 / sizeof(Index);
  static constexpr int kOfThread = kAhead * kStep;
  static constexpr int kWidth = 16 / sizeof(Word);
  struct Arguments {
    IndexCheck check;
    QuickNest<kOperands> places;
    const Index* index;
    const Word* table;
    Word* each;
    uint32_t rows;      // elements of a line of x
    uint32_t count;     // indices of a line
    uint32_t of_block;  // of which a block takes so many
    thread::Divider parts;
  };
  struct SharedStorage {};

  __device__ void operator()(SharedStorage& shared, const Arguments& a) const {
    const auto block = static_cast<uint32_t>(block_index());
    const uint32_t line = a.parts.quotient(block);
    const uint32_t first = (block - line * a.parts.divisor()) * a.of_block;
    const uint32_t end = std::min(first + a.of_block, a.count);
    int64_t at[kOperands];
    a.places.find(int64_t{line} * a.count, at);

    const auto thread = static_cast<uint32_t>(thread_index());
    const auto threads = static_cast<uint32_t>(block_threads());
    const SharedSpan<Word> x = dynamic_shared<Word>(shared, a.rows);
    for (uint32_t i = thread * kWidth; i < a.rows; i += threads * kWidth) {
      ptx::cp_async<16>(x.pointer(i), a.table + at[kTable] + i);
    }
    ptx::cp_async_commit_group();

    const Index* index = a.index + at[kIndex];
    Word* each = a.each + at[kEach];
    const uint32_t step = threads * kStep;
    for (uint32_t tile = first; tile < end; tile += step * kAhead) {
      const uint32_t own = tile + thread * kStep;
      Vec<Index, kStep> rows[kAhead];
#pragma unroll
      for (int j = 0; j < kAhead; ++j) {
        if (own + j * step < end) rows[j] = thread::load<kStep>(index + own + j * step);
      }
      if (tile == first) {
        ptx::cp_async_wait_group<0>();
        ptx::barrier_sync();
      }
      bool are_right = true;
#pragma unroll
      for (int j = 0; j < kAhead; ++j) {
        if (own + j * step >= end) break;
        bool is_right = true;
        Vec<Word, kStep> values;
#pragma unroll
        for (int k = 0; k < kStep; ++k) {
          is_right = is_right && static_cast<std::make_unsigned_t<Index>>(rows[j][k]) < a.rows;
          values[k] = x[std::min(static_cast<uint32_t>(rows[j][k]), a.rows - 1)];
        }
        if (is_right) thread::store(each + own + j * step, values);
        are_right = are_right && is_right;
      }
      if (!are_right) one_by_one(a, at, x, own, std::min(end, tile + step * kAhead), step);
    }
  }

 private:
  // The vectors of a thread again: an index that is wrong is told, the others are looked up.
  static __device__ void one_by_one(const Arguments& a, const int64_t (&at)[kOperands],
                                    const SharedSpan<Word>& x, uint32_t own, uint32_t end,
                                    uint32_t step) {
    for (; own < end; own += step) {
      for (uint32_t i = own; i < own + kStep; ++i) {
        const Index row = thread::load(a.index + at[kIndex] + i);
        if (!a.check(row, at[kPosition] + i)) continue;
        const Word value = x[row];
        thread::store(a.each + at[kEach] + i, value);
      }
    }
  }
};

struct TakeLines {
  static bool supports(const Indexed& call, Why& why) {
    const auto size = static_cast<int64_t>(size_of(call.dtype));
    return why.unless(has_lines(call),
                      "takes lines of whole vectors along the dimension, which "
                      "lie side by side in x, y and index") &&
           why.unless(call.rows > 0 && call.rows * size <= kMostBytes, "takes lines of up to ",
                      kMostBytes / size, " elements, not ", call.rows) &&
           is_quick(call, why);
  }
  // Where a line of x is read about once, lies in so many lines of the L1 that a warp finds hardly
  // two places in one, and there is work for a whole GPU.
  static bool is_worth(const Indexed& call) {
    constexpr int64_t kLeastBytes = 8192;
    constexpr int64_t kLeastElements = int64_t{1} << 20;
    return has_lines(call) && call.nest.count >= kLeastElements &&
           2 * line_length(call) >= call.rows &&
           call.rows * static_cast<int64_t>(size_of(call.dtype)) >= kLeastBytes;
  }
  static void run(const IndexSelect::Call& call, const Context& context) {
    take_words(call, "index_select/take_lines", context);
  }
  static void run(const Gather::Call& call, const Context& context) {
    take_words(call, "gather/take_lines", context);
  }

 private:
  // Two blocks on an SM of sm_90, one on the smallest since sm_80.
  static constexpr int64_t kMostBytes = int64_t{96} << 10;

  static void take_words(const Indexed& call, const char* rung, const Context& context) {
    with_word<kMoved>(call.dtype, [&]<class Word>() {
      (call.wide_index ? take_lines<Word, int64_t> : take_lines<Word, int32_t>)(call, rung,
                                                                                context);
    });
  }
  template <class Word, class Index>
  static void take_lines(const Indexed& call, const char* rung, const Context& context) {
    using Kernel = TakeLinesKernel<Word, Index>;
    constexpr int64_t kMost = int64_t{Kernel::kThreads} * Kernel::kOfThread;
    const int64_t count = line_length(call);
    // Equal parts of a line, of about as many indices as it has elements or more.
    const int64_t wanted = divide_up(count, std::max(call.rows, kMost));
    const int64_t of_block = round_up(divide_up(count, wanted), int64_t{Kernel::kStep});
    const int64_t parts = divide_up(count, of_block);
    const int64_t threads =
        round_up(divide_up(of_block, int64_t{Kernel::kOfThread}), int64_t{kWarpSize});
    launch<Kernel>(
        {.blocks = call.nest.count / count * parts,
         .threads = static_cast<int>(std::min<int64_t>(threads, Kernel::kThreads)),
         .dynamic_shared = static_cast<size_t>(call.rows) * sizeof(Word)},
        context.stream,
        {IndexCheck(rung, "index", call.rows), QuickNest<kOperands>(call.nest),
         static_cast<const Index*>(call.index), static_cast<const Word*>(call.table),
         static_cast<Word*>(call.each), static_cast<uint32_t>(call.rows),
         static_cast<uint32_t>(count), static_cast<uint32_t>(of_block), thread::Divider(parts)});
  }
};

inline constexpr Rung kTakeLines = rung_of<TakeLines, IndexSelect, Gather>(
    {.name = "take_lines",
     .from = "take_quick",
     .idea = "elements are looked up in shared memory, where a block has brought their line"});
#endif

}  // namespace ws::index_add
