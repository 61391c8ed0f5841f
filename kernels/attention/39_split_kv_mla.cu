#include "kernels/attention/39_split_kv_mla.cuh"

#include "kernels/attention/plain.hpp"

namespace ws::attention {
namespace {

// Counted, none compared: as many units of 36 KB as there is room for. In flight is one less than
// the ring has; of values elsewhere a unit is 68 KB.
constexpr SplitKvMlaShape kNarrow{.row_blocks = 1, .stages = 5, .values_in_keys = true};
constexpr SplitKvMlaShape kTall{.row_blocks = 2, .stages = 5, .values_in_keys = true};
constexpr SplitKvMlaShape kTallest{.row_blocks = 4, .stages = 4, .values_in_keys = true};
constexpr SplitKvMlaShape kApart{.row_blocks = 1, .stages = 2, .values_in_keys = false};
constexpr SplitKvMlaShape kTallApart{.row_blocks = 2, .stages = 2, .values_in_keys = false};

// Whether a value is what its key begins with.
bool has_values_in_keys(const Call& call) {
  const Heads& k = call.k;
  const Heads& v = call.v;
  return k.data == v.data && k.batch == v.batch && (k.head == v.head || call.kv_heads == 1) &&
         k.row == v.row && call.value_dim <= call.head_dim;
}

struct SplitKvMlaRule {
  static constexpr const char* kName = "attention/split_kv_mla";
  static constexpr int64_t kMostDim = 576;
  static constexpr int64_t kMostValueDim = 512;
  static constexpr int64_t kLeastDim = 257;
  static constexpr int64_t kKvBytes = 2;

  template <class AnyCall, class F>
  static auto with(const AnyCall& call, F&& f) {
    const int64_t rows = call.queries * call.group();
    return with_type<kHalves>(call.dtype, [&]<class T>() {
      const auto with_shape = [&]<SplitKvMlaShape kShape>() {
        return f.template operator()<SplitKvMlaKernel<T, kShape, kIsPacked<AnyCall>>>();
      };
      if (!has_values_in_keys(call)) {
        return rows <= 16 ? with_shape.template operator()<kApart>()
                          : with_shape.template operator()<kTallApart>();
      }
      if (rows <= 16) return with_shape.template operator()<kNarrow>();
      return rows <= 32 ? with_shape.template operator()<kTall>()
                        : with_shape.template operator()<kTallest>();
    });
  }
};

struct SplitKvMla : SplitKv<SplitKvMlaRule> {
  template <class AnyCall>
  static bool supports(const AnyCall& call, Why& why) {
    return has_kv_of_q(call, why) &&
           why.unless(std::max(call.head_dim, call.value_dim) >= SplitKvMlaRule::kLeastDim,
                      "is for D or Dv from ", SplitKvMlaRule::kLeastDim, " on") &&
           why.unless(call.value_dim <= SplitKvMlaRule::kMostValueDim, "takes Dv up to ",
                      SplitKvMlaRule::kMostValueDim, ", not ", call.value_dim) &&
           why.unless(call.scale > 0, "takes a scale above 0, not ", call.scale) &&
           why.unless(!call.slopes.exists, "takes no alibi_slopes") &&
           why.unless(call.softcap == 0, "takes no softcap") &&
           why.unless(call.value_dim % 8 == 0, "needs a Dv that 8 divides, not ", call.value_dim) &&
           why.unless(is_aligned(call.out, call.batch, call.heads, SplitKvExtents(call).queries,
                                 call.value_dim),
                      "needs rows of out that begin at multiples of 16 bytes") &&
           SplitKv::supports(call, why);
  }
};

}  // namespace

extern const Rung kSplitKvMla;
constinit const Rung kSplitKvMla = rung_of<SplitKvMla, kHalves, Attention, AttentionVarlen>({
    .name = "split_kv_mla",
    .from = "split_kv",
    .idea = "rows of 576 that are key and value in one, read once; warps share out columns",
});

}  // namespace ws::attention
