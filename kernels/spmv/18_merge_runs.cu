// Idea: one launch: a block has a run of tiles that follow each other. It searches once where the
//   run begins, and carries the row that is open from tile to tile; a tile's entries and the rows
//   of the one behind it are on their way while the tile before is added up; the block that ends
//   last adds up the rows that runs share, in their order.
// From merge_path: no launch before the tiles and none behind them; one barrier a tile.
// Traffic: that of merge_path; rows' ends once less, parts of 528 runs instead of 8700 tiles.
// Limits: a matrix without gaps; runs of fewer than 2^30 items.
// Long: a run's tiles, and how their rows are counted ahead.
#include "kernels/spmv/merge_path.hpp"
#include "kernels/spmv/rows_of_tiles.hpp"
#include "kernels/spmv/tile_products.hpp"
#include "warpsmith/ptx/flag.hpp"

namespace ws::spmv {
namespace {

// How many blocks of an SM; loads that are on their way take registers.
constexpr int blocks_of_sm(size_t value_bytes, size_t index_bytes) {
  return value_bytes + index_bytes == 16 ? 2 : value_bytes == 8 || index_bytes == 8 ? 3 : 4;
}

// What blocks leave: a counter, of those that have ended, and parts of rows.
struct Runs {
  static constexpr size_t kCounterBytes = 256;  // a piece that Python keeps zeroed
  int64_t blocks;
  int64_t items;  // of a run

  explicit Runs(const VectorCall& call) {
    const int64_t all = call.rows + call.entries;
    const int64_t most = int64_t{blocks_of_sm(size_of(call.dtype), size_of(call.index))} *
                         device_facts().multiprocessors;
    const int64_t tiles = divide_up(all, kTileItems);
    items = std::max<int64_t>(divide_up(all, std::clamp<int64_t>(tiles, 1, most)), 1);
    blocks = std::max<int64_t>(divide_up(all, items), 1);
  }
  Workspace workspace(DType dtype) const {
    return {.bytes = kCounterBytes + bytes_of_parts(dtype, blocks), .zeroed = kCounterBytes};
  }
};

template <class T, class I>
struct RunKernel {
  static constexpr int kThreads = kTileThreads;
  static constexpr int kMinBlocks = blocks_of_sm(sizeof(T), sizeof(I));
  static constexpr int kWarps = kThreads / kWarpSize;
  static constexpr int kEnds = 2;  // rows of a thread, asked for at once
  using Work = TileProducts<T, I>;
  using Scan = block::ScanOfWarps<Open<Sum<T>>, kThreads>;
  struct Arguments {
    Csr<T, I> a;
    Strided<const T> x;
    Result<T> result;
    uint32_t* ended;  // how many blocks; zero before and after
    PartsOfTiles<Sum<T>> parts;
    int64_t items;  // of a run
    bool has_vectors;
    bool is_near;
  };
  struct SharedStorage {
    // So many that one barrier a tile is enough: warps that are ahead multiply the next tile and
    // count the rows of the one behind it, while others still add up.
    typename Work::Ends ends[3];
    typename Work::Products products[2];
    SharedArray<int32_t, kWarps> counts[2];
    SharedArray<Sum<T>, 2> open;  // what is before a tile of the row that is open where it begins
    SharedArray<int64_t, 2> bounds;
    typename Scan::Storage scan;
    SharedArray<uint32_t, 1> order;
  };

