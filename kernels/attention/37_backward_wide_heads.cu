#include "kernels/attention/37_backward_wide_heads.cuh"

namespace ws::attention {
namespace {

struct BackwardWideHeads : BackwardWgmmaCalls {
  static constexpr int64_t kMost = 512;

  static bool supports(const BackwardCall& call, Why& why) { return takes(call, kMost, why); }
  static Workspace workspace(const BackwardCall& call) { return QueryFacts::workspace(call); }
  static void run(const BackwardCall& call, const Context& context) {
    const int64_t columns = std::max(call.head_dim, call.value_dim);
    with_type<kHalves>(call.dtype, [&]<class T>() {
      if (columns <= 192) {
        run<WideRowsKernel<T, true, 192, 1>, WideQueriesKernel<T, 192>>(call, context);
      } else if (columns <= 256) {
        run<WideRowsKernel<T, true, 256, 1>, WideQueriesKernel<T, 256>>(call, context);
      } else if (columns <= 2 * 192) {
        run<WideRowsKernel<T, true, 192, 2>, WideRowsKernel<T, false, 192, 2>>(call, context);
      } else {
        run<WideRowsKernel<T, true, 256, 2>, WideRowsKernel<T, false, 256, 2>>(call, context);
      }
    });
  }

 private:
  template <class OfKeys, class OfQueries>
  static void run(const BackwardCall& call, const Context& context) {
    const QueryFacts facts = QueryFacts::in(call, context.workspace);
    launch_facts<typename OfKeys::Element>(call, facts, context.stream);
    launch_of<OfKeys>(arguments_of<OfKeys>(call, facts), context.stream);
    launch_of<OfQueries>(arguments_of<OfQueries>(call, facts), context.stream);
  }
};

}  // namespace

extern const Rung kBackwardWideHeads;
constinit const Rung kBackwardWideHeads = rung_of<BackwardWideHeads, kHalves, AttentionBackward>({
    .name = "backward_wide_heads",
    .from = "backward_wgmma",
    .idea = "two warpgroups own the same keys: one has weights, one their gradients; D to 512",
    .arch = Arch::kSm90a,
});

}  // namespace ws::attention
