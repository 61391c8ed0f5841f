// Idea: scans down the columns of a matrix: lanes stand over neighbouring columns, 16 bytes each,
// and a thread has four rows of them; threads one below the other meet in shared memory, tiles by
// look-back, a thread for each column. So a tall matrix keeps all SMs busy. Columns that are not
// whole vectors are taken 4 bytes at a time, or by single elements, and 16 rows of them.
// From look_back: one total a column instead of one a tile.
// Traffic: one read, one write; 8 bytes a column and tile, in L2.
// Limits: columns that lie side by side.
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
struct ColumnsArguments {
  using Accumulator = typename Monoid::Accumulator;

  Monoid monoid;
  const typename Monoid::Element* x;
  typename Monoid::Result* y;
  int64_t x_pitch;  // from row to row
  int64_t y_pitch;
  int64_t x_matrix;
  int64_t y_matrix;
  int64_t rows;
  int64_t vectors;  // of a row
  int strips;       // of a matrix: of `across` vectors
  int across;       // lanes side by side, a power of two
  int each;         // rows of a thread
  bool exclusive;
  bool reverse;
  LookBack<Accumulator> look_back;  // a line is a strip
};

// What a block of a matrix's columns works on, and a thread of it, which has kWidth of them. kPart
// thread rows are added up side by side before a thread a column takes over.
template <class Monoid, int kThreads, int kPart,
          int kWidth = row::kWidest<typename Monoid::Element>>
struct ColumnsTile {
  using Arguments = ColumnsArguments<Monoid>;
  using Accumulator = typename Monoid::Accumulator;
  // [thread rows, columns], the first columns of all lanes first: lanes side by side then ask for
  // neighbouring words, and not for every kWidth-th, of a few banks.
  using Totals = SharedArray<Accumulator, kThreads * kWidth>;

  const Arguments& a;
  int64_t line;
  int tile;
  int thread_rows;
  int columns;
  int mine;        // the first of this thread's in Totals
  int64_t vector;  // its columns
  int64_t first;   // its first row
  const typename Monoid::Element* x;
  typename Monoid::Result* y;

  // Item `item` of all blocks.
  __device__ __forceinline__ ColumnsTile(const Arguments& arguments, uint32_t item, int each)
      : a(arguments) {
    // Strips of a matrix side by side, then the next tile of each: chains go on together.
    const auto strips = static_cast<uint32_t>(a.strips);
    const uint32_t of_matrix = strips * static_cast<uint32_t>(a.look_back.tiles);
    const uint32_t matrix = item / of_matrix;
    const uint32_t within = item - matrix * of_matrix;
    tile = static_cast<int>(within / strips);
    const uint32_t strip = within - static_cast<uint32_t>(tile) * strips;
    line = static_cast<int64_t>(matrix) * a.strips + strip;

    const int lane = thread_index() & (a.across - 1);
    const int thread_row = thread_index() / a.across;
    thread_rows = kThreads / a.across;
    columns = a.across * kWidth;
    mine = thread_row * columns + lane;
    vector = static_cast<int64_t>(strip) * a.across + lane;
    first = (static_cast<int64_t>(tile) * thread_rows + thread_row) * each;
    x = a.x + matrix * a.x_matrix + vector * kWidth;
    y = a.y + matrix * a.y_matrix + vector * kWidth;
  }
  __device__ __forceinline__ bool is_mine(int r) const {
    return vector < a.vectors && first + r < a.rows;
  }
  __device__ __forceinline__ int64_t row_at(int r) const {
    return a.reverse ? a.rows - 1 - first - r : first + r;
  }

  // Totals become what lies before each thread's rows, as before() finds it. All threads first: a
  // column and kPart thread rows each, of which the sum takes the place of the first, and what lies
  // before each of the others of these that of the others. Then a thread a column scans these sums.
  __device__ __forceinline__ void scan_columns(Totals& totals) const {
    ptx::barrier_sync();
    if constexpr (kPart > 1) {
      static_assert(kPart % kWidth == 0, "a column and a part for a thread at most");
      if (kPart == kWidth || thread_index() < kThreads * kWidth / kPart) {
        const int top = thread_index() / columns * part_size() + (thread_index() & (columns - 1));
        Accumulator sum = totals[top];
#pragma unroll
        for (int i = 1; i < kPart; ++i) {
          const Accumulator own = totals[top + i * columns];
          totals[top + i * columns] = sum;
          sum = Monoid::merge(sum, own);
        }
        totals[top] = sum;
      }
      ptx::barrier_sync();
    }
    if (thread_index() < columns) scan_column(totals, thread_index());
    ptx::barrier_sync();
  }
  // Where the total of column e is.
  __device__ __forceinline__ int at(int e) const { return mine + e * a.across; }
  __device__ __forceinline__ Accumulator before(Totals& totals, int e) const {
    if constexpr (kPart == 1) return totals[at(e)];
    const int in_part = thread_index() / a.across % kPart;
    const Accumulator part = totals[at(e) - in_part * columns];
    const Accumulator own = totals[at(e)];
    const Accumulator both = Monoid::merge(part, own);
    return in_part == 0 ? part : both;
  }
  // After all results are written.
  __device__ __forceinline__ void leave() const {
    if (a.look_back.tiles == 1) return;
    if (thread_index() == 0) a.look_back.done(line, tile);
    a.look_back.leave(line, tile, thread_index(), kThreads, [] { ptx::barrier_sync(); });
  }

