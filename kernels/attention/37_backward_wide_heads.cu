#include "kernels/attention/37_backward_wide_heads.cuh"

namespace ws::attention {
namespace {

// By this name they are known to keep some words in local memory: those of packed sequences, none
// in loops of products, and of queries under a softcap.
template <class Kernel>
struct BackwardWideHeadsKernel : Kernel {};

// Outside the rung's class: nvcc names kernels' types where nothing private may be named.
template <class T, class Grid, bool kCapped>
struct Kernels {
  template <class Kernel, bool kSpills>
  using Known = std::conditional_t<kSpills, BackwardWideHeadsKernel<Kernel>, Kernel>;

  template <bool kOwnsKeys, int kDim, int kCluster>
  using Rows = Known<WideRowsKernel<T, kOwnsKeys, kDim, kCluster, Grid, kCapped>,
                     std::is_same_v<Grid, PackedBackwardGrid>>;
  template <int kDim>
  using Queries = Known<WideQueriesKernel<T, kDim, Grid, kCapped>, kCapped>;
};

struct BackwardWideHeads : BackwardWgmmaCalls {
  static constexpr const char* kName = "attention/backward_wide_heads";

  template <class AnyCall>
  static bool supports(const AnyCall& call, Why& why) {
    return takes(call, 512, why);
  }
  template <class AnyCall>
  static Workspace workspace(const AnyCall& call) {
    Workspace workspace;
    with_kernels(call, [&]<class OfKeys, class OfQueries>() {
      workspace = workspace_of<OfKeys, OfQueries>(call);
    });
    return workspace;
  }

  template <class AnyCall>
  static void run(const AnyCall& call, const Context& context) {
    with_kernels(call, [&]<class OfKeys, class OfQueries>() {
      run_as<OfKeys, OfQueries>(call, kName, context);
    });
  }

 private:
  // f.template operator()<OfKeys, OfQueries>().
  template <class AnyCall, class F>
  static void with_kernels(const AnyCall& call, F&& f) {
    const int64_t columns = std::max(call.head_dim, call.value_dim);
    with_type<kHalves>(call.dtype, [&]<class T>() {
      with_cap(call, [&]<bool kCapped>() {
        using K = Kernels<T, BackwardGridOf<AnyCall>, kCapped>;
        if (columns <= 192) {
          f.template
          operator()<typename K::template Rows<true, 192, 1>, typename K::template Queries<192>>();
        } else if (columns <= 256) {
          f.template
          operator()<typename K::template Rows<true, 256, 1>, typename K::template Queries<256>>();
        } else if (columns <= 2 * 192) {
          f.template operator()<typename K::template Rows<true, 192, 2>,
                                typename K::template Rows<false, 192, 2>>();
        } else {
          f.template operator()<typename K::template Rows<true, 256, 2>,
                                typename K::template Rows<false, 256, 2>>();
        }
      });
    });
  }
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
