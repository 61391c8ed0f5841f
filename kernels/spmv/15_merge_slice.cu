// Idea: the list of entries and rows' ends, cut into tiles of one length, shared out among groups
//   of lanes: each walks as many items, whatever the rows are, with a slice of C's columns a group,
//   and asks for the rows of B of four entries before it adds up the first. What a group has of a
//   row that others share waits in shared memory, what a tile has of one in the workspace: both
//   are added up in their order.
// From row_slice: no warp has more to do than another; a narrow slice leaves no lanes idle.
// Traffic: values and columns once a slice; a row of B for each entry; C once; of each tile two
//   rows of sums, written and read.
// Limits: values, crow and col without gaps; a B of a row or more; 2^31 tiles of slices.
// Long: tiles, and the rows that they share.
#include "kernels/spmv/merge_path.hpp"
#include "warpsmith/ptx/atomic_shared.hpp"
#include "warpsmith/ptx/barrier.hpp"
#include "warpsmith/ptx/grid.hpp"
#include "warpsmith/shared.hpp"

namespace ws::spmv {
namespace {

constexpr int kTileThreads = 256;
constexpr int kTileItems = 1024;
constexpr int kLeastLanes = 4;  // of a group

// Of C's columns a lane has kWidth: a vector, or, where rows are not of these, four that are as far
// apart as the group is wide.
constexpr int kStridedWidth = 4;
template <class T, bool kVectors>
constexpr int kWidth = kVectors ? 16 / static_cast<int>(sizeof(T)) : kStridedWidth;

// How C's columns are shared out, and the tiles.
struct Shares {
  int width;  // of a lane
  int lanes;  // of a group: a power of two
  int64_t slices;
  int64_t tiles;

  explicit Shares(const MatrixCall& call)
      : width(has_vector_rows(call) ? 16 / static_cast<int>(size_of(call.dtype)) : kStridedWidth),
        lanes(kLeastLanes),
        tiles(tiles_of(call, kTileItems)) {
    while (lanes < kWarpSize && lanes * width < call.width) lanes *= 2;
    slices = divide_up(call.width, lanes * width);
  }
  int64_t sums() const { return slices * tiles * lanes * width; }
};

#if WS_DEVICE_CODE
// C, its width, and what tiles leave of the rows that they share with others.
template <class T>
struct Parts {
  Sum<T>* firsts;  // of each tile and slice the row that ends in it and begins before
  Sum<T>* rests;   // and the row that is open at its end
  int64_t* starts;
  int64_t* ended;  // the row of `firsts`; -1: none
  int64_t tiles;
  int lanes;
  int64_t width;
  T* c;
  int64_t c_row, c_column;

  Parts(const MatrixCall& call, const Shares& shares, void* workspace)
      : firsts(static_cast<Sum<T>*>(workspace)),
        rests(firsts + shares.sums()),
        starts(reinterpret_cast<int64_t*>(rests + shares.sums())),
        ended(starts + shares.tiles + 1),
        tiles(shares.tiles),
        lanes(shares.lanes),
        width(call.width),
        c(static_cast<T*>(call.c)),
        c_row(call.c_row),
        c_column(call.c_column) {}
};

// A lane of a group: its columns, sums of them, and where those are kept.
template <class T, bool kVectors>
struct Lane {
  static constexpr int kCount = kWidth<T, kVectors>;
  using Sums = Vec<Sum<T>, kCount>;
  const Parts<T>& parts;
  int64_t slice;
  int lane;

  // The e-th column of a lane, which of vectors is asked for e = 0 alone: the group's first, and so
  // many behind it.
  __device__ __forceinline__ int64_t first(int e) const {
    return (slice * kCount + (kVectors ? 0 : e)) * parts.lanes;
  }
  __device__ __forceinline__ int own() const { return kVectors ? lane * kCount : lane; }
  __device__ __forceinline__ int64_t column(int e) const { return first(e) + own(); }
  __device__ __forceinline__ bool has(int e) const { return column(e) < parts.width; }

  // In the place of a column that is none the group's first is read, so that no load is under a
  // condition of the lane; what no lane has is not read.
  __device__ __forceinline__ Vec<T, kCount> load(const T* row, int64_t step) const {
    if constexpr (kVectors) {
      return thread::load<kCount>(row + first(0) + (has(0) ? own() : 0));
    } else {
      Vec<T, kCount> elements{};
#pragma unroll
      for (int e = 0; e < kCount; ++e) {
        if (first(e) >= parts.width) break;
        elements[e] = thread::load(row + (first(e) + (has(e) ? own() : 0)) * step);
      }
      return elements;
    }
  }
  __device__ __forceinline__ void store(int64_t row, const Sums& sums) const {
    Vec<T, kCount> rounded;
#pragma unroll
    for (int e = 0; e < kCount; ++e) rounded[e] = narrow<T>(sums[e]);
    T* const c = parts.c + row * parts.c_row;
    if constexpr (kVectors) {
      if (has(0)) thread::store(c + column(0), rounded);
    } else {
#pragma unroll
      for (int e = 0; e < kCount; ++e) {
        if (has(e)) thread::store(c + column(e) * parts.c_column, rounded[e]);
      }
    }
  }

