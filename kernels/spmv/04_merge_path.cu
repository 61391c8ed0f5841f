// Idea: rows and entries in one list, entries and the ends of rows, cut into tiles of one length,
//   whatever the rows are; what a tile has of a row that others share is left in the workspace, and
//   another launch adds those parts up in their order.
// From lanes_per_row: no block has more to do than another; values and columns come 16 bytes a
//   thread, products wait in shared memory; of its rows' lanes each tile decides for itself.
// Traffic: values, columns and rows' ends once; x as its columns ask for it; 24 to 32 bytes a tile.
// Limits: a matrix without gaps, fewer than 2^31 tiles of 2044. Merrill and Garland, "Merge-based
//   parallel sparse matrix-vector multiplication", 2016.
#include "kernels/spmv/merge_path.hpp"
#include "kernels/spmv/rows_of_tiles.hpp"
#include "kernels/spmv/tile_products.hpp"
#include "warpsmith/ptx/grid.hpp"

namespace ws::spmv {
namespace {

int64_t tiles_of(const VectorCall& call) { return tiles_of(call, kTileItems); }

template <class T, class I>
struct TileKernel {
  static constexpr int kThreads = kTileThreads;
  static constexpr int kMinBlocks = sizeof(T) == 8 || sizeof(I) == 8 ? 4 : 5;
  using Work = TileProducts<T, I>;
  struct Arguments {
    Csr<T, I> a;
    Strided<const T> x;
    Result<T> result;
    const int64_t* starts;  // rows that have ended before a tile, and before the end
    PartsOfTiles<Sum<T>> parts;
    bool has_vectors;
    bool is_near;
  };
  struct SharedStorage {
    typename Work::Ends ends;
    typename Work::Products products;
  };

  __device__ void operator()(SharedStorage& shared, const Arguments& arguments) const {
    const auto& a = arguments.a;
    ptx::griddepcontrol_wait();
    const TileOfList part(a, arguments.starts, block_index(), kTileItems);
    const Tile tile{part.first_entry, part.rows, part.entries};
    if (!part.fits) {
      if (thread_index() == 0) arguments.parts.store(block_index(), -1, 0, 0);
      return;
    }
    const Work work{a, arguments.x, arguments.has_vectors, arguments.is_near};
    const auto ends = ends_from(a, part, thread_index());
    typename Work::Entries entries;
    work.load(tile, entries);
    work.multiply(tile, entries, shared.products);
    store_ends(part, thread_index(), ends, shared.ends);
#pragma unroll 1
    for (int row = thread_index() + kEnds * kThreads; row < tile.rows; row += kEnds * kThreads) {
      store_ends(part, row, ends_from(a, part, row), shared.ends);
    }
    ptx::barrier_sync();
    Work::add_up(tile, shared.ends, shared.products, [&](int row, Sum<T> sum, bool is_right) {
      if (row == tile.rows) arguments.parts.store_rest(block_index(), sum);
      if (row == 0) {
        const bool has_ended = row < tile.rows && is_right;
        arguments.parts.store_first(block_index(), has_ended ? part.first_row : -1, sum);
      } else if (row < tile.rows && is_right) {
        arguments.result.store(part.first_row + row, sum);
      }
    });
  }

 private:
  // Of rows so far apart, asked for at once; of one that is not there, the last one's.
  static constexpr int kEnds = 2;
  __device__ __forceinline__ static Vec<I, kEnds> ends_from(const Csr<T, I>& a,
                                                            const TileOfList& tile, int first) {
    Vec<I, kEnds> ends;
#pragma unroll
    for (int i = 0; i < kEnds; ++i) {
      const int row = first + i * kThreads;
      ends[i] = thread::load(a.crow + tile.first_row + (row < tile.rows ? row + 1 : tile.rows));
    }
    return ends;
  }
  // What is wrong has been reported; here it only must be noticed.
  __device__ __forceinline__ static void store_ends(const TileOfList& tile, int first,
                                                    const Vec<I, kEnds>& ends,
                                                    typename Work::Ends& shared) {
    if (first == 0) shared[0] = 0;
#pragma unroll
    for (int i = 0; i < kEnds; ++i) {
      const int row = first + i * kThreads;
      if (row >= tile.rows) break;
      const auto end =
          static_cast<uint64_t>(int64_t{ends[i]}) - static_cast<uint64_t>(tile.first_entry);
      shared[row + 1] =
          end <= static_cast<uint64_t>(tile.entries) ? static_cast<uint16_t>(end) : Work::kWrong;
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
      find_starts(a, starts, tiles, kTileItems, context.stream);
      launch<TileKernel<T, I>>({.blocks = tiles, .threads = kTileThreads, .overlaps = true},
                               context.stream,
                               {a, vector_of<T>(call), result, starts, parts,
                                has_vectors<T, I>(call), has_vectors<T, I>(call) && is_near(call)});
      add_up_rows_of_tiles<T>(parts, result, call.rows, tiles, context.stream);
    });
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
