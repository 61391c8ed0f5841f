#include "kernels/attention/28_backward_mma.cuh"

#include "kernels/attention/plain.hpp"

namespace ws::attention {
namespace {

// Counted, not measured. Two blocks an SM, so that one multiplies while the other waits at its
// barrier: 255 registers a lane, and up to 100 KB, which every GPU has. A warp that owns 32 rows
// reads half of what one of 16 does for its products; of keys at D = 128 their sums alone would be
// all registers. There 64 queries at a time spill 36 bytes, addresses that are read once a tile of
// 256 products; 32 spill none, and read 320 bytes a product instead of 288.
struct Shapes64 {
  static constexpr BackwardMmaShape kOfKeys{
      .dim = 64, .warps = 4, .row_blocks = 2, .tile = 64, .step = 32, .blocks = 2};
  static constexpr BackwardMmaShape kOfQueries{
      .dim = 64, .warps = 4, .row_blocks = 2, .tile = 64, .step = 64, .blocks = 2};
};
struct Shapes128 {
  static constexpr BackwardMmaShape kOfKeys{
      .dim = 128, .warps = 4, .row_blocks = 1, .tile = 64, .step = 64, .blocks = 2};
  static constexpr BackwardMmaShape kOfQueries{
      .dim = 128, .warps = 4, .row_blocks = 2, .tile = 32, .step = 32, .blocks = 2};
};

struct BackwardMma {
  static bool supports(const BackwardCall& call, Why& why) {
    constexpr int kMost = Shapes128::kOfKeys.dim;
    return has_bare_scores(call, why) &&
           why.unless(call.dscores.data == nullptr, "gives no dscores") &&
           why.unless(call.head_dim <= kMost && call.value_dim <= kMost, "takes D and Dv up to ",
                      kMost) &&
           why.unless(call.queries < kMostSeen && call.keys < kMostSeen, "takes up to 2^29 rows") &&
           rows_begin_well("q", call, call.q, call.heads, call.queries, call.head_dim, why) &&
           rows_begin_well("k", call, call.k, call.kv_heads, call.keys, call.head_dim, why) &&
           rows_begin_well("v", call, call.v, call.kv_heads, call.keys, call.value_dim, why) &&
           rows_begin_well("dout", call, call.dout, call.heads, call.queries, call.value_dim, why);
  }

  static Workspace workspace(const BackwardCall& call) {
    return {.bytes = 2 * sizeof(float) * static_cast<size_t>(QueryFacts::count(call))};
  }

  static void run(const BackwardCall& call, const Context& context) {
    with_type<kHalves>(call.dtype, [&]<class T>() {
      const QueryFacts facts = QueryFacts::in(call, context.workspace);
      using Facts = BackwardFactsKernel<T>;
      if (QueryFacts::count(call) > 0) {
        launch<Facts>({.blocks = QueryFacts::count(call) / (Facts::kThreads / kWarpSize),
                       .threads = Facts::kThreads},
                      context.stream,
                      {call, AnyRows::of<T>(call.dout), AnyRows::of<T>(call.out), facts});
      }
      if (call.head_dim <= Shapes64::kOfKeys.dim && call.value_dim <= Shapes64::kOfKeys.dim) {
        run<T, Shapes64>(call, facts, context.stream);
      } else {
        run<T, Shapes128>(call, facts, context.stream);
      }
    });
  }

 private:
  static bool rows_begin_well(const char* name, const Call& call, const Heads& heads, int64_t count,
                              int64_t rows, int64_t columns, Why& why) {
    return why.unless(is_aligned(heads, call.batch, count, rows, columns), "needs rows of ", name,
                      " that begin at multiples of 16 bytes");
  }

  template <class T, class Shapes>
  static void run(const BackwardCall& call, const QueryFacts& facts, Stream stream) {
    using OfKeys = BackwardMmaKernel<T, true, Shapes::kOfKeys>;
    using OfQueries = BackwardMmaKernel<T, false, Shapes::kOfQueries>;
    const BackwardSide keys{call.k, call.v, static_cast<int>(call.keys),
                            static_cast<int>(call.kv_heads)};
    const BackwardSide queries{call.q, call.dout, static_cast<int>(call.queries),
                               static_cast<int>(call.heads)};
    const auto aligned = [&](const Heads& heads, const BackwardSide& side, int64_t columns) {
      return is_aligned(heads, call.batch, side.heads, side.rows, columns);
    };
    const int left = narrow_side(call.window.left);
    const int right = narrow_side(call.window.right);
    const int offset = keys.rows - queries.rows;
    BackwardMmaArguments a{
        .own = keys,
        .met = queries,
        .scored_sums = call.dk,
        .valued_sums = call.dv,
        .tiles = tiles_of(seen_by_keys(call), OfKeys::kOwn),
        .seen = {-offset, queries.rows, right, left},  // who sees a key looks the other way
        .facts = facts,
        .group = static_cast<int>(call.group()),
        .dim = static_cast<int>(call.head_dim),
        .value_dim = static_cast<int>(call.value_dim),
        .scale = call.scale,
        .scored_aligned = aligned(call.dk, keys, call.head_dim),
        .valued_aligned = aligned(call.dv, keys, call.value_dim)};
    launch_of<OfKeys>(a, stream);
    a.own = queries;
    a.met = keys;
    a.scored_sums = call.dq;
    a.tiles = tiles_of(call, OfQueries::kOwn);
    a.seen = {offset, keys.rows, left, right};
    a.scored_aligned = aligned(call.dq, queries, call.head_dim);
    launch_of<OfQueries>(a, stream);
  }

  // A call whose queries are the keys of this one, and the other way round, as far as tiles go.
  static Call seen_by_keys(const Call& call) {
    Call keys = call;
    keys.heads = call.kv_heads;
    keys.queries = call.keys;
    keys.keys = call.queries * call.group();
    return keys;
  }
  static QueryTiles tiles_of(const Call& call, int rows) {
    return {call, Sequences(call, "attention_backward/backward_mma"), rows};
  }
  template <class Kernel>
  static void launch_of(const BackwardMmaArguments& a, Stream stream) {
    if (a.tiles.count() == 0) return;
    launch<Kernel>({.blocks = a.tiles.count(), .threads = Kernel::kThreads}, stream, a);
  }
};

}  // namespace

extern const Rung kBackwardMma;
constinit const Rung kBackwardMma = rung_of<BackwardMma, kHalves, AttentionBackward>({
    .name = "backward_mma",
    .from = "backward_any",
    .idea = "five products on tensor cores, of tiles of keys, then of queries: no weight leaves "
            "the registers",
    .may_spill = true,
});

}  // namespace ws::attention