  // The lane's own of Parts::firsts and rests.
  __device__ __forceinline__ Sum<T>* of_tile(Sum<T>* sums, int64_t tile) const {
    return sums + ((slice * parts.tiles + tile) * parts.lanes + lane) * kCount;
  }
  __device__ __forceinline__ static void add(Sums& sums, const Sums& more) {
#pragma unroll
    for (int e = 0; e < kCount; ++e) sums[e] += more[e];
  }
};

// How many of a tile's rows end among the first `items` of its list; end_of(i): how many of its
// entries are before row i's end.
template <class EndOf>
__device__ __forceinline__ int rows_before(int items, int rows, EndOf&& end_of) {
  int row = 0;
  for (int high = rows; row < high;) {
    const int middle = (row + high) / 2;
    if (end_of(middle) + middle < items) {
      row = middle + 1;
    } else {
      high = middle;
    }
  }
  return row;
}

template <class T, class I, bool kVectors>
struct TileKernel {
  static constexpr int kThreads = kTileThreads;
  // Of vectors a load is 16 bytes, of strided columns four loads are an entry: more would spill.
  static constexpr int kMinBlocks = kVectors ? 4 : 3;
  static constexpr int kBatch = kVectors ? 4 : 2;
  static constexpr int kRounds = kTileItems / kThreads;
  static constexpr int kNever = 2 * kTileItems;
  using Mine = Lane<T, kVectors>;
  using Sums = typename Mine::Sums;
  struct Arguments {
    Csr<T, I> a;
    const T* b;
    int64_t b_row, b_column;
    Parts<T> parts;
  };
  struct SharedStorage {
    SharedArray<uint32_t, 1> wrong;
    // Of the tile's rows, counted from its first entry, behind where the first of them begins: -1
    // if before the tile.
    SharedArray<int, kTileItems + 1> ends;
    SharedArray<T, kTileItems> values;
    SharedArray<I, kTileItems> columns;  // -1: none
    // Of each thread what its group has of the row that is open where it begins, and of the one
    // that is open where it ends.
    SharedArray<Sum<T>, kThreads * Mine::kCount> firsts;
    SharedArray<Sum<T>, kThreads * Mine::kCount> rests;
  };

  __device__ void operator()(SharedStorage& shared, const Arguments& arguments) const {
    const auto& [a, b, b_row, b_column, parts] = arguments;
    ptx::griddepcontrol_wait();
    const int64_t index = block_index() % parts.tiles;
    const Mine mine{parts, block_index() / parts.tiles, thread_index() % parts.lanes};
    if (thread_index() == 0) shared.wrong[0] = 0;
    const TileOfList tile(a, parts.starts, index, kTileItems);
    ptx::barrier_sync();
    if (tile.fits) {
      load_ends(a, tile, shared);
      load_entries(a, tile, shared);
    }
    ptx::barrier_sync();
    if (!tile.fits || shared.wrong[0] != 0) {
      if (thread_index() < parts.lanes) thread::store(mine.of_tile(parts.rests, index), Sums{});
      if (thread_index() == 0 && mine.slice == 0) thread::store(parts.ended + index, -1);
      return;
    }
    walk(arguments, mine, index, tile, shared);
    const int start = shared.ends[0];
    if (thread_index() == 0 && mine.slice == 0) {
      thread::store(parts.ended + index, start < 0 && tile.rows > 0 ? tile.first_row : -1);
    }
  }

 private:
  // What is wrong has been reported; here it only must be noticed.
  __device__ __forceinline__ static void load_ends(const Csr<T, I>& a, const TileOfList& tile,
                                                   SharedStorage& shared) {
    for (int i = thread_index(); i <= tile.rows; i += kThreads) {
      const I* const crow = a.crow + tile.first_row + i;
      const int64_t end = thread::load(crow) - tile.first_entry;
      const int64_t before = i == 0 ? -1 : thread::load(crow - 1) - tile.first_entry;
      const bool is_wrong = i == 0 ? end > 0 : end < 0 || end > tile.entries || before > end;
      if (is_wrong) ptx::red_shared_add(shared.wrong.pointer(), 1);
      shared.ends[i] = end < 0 ? -1 : static_cast<int>(end);
    }
  }

