#include "kernels/attention/31_backward_wgmma.cuh"

#include "kernels/attention/plain.hpp"

namespace ws::attention {
namespace {

// Counted, none compared. 128 queries at a time are too many registers for keys at D = 64.
struct Shapes64 {
  static constexpr BackwardWgmmaShape kOfKeys{.dim = 64, .met = 64, .stages = 4, .early = true};
  static constexpr BackwardWgmmaShape kOfQueries{.dim = 64, .met = 128, .stages = 3, .early = true};
};
struct Shapes128 {
  static constexpr BackwardWgmmaShape kOfKeys{.dim = 128, .met = 64, .stages = 2, .early = true};
  static constexpr BackwardWgmmaShape kOfQueries{.dim = 128, .met = 64, .stages = 3, .early = true};
};

struct BackwardWgmma : BackwardWgmmaCalls {
  static Workspace workspace(const BackwardCall& call) { return workspace_of_facts(call); }

  static void run(const BackwardCall& call, const Context& context) {
    with_type<kHalves>(call.dtype, [&]<class T>() {
      if (call.head_dim <= 64 && call.value_dim <= 64) {
        run<T, Shapes64>(call, context);
      } else {
        run<T, Shapes128>(call, context);
      }
    });
  }

 private:
  template <class T, class Shapes>
  static void run(const BackwardCall& call, const Context& context) {
    using OfKeys = BackwardWgmmaKernel<T, true, Shapes::kOfKeys>;
    using OfQueries = BackwardWgmmaKernel<T, false, Shapes::kOfQueries>;
    const QueryFacts facts = QueryFacts::in(call, context.workspace);
    launch_facts<T>(call, facts, context.stream);
    launch_of<OfKeys>(arguments_of<OfKeys>(call, facts), context.stream);
    launch_of<OfQueries>(arguments_of<OfQueries>(call, facts), context.stream);
  }
};

}  // namespace

bool BackwardWgmmaCalls::takes(const BackwardCall& call, int64_t most, Why& why) {
  const auto fits = [&](const char* name, const Heads& heads, int64_t rows, int64_t head_count) {
    return can_be_copied(name, heads, rows, head_count, call.batch, false, call.dtype, why);
  };
  return has_bare_scores(call, why) &&
         why.unless(call.dscores.data == nullptr, "gives no dscores") &&
         why.unless(call.queries > 0 && call.keys > 0, "without rows there is nothing to copy") &&
         why.unless(call.head_dim <= most && call.value_dim <= most, "takes D and Dv up to ", most,
                    ", not ", call.head_dim, " and ", call.value_dim) &&
         why.unless(call.head_dim % 8 == 0 && call.value_dim % 8 == 0,
                    "needs a D and Dv that 8 divides, not ", call.head_dim, " and ",
                    call.value_dim) &&
         why.unless(call.queries < kMostSeen && call.keys < kMostSeen, "takes up to 2^29 rows") &&
         fits("q", call.q, call.queries, call.heads) &&
         fits("k", call.k, call.keys, call.kv_heads) &&
         fits("v", call.v, call.keys, call.kv_heads) &&
         fits("dout", call.dout, call.queries, call.heads) &&
         fits("dq", call.dq, call.queries, call.heads) &&
         fits("dk", call.dk, call.keys, call.kv_heads) &&
         fits("dv", call.dv, call.keys, call.kv_heads);
}

extern const Rung kBackwardWgmma;
constinit const Rung kBackwardWgmma = rung_of<BackwardWgmma, kHalves, AttentionBackward>({
    .name = "backward_wgmma",
    .from = "backward_mma",
    .idea = "wgmma: a warp copies, warpgroups own 64 rows each; the next scores are under way",
    .arch = Arch::kSm90a,
});

}  // namespace ws::attention
