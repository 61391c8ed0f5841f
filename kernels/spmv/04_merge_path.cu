// Idea: rows and entries in one list, entries and the ends of rows, cut into tiles of one length,
//   whatever the rows are; what a tile has of a row that others share is left in the workspace, and
//   another launch adds those parts up in their order.
// From lanes_per_row: no block has more to do than another; values and columns come 16 bytes a
//   thread, products wait in shared memory; of its rows' lanes each tile decides for itself.
// Traffic: values, columns and rows' ends once; x as its columns ask for it; 24 to 32 bytes a tile.
// Limits: a matrix without gaps, fewer than 2^31 tiles of 2044. Merrill and Garland, "Merge-based
//   parallel sparse matrix-vector multiplication", 2016; of a tile's rows Greathouse and Daga,
//   "Efficient sparse matrix-vector multiplication on GPUs using the CSR storage format", 2014.
// Long: products in two ways, and how a tile's rows are added up.
#include "kernels/spmv/merge_path.hpp"
#include "kernels/spmv/rows_of_tiles.hpp"
#include "warpsmith/ptx/bits.hpp"
#include "warpsmith/ptx/grid.hpp"
#include "warpsmith/ptx/vote.hpp"
#include "warpsmith/warp/reduce.hpp"

namespace ws::spmv {
namespace {

constexpr int kTileThreads = 256;
constexpr int kWidth = 4;   // entries side by side of a thread
constexpr int kRounds = 2;  // as often
constexpr int kSlots = kRounds * kTileThreads * kWidth;
constexpr int kTile = kSlots - kWidth;  // a tile's entries begin anywhere in a vector

int64_t tiles_of(const VectorCall& call) { return tiles_of(call, kTile); }

template <class T, class I>
struct TileKernel {
  static constexpr int kThreads = kTileThreads;
  static constexpr int kMinBlocks = sizeof(T) == 8 || sizeof(I) == 8 ? 4 : 5;
  struct Arguments {
    Csr<T, I> a;
    Strided<const T> x;
    Result<T> result;
    const int64_t* starts;  // rows that have ended before a tile, and before the end
    PartsOfTiles<Sum<T>> parts;
    bool vectors;  // values and columns begin at multiples of a vector
    bool near;     // so they do, and x is within 2^31 elements
  };
  struct SharedStorage {
    // Where the tile's rows end, counted from its first entry, from ends[1] on; kWrong: not here.
    SharedArray<uint16_t, kTile + 1> ends;
    SharedArray<Sum<T>, kSlots> products;  // by place_of
  };
  static constexpr uint16_t kWrong = 0xFFFF;

  struct Tile : TileOfList {
    int shift;  // of the products: entries from a multiple of kWidth on lie at multiples of it
  };

  __device__ void operator()(SharedStorage& shared, const Arguments& arguments) const {
    const auto& a = arguments.a;
    ptx::griddepcontrol_wait();
    const TileOfList part(a, arguments.starts, block_index(), kTile);
    const Tile tile{part, static_cast<int>(part.first_entry) & (kWidth - 1)};
    if (!tile.fits) {
      if (thread_index() == 0) arguments.parts.store(block_index(), -1, 0, 0);
      return;
    }
    const auto ends = ends_from(a, tile, thread_index());
    const int64_t start = tile.first_entry - tile.shift;
    bool is_done = false;
    if (arguments.near && start + kSlots <= a.entries) {
      if (has_round(tile, kRounds - 1)) {
        is_done = multiply_at_once<kRounds>(arguments, start, shared);
      } else if (has_round(tile, 0)) {
        is_done = multiply_at_once<1>(arguments, start, shared);
      }
    }
    if (!is_done) multiply_by_checks(arguments, tile, start, shared);
    store_ends(tile, thread_index(), ends, shared);
#pragma unroll 1
    for (int row = thread_index() + kEnds * kThreads; row < tile.rows; row += kEnds * kThreads) {
      store_ends(tile, row, ends_from(a, tile, row), shared);
    }
    ptx::barrier_sync();
    add_up(arguments, tile, shared);
  }

