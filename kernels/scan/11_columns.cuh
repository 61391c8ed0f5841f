// Idea: scans down the columns of a matrix: lanes stand over neighbouring columns, 16 bytes each,
// and a thread has four rows of them; threads one below the other meet in shared memory, tiles by
// look-back, a thread for each column. So a tall matrix keeps all SMs busy.
// From look_back: one total a column instead of one a tile.
// Traffic: one read, one write; 8 bytes a column and tile, in L2.
// Limits: columns that lie side by side and start at multiples of 16 bytes.
// Long: what columns are and how they are shared out stands with the kernel, the only one of them.
#pragma once

#include <bit>

#include "kernels/scan/look_back.hpp"
#include "kernels/scan/monoids.hpp"
#include "warpsmith/launch.hpp"
#include "warpsmith/row/cut.hpp"
#include "warpsmith/thread/memory.hpp"

#if WS_DEVICE_CODE
namespace ws::scan {

template <class Monoid>
struct ColumnsKernel {
  using Element = typename Monoid::Element;
  using Result = typename Monoid::Result;
  using Accumulator = typename Monoid::Accumulator;
  // Not yet measured: what an SM's registers hold.
  static constexpr int kThreads = sizeof(Accumulator) == 4 ? 512 : 256;
  static constexpr bool kWidens = sizeof(Element) == 2 || sizeof(Element) < sizeof(Result);
  static constexpr int kMinBlocks = sizeof(Accumulator) == 4 || kWidens ? 2 : 3;
  static constexpr int kRows = 4;  // of a thread
  using Lowered = decltype(std::declval<Monoid>().lower(Monoid::none()));
  static constexpr int kWidth = row::kWidest<Element>;
  struct Arguments {
    Monoid monoid;
    const Element* x;
    Result* y;
    int64_t x_pitch;  // from row to row
    int64_t y_pitch;
    int64_t x_matrix;
    int64_t y_matrix;
    int64_t rows;
    int64_t vectors;  // of a row
    int strips;       // of a matrix: of `across` vectors
    int across;       // lanes side by side, a power of two
    bool exclusive;
    bool reverse;
    LookBack<Accumulator> look_back;  // a line is a strip
  };
  struct SharedStorage {
    SharedArray<Accumulator, kThreads * kWidth> totals;  // [thread rows, columns]
    SharedArray<uint32_t, 1> drawn;
  };

  __device__ void operator()(SharedStorage& shared, const Arguments& a) const {
    const int tiles = a.look_back.tiles;
    const uint32_t item =
        tiles == 1 ? static_cast<uint32_t>(block_index()) : a.look_back.draw(shared.drawn);
    // Strips of a matrix side by side, then the next tile of each: chains go on together.
    const uint32_t of_matrix = static_cast<uint32_t>(a.strips) * static_cast<uint32_t>(tiles);
    const uint32_t matrix = item / of_matrix;
    const uint32_t within = item - matrix * of_matrix;
    const auto tile = static_cast<int>(within / static_cast<uint32_t>(a.strips));
    const uint32_t strip = within - static_cast<uint32_t>(tile) * static_cast<uint32_t>(a.strips);
    const int64_t line = static_cast<int64_t>(matrix) * a.strips + strip;

    const int lane = thread_index() & (a.across - 1);
    const int thread_row = thread_index() / a.across;
    const int thread_rows = kThreads / a.across;
    const int columns = a.across * kWidth;
    const int64_t vector = static_cast<int64_t>(strip) * a.across + lane;
    const int64_t first = (static_cast<int64_t>(tile) * thread_rows + thread_row) * kRows;
    const Element* x = a.x + matrix * a.x_matrix + vector * kWidth;
    Result* y = a.y + matrix * a.y_matrix + vector * kWidth;
    const auto is_mine = [&](int r) { return vector < a.vectors && first + r < a.rows; };
    const auto row_at = [&](int r) { return a.reverse ? a.rows - 1 - first - r : first + r; };

    Packed<Element> held[kRows];
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      held[r] = filled_with(a.monoid.filler());
      if (is_mine(r)) {
        held[r] = Packed<Element>::template load<Cache::kStreaming>(x + row_at(r) * a.x_pitch);
      }
    }
    const int mine = thread_row * columns + lane * kWidth;
#pragma unroll
    for (int e = 0; e < kWidth; ++e) {
      Accumulator own = a.monoid.lift(element(held[0], e));
#pragma unroll
      for (int r = 1; r < kRows; ++r) own = Monoid::merge(own, a.monoid.lift(element(held[r], e)));
      shared.totals[mine + e] = own;
    }
    row::stay_packed(held);
    ptx::barrier_sync();
    if (thread_index() < columns) scan_column(shared, a, line, tile, thread_rows, columns);
    ptx::barrier_sync();