 private:
  __device__ __forceinline__ int part_size() const { return kPart * columns; }
  __device__ __forceinline__ void scan_column(Totals& totals, int c) const {
    const int parts = thread_rows / kPart;
    Accumulator before = Monoid::none();
    if (a.look_back.tiles > 1) {
      Accumulator total = Monoid::none();
      for (int p = 0; p < parts; ++p) {
        const Accumulator own = totals[p * part_size() + c];
        total = Monoid::merge(total, own);
      }
      before = a.look_back.by_thread(line, tile, c, total, Monoid::none(), Monoid::merge);
    }
    for (int p = 0; p < parts; ++p) {
      const Accumulator own = totals[p * part_size() + c];
      totals[p * part_size() + c] = before;
      before = Monoid::merge(before, own);
    }
  }
};

// kWidth columns a thread.
template <class Monoid, int kWidth_ = row::kWidest<typename Monoid::Element>>
struct ColumnsKernel {
  using Element = typename Monoid::Element;
  using Result = typename Monoid::Result;
  using Accumulator = typename Monoid::Accumulator;
  // Not yet measured: what an SM's registers hold.
  static constexpr int kThreads = sizeof(Accumulator) == 4 ? 512 : 256;
  static constexpr bool kWidens = sizeof(Element) == 2 || sizeof(Element) < sizeof(Result);
  static constexpr int kWidth = kWidth_;
  static constexpr bool kWhole = kWidth == row::kWidest<Element>;
  // Sixteen rows of eight bytes each take the registers of a third block.
  static constexpr bool kWide = kWidens || (!kWhole && sizeof(Element) == 8);
  static constexpr int kMinBlocks = sizeof(Accumulator) == 4 || kWide ? 2 : 3;
  static constexpr int kRows = kWhole ? 4 : 16;  // of a thread
  using Lowered = decltype(std::declval<Monoid>().lower(Monoid::none()));
  using Arguments = ColumnsArguments<Monoid>;
  // Where columns are few, many threads stand one below the other.
  using Tile = ColumnsTile<Monoid, kThreads, kWhole ? 1 : 8, kWidth>;
  // Sectors of rows that are not whole ones are a neighbour's or the next row's as well.
  static constexpr Cache kCache = kWhole ? Cache::kStreaming : Cache::kDefault;
  struct SharedStorage {
    typename Tile::Totals totals;
    SharedArray<uint32_t, 1> drawn;
  };

  __device__ void operator()(SharedStorage& shared, const Arguments& a) const {
    const uint32_t item = a.look_back.tiles == 1 ? static_cast<uint32_t>(block_index())
                                                 : a.look_back.draw(shared.drawn);
    const Tile tile(a, item, kRows);
    using Held = row::Packed<Element, kWidth>;
    Held held[kRows];
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      held[r] = filled_with<kWidth>(a.monoid.filler());
      if (tile.is_mine(r)) {
        held[r] = Held::template load<kCache>(tile.x + tile.row_at(r) * a.x_pitch);
      }
    }
#pragma unroll
    for (int e = 0; e < kWidth; ++e) {
      Accumulator own = a.monoid.lift(element(held[0], e));
#pragma unroll
      for (int r = 1; r < kRows; ++r) own = Monoid::merge(own, a.monoid.lift(element(held[r], e)));
      shared.totals[tile.at(e)] = own;
    }
    row::stay_packed(held);
    tile.scan_columns(shared.totals);

