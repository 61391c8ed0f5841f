#include "kernels/attention/37_backward_wide_heads.cuh"

namespace ws::attention {
namespace {

// Of packed sequences, 385 to 512 columns: by this name they are known to keep some words in local
// memory, none in the loops of those who multiply.
template <class T, bool kOwnsKeys>
struct BackwardWideHeadsKernel : WideRowsKernel<T, kOwnsKeys, 256, 2, PackedBackwardGrid> {};

struct BackwardWideHeads : BackwardWgmmaCalls {
  static constexpr const char* kName = "attention/backward_wide_heads";

  template <class AnyCall>
  static bool supports(const AnyCall& call, Why& why) {
    return takes(call, 512, why);
  }
  template <class AnyCall>
  static Workspace workspace(const AnyCall& call) {
    return QueryFacts::workspace(call);
  }

  template <class AnyCall>
  static void run(const AnyCall& call, const Context& context) {
    using Grid = BackwardGridOf<AnyCall>;
    const int64_t columns = std::max(call.head_dim, call.value_dim);
    with_type<kHalves>(call.dtype, [&]<class T>() {
      if (columns <= 192) {
        run_as<WideRowsKernel<T, true, 192, 1, Grid>, WideQueriesKernel<T, 192, Grid>>(call, kName,
                                                                                       context);
      } else if (columns <= 256) {
        run_as<WideRowsKernel<T, true, 256, 1, Grid>, WideQueriesKernel<T, 256, Grid>>(call, kName,
                                                                                       context);
      } else if (columns <= 2 * 192) {
        run_as<WideRowsKernel<T, true, 192, 2, Grid>, WideRowsKernel<T, false, 192, 2, Grid>>(
            call, kName, context);
      } else {
        run_as<Widest<T, true, Grid>, Widest<T, false, Grid>>(call, kName, context);
      }
    });
  }

 private:
  template <class T, bool kOwnsKeys, class Grid>
  using Widest = std::conditional_t<std::is_same_v<Grid, PackedBackwardGrid>,
                                    BackwardWideHeadsKernel<T, kOwnsKeys>,
                                    WideRowsKernel<T, kOwnsKeys, 256, 2, Grid>>;
};

}  // namespace

extern const Rung kBackwardWideHeads;
constinit const Rung kBackwardWideHeads =
    rung_of<BackwardWideHeads, kHalves, AttentionBackward, AttentionVarlenBackward>({
        .name = "backward_wide_heads",
        .from = "backward_wgmma",
        .idea = "two warpgroups own the same keys: one has weights, one their gradients; D to 512",
        .arch = Arch::kSm90a,
        .may_spill = true,
    });

}  // namespace ws::attention