    Accumulator running[kWidth];
#pragma unroll
    for (int e = 0; e < kWidth; ++e) running[e] = shared.totals[mine + e];
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      Vec<Lowered, kWidth> out;
#pragma unroll
      for (int e = 0; e < kWidth; ++e) {
        const Accumulator with = Monoid::merge(running[e], a.monoid.lift(element(held[r], e)));
        out[e] = a.monoid.lower(a.exclusive ? running[e] : with);
        running[e] = with;
      }
      if (is_mine(r)) {
        thread::store<Cache::kStreaming>(y + row_at(r) * a.y_pitch, results<Result>(out));
      }
    }
    if (tiles > 1) {
      if (thread_index() == 0) a.look_back.done(line, tile);
      a.look_back.leave(line, tile, thread_index(), kThreads, [] { ptx::barrier_sync(); });
    }
  }

  // The totals of a column's thread rows become what lies before each.
  __device__ __forceinline__ static void scan_column(SharedStorage& shared, const Arguments& a,
                                                     int64_t line, int tile, int thread_rows,
                                                     int columns) {
    const int c = thread_index();
    Accumulator before = Monoid::none();
    if (a.look_back.tiles > 1) {
      Accumulator total = Monoid::none();
      for (int t = 0; t < thread_rows; ++t) {
        const Accumulator own = shared.totals[t * columns + c];
        total = Monoid::merge(total, own);
      }
      before = a.look_back.by_thread(line, tile, c, total, Monoid::none(), Monoid::merge);
    }
    for (int t = 0; t < thread_rows; ++t) {
      const Accumulator own = shared.totals[t * columns + c];
      shared.totals[t * columns + c] = before;
      before = Monoid::merge(before, own);
    }
  }
};

struct Columns {
  // [matrices, rows, columns] of a call, where its columns lie side by side.
  struct Shape {
    Loop matrices;
    Loop columns;
  };
  static Shape shape_of(const Scan& call) {
    return {.matrices = call.loops > 1 ? call.line[0] : Loop{1, {0, 0}},
            .columns = call.line[static_cast<size_t>(call.loops - 1)]};
  }
  static bool supports(const Scan& call, Why& why) {
    const bool has_columns = call.count > 0 && call.lines > 0 && call.loops >= 1 &&
                             call.loops <= 2 && shape_of(call).columns.strides[0] == 1 &&
                             shape_of(call).columns.strides[1] == 1;
    if (!why.unless(has_columns, "takes columns that lie side by side")) return false;
    const auto [matrices, columns] = shape_of(call);
    const auto width = static_cast<int64_t>(16 / size_of(call.dtype));
    const auto aligned = [&](const void* data, size_t k) {
      return reinterpret_cast<uintptr_t>(data) % 16 == 0 && call.strides[k] % width == 0 &&
             matrices.strides[k] % width == 0;
    };
    return why.unless(
               columns.extent % width == 0 && aligned(call.input, 0) && aligned(call.output, 1),
               "moves 16 bytes at a time: columns and strides have to be multiples of ", width,
               " elements") &&
           why.unless(
               call.lines < (int64_t{1} << 31) &&
                   call.lines / width * divide_up(call.count, int64_t{32}) < (int64_t{1} << 31),
               "takes fewer than 2^31 tiles");
  }

  template <class Monoid>
  static LookBackPlan plan(const Scan& call, int& across, int& strips) {
    using Kernel = ColumnsKernel<Monoid>;
    const auto [matrices, columns] = shape_of(call);
    const int64_t vectors = columns.extent / Kernel::kWidth;
    across = static_cast<int>(std::bit_ceil(static_cast<uint64_t>(std::min<int64_t>(vectors, 32))));
    strips = static_cast<int>(divide_up(vectors, across));
    LookBackPlan plan;
    plan.lines = matrices.extent * strips;
    plan.tiles = static_cast<int>(
        divide_up(call.count, int64_t{Kernel::kRows} * (Kernel::kThreads / across)));
    // What a tile reads of others' totals grows with it, the wait from band to band shrinks.
    plan.radix = strips >= 8 ? 4 : LookBack<typename Monoid::Accumulator>::kRadixOfThreads;
    plan.values = across * Kernel::kWidth;
    plan.words = LookBack<typename Monoid::Accumulator>::kWords;
    return plan;
  }
  template <class Call>
  static Workspace workspace(const Call& call) {
    Workspace workspace;
    with_fast_monoid(call, [&]<class Monoid>(const Monoid& /*monoid*/) {
      int across = 1;
      int strips = 1;
      workspace = plan<Monoid>(call, across, strips).workspace();
    });
    return workspace;
  }
  template <class Call>
  static void run(const Call& call, const Context& context) {
    with_fast_monoid(call, [&]<class Monoid>(const Monoid& monoid) {
      using Kernel = ColumnsKernel<Monoid>;
      const auto [matrices, columns] = shape_of(call);
      typename Kernel::Arguments arguments{};
      const LookBackPlan look_back = plan<Monoid>(call, arguments.across, arguments.strips);
      arguments.monoid = monoid;
      arguments.x = static_cast<const typename Monoid::Element*>(call.input);
      arguments.y = static_cast<typename Monoid::Result*>(call.output);
      arguments.x_pitch = call.strides[0];
      arguments.y_pitch = call.strides[1];
      arguments.x_matrix = matrices.strides[0];
      arguments.y_matrix = matrices.strides[1];
      arguments.rows = call.count;
      arguments.vectors = columns.extent / Kernel::kWidth;
      arguments.exclusive = call.exclusive;
      arguments.reverse = call.reverse;
      arguments.look_back = {look_back, context.workspace};
      launch<Kernel>({.blocks = look_back.lines * look_back.tiles, .threads = Kernel::kThreads},
                     context.stream, arguments);
    });
  }
};

}  // namespace ws::scan
#endif
