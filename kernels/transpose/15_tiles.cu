// Idea: tiles for any two dimensions, and for small ones: a tile has as much of each side as there
//   is, up to 512, and lies in memory without gaps, so that 3 columns of 1365 rows are one piece.
// From padded_row2col, any_layout: a plan (plan.hpp) picks the loops; offsets of both sides are
//   found once a block and looked up; elements that stay together (a pixel's 3) move together.
// Traffic: every byte once, in pieces as long as the dimensions permit, an element an access.
// Limits: elements that stay together fit a tile; not where one loop is the fastest in both
//   tensors.
#include "catalogue/row_layout.hpp"
#include "kernels/transpose/tile_walk.hpp"
#include "warpsmith/launch.hpp"
#include "warpsmith/ptx/barrier.hpp"
#include "warpsmith/thread/memory.hpp"

namespace ws::transpose {
namespace {

template <class T>
struct TilesKernel {
  static constexpr int kThreads = 256;
  static constexpr int kMinBlocks = 4;
  static constexpr int kBatch = 8;  // loads of a thread before its first store
  static constexpr int kWord = sizeof(T) < 4 ? 4 / sizeof(T) : 1;  // elements of a bank's word
  static constexpr int kMostPadding = 2 * kWord * static_cast<int>(kLongestSide);

  struct Arguments {
    const T* x;
    T* y;
    TileWalk walk;
    int pitch;                    // of the tile's rows, which are columns of x
    thread::Divider run;          // elements at each place
    thread::Divider column_runs;  // elements of a row of x in the tile
    thread::Divider row_runs;     // of a row of y
  };
  struct SharedStorage {
    SharedArray<T, kNarrowBytes / static_cast<int>(sizeof(T)) + kMostPadding> tile;
    SideOffsets<kLongestSide> columns;
    SideOffsets<kLongestSide> rows;
  };

  // Calls visit(line, place, within) for elements of a thread, `of_line` to a line.
  struct Element {
    int line;
    int place;
    int within;  // of the elements of a place
  };
  __device__ __forceinline__ static Element element(const Arguments& a, int number,
                                                    const thread::Divider& of_line) {
    const uint32_t line = of_line.quotient(static_cast<uint32_t>(number));
    const uint32_t rest = static_cast<uint32_t>(number) - line * of_line.divisor();
    const uint32_t place = a.run.quotient(rest);
    return {static_cast<int>(line), static_cast<int>(place),
            static_cast<int>(rest - place * a.run.divisor())};
  }

  __device__ void operator()(SharedStorage& shared, const Arguments& a) const {
    const TilePart part(a.walk, block_index());
    shared.columns.template fill<kThreads>(a.walk.columns);
    shared.rows.template fill<kThreads>(a.walk.rows);
    ptx::barrier_sync();
    const int run = static_cast<int>(a.run.divisor());
    const T* x = a.x + part.first.x;
    T* y = a.y + part.first.y;

    // In x's order: rows of x one after the other.
    const int incoming = part.rows * static_cast<int>(a.column_runs.divisor());
    for (int first = thread_index(); first < incoming; first += kThreads * kBatch) {
      T held[kBatch];
      int to[kBatch];
#pragma unroll
      for (int n = 0; n < kBatch; ++n) {
        const Element e = element(a, first + n * kThreads, a.column_runs);
        to[n] = e.line < part.rows && e.place < part.columns
                    ? e.place * a.pitch + e.line * run + e.within
                    : -1;
        if (to[n] < 0) continue;
        const int64_t row = shared.rows.x[e.line];
        const int64_t column = shared.columns.x[e.place];
        held[n] = thread::load(x + row + column + e.within);
      }
#pragma unroll
      for (int n = 0; n < kBatch; ++n) {
        if (to[n] >= 0) shared.tile[to[n]] = held[n];
      }
    }
    ptx::barrier_sync();
    // In y's: rows of y, which are the tile's.
    const int outgoing = part.columns * static_cast<int>(a.row_runs.divisor());
    for (int number = thread_index(); number < outgoing; number += kThreads) {
      const Element e = element(a, number, a.row_runs);
      if (e.place >= part.rows) continue;
      const int64_t column = shared.columns.y[e.line];
      const int64_t row = shared.rows.y[e.place];
      const T held = shared.tile[e.line * a.pitch + e.place * run + e.within];
      thread::store(y + column + row + e.within, held);
    }
  }
};

struct TilesOfAny {
  static bool supports(const Permutation& call, Why& why) {
    constexpr int64_t kMostRun = 512;
    if (!why.unless(call.run() <= kMostRun, "takes up to ", kMostRun,
                    " elements that stay together, not ", call.run())) {
      return false;
    }
    const TilePlan plan = plan_tiles(call, narrow_shape(call));
    return why.unless(plan.tiles > 0,
                      "takes a loop that is the fastest in x and another in y, not ",
                      static_cast<int>(call.rank), " loops in one order") &&
           why.unless(plan.tiles <= kMostBlocks, "takes up to ", kMostBlocks, " tiles, not ",
                      plan.tiles);
  }
  static void run(const Permutation& call, const Context& context) {
    const TilePlan plan = plan_tiles(call, narrow_shape(call));
    with_element(call.element_bytes, [&]<class T>() {
      using Kernel = TilesKernel<T>;
      // An odd number of words: lanes that stand one below the other are in different banks.
      const int64_t words = divide_up(plan.rows.length * plan.run, Kernel::kWord) | 1;
      launch<Kernel>({.blocks = plan.tiles, .threads = Kernel::kThreads}, context.stream,
                     {static_cast<const T*>(call.x), static_cast<T*>(call.y), TileWalk(plan),
                      static_cast<int>(words) * Kernel::kWord, thread::Divider(plan.run),
                      thread::Divider(plan.columns.length * plan.run),
                      thread::Divider(plan.rows.length * plan.run)});
    });
  }
};

}  // namespace

extern const Rung kTiles;
constinit const Rung kTiles = rung_of<TilesOfAny, Transpose, Permute>({
    .name = "tiles",
    .from = "any_layout",
    .idea = "planned tiles of any two sides through shared memory, thin and odd ones too",
});

}  // namespace ws::transpose