  __device__ void operator()(SharedStorage& shared, const Arguments& arguments) const {
    const auto& a = arguments.a;
    const int64_t begin = block_index() * arguments.items;
    const int64_t left = a.rows + a.entries - begin;
    const auto items = static_cast<int>(left < arguments.items ? left : arguments.items);
    if (warp_index() < 2) {
      const int64_t rows = rows_before(a, warp_index() == 0 ? begin : begin + items);
      if (lane_index() == 0) shared.bounds[warp_index()] = rows;
    }
    if (thread_index() == 0) {
      shared.open[0] = 0;
      arguments.parts.store_first(block_index(), -1, 0);
      if (block_index() == 0 && a.rows > 0) a.entries_of(0);
    }
    const int64_t last_end = thread::load(a.crow + a.rows);
    ptx::barrier_sync();
    const int64_t first_row = shared.bounds[0];
    const auto run_rows = static_cast<int>(shared.bounds[1] - first_row);
    const int64_t first_entry = begin - first_row;
    const int64_t left_entries = (last_end < a.entries ? last_end : a.entries) - first_entry;
    const Run run{
        a,
        a.crow + first_row + 1,
        first_entry,
        items,
        run_rows,
        static_cast<int>(left_entries < 0 ? 0 : left_entries < items ? left_entries : items)};
    const Work work{a, arguments.x, arguments.has_vectors, arguments.is_near};

    // Of the first tile all that it may have is asked for, not behind its rows.
    typename Work::Entries entries;
    work.load({first_entry, 0, items < kTileItems ? items : kTileItems}, entries);
    Rows rows = run.ask(0);
    int row = 0;  // of those of the run, the tile's first
    Tile tile = run.tile(0, row, rows, shared.ends[0], shared.counts[1]);
    rows = run.ask(tile.rows);
    int turn = 0;
    int of_ends = 0;
#pragma unroll 1
    for (int at = kTileItems; at < items + kTileItems; at += kTileItems) {
      work.multiply(tile, entries, shared.products[turn]);
      const int of_next = of_ends == 2 ? 0 : of_ends + 1;
      const Tile next =
          run.tile(at, row + tile.rows, rows, shared.ends[of_next], shared.counts[turn]);
      work.load(next, entries);
      rows = run.ask(row + tile.rows + next.rows);
      Work::add_up(tile, shared.ends[of_ends], shared.products[turn],
                   [&](int of_tile, Sum<T> sum, bool is_right) {
                     if (of_tile == 0) sum += shared.open[turn];
                     const int64_t at = shared.bounds[0] + row + of_tile;
                     if (of_tile == tile.rows) {
                       shared.open[turn ^ 1] = sum;
                     } else if (!is_right) {
                       a.entries_of(at);  // which says so
                     } else if (row + of_tile == 0) {
                       arguments.parts.store_first(block_index(), at, sum);
                     } else {
                       arguments.result.store_relaxed(at, sum);
                     }
                   });
      row += tile.rows;
      tile = next;
      of_ends = of_next;
      turn ^= 1;
    }
    ptx::barrier_sync();
    // None, but of a matrix that is wrong.
    for (row += thread_index(); row < run_rows; row += kThreads) a.entries_of(first_row + row);
    if (thread_index() == 0) {
      arguments.parts.store_rest(block_index(), shared.open[turn]);
      ptx::fence_acq_rel<ptx::Scope::kGpu>();
      shared.order[0] = ptx::atom_global_add(arguments.ended, 1);
      ptx::fence_acq_rel<ptx::Scope::kGpu>();
    }
    ptx::barrier_sync();
    if (shared.order[0] + 1 != grid_blocks()) return;
    if (thread_index() == 0) ptx::st_relaxed<ptx::Scope::kGpu>(arguments.ended, 0);
    add_up_all_parts<T, kThreads>(shared.scan, arguments.parts, arguments.result,
                                  static_cast<int>(grid_blocks()));
  }

 private:
  // Where rows end that may do so in a tile.
  using Rows = Vec<I, kEnds>;

  struct Run {
    const Csr<T, I>& a;
    const I* ends;  // of its rows
    int64_t first_entry;
    int items;
    int rows;
    int entries;  // up to the last row's end

    // Of a thread's rows.
    __device__ __forceinline__ static int place(int done, int i) {
      return done + i * kThreads + thread_index();
    }
    __device__ __forceinline__ Rows ask(int first) const {
      Rows said{};
#pragma unroll
      for (int i = 0; i < kEnds; ++i) {
        if (place(first, i) < rows) said[i] = thread::load(ends + place(first, i));
      }
      return said;
    }

