// Idea: all but keys and values stays in registers. A warp owns queries: their scores are
//   accumulators of mma.sync, are weighed where they lie, and are at once the left operand of the
//   product with the values, in the same lanes.
// From any: tensor cores; keys and values come through shared memory, a tile for all warps of a
//   block, the next asked for (cp.async) before this one is used; only tiles that hold the edge of
//   what is seen compare keys with it; the scale is folded into the exponential's base.
// Traffic: a tile of queries reads the keys and values that it sees once: from L2, since heads run
//   in sections that fit (QueryTiles). Shared memory is swizzled: ldmatrix meets no bank conflict.
// Limits: mma.sync reaches 63 % of Hopper's tensor rate. D and Dv up to 256; rows of q, k and v
//   that begin at multiples of 16 bytes, dense columns. One query costs as much as 16.
#pragma once

#include "kernels/attention/careful_products.hpp"
#include "kernels/attention/mma_products.hpp"
#include "kernels/attention/row_tile.hpp"
#include "warpsmith/launch.hpp"

namespace ws::attention {

// What can be chosen.
struct MmaFlashShape {
  int dim;                   // D and Dv up to this, a multiple of 16
  int warps;                 // of a block
  int row_blocks;            // of 16 queries, of a warp
  int keys;                  // of a tile
  int blocks;                // that share an SM
  bool holds_query = false;  // in registers, from the first tile on; else it is read with each
  bool lazy = false;         // sums are scaled where a maximum has grown much, not with each tile
};

template <MmaFlashShape kShape>
struct MmaFlashPolicy {
  static constexpr int kDim = kShape.dim;
  static constexpr int kThreads = kShape.warps * kWarpSize;
  static constexpr int kMinBlocks = kShape.blocks;
  static constexpr int kRowBlocks = kShape.row_blocks;
  static constexpr int kWarpRows = kRowBlocks * 16;
  static constexpr int kQueries = kShape.warps * kWarpRows;
  static constexpr int kKeys = kShape.keys;
  static constexpr bool kHoldsQuery = kShape.holds_query;
  static constexpr bool kLazy = kShape.lazy;
};

// kPlain: scores are scaled, by a number above 0, and nothing else; keys lie in no pages.
// Long: copies, two products and the write of the rows share the tiles.
template <class T, class Policy, bool kPlain, template <class, int> class ProductsOf = MmaProducts>
struct MmaFlashKernel : Policy {
  using Policy::kDim, Policy::kThreads, Policy::kRowBlocks, Policy::kWarpRows, Policy::kQueries,
      Policy::kKeys, Policy::kHoldsQuery, Policy::kLazy;
  using QueryRows = RowTile<T, kQueries, kDim, kThreads>;
  using Keys = RowTile<T, kKeys, kDim, kThreads>;
  using Scores = MmaScores<kRowBlocks, kKeys>;
  using Softmax = OnlineRows<kRowBlocks, kLazy>;
  using Products = ProductsOf<T, kRowBlocks>;
  using Gathered = typename Products::template Sums<kDim>;
  using Careful = CarefulProducts<Products, kThreads>;
  using QuerySteps = typename Products::Left[kHoldsQuery ? kDim / Products::kStep : 1];

  struct Arguments {
    VarlenCall call;  // of a dense call: what it has
    Sequences sequences;
    QueryTiles tiles;
    bool out_aligned;  // 16 bytes of a row at a time
  };
  struct SharedStorage {
    SharedArray<T, QueryRows::kElements, 128> queries;  // then what they gathered
    SharedArray<T, 2 * Keys::kElements, 128> keys;
    SharedArray<T, 2 * Keys::kElements, 128> values;
    // What is seldom asked for: registers are dear.
    SharedArray<QueryTile, 1> tile;
    SharedArray<SeenTogether, kThreads / kWarpSize> seen;  // by a warp
    typename Careful::Storage careful;
  };

  __device__ void operator()(SharedStorage& shared, const Arguments& a) const {
    a.sequences.report(block_index() * kThreads + thread_index(), grid_blocks() * kThreads);
    const QueryTile tile = a.tiles.at(block_index(), a.sequences);
    if (tile.row >= tile.queries) return;
    if (thread_index() == 0) shared.tile[0] = tile;
    const int first_row = tile.row + warp_index() * kWarpRows;
    const int last_row = min_of(first_row + kWarpRows, tile.queries) - 1;
    if (lane_index() == 0) {
      shared.seen[warp_index()] = first_row <= last_row
                                      ? seen_of(a.call, tile).together(first_row, last_row)
                                      : SeenTogether{};
    }
    ptx::barrier_sync();
    Careful::run(shared.careful, [&]<class By>() {
      // What follows from a tile that is read again is not kept from one walk to the other.
      return attend<By>(shared, a, Careful::template kIsFirst<By> ? tile : shared.tile[0]);
    });
  }

  static void run(const VarlenCall& call, const Sequences& sequences, bool out_aligned,
                  Stream stream) {
    const QueryTiles tiles(call, sequences, kQueries);
    launch<MmaFlashKernel>({.blocks = tiles.count(), .threads = kThreads}, stream,
                           {call, sequences, tiles, out_aligned});
  }

