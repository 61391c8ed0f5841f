#include "kernels/attention/30_split_kv.cuh"

#include "kernels/attention/plain.hpp"

namespace ws::attention {
namespace {

// Counted, none compared but one: H200 2026-11-24, rings of five tiles of keys or values, asked for
// in two places of the program, which was twice as large (README.md). In flight are two of three
// units of 8 KB of eight warps of an SM, 128 KB; of 256 columns one of two of 16 KB of four warps,
// 64 KB, in a block that an A100 has room for too.
struct Shapes {
  static constexpr SplitKvShape kNarrow64{
      .dim = 64, .row_blocks = 1, .keys = 32, .stages = 3, .blocks = 2, .holds_query = true};
  static constexpr SplitKvShape kTall64{
      .dim = 64, .row_blocks = 2, .keys = 32, .stages = 3, .blocks = 2, .holds_query = true};
  static constexpr SplitKvShape kNarrow128{
      .dim = 128, .row_blocks = 1, .keys = 16, .stages = 3, .blocks = 2, .holds_query = true};
  static constexpr SplitKvShape kTall128{
      .dim = 128, .row_blocks = 2, .keys = 16, .stages = 3, .blocks = 2, .holds_query = false};
  static constexpr SplitKvShape kNarrow256{
      .dim = 256, .row_blocks = 1, .keys = 16, .stages = 2, .blocks = 1, .holds_query = false};
};

struct SplitKvRule {
  static constexpr const char* kName = "attention/split_kv";
  static constexpr int64_t kMostDim = Shapes::kNarrow256.dim;
  static constexpr int64_t kKvBytes = 2;

  template <class AnyCall, class F>
  static auto with(const AnyCall& call, F&& f) {
    return with_split_kv_shape<Shapes>(call, [&]<class T, SplitKvShape kShape>() {
      return f.template operator()<SplitKvKernel<T, kShape, kIsPacked<AnyCall>>>();
    });
  }
};

struct SplitKv16 : SplitKv<SplitKvRule> {
  template <class AnyCall>
  static bool supports(const AnyCall& call, Why& why) {
    return has_kv_of_q(call, why) && SplitKv::supports(call, why);
  }
};

}  // namespace

extern const Rung kSplitKv;
constinit const Rung kSplitKv = rung_of<SplitKv16, kHalves, Attention, AttentionVarlen>({
    .name = "split_kv",
    .from = "mma_flash",
    .idea = "blocks share out keys, not queries; the last to come puts their parts together",
    .may_spill = true,  // a word, of sequences with D of 256 on an A100
});

}  // namespace ws::attention