  __device__ __forceinline__ static void load_entries(const Csr<T, I>& a, const TileOfList& tile,
                                                      SharedStorage& shared) {
    Vec<T, kRounds> values;
    Vec<I, kRounds> columns;
    bool known[kRounds];
    const auto place = [](int e) { return thread_index() + e * kThreads; };
#pragma unroll
    for (int e = 0; e < kRounds; ++e) {
      known[e] = place(e) < tile.entries;
      if (!known[e]) continue;
      values[e] = thread::load(a.values + tile.first_entry + place(e));
      columns[e] = thread::load(a.col + tile.first_entry + place(e));
    }
    const auto found = a.columns.find(columns, known);
#pragma unroll
    for (int e = 0; e < kRounds; ++e) {
      if (!known[e]) continue;
      shared.values[place(e)] = values[e];
      shared.columns[place(e)] = found.good[e] ? columns[e] : I{-1};
    }
    a.columns.report(found, [&](int e) { return tile.first_entry + place(e); });
  }

  // A group's items: rows that end among them are stored, but for the first if it is open where
  // they begin.
  __device__ __forceinline__ static void walk(const Arguments& arguments, const Mine& mine,
                                              int64_t index, const TileOfList& tile,
                                              SharedStorage& shared) {
    const auto& [a, b, b_row, b_column, parts] = arguments;
    const int groups = kThreads / parts.lanes;
    const int group = thread_index() / parts.lanes;
    const int share = kTileItems / groups;
    const int all = tile.rows + tile.entries;
    const int begin = group * share < all ? group * share : all;
    const int end = begin + share < all ? begin + share : all;
    const auto end_of = [&](int i) -> int { return shared.ends[i + 1]; };
    const int first_row = rows_before(begin, tile.rows, end_of);
    const int last_row = rows_before(end, tile.rows, end_of);
    const int last_entry = end - last_row;
    const int start = shared.ends[first_row];
    bool is_open = begin - first_row > start;
    bool has_first = false;
    const int slot = thread_index() * Mine::kCount;
    Sums sums{};
    int row = first_row;
    int next = kNever;
    if (row < last_row) next = shared.ends[row + 1];
    const auto end_row = [&] {
      if (is_open) {
        shared.firsts.template store<Mine::kCount>(slot, sums);
        has_first = true;
        is_open = false;
      } else {
        mine.store(tile.first_row + row, sums);
      }
      sums = Sums{};
      ++row;
      next = kNever;
      if (row < last_row) next = shared.ends[row + 1];
    };
#pragma unroll 1
    for (int entry = begin - first_row; entry < last_entry; entry += kBatch) {
      Sum<T> factors[kBatch];
      bool good[kBatch];
      Vec<T, Mine::kCount> elements[kBatch];
#pragma unroll
      for (int e = 0; e < kBatch; ++e) {
        const int at = entry + e < last_entry ? entry + e : entry;
        const I column = shared.columns[at];
        const T value = shared.values[at];
        factors[e] = widen(value);
        good[e] = column >= 0 && entry + e < last_entry;
        elements[e] = mine.load(b + (column >= 0 ? column : I{0}) * b_row, b_column);
      }
#pragma unroll
      for (int e = 0; e < kBatch; ++e) {
#pragma unroll 1
        while (next <= entry + e) end_row();
        if (!good[e]) continue;
#pragma unroll
        for (int n = 0; n < Mine::kCount; ++n) sums[n] += factors[e] * widen(elements[e][n]);
      }
    }
    while (row < last_row) end_row();
    shared.rests.template store<Mine::kCount>(slot, sums);
    ptx::barrier_sync();

    // What groups have left of a row that begins at a place of the tile.
    const auto before = [&](int place, int end_group) {
      Sums all{};
      for (int other = place > 0 ? place / share : 0; other < end_group; ++other) {
        const int at = (other * parts.lanes + mine.lane) * Mine::kCount;
        Mine::add(all, shared.rests.template load<Mine::kCount>(at));
      }
      return all;
    };
    if (has_first) {
      Sums all = before(start + first_row, group);
      Mine::add(all, shared.firsts.template load<Mine::kCount>(slot));
      if (start < 0) {
        thread::store(mine.of_tile(parts.firsts, index), all);
      } else {
        mine.store(tile.first_row + first_row, all);
      }
    }
    if (group == groups - 1) {
      const int open = shared.ends[tile.rows];
      thread::store(mine.of_tile(parts.rests, index), before(open + tile.rows, groups));
    }
  }
};

// A block for so many tiles, a group for each. A row from before these all groups add up together:
// there is only one.
template <class T, class I, bool kVectors>
struct SharedRowsKernel {
  static constexpr int kGroups = 32;
  static constexpr int kThreads = kGroups * kWarpSize;
  using Mine = Lane<T, kVectors>;
  using Sums = typename Mine::Sums;
  struct Arguments {
    const I* crow;
    int64_t rows;
    Parts<T> parts;
    int64_t blocks;  // of a slice
  };
  struct SharedStorage {
    SharedArray<Sum<T>, kThreads * Mine::kCount> before;
  };

