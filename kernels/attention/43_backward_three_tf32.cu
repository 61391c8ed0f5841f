// Idea: the gradient in f32 on tensor cores: each of its products is three of TF32.
// From backward_mma: its two kernels by the products of three_tf32, taken apart where they meet. A
//   block that meets an infinity makes its sums again, with more care.
// Traffic: as backward_mma's, of 4 bytes an element and tiles of half the rows.
// Limits: those of backward_mma, of f32; above D = 64 GPUs with 194 KB of shared memory a block.
#include "kernels/attention/backward_mma_calls.hpp"
#include "kernels/attention/mma_products_tf32.hpp"

namespace ws::attention {
namespace {

// H200 2026-12-03, 4096 keys, TFLOP/s of f32 (mma.sync does 105). Of keys, four products: D = 64
// 68.3, tiles of 32 rows 67.4, of 64 at once 64.4, two blocks of rows 67.4, eight warps 66.4; 128
// 62.6 with 144 bytes spilled, 16 rows at once 55.5, four warps and tiles of 16 in two blocks an SM
// 54.2. Of queries, three: 64 76.0, one block of rows 71.6 at best; 128 68.1, as above 63.5, 62.7.
struct Shapes64 {
  static constexpr BackwardMmaShape kOfKeys{
      .dim = 64, .warps = 4, .row_blocks = 1, .tile = 64, .step = 32, .blocks = 2};
  static constexpr BackwardMmaShape kOfQueries{
      .dim = 64, .warps = 4, .row_blocks = 2, .tile = 32, .step = 32, .blocks = 2};
};
struct Shapes128 {
  static constexpr BackwardMmaShape kOfKeys{
      .dim = 128, .warps = 8, .row_blocks = 1, .tile = 32, .step = 32, .blocks = 1};
  static constexpr BackwardMmaShape kOfQueries{
      .dim = 128, .warps = 8, .row_blocks = 1, .tile = 32, .step = 32, .blocks = 1};
};

using Pair64 = BackwardMmaPair<float, ProductsTf32, Shapes64>;
using Pair128 = BackwardMmaPair<float, ProductsTf32, Shapes128>;

struct BackwardThreeTf32 {
  template <class AnyCall>
  static bool supports(const AnyCall& call, Why& why) {
    return takes_backward_mma(call, Pair128::kDim, why) &&
           (std::max(call.head_dim, call.value_dim) <= Pair64::kDim || Pair128::fits(why));
  }
  template <class AnyCall>
  static Workspace workspace(const AnyCall& call) {
    return QueryFacts::workspace(call);
  }
  template <class AnyCall>
  static void run(const AnyCall& call, const Context& context) {
    run_backward_mma<Pair64, Pair128>(call, "attention/backward_three_tf32", context);
  }
};

}  // namespace

extern const Rung kBackwardThreeTf32;
constinit const Rung kBackwardThreeTf32 =
    rung_of<BackwardThreeTf32, DTypes{DType::kF32}, AttentionBackward, AttentionVarlenBackward>({
        .name = "backward_three_tf32",
        .from = "backward_mma",
        .idea = "the gradient in f32: each product as three products of TF32",
        .may_spill = true,  // at D = 128, of keys
    });

}  // namespace ws::attention