 private:
  // Of rows so far apart, asked for at once; of one that is not there, the last one's.
  static constexpr int kEnds = 2;
  __device__ __forceinline__ static Vec<I, kEnds> ends_from(const Csr<T, I>& a, const Tile& tile,
                                                            int first) {
    Vec<I, kEnds> ends;
#pragma unroll
    for (int i = 0; i < kEnds; ++i) {
      const int row = first + i * kThreads;
      ends[i] = thread::load(a.crow + tile.first_row + (row < tile.rows ? row + 1 : tile.rows));
    }
    return ends;
  }
  // What is wrong has been reported; here it only must be noticed.
  __device__ __forceinline__ static void store_ends(const Tile& tile, int first,
                                                    const Vec<I, kEnds>& ends,
                                                    SharedStorage& shared) {
    if (first == 0) shared.ends[0] = 0;
#pragma unroll
    for (int i = 0; i < kEnds; ++i) {
      const int row = first + i * kThreads;
      if (row >= tile.rows) break;
      const auto end =
          static_cast<uint64_t>(int64_t{ends[i]}) - static_cast<uint64_t>(tile.first_entry);
      shared.ends[row + 1] =
          end <= static_cast<uint64_t>(tile.entries) ? static_cast<uint16_t>(end) : kWrong;
    }
  }

  // A thread's entries of a round, from the tile's first vector on.
  __device__ __forceinline__ static int slot_of(int round) {
    return (round * kThreads + thread_index()) * kWidth;
  }
  // Whether any lane of the warp has entries in it.
  __device__ __forceinline__ static bool has_round(const Tile& tile, int round) {
    const int first_of_warp = (round * kThreads + warp_index() * kWarpSize) * kWidth;
    return first_of_warp < tile.shift + tile.entries;
  }
  // Rows of 8, 16 or 32 would begin in the same banks: vectors are shuffled from 32 to 32.
  __device__ __forceinline__ static int place_of(int slot) { return slot ^ (slot >> 3 & 0x1C); }

  // All of it is asked for before the first is used. Also of neighbours' entries, which nobody adds
  // up; false where a column is wrong.
  template <int kCount>
  __device__ __forceinline__ static bool multiply_at_once(const Arguments& arguments, int64_t start,
                                                          SharedStorage& shared) {
    const auto& a = arguments.a;
    Vec<T, kCount * kWidth> values;
    Vec<I, kCount * kWidth> columns;
#pragma unroll
    for (int round = 0; round < kCount; ++round) {
      const int64_t from = start + slot_of(0);
      constexpr int kStep = kThreads * kWidth;
      const auto of_round = thread::load<kWidth, Cache::kPassing>(a.values + from + round * kStep);
      const auto at = thread::load<kWidth, Cache::kPassing>(a.col + from + round * kStep);
#pragma unroll
      for (int e = 0; e < kWidth; ++e) {
        values[round * kWidth + e] = of_round[e];
        columns[round * kWidth + e] = at[e];
      }
    }
    // No load moves over this: the compiler would ask for values behind elements of x, and so
    // behind the wait for columns.
    ptx::syncwarp();
    Vec<Sum<T>, kCount * kWidth> products;
    if (!a.columns.multiply_all(values, columns, arguments.x, products)) return false;
#pragma unroll
    for (int round = 0; round < kCount; ++round) {
      Vec<Sum<T>, kWidth> of_round;
#pragma unroll
      for (int e = 0; e < kWidth; ++e) of_round[e] = products[round * kWidth + e];
      shared.products.template store<kWidth>(place_of(slot_of(round)), of_round);
    }
    return true;
  }