  __device__ void operator()(SharedStorage& shared, const Arguments& arguments) const {
    const auto& [crow, rows, parts, blocks] = arguments;
    ptx::griddepcontrol_wait();
    const Mine mine{parts, block_index() / blocks, thread_index() % parts.lanes};
    const int group = thread_index() / parts.lanes;
    const int64_t first = block_index() % blocks * kGroups;
    const int64_t tile = first + group;
    const int64_t row = tile < parts.tiles ? thread::load(parts.ended + tile) : -1;
    const int64_t open = thread::load(parts.starts + first);
    Sums sums{};
    if (open < rows && (open + thread::load(crow + open + 1)) / kTileItems < first + kGroups) {
#pragma unroll 4
      for (int64_t other = tile_of(crow, open, first) + group; other < first; other += kGroups) {
        Mine::add(sums, thread::load<Mine::kCount>(mine.of_tile(parts.rests, other)));
      }
    }
    shared.before.template store<Mine::kCount>(thread_index() * Mine::kCount, sums);
    ptx::barrier_sync();
    if (row < 0) return;
    Sums all{};
    int64_t other = tile_of(crow, row, tile);
    if (other < first) {
      for (int i = 0; i < kGroups; ++i) {
        const int at = (i * parts.lanes + mine.lane) * Mine::kCount;
        Mine::add(all, shared.before.template load<Mine::kCount>(at));
      }
      other = first;
    }
    for (; other < tile; ++other) {
      Mine::add(all, thread::load<Mine::kCount>(mine.of_tile(parts.rests, other)));
    }
    Mine::add(all, thread::load<Mine::kCount>(mine.of_tile(parts.firsts, tile)));
    mine.store(row, all);
  }

 private:
  // Where a row begins, which is at most `last`; also of rows that are wrong.
  __device__ __forceinline__ static int64_t tile_of(const I* crow, int64_t row, int64_t last) {
    const int64_t place = row + thread::load(crow + row);
    const int64_t tile = place < 0 ? 0 : place / kTileItems;
    return tile < last ? tile : last;
  }
};
#endif

struct MergeSlice {
  static bool supports(const MatrixCall& call, Why& why) {
    constexpr int64_t kMost = int64_t{1} << 31;
    const Shares shares(call);
    return is_dense(call, why) && why.unless(call.columns > 0, "takes a B of a row or more") &&
           why.unless(shares.slices == 0 || shares.tiles < kMost / shares.slices,
                      "takes fewer than ", kMost, " tiles, not ", shares.tiles, " of ",
                      shares.slices, " slices");
  }
  static Workspace workspace(const MatrixCall& call) {
    const Shares shares(call);
    return {.bytes = 2 * static_cast<size_t>(shares.sums()) * size_of_sum(call.dtype) +
                     bytes_of_starts(2 * shares.tiles)};
  }
  static void run(const MatrixCall& call, const Context& context) {
    with_types(call, [&]<class T, class I>() {
      if (has_vector_rows(call)) {
        run_as<T, I, true>(call, context);
      } else {
        run_as<T, I, false>(call, context);
      }
    });
  }

 private:
  template <class T, class I, bool kVectors>
  static void run_as(const MatrixCall& call, const Context& context) {
    using Rows = SharedRowsKernel<T, I, kVectors>;
    const Shares shares(call);
    const Parts<T> parts(call, shares, context.workspace);
    const Csr<T, I> a(call, "spmm_csr/merge_slice");
    find_starts(a, parts.starts, shares.tiles, kTileItems, context.stream);
    launch<TileKernel<T, I, kVectors>>(
        {.blocks = shares.tiles * shares.slices, .threads = kTileThreads, .overlaps = true},
        context.stream, {a, static_cast<const T*>(call.b), call.b_row, call.b_column, parts});
    const int64_t blocks = divide_up(shares.tiles, Rows::kGroups);
    launch<Rows>({.blocks = blocks * shares.slices,
                  .threads = Rows::kGroups * shares.lanes,
                  .overlaps = true},
                 context.stream, {a.crow, a.rows, parts, blocks});
  }
};

}  // namespace

extern const Rung kMergeSlice;
const Rung kMergeSlice = rung_of<MergeSlice, SpmmCsr>({
    .name = "merge_slice",
    .from = "row_slice",
    .idea = "spmm by the merge path: groups of lanes walk as many entries and ends of rows each",
});

}  // namespace ws::spmv
