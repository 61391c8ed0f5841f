// Idea: tiles for any two dimensions, and for small ones: a tile has as much of each side as there
//   is, up to 256, and lies in memory without gaps, so that 3 columns of 256 rows are one piece.
// From padded_row2col, any_layout: a plan (plan.hpp) picks the loops; offsets of both sides are
//   found once a block and looked up. A thread keeps its column and walks over lines, 16 loads
//   ahead: an element costs a lookup and an addition, not two divisions.
// Traffic: every byte once, in pieces as long as the dimensions permit, an element an access.
// Limits: elements that stay together fit a side; not where one loop is the fastest in both
//   tensors.
// Long: whole batches have code of their own, without a condition for each access.
#include "catalogue/row_layout.hpp"
#include "kernels/transpose/tile_walk.hpp"
#include "warpsmith/launch.hpp"
#include "warpsmith/ptx/barrier.hpp"
#include "warpsmith/thread/memory.hpp"

namespace ws::transpose {
namespace {

constexpr int kLog2Threads = 7;
constexpr int kThreads = 1 << kLog2Threads;

// How threads stand on lines of so many elements: 2^n side by side on each.
struct Formation {
  int log2_across = 0;

  explicit Formation(int64_t length) {
    while (log2_across < kLog2Threads && (int64_t{1} << log2_across) < length) ++log2_across;
  }
  __device__ __forceinline__ int across() const { return 1 << log2_across; }
  __device__ __forceinline__ int down() const { return kThreads >> log2_across; }
  // Lines of a thread, of so many.
  __device__ __forceinline__ int lines_of(int lines) const {
    return (lines + down() - 1) >> (kLog2Threads - log2_across);
  }
  __device__ __forceinline__ int column() const { return thread_index() & (across() - 1); }
  __device__ __forceinline__ int line() const { return thread_index() >> log2_across; }
};

template <class T>
struct TilesKernel {
  static constexpr int kThreads = transpose::kThreads;
  static constexpr int kMinBlocks = 8;
  static constexpr int kBatch = sizeof(T) == 8 ? 8 : 16;           // loads before the first store
  static constexpr int kWord = sizeof(T) < 4 ? 4 / sizeof(T) : 1;  // elements of a bank's word
  static constexpr int kMostPadding = 2 * kWord * static_cast<int>(kLongestSide);

  struct Arguments {
    const T* x;
    T* y;
    TileWalk walk;
    int pitch;            // of the tile's rows, which are columns of x
    thread::Divider run;  // elements at each place
    Formation incoming;
    Formation outgoing;
  };
  struct SharedStorage {
    SharedArray<T, kNarrowBytes / static_cast<int>(sizeof(T)) + kMostPadding> tile;
    SideOffsets<T, kLongestSide> columns;
    SideOffsets<T, kLongestSide> rows;
  };

  // A thread's elements in batches: visit(place, within, line, count), one of a place's on each of
  // so many lines, formation.down() apart.
  template <class Visit>
  __device__ __forceinline__ static void walk(const Arguments& a, const Formation& formation,
                                              int places, int lines, const Visit& visit) {
    const int run = static_cast<int>(a.run.divisor());
    for (int e = formation.column(); e < places * run; e += formation.across()) {
      const auto place = static_cast<int>(a.run.quotient(static_cast<uint32_t>(e)));
      for (int line = formation.line(); line < lines; line += formation.down() * kBatch) {
        visit(place, e - place * run, line, formation.lines_of(lines - line));
      }
    }
  }

  // A batch into the tile: of elements at `x`, on so many rows. What is less than a batch loads its
  // last one again, rather than have a condition for each load.
  template <bool kWhole>
  __device__ __forceinline__ static void bring(SharedStorage& shared, const Arguments& a,
                                               const T* x, int row, int first, int count) {
    const int step = a.incoming.down();
    const int step_in_tile = step * static_cast<int>(a.run.divisor());
    T held[kBatch];
#pragma unroll
    for (int n = 0; n < kBatch; ++n) {
      const int at = kWhole || n < count ? n : count - 1;
      held[n] = thread::load(beyond(x, shared.rows.x[row + at * step]));
    }
#pragma unroll
    for (int n = 0; n < kBatch; ++n) {
      if (kWhole || n < count) shared.tile[first + n * step_in_tile] = held[n];
    }
  }
  // And out of it.
  template <bool kWhole>
  __device__ __forceinline__ static void take(SharedStorage& shared, const Arguments& a, T* y,
                                              int column, int first, int count) {
    const int step = a.outgoing.down();
#pragma unroll
    for (int n = 0; n < kBatch; ++n) {
      if (!kWhole && n >= count) break;
      const T held = shared.tile[first + n * (step * a.pitch)];
      thread::store(beyond(y, shared.columns.y[column + n * step]), held);
    }
  }

  __device__ void operator()(SharedStorage& shared, const Arguments& a) const {
    const TilePart part(a.walk, block_index());
    shared.columns.template fill<kThreads>(a.walk.columns);
    shared.rows.template fill<kThreads>(a.walk.rows);
    ptx::barrier_sync();
    const int run = static_cast<int>(a.run.divisor());

    // Rows of x, which are columns of the tile.
    walk(a, a.incoming, part.columns, part.rows, [&](int place, int within, int row, int count) {
      const T* x = beyond(a.x + part.first.x + within, shared.columns.x[place]);
      const int first = place * a.pitch + row * run + within;
      if (count >= kBatch) return bring<true>(shared, a, x, row, first, kBatch);
      bring<false>(shared, a, x, row, first, count);
    });
    ptx::barrier_sync();
    // Rows of y, which are the tile's.
    walk(a, a.outgoing, part.rows, part.columns, [&](int place, int within, int column, int count) {
      T* y = beyond(a.y + part.first.y + within, shared.rows.y[place]);
      const int first = column * a.pitch + place * run + within;
      if (count >= kBatch) return take<true>(shared, a, y, column, first, kBatch);
      take<false>(shared, a, y, column, first, count);
    });
  }
};

struct TilesOfAny {
  static bool supports(const Permutation& call, Why& why) {
    if (!why.unless(call.run() <= kLongestSide, "takes up to ", kLongestSide,
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
      launch<Kernel>(
          {.blocks = plan.tiles, .threads = Kernel::kThreads}, context.stream,
          {static_cast<const T*>(call.x), static_cast<T*>(call.y), TileWalk(plan),
           static_cast<int>(words) * Kernel::kWord, thread::Divider(plan.run),
           Formation(plan.columns.length * plan.run), Formation(plan.rows.length * plan.run)});
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
