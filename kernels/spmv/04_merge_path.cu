// Idea: rows and entries are merged into one list, entries and the ends of rows, which is cut into
//   tiles of one length, whatever the rows are; what a tile has of a row that others share is left
//   in the workspace, and a second launch adds those parts up in their order.
// From lanes_per_row: no block has more to do than another; values and columns come 16 bytes a
//   thread, whichever row they belong to, and products wait in shared memory.
// Traffic: values, columns and rows' ends once; x as its columns ask for it; 24 to 32 bytes a tile.
// Limits: a matrix without gaps, fewer than 2^31 tiles of 1792. Merrill and Garland, "Merge-based
//   parallel sparse matrix-vector multiplication", 2016.
// Long: products in two ways, and how a tile's rows are added up.
#include "kernels/spmv/merge_path.hpp"
#include "kernels/spmv/rows_of_tiles.hpp"
#include "warpsmith/ptx/atomic_shared.hpp"
#include "warpsmith/ptx/grid.hpp"

namespace ws::spmv {
namespace {

constexpr int kTileThreads = 256;
constexpr int kItems = 7;  // of a thread; odd: lanes that walk so far apart meet in few banks
constexpr int kTile = kTileThreads * kItems;

int64_t tiles_of(const VectorCall& call) { return tiles_of(call, kTile); }

template <class T, class I>
struct TileKernel {
  static constexpr int kThreads = kTileThreads;
  static constexpr int kMinBlocks = 4;
  static constexpr int kWidth = 4;
  static constexpr int kSlots = kTile + 2 * kWidth;
  using Part = Open<Sum<T>>;
  using Scan = block::ScanOfWarps<Part, kThreads>;
  struct Arguments {
    Csr<T, I> a;
    Strided<const T> x;
    Result<T> result;
    const int64_t* starts;  // rows that have ended before a tile, and before the end
    PartsOfTiles<Sum<T>> parts;
    bool vectors;  // values and columns begin at multiples of a vector
    bool near;     // so they do, and x is within 2^31 elements, and not empty
  };
  struct SharedStorage {
    SharedArray<uint32_t, 1> wrong;
    SharedArray<int, kTile> ends;       // of the tile's rows, counted from its first entry
    SharedArray<Sum<T>, kSlots> slots;  // products from the front, sums of rows from the back
    typename Scan::Storage scan;
  };

  struct Tile : TileOfList {
    int shift;  // of the products: entries from a multiple of kWidth on lie at multiples of it

    __device__ __forceinline__ static int slot_of_row(int row) { return kSlots - 1 - row; }
  };

  __device__ void operator()(SharedStorage& shared, const Arguments& arguments) const {
    const auto& a = arguments.a;
    ptx::griddepcontrol_wait();
    if (thread_index() == 0) shared.wrong[0] = 0;
    const TileOfList part(a, arguments.starts, block_index(), kTile);
    const Tile tile{part, static_cast<int>(part.first_entry % kWidth)};
    ptx::barrier_sync();
    if (tile.fits) {
      const int64_t last = tile.first_entry - tile.shift + kRounds * kThreads * kWidth;
      if (arguments.near && last <= a.entries) {
        multiply_at_once(arguments, tile, shared);
      } else {
        multiply_in_rounds(arguments, tile, shared);
      }
    }
    ptx::barrier_sync();
    const bool is_wrong = !tile.fits || shared.wrong[0] != 0;
    const Part rest = is_wrong ? Part{0, false} : add_up(tile, shared);
    ptx::barrier_sync();
    if (thread_index() == 0) {
      Sum<T> first = 0;
      if (rest.begins) first = shared.slots[Tile::slot_of_row(0)];
      arguments.parts.store(block_index(), rest.begins ? tile.first_row : -1, first, rest.sum);
    }
    if (is_wrong) return;
    for (int row = 1 + thread_index(); row < tile.rows; row += kThreads) {
      arguments.result.store(tile.first_row + row, shared.slots[Tile::slot_of_row(row)]);
    }
  }

 private:
  // What is wrong has been reported; here it only must be noticed.
  __device__ __forceinline__ static void load_ends(const Csr<T, I>& a, const Tile& tile,
                                                   SharedStorage& shared) {
    for (int row = thread_index(); row < tile.rows; row += kThreads) {
      const I* const crow = a.crow + tile.first_row + row;
      const int64_t before = row == 0 ? 0 : thread::load(crow) - tile.first_entry;
      const int64_t end = thread::load(crow + 1) - tile.first_entry;
      if (before > end || end > tile.entries) ptx::red_shared_add(shared.wrong.pointer(), 1);
      shared.ends[row] = static_cast<int>(end);
    }
  }

  // A thread's entries of the tile: kWidth side by side, kRounds times. Where entry e of these
  // lies, counted from the tile's first slot.
  static constexpr int kRounds = divide_up(kSlots, (kThreads * kWidth));
  __device__ __forceinline__ static int slot_of(int e) {
    return (e / kWidth * kThreads + thread_index()) * kWidth + e % kWidth;
  }
  __device__ __forceinline__ static bool is_known(const Tile& tile, int e) {
    return slot_of(e) >= tile.shift && slot_of(e) < tile.shift + tile.entries;
  }
  // Whether the thread has entries in a round.
  __device__ __forceinline__ static bool reaches(const Tile& tile, int round) {
    return slot_of(round * kWidth) < tile.shift + tile.entries;
  }

