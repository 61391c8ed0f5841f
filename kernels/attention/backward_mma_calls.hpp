// Which calls the rungs of BackwardMmaKernel take, what its kernels are given, and the run of those
// that make each gradient once.
#pragma once

#include "kernels/attention/28_backward_mma.cuh"
#include "kernels/attention/nobodys_rows.hpp"
#include "kernels/attention/plain.hpp"
#include "kernels/attention/shared_memory.hpp"

namespace ws::attention {

// Whether rows begin at multiples of 16 bytes and their columns are dense.
inline bool begin_well(const BackwardCall& call, const Heads& heads, int64_t count, int64_t rows,
                       int64_t columns) {
  return is_aligned(heads, call.dtype, call.batch, count, rows, columns);
}

// All that they ask for, but for the shared memory that they want.
inline bool takes_backward_mma(const BackwardCall& call, int64_t most_dim, Why& why) {
  const auto rows_begin_well = [&](const char* name, const Heads& heads, int64_t count,
                                   int64_t rows, int64_t columns) {
    return why.unless(begin_well(call, heads, count, rows, columns), "needs rows of ", name,
                      " that begin at multiples of 16 bytes");
  };
  return has_bare_scores(call, why) &&
         why.unless(call.dscores.data == nullptr, "gives no dscores") &&
         why.unless(call.head_dim <= most_dim && call.value_dim <= most_dim,
                    "takes D and Dv up to ", most_dim) &&
         why.unless(call.queries < kMostSeen && call.keys < kMostSeen, "takes up to 2^29 rows") &&
         rows_begin_well("q", call.q, call.heads, call.queries, call.head_dim) &&
         rows_begin_well("k", call.k, call.kv_heads, call.keys, call.head_dim) &&
         rows_begin_well("v", call.v, call.kv_heads, call.keys, call.value_dim) &&
         rows_begin_well("dout", call.dout, call.heads, call.queries, call.value_dim);
}
inline bool takes_backward_mma(const VarlenBackwardCall& call, int64_t most_dim, Why& why) {
  return takes_backward_mma(static_cast<const BackwardCall&>(call), most_dim, why) &&
         QueryFacts::can_count(call, why);
}

// Of blocks that own queries, which make dq.
template <class Grid>
BackwardMmaArgumentsOf<Grid> arguments_of_queries(const BackwardCall& call, const QueryFacts& facts,
                                                  const Grid& grid) {
  return {.own = {call.q, call.dout},
          .met = {call.k, call.v},
          .scored_sums = call.dq,
          .grid = grid,
          .facts = facts,
          .dim = static_cast<int>(call.head_dim),
          .value_dim = static_cast<int>(call.value_dim),
          .scale = call.scale,
          .scored_aligned = begin_well(call, call.dq, call.heads, call.queries, call.head_dim)};
}
// Of blocks that own keys, which make dk and dv.
template <class Grid>
BackwardMmaArgumentsOf<Grid> arguments_of_keys(const BackwardCall& call, const QueryFacts& facts,
                                               const Grid& grid) {
  BackwardMmaArgumentsOf<Grid> a = arguments_of_queries(call, facts, grid);
  std::swap(a.own, a.met);
  a.scored_sums = call.dk;
  a.valued_sums = call.dv;
  a.scored_aligned = begin_well(call, call.dk, call.kv_heads, call.keys, call.head_dim);
  a.valued_aligned = begin_well(call, call.dv, call.kv_heads, call.keys, call.value_dim);
  return a;
}

template <class Kernel>
void launch_backward_mma(const typename Kernel::Arguments& a, Stream stream) {
  if (a.grid.tiles.count() == 0) return;
  launch<Kernel>({.blocks = a.grid.tiles.count(), .threads = Kernel::kThreads}, stream, a);
}

// A rung's kernels of Shapes, which has one kOfKeys and one kOfQueries.
template <class T, template <class, int> class ProductsOf, class Shapes>
struct BackwardMmaPair {
  static constexpr int kDim = Shapes::kOfKeys.dim;
  template <class Grid>
  using OfKeys = BackwardMmaKernel<T, true, Shapes::kOfKeys, false, Grid, ProductsOf>;
  template <class Grid>
  using OfQueries = BackwardMmaKernel<T, false, Shapes::kOfQueries, false, Grid, ProductsOf>;

  static bool fits(Why& why) {
    return has_shared_memory<OfKeys<PackedBackwardGrid>>(why) &&
           has_shared_memory<OfQueries<PackedBackwardGrid>>(why);
  }

  static void run(const BackwardCall& call, const char* /*rung*/, const Context& context) {
    using Keys = OfKeys<BackwardGrid>;
    using Queries = OfQueries<BackwardGrid>;
    const QueryFacts facts = QueryFacts::in(call, context.workspace);
    launch_facts<T>(call, facts, context.stream);
    launch_backward_mma<Keys>(
        arguments_of_keys(call, facts, BackwardGrid::of_keys(call, Keys::kOwn)), context.stream);
    launch_backward_mma<Queries>(
        arguments_of_queries(call, facts, BackwardGrid::of_queries(call, Queries::kOwn)),
        context.stream);
  }
  // `rung` is of static storage.
  static void run(const VarlenBackwardCall& call, const char* rung, const Context& context) {
    using Grid = PackedBackwardGrid;
    using Keys = OfKeys<Grid>;
    using Queries = OfQueries<Grid>;
    const QueryFacts facts = QueryFacts::in(call, context.workspace);
    clear_nobodys<T>(call, {call, rung}, context.stream);
    launch_facts<T>(call, facts, context.stream);
    launch_backward_mma<Keys>(arguments_of_keys(call, facts, Grid::of_keys(call, rung, Keys::kOwn)),
                              context.stream);
    launch_backward_mma<Queries>(
        arguments_of_queries(call, facts, Grid::of_queries(call, rung, Queries::kOwn)),
        context.stream);
  }
};

// The pair of Pairs... for D and Dv up to its kDim, the least first.
template <class... Pairs, class AnyCall>
void run_backward_mma(const AnyCall& call, const char* rung, const Context& context) {
  const int64_t dim = std::max(call.head_dim, call.value_dim);
  const auto is_run_by = [&]<class Pair>() {
    if (dim > Pair::kDim) return false;
    Pair::run(call, rung, context);
    return true;
  };
  static_cast<void>((is_run_by.template operator()<Pairs>() || ...));
}

}  // namespace ws::attention
