#include "kernels/attention/28_backward_mma.cuh"

#include "kernels/attention/backward_mma_calls.hpp"

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

struct BackwardMma {
  template <class AnyCall>
  static bool supports(const AnyCall& call, Why& why) {
    return takes_backward_mma(call, Shapes128::kOfKeys.dim, why);
  }
  template <class AnyCall>
  static Workspace workspace(const AnyCall& call) {
    return QueryFacts::workspace(call);
  }
  template <class AnyCall>
  static void run(const AnyCall& call, const Context& context) {
    with_type<kHalves>(call.dtype, [&]<class T>() {
      run_backward_mma<BackwardMmaPair<T, MmaProducts, Shapes64>,
                       BackwardMmaPair<T, MmaProducts, Shapes128>>(call, "attention/backward_mma",
                                                                   context);
    });
  }
};

}  // namespace

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