 private:
  // Whether all that this thread has gathered is finite, where somebody asks.
  template <class By>
  __device__ __forceinline__ static bool attend(SharedStorage& shared, const Arguments& a,
                                                const QueryTile& tile) {
    const Call& call = a.call;
    const SeenTogether seen =
        seen_of(call, tile).together(tile.row, min_of(tile.row + kQueries, tile.queries) - 1);
    const int first = seen.first / kKeys * kKeys;
    const int warp_row = warp_index() * kWarpRows;

    const auto stage = [](auto& array, int at) -> SharedSpan<T> {
      return {array.pointer(at % 2 * Keys::kElements), Keys::kElements};
    };
    // A sum of all, so that no address of a stage is kept from tile to tile.
    const auto in_stage = [](int offset, int at) { return at % 2 * Keys::kElements + offset; };
    const int keys_offset = By::template keys_offset<Keys>();
    const int values_offset = By::template values_offset<Keys>();
    StridedRows<T> next_keys = keys_of(call.k, call, tile, first);
    StridedRows<T> next_values = keys_of(call.v, call, tile, first);
    const auto copy = [&](int i, int key) {
      const QueryTile tile = shared.tile[0];
      const int rows = tile.keys - key;
      const int dim = static_cast<int>(call.head_dim);
      const int value_dim = static_cast<int>(call.value_dim);
      if (!kPlain && a.sequences.pages != nullptr) {
        using Rows = PagedRows<T>;
        const int head = kv_head(call, tile);
        Keys::copy(stage(shared.keys, i), Rows::of_keys(call.k, tile.batch, head, a.sequences), key,
                   rows, dim);
        Keys::copy(stage(shared.values, i), Rows::of_keys(call.v, tile.batch, head, a.sequences),
                   key, rows, value_dim);
      } else {
        Keys::copy(stage(shared.keys, i), next_keys, call.k.as<const T>(), rows, dim);
        Keys::copy(stage(shared.values, i), next_values, call.v.as<const T>(), rows, value_dim);
      }
      ptx::cp_async_commit_group();
    };

    Gathered gathered = {};
    Softmax softmax(kPlain ? call.scale * thread::kLog2E : thread::kLog2E);
    QuerySteps query;
    if (first < seen.end) {
      StridedRows<T> rows = QueryRows::strided(row_of<const T>(call.q, tile, 0), call.q.row);
      QueryRows::copy(shared.queries.span(), rows, call.q.as<const T>(), tile.queries - tile.row,
                      static_cast<int>(call.head_dim));
      copy(0, first);
    }
    for (int i = 0, key = first; key < seen.end; ++i, key += kKeys) {
      ptx::cp_async_wait_group<0>();
      ptx::barrier_sync();  // this tile is there for all, and nobody reads the one before it
      if (key + kKeys < seen.end) copy(i + 1, key + kKeys);
      if constexpr (kHoldsQuery) {
        if (i == 0) load_query(query, shared.queries.span(), warp_row);
      }
      const SeenTogether by_warp = shared.seen[warp_index()];
      if (key >= by_warp.end || key + kKeys <= by_warp.first) continue;
      Scores scores = {};
      multiply<By>(scores, query, shared.queries.span(), warp_row, shared.keys.span(),
                   in_stage(keys_offset, i));
      if constexpr (!kPlain) {
        change(scores, call, shared.tile[0], warp_row, key + Scores::first_key());
      }
      if (key < by_warp.whole_first || key + kKeys > by_warp.whole_end) {
        const QueryTile tile = shared.tile[0];
        scores.hide(seen_of(call, tile), tile.row + warp_row, key);
      }
      float rescale[Softmax::kRows];
      if (softmax.weigh(scores, rescale)) Products::scale(gathered, rescale);
      By::template gather<Keys>(gathered, scores, shared.values.span(), in_stage(values_offset, i));
    }
    write(shared.queries.span(), a, shared.tile[0], gathered, softmax, warp_row);
    return Careful::are_finite(gathered);
  }

  // In 32 bits, which divide in a third of the time.
  __device__ __forceinline__ static int kv_head(const Call& call, const QueryTile& tile) {
    return tile.head / (static_cast<int>(call.heads) / static_cast<int>(call.kv_heads));
  }
  __device__ __forceinline__ static int min_of(int a, int b) { return a < b ? a : b; }
  __device__ __forceinline__ static Seen<int> seen_of(const Call& call, const QueryTile& tile) {
    return {tile.keys - tile.queries, tile.keys, static_cast<int>(call.window.left),
            static_cast<int>(call.window.right)};
  }
  // Keys or values from `first` on, which lie in no pages.
  __device__ __forceinline__ static StridedRows<T> keys_of(const Heads& heads, const Call& call,
                                                           const QueryTile& tile, int first) {
    return Keys::strided(heads.as<const T>() + tile.batch * heads.batch +
                             kv_head(call, tile) * heads.head +
                             (int64_t{tile.first_key} + first) * heads.row,
                         heads.row);
  }
  // Row `row` of the tile.
  template <class U>
  __device__ __forceinline__ static U* row_of(const Heads& heads, const QueryTile& tile,
                                              int64_t row) {
    return heads.as<U>() + tile.batch * heads.batch + tile.head * heads.head +
           (tile.first_query + tile.row + row) * heads.row;
  }

