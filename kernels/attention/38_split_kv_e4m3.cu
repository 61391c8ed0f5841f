// Idea: a cache of 8 bits is half the bytes, and bytes are all that decoding waits for.
// From split_kv: keys and values lie in the rings as they came and become f16 between shared memory
//   and tensor cores (mma_products_e4m3.hpp). The scale of keys is a score's, that of values the
//   output's; queries of bf16 become f16, each row times a power of two.
// Traffic: keys and values once for each 16 or 32 rows, a byte each.
// Limits: sequences, in pages or not; D a multiple of 8; D and Dv up to 256; else as split_kv. What
//   weighs values is rounded to f16, for queries of bf16 too.
#include "kernels/attention/30_split_kv.cuh"

namespace ws::attention {
namespace {

// Counted, none compared: as many bytes on their way as split_kv has, of twice the keys.
struct Shapes {
  static constexpr SplitKvShape kNarrow64{
      .dim = 64, .row_blocks = 1, .keys = 32, .stages = 6, .blocks = 2, .holds_query = true};
  static constexpr SplitKvShape kTall64{
      .dim = 64, .row_blocks = 2, .keys = 32, .stages = 6, .blocks = 2, .holds_query = true};
  static constexpr SplitKvShape kNarrow128{
      .dim = 128, .row_blocks = 1, .keys = 32, .stages = 3, .blocks = 2, .holds_query = true};
  static constexpr SplitKvShape kTall128{
      .dim = 128, .row_blocks = 2, .keys = 16, .stages = 6, .blocks = 2, .holds_query = false};
  static constexpr SplitKvShape kNarrow256{
      .dim = 256, .row_blocks = 1, .keys = 16, .stages = 4, .blocks = 1, .holds_query = false};
};

struct SplitKvE4m3Rule {
  static constexpr const char* kName = "attention/split_kv_e4m3";
  static constexpr int64_t kMostDim = Shapes::kNarrow256.dim;
  static constexpr int64_t kKvBytes = 1;

  template <class F>
  static auto with(const VarlenCall& call, F&& f) {
    return with_split_kv_shape<Shapes>(call, [&]<class T, SplitKvShape kShape>() {
      return f.template operator()<SplitKvKernel<T, kShape, true, e4m3>>();
    });
  }
};

struct SplitKvE4m3 : SplitKv<SplitKvE4m3Rule> {
  static bool supports(const VarlenCall& call, Why& why) {
    return why.unless(call.has_kv_of_8_bits, "takes k and v of e4m3") &&
           why.unless(call.head_dim % 8 == 0, "needs a D that 8 divides, not ", call.head_dim) &&
           SplitKv::supports(call, why);
  }
};

}  // namespace

extern const Rung kSplitKvE4m3;
constinit const Rung kSplitKvE4m3 = rung_of<SplitKvE4m3, kHalves, AttentionVarlen>({
    .name = "split_kv_e4m3",
    .from = "split_kv",
    .idea = "keys and values of 8 bits, half the bytes, become f16 on the way to tensor cores",
    .may_spill = true,  // 2 bytes, where a tile has 32 rows of bf16
});

}  // namespace ws::attention