  __device__ __forceinline__ static void multiply_by_checks(const Arguments& arguments,
                                                            const Tile& tile, int64_t start,
                                                            SharedStorage& shared) {
    const auto& a = arguments.a;
#pragma unroll 1
    for (int round = 0; round < kRounds; ++round) {
      const int slot = slot_of(round);
      if (slot >= tile.shift + tile.entries) break;
      const int64_t first = start + slot;
      bool known[kWidth];
#pragma unroll
      for (int e = 0; e < kWidth; ++e) {
        known[e] = slot + e >= tile.shift && slot + e < tile.shift + tile.entries;
      }
      const bool at_once = arguments.vectors && first + kWidth <= a.entries;
      const auto values = load_known<kWidth>(a.values + first, 1, at_once, known);
      const auto columns = load_known<kWidth>(a.col + first, 1, at_once, known);
      const auto products =
          a.columns.products(values, columns, known, arguments.x, [&](int e) { return first + e; });
      shared.products.template store<kWidth>(place_of(slot), products);
    }
  }

  // The tile's rows, and behind them what it has of the row that is open at its end, by as many
  // lanes each as there are for all of them at once. A row that is too long for these a whole warp
  // adds up.
  __device__ __forceinline__ static void add_up(const Arguments& arguments, const Tile& tile,
                                                SharedStorage& shared) {
    constexpr int kMostSteps = 32;
    const auto sum_of = [&](int first, int end, int step) {
      Sum<T> sum = 0;
#pragma unroll 4
      for (int slot = tile.shift + first; slot < tile.shift + end; slot += step) {
        sum += shared.products[place_of(slot)];
      }
      return sum;
    };
    // The most lanes with which all of them have some at once, from 32 for 8 rows on.
    constexpr int kNone = 24;  // leading zeros of kThreads - 1
    static_assert(kThreads == 1 << (32 - kNone));
    const int room = ptx::leading_zeros(static_cast<uint32_t>(tile.rows)) - kNone;
    const int log_lanes = room < 0 ? 0 : room < 5 ? room : 5;
    const int lanes = 1 << log_lanes;
    const int lane = thread_index() & (lanes - 1);
    for (int first = (warp_index() * kWarpSize) >> log_lanes; first <= tile.rows;
         first += kThreads >> log_lanes) {
      const int row = first + (lane_index() >> log_lanes);
      int begin = 0;
      int end = 0;
      if (row <= tile.rows) {
        begin = shared.ends[row];
        end = row < tile.rows ? static_cast<int>(shared.ends[row + 1]) : tile.entries;
      }
      const bool is_here = end != kWrong;
      if (!is_here) begin = end;
      const bool is_long = lanes < kWarpSize && end - begin > kMostSteps * lanes;
      Sum<T> sum = sum_of(begin + lane, is_long ? begin : end, lanes);
      for (uint32_t long_ones = ptx::vote_sync_ballot(kFullMask, is_long); long_ones != 0;) {
        const int leader = ptx::lowest_bit(long_ones);
        const int from = warp::shuffle(begin, leader);
        const int to = warp::shuffle(end, leader);
        const Sum<T> of_lane = sum_of(from + lane_index(), to, kWarpSize);
        const Sum<T> all = warp::all_reduce(of_lane, [](auto a, auto b) { return a + b; });
        if (lane_index() == leader) sum = all;
        long_ones &= ~(((1U << lanes) - 1) << leader);
      }
      for (int distance = lanes / 2; distance > 0; distance /= 2) {
        sum += warp::shuffle_xor(sum, distance);
      }
      if (lane != 0 || row > tile.rows) continue;
      if (row == tile.rows) arguments.parts.store_rest(block_index(), sum);
      if (row == 0) {
        const bool has_ended = row < tile.rows && is_here;
        arguments.parts.store_first(block_index(), has_ended ? tile.first_row : -1, sum);
      } else if (row < tile.rows && is_here) {
        arguments.result.store(tile.first_row + row, sum);
      }
    }
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
    constexpr int64_t kLargestElement = sizeof(double);
    return call.columns < kMost && call.x_step >= 0 && call.x_step < kMost / kLargestElement &&
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