    Accumulator running[kWidth];
#pragma unroll
    for (int e = 0; e < kWidth; ++e) running[e] = tile.before(shared.totals, e);
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      Vec<Lowered, kWidth> out;
#pragma unroll
      for (int e = 0; e < kWidth; ++e) {
        const Accumulator with = Monoid::merge(running[e], a.monoid.lift(element(held[r], e)));
        out[e] = a.monoid.lower(a.exclusive ? running[e] : with);
        running[e] = with;
      }
      if (tile.is_mine(r)) {
        thread::store<kCache>(tile.y + tile.row_at(r) * a.y_pitch, results<Result>(out));
      }
    }
    tile.leave();
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
    // Tiles of whole vectors have 32 rows at least, others 128.
    const auto width = static_cast<int64_t>(16 / size_of(call.dtype));
    const bool whole = has_columns && has_vectors(call, width);
    const int64_t down = divide_up(call.count, int64_t{whole ? 32 : 128});
    return why.unless(has_columns, "takes columns that lie side by side") &&
           why.unless(call.lines < (int64_t{1} << 31) &&
                          call.lines / (whole ? width : 1) * down < (int64_t{1} << 31),
                      "takes fewer than 2^31 tiles");
  }
  // Whether columns lie side by side in whole vectors of `width` elements.
  static bool has_vectors(const Scan& call, int64_t width) {
    const auto [matrices, columns] = shape_of(call);
    const auto aligned = [&](const void* data, size_t k, DType dtype) {
      const int64_t bytes = std::min(int64_t{16}, width * static_cast<int64_t>(size_of(dtype)));
      return static_cast<int64_t>(reinterpret_cast<uintptr_t>(data)) % bytes == 0 &&
             call.strides[k] % width == 0 && matrices.strides[k] % width == 0;
    };
    return columns.extent % width == 0 && aligned(call.input, 0, call.dtype) &&
           aligned(call.output, 1, call.output_dtype);
  }
  // What the rungs ask for that know whole vectors only.
  static bool supports_whole(const Scan& call, Why& why) {
    const auto width = static_cast<int64_t>(16 / size_of(call.dtype));
    return supports(call, why) &&
           why.unless(has_vectors(call, width),
                      "moves 16 bytes at a time: columns and strides have to be multiples of ",
                      width, " elements");
  }
  // f() of the kernel for how the call's columns lie.
  template <class Monoid, class F>
  static void with_kernel(const Scan& call, const F& f) {
    using Element = typename Monoid::Element;
    if (has_vectors(call, row::kWidest<Element>))
      return f.template operator()<ColumnsKernel<Monoid>>();
    if constexpr (sizeof(Element) == 2) {
      if (has_vectors(call, 2)) return f.template operator()<ColumnsKernel<Monoid, 2>>();
    }
    f.template operator()<ColumnsKernel<Monoid, 1>>();
  }

  // Of a kernel whose threads have `each` rows.
  template <class Kernel, class Monoid>
  static LookBackPlan plan(const Scan& call, ColumnsArguments<Monoid>& a, int each) {
    const auto [matrices, columns] = shape_of(call);
    const int64_t vectors = columns.extent / Kernel::kWidth;
    a.vectors = vectors;
    a.across =
        static_cast<int>(std::bit_ceil(static_cast<uint64_t>(std::min<int64_t>(vectors, 32))));
    a.strips = static_cast<int>(divide_up(vectors, a.across));
    a.each = each;
    LookBackPlan plan;
    plan.lines = matrices.extent * a.strips;
    plan.tiles =
        static_cast<int>(divide_up(call.count, int64_t{each} * (Kernel::kThreads / a.across)));
    // What a tile reads of others' totals grows with it, the wait from band to band shrinks.
    plan.radix = a.strips >= 8 ? 4 : LookBack<typename Monoid::Accumulator>::kRadixOfThreads;
    plan.values = a.across * Kernel::kWidth;
    plan.words = LookBack<typename Monoid::Accumulator>::kWords;
    return plan;
  }
  template <class Kernel, class Monoid>
  static void launch_on(const Scan& call, const Monoid& monoid, ColumnsArguments<Monoid>& a,
                        const LookBackPlan& plan, const Context& context) {
    const Loop matrices = shape_of(call).matrices;
    a.monoid = monoid;
    a.x = static_cast<const typename Monoid::Element*>(call.input);
    a.y = static_cast<typename Monoid::Result*>(call.output);
    a.x_pitch = call.strides[0];
    a.y_pitch = call.strides[1];
    a.x_matrix = matrices.strides[0];
    a.y_matrix = matrices.strides[1];
    a.rows = call.count;
    a.exclusive = call.exclusive;
    a.reverse = call.reverse;
    a.look_back = {plan, context.workspace};
    launch<Kernel>({.blocks = plan.lines * plan.tiles, .threads = Kernel::kThreads}, context.stream,
                   a);
  }

  template <class Call>
  static Workspace workspace(const Call& call) {
    Workspace workspace;
    with_monoid<kEveryDType>(call, [&]<class Monoid>(const Monoid& /*monoid*/) {
      with_kernel<Monoid>(call, [&]<class Kernel>() {
        ColumnsArguments<Monoid> arguments{};
        workspace = plan<Kernel>(call, arguments, Kernel::kRows).workspace();
      });
    });
    return workspace;
  }
  template <class Call>
  static void run(const Call& call, const Context& context) {
    with_monoid<kEveryDType>(call, [&]<class Monoid>(const Monoid& monoid) {
      with_kernel<Monoid>(call, [&]<class Kernel>() {
        ColumnsArguments<Monoid> arguments{};
        const LookBackPlan look_back = plan<Kernel>(call, arguments, Kernel::kRows);
        launch_on<Kernel>(call, monoid, arguments, look_back, context);
      });
    });
  }
};

}  // namespace ws::scan
#endif
