#include "kernels/attention/28_backward_mma.cuh"

#include "kernels/attention/nobodys_rows.hpp"
#include "kernels/attention/plain.hpp"

namespace ws::attention {
namespace {

// Counted, none compared. Two blocks an SM, so that one multiplies while the other waits at its
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

bool rows_begin_well(const char* name, const Call& call, const Heads& heads, int64_t count,
                     int64_t rows, int64_t columns, Why& why) {
  return why.unless(is_aligned(heads, call.batch, count, rows, columns), "needs rows of ", name,
                    " that begin at multiples of 16 bytes");
}

BackwardSide side_of_keys(const BackwardCall& call) { return {call.k, call.v}; }
BackwardSide side_of_queries(const BackwardCall& call) { return {call.q, call.dout}; }

template <class Grid>
BackwardMmaArgumentsOf<Grid> arguments_of_queries(const BackwardCall& call, const QueryFacts& facts,
                                                  const Grid& grid) {
  return {
      .own = side_of_queries(call),
      .met = side_of_keys(call),
      .scored_sums = call.dq,
      .grid = grid,
      .facts = facts,
      .dim = static_cast<int>(call.head_dim),
      .value_dim = static_cast<int>(call.value_dim),
      .scale = call.scale,
      .scored_aligned = is_aligned(call.dq, call.batch, call.heads, call.queries, call.head_dim)};
}

template <class Grid>
BackwardMmaArgumentsOf<Grid> arguments_of_keys(const BackwardCall& call, const QueryFacts& facts,
                                               const Grid& grid) {
  BackwardMmaArgumentsOf<Grid> a = arguments_of_queries(call, facts, grid);
  std::swap(a.own, a.met);
  a.scored_sums = call.dk;
  a.valued_sums = call.dv;
  a.scored_aligned = is_aligned(call.dk, call.batch, call.kv_heads, call.keys, call.head_dim);
  a.valued_aligned = is_aligned(call.dv, call.batch, call.kv_heads, call.keys, call.value_dim);
  return a;
}

struct BackwardMma : BackwardMmaCalls {
  using BackwardMmaCalls::supports;
  static bool supports(const VarlenBackwardCall& call, Why& why) {
    return supports(static_cast<const BackwardCall&>(call), why) &&
           QueryFacts::can_count(call, why);
  }

  template <class AnyCall>
  static Workspace workspace(const AnyCall& call) {
    return QueryFacts::workspace(call);
  }

  template <class AnyCall>
  static void run(const AnyCall& call, const Context& context) {
    with_type<kHalves>(call.dtype, [&]<class T>() {
      if (call.head_dim <= Shapes64::kOfKeys.dim && call.value_dim <= Shapes64::kOfKeys.dim) {
        run<T, Shapes64>(call, context);
      } else {
        run<T, Shapes128>(call, context);
      }
    });
  }

 private:
  template <class T, class Shapes>
  static void run(const VarlenBackwardCall& call, const Context& context) {
    using Grid = PackedBackwardGrid;
    using OfKeys = BackwardMmaKernel<T, true, Shapes::kOfKeys, false, Grid>;
    using OfQueries = BackwardMmaKernel<T, false, Shapes::kOfQueries, false, Grid>;
    constexpr const char* kName = "attention/backward_mma";
    const QueryFacts facts = QueryFacts::in(call, context.workspace);
    clear_nobodys<T>(call, {call, kName}, context.stream);
    launch_facts<T>(call, facts, context.stream);
    launch_of<OfKeys>(arguments_of_keys(call, facts, Grid::of_keys(call, kName, OfKeys::kOwn)),
                      context.stream);
    launch_of<OfQueries>(
        arguments_of_queries(call, facts, Grid::of_queries(call, kName, OfQueries::kOwn)),
        context.stream);
  }
  template <class T, class Shapes>
  static void run(const BackwardCall& call, const Context& context) {
    using OfKeys = BackwardMmaKernel<T, true, Shapes::kOfKeys>;
    using OfQueries = BackwardMmaKernel<T, false, Shapes::kOfQueries>;
    const QueryFacts facts = QueryFacts::in(call, context.workspace);
    launch_facts<T>(call, facts, context.stream);
    launch_of<OfKeys>(of_keys(call, facts, OfKeys::kOwn), context.stream);
    launch_of<OfQueries>(of_queries(call, facts, OfQueries::kOwn), context.stream);
  }
};

}  // namespace

bool BackwardMmaCalls::supports(const BackwardCall& call, Why& why) {
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

BackwardMmaArguments BackwardMmaCalls::of_keys(const BackwardCall& call, const QueryFacts& facts,
                                               int rows) {
  return arguments_of_keys(call, facts, BackwardGrid::of_keys(call, rows));
}

BackwardMmaArguments BackwardMmaCalls::of_queries(const BackwardCall& call, const QueryFacts& facts,
                                                  int rows) {
  return arguments_of_queries(call, facts, BackwardGrid::of_queries(call, rows));
}

extern const Rung kBackwardMma;
constinit const Rung kBackwardMma =
    rung_of<BackwardMma, kHalves, AttentionBackward, AttentionVarlenBackward>({
        .name = "backward_mma",
        .from = "backward_any",
        .idea =
            "five products on tensor cores, of tiles of keys, then of queries: no weight leaves "
            "the registers",
        .may_spill = true,
    });

}  // namespace ws::attention