  __device__ __forceinline__ static void load_query(QuerySteps& query, SharedSpan<T> queries,
                                                    int warp_row) {
    const int offset = QueryRows::template lane_offset<QueryRows::Order::kDown>(warp_row);
#pragma unroll
    for (int k = 0; k < kDim; k += Products::kStep) {
      Products::template load<QueryRows>(query[k / Products::kStep], queries, offset, k);
    }
  }

  // The scores of a tile of keys.
  template <class By>
  __device__ __forceinline__ static void multiply(Scores& scores, QuerySteps& query,
                                                  SharedSpan<T> queries, int warp_row,
                                                  SharedSpan<T> keys, int offset) {
    const int from = QueryRows::template lane_offset<QueryRows::Order::kDown>(warp_row);
    By::template add_scores<Keys, kDim>(
        scores,
        [&](int k) -> const auto& {
          if constexpr (!kHoldsQuery) {
            Products::template load<QueryRows>(query[0], queries, from, k);
          }
          return query[kHoldsQuery ? k / Products::kStep : 0];
        },
        keys, offset);
  }

  // All that an operation can do to scores but hiding what lies outside. `from` is the lane's first
  // key.
  __device__ __forceinline__ static void change(Scores& scores, const Call& call, QueryTile tile,
                                                int warp_row, int from) {
    scores.change([&](int, int, float score) { return score * call.scale; });
    if (call.softcap > 0) scores.cap(call.softcap);
    if (call.slopes.exists) {
      const float slope = thread::load(call.slopes.data + tile.batch * call.slopes.batch +
                                       tile.head * call.slopes.head);
      scores.change([&](int i, int key, float score) {
        const int over = tile.row + warp_row + Scores::row(i) + tile.keys - tile.queries - from;
        return score - slope * fabsf(static_cast<float>(over - key));
      });
    }
    if (!call.bias.exists) return;
    if (call.bias.dtype == DType::kBool) {
      add_bias<bool>(scores, call, tile, warp_row, from);
    } else if (call.bias.dtype == DType::kF32) {
      add_bias<float>(scores, call, tile, warp_row, from);
    } else {
      add_bias<T>(scores, call, tile, warp_row, from);
    }
  }
  template <class B>
  __device__ __forceinline__ static void add_bias(Scores& scores, const Call& call, QueryTile tile,
                                                  int warp_row, int from) {
    const Heads& heads = call.bias.at;
    const B* const bias = heads.as<const B>() + tile.batch * heads.batch + tile.head * heads.head;
    const int last = tile.queries - 1;
    scores.change([&](int i, int in_tile, float score) {
      const int row = min_of(tile.row + warp_row + Scores::row(i), last);
      const int key = from + in_tile;
      if (key >= tile.keys) return score;
      const B add = thread::load(bias + row * heads.row + key * heads.column);
      if constexpr (std::is_same_v<B, bool>) {
        return add ? score : -thread::kInfinity;
      } else {
        return score + to_float(add);
      }
    });
  }

  // The warp's rows, through shared memory: lanes write 16 bytes of a row that lie together.
  __device__ __forceinline__ static void write(SharedSpan<T> staged, const Arguments& a,
                                               QueryTile tile, const Gathered& gathered,
                                               const Softmax& softmax, int warp_row) {
    const Call& call = a.call;
    const int rows = tile.queries - tile.row - warp_row;
    if (rows <= 0) return;
    const float sink = call.sinks.exists
                           ? thread::load(call.sinks.data + tile.head * call.sinks.head)
                           : -thread::kInfinity;
    ptx::syncwarp();  // all lanes have read their queries
#pragma unroll
    for (int i = 0; i < Softmax::kRows; ++i) {
      const int row = Scores::row(i);
      float factor = 0;
      float lse = 0;
      softmax.finish(i, sink, factor, lse);
      if (lane_index() % 4 == 0 && row < rows) {
        thread::store(row_of<float>(call.lse, tile, warp_row + row), lse);
      }
      Products::template stage<QueryRows>(staged, warp_row, i, gathered, factor);
    }
    ptx::syncwarp();
    QueryRows::template write<kWarpRows>(
        staged, warp_row, [&](int i) { return row_of<T>(call.out, tile, warp_row + i); },
        call.out.column, rows, static_cast<int>(call.value_dim), a.out_aligned);
  }
};

// Takes nearly every call of 16-bit elements.
struct MmaFlash {
  static bool supports(const Attention::Call& call, Why& why);
  static bool supports(const AttentionVarlen::Call& call, Why& why);
  static void run(const Attention::Call& call, const Context& context);
  static void run(const AttentionVarlen::Call& call, const Context& context);
};

}  // namespace ws::attention