    // The tile from item `at` and row `row` on, of which the first rows are known: where they end
    // goes to `shared`. One barrier, or more where many rows end.
    __device__ __forceinline__ Tile tile(int at, int row, Rows said, typename Work::Ends& shared,
                                         SharedArray<int32_t, kWarps>& counts) const {
      Tile tile{first_entry + (at - row), 0, 0};
      const int left = items - at < kTileItems ? items - at : kTileItems;
      if (thread_index() == 0) shared[0] = 0;
#pragma unroll 1
      for (int done = 0;;) {
        const int mine = count(tile, left, row, done, said, shared);
        if (lane_index() == 0) counts[warp_index()] = mine;
        ptx::barrier_sync();
        const auto all = counts.template load<kWarps>(0);
#pragma unroll
        for (int w = 0; w < kWarps; ++w) tile.rows += all[w];
        done += kEnds * kThreads;
        if (tile.rows < done || done >= left) break;
        said = ask(row + done);
        ptx::barrier_sync();
      }
      const int before_end = entries - (at - row);
      const int most = left - tile.rows;
      tile.entries = before_end < 0 ? 0 : before_end < most ? before_end : most;
      return tile;
    }

    // How many of a warp's rows end in the tile. Of ends that are wrong each counts as the nearest
    // that may be, so that the run ends with its last row, or tells of it.
    __device__ __forceinline__ int count(const Tile& tile, int left, int row, int done, Rows said,
                                         typename Work::Ends& shared) const {
      int count = 0;
#pragma unroll
      for (int i = 0; i < kEnds; ++i) {
        const int at = place(done, i);
        const int64_t end = said[i] < a.entries ? said[i] : a.entries;
        const int64_t behind = end < tile.first_entry ? 0 : end - tile.first_entry;
        const bool is_there = at < left && row + at < rows;
        const bool ends_here = is_there && behind < left - at;
        if (is_there) {
          const bool is_right = ends_here && end == said[i] && end >= tile.first_entry;
          shared[at + 1] = is_right ? static_cast<uint16_t>(behind) : Work::kWrong;
        }
        count += ptx::count_bits(ptx::vote_sync_ballot(kFullMask, ends_here));
      }
      return count;
    }
  };
};

struct MergeRuns {
  static bool supports(const VectorCall& call, Why& why) {
    constexpr int64_t kMost = int64_t{1} << 30;
    return is_dense(call, why) && why.unless(Runs(call).items < kMost, "takes runs of fewer than ",
                                             kMost, " items, not ", Runs(call).items);
  }
  static Workspace workspace(const VectorCall& call) { return Runs(call).workspace(call.dtype); }
  static void run(const VectorCall& call, const Context& context) {
    with_types(call, [&]<class T, class I>() {
      const Runs runs(call);
      auto* const memory = static_cast<std::byte*>(context.workspace);
      const PartsOfTiles<Sum<T>> parts(memory + Runs::kCounterBytes, runs.blocks);
      const bool vectors = has_vectors<T, I>(call);
      launch<RunKernel<T, I>>({.blocks = runs.blocks, .threads = kTileThreads}, context.stream,
                              {Csr<T, I>(call, "spmv_csr/merge_runs"), vector_of<T>(call),
                               Result<T>(call), reinterpret_cast<uint32_t*>(memory), parts,
                               runs.items, vectors, vectors && is_near(call)});
    });
  }
};

}  // namespace

extern const Rung kMergeRuns;
const Rung kMergeRuns = rung_of<MergeRuns, SpmvCsr>({
    .name = "merge_runs",
    .from = "merge_path",
    .idea = "one launch: a block has a run of tiles, the last one adds up rows that runs share",
});

}  // namespace ws::spmv