  // All of it is asked for before the first is used.
  __device__ __forceinline__ static void multiply_at_once(const Arguments& arguments,
                                                          const Tile& tile, SharedStorage& shared) {
    const auto& a = arguments.a;
    const int64_t start = tile.first_entry - tile.shift;
    constexpr int kMine = kRounds * kWidth;
    Vec<T, kMine> values;
    Vec<I, kMine> columns;
    bool known[kMine];
#pragma unroll
    for (int first = 0; first < kMine; first += kWidth) {
      const int64_t from = start + (reaches(tile, first / kWidth) ? slot_of(first) : 0);
      const auto of_round = thread::load<kWidth>(a.values + from);
      const auto at = thread::load<kWidth>(a.col + from);
#pragma unroll
      for (int e = 0; e < kWidth; ++e) {
        values[first + e] = of_round[e];
        columns[first + e] = at[e];
        known[first + e] = is_known(tile, first + e);
      }
    }
    load_ends(a, tile, shared);
    const auto products = a.columns.products_of_all(values, columns, known, arguments.x,
                                                    [&](int e) { return start + slot_of(e); });
#pragma unroll
    for (int first = 0; first < kMine; first += kWidth) {
      if (!reaches(tile, first / kWidth)) break;
      Vec<Sum<T>, kWidth> of_round;
#pragma unroll
      for (int e = 0; e < kWidth; ++e) of_round[e] = products[first + e];
      shared.slots.template store<kWidth>(slot_of(first), of_round);
    }
  }

  __device__ __forceinline__ static void multiply_in_rounds(const Arguments& arguments,
                                                            const Tile& tile,
                                                            SharedStorage& shared) {
    const auto& a = arguments.a;
    const int64_t start = tile.first_entry - tile.shift;
    load_ends(a, tile, shared);
    for (int round = 0; reaches(tile, round); ++round) {
      const int at = slot_of(round * kWidth);
      const int64_t first = start + at;
      bool known[kWidth];
#pragma unroll
      for (int e = 0; e < kWidth; ++e) known[e] = is_known(tile, round * kWidth + e);
      const bool at_once = arguments.vectors && first + kWidth <= a.entries;
      const auto values = load_known<kWidth>(a.values + first, 1, at_once, known);
      const auto columns = load_known<kWidth>(a.col + first, 1, at_once, known);
      const auto products =
          a.columns.products(values, columns, known, arguments.x, [&](int e) { return first + e; });
      shared.slots.template store<kWidth>(at, products);
    }
  }

  // Each thread walks kItems of the tile's list. Leaves the sums of the tile's rows in their slots;
  // gives what the tile has of the row that is open at its end.
  __device__ __forceinline__ static Part add_up(const Tile& tile, SharedStorage& shared) {
    const int items = tile.rows + tile.entries;
    const int begin = thread_index() * kItems < items ? thread_index() * kItems : items;
    int row = rows_before(begin, tile.rows, [&](int i) -> int { return shared.ends[i]; });
    const int first = row;
    int entry = begin - row;
    Sum<T> sum = 0;
#pragma unroll
    for (int item = 0; item < kItems; ++item) {
      if (begin + item >= items) break;
      const int end = row < tile.rows ? shared.ends[row] : items;
      if (end <= entry) {
        shared.slots[Tile::slot_of_row(row++)] = sum;
        sum = 0;
      } else {
        sum += shared.slots[tile.shift + entry++];
      }
    }
    const Part none{0, false};
    const Part up_to = warp::inclusive_scan(Part{sum, row > first}, Part::merge);
    Scan scan(shared.scan);
    const auto [before, total] = scan(warp::shuffle(up_to, kWarpSize - 1), none, Part::merge);
    const Part open = Part::merge(before, warp::shift_up(up_to, none));
    if (row > first) {
      const int slot = Tile::slot_of_row(first);
      const Sum<T> mine = shared.slots[slot];
      shared.slots[slot] = open.sum + mine;
    }
    return total;
  }
};

struct MergePath {
  static bool supports(const VectorCall& call, Why& why) {
    return is_dense(call, why) && why.unless(tiles_of(call) < int64_t{1} << 31,
                                             "takes fewer than 2^31 tiles, not ", tiles_of(call));
  }
  static Workspace workspace(const VectorCall& call) {
    return {.bytes = bytes_of_starts(tiles_of(call)) + bytes_of_parts(call.dtype, tiles_of(call))};
  }
  static void run(const VectorCall& call, const Context& context) {
    with_types(call, [&]<class T, class I>() {
      const int64_t tiles = tiles_of(call);
      auto* starts = static_cast<int64_t*>(context.workspace);
      const PartsOfTiles<Sum<T>> parts(starts + tiles + 1, tiles);
      const Result<T> result(call);
      const Csr<T, I> a(call, "spmv_csr/merge_path");
      find_starts(a, starts, tiles, kTile, context.stream);
      launch<TileKernel<T, I>>({.blocks = tiles, .threads = kTileThreads, .overlaps = true},
                               context.stream,
                               {a, vector_of<T>(call), result, starts, parts,
                                has_vectors<T, I>(call), has_vectors<T, I>(call) && is_near(call)});
      add_up_rows_of_tiles<T>(parts, result, call.rows, tiles, context.stream);
    });
  }

 private:
  template <class T, class I>
  static bool has_vectors(const VectorCall& call) {
    return begins_at_vector<T, 4>(call.values) && begins_at_vector<I, 4>(call.col);
  }
  static bool is_near(const VectorCall& call) {
    constexpr int64_t kMost = int64_t{1} << 31;
    return call.columns > 0 && call.columns < kMost && call.x_step >= 0 && call.x_step < kMost &&
           call.columns * call.x_step < kMost;
  }
};

constexpr Seed kSeeds[] = {{.name = "{}_balanced"}};

}  // namespace

extern const Rung kMergePath;
const Rung kMergePath = rung_of<MergePath, SpmvCsr>({
    .name = "merge_path",
    .from = "lanes_per_row",
    .idea = "rows and entries as one list, cut into tiles of one length",
    .seeds = kSeeds,
});

}  // namespace ws::spmv
