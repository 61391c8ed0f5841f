#include "kernels/attention/39_split_kv_mla.cuh"

namespace ws::attention {
namespace {

// Counted, none compared: as many units of 36 KB as there is room for. In flight is one less than
// the ring has; of values elsewhere a unit is 68 KB.
constexpr SplitKvMlaShape kNarrow{.row_blocks = 1, .stages = 5, .values_in_keys = true};
constexpr SplitKvMlaShape kTall{.row_blocks = 2, .stages = 5, .values_in_keys = true};
constexpr SplitKvMlaShape kTallest{.row_blocks = 4, .stages = 4, .values_in_keys = true};
constexpr SplitKvMlaShape kApart{.row_blocks = 1, .stages = 2, .values_in_keys = false};
constexpr SplitKvMlaShape kTallApart{.row_blocks = 2, .stages = 2, .values_in_keys = false};

struct SplitKvMlaRule {
  static constexpr const char* kName = "attention/split_kv_mla";
  static constexpr int64_t kMostDim = kMostMlaDim;
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
    return takes_latent_rows(call, why) && SplitKv::supports(call, why);
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
