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
    with_type<kHalves>(call.dtype, [&]<class T>() {
      with_cap(call, [&]<bool kCapped>() {
        const auto with = [&]<class Shapes>() {
          using Grid = BackwardGridOf<AnyCall>;
          f.template
          operator()<BackwardWgmmaKernel<T, true, Shapes::kOfKeys, false, Grid, kCapped>,
                     BackwardWgmmaKernel<T, false, Shapes::kOfQueries, false, Grid, kCapped>>();
        };
        if (call.head_dim <= 64 && call.value_dim <= 64) {
          with.template operator()<Shapes64>();
        } else {
          with.template operator()<Shapes128>();
        }
      });
    });
  }
};

}  // namespace

namespace {

template <class AnyCall>
bool takes_any(const AnyCall& call, int64_t most, Why& why) {
  const Sequences all(call, "");
  const auto fits = [&](const char* name, const Heads& heads, int64_t rows, int64_t head_count) {
    return can_be_copied(name, heads, rows, head_count, batches_of(call), kIsPacked<AnyCall>,
                         call.dtype, why);
  };
  return has_only_capped_scores(call, why) &&
         why.unless(call.dscores.data == nullptr, "gives no dscores") &&
         why.unless(all.queries > 0 && all.keys > 0 && all.count > 0 && call.heads > 0,
                    "without rows there is nothing to copy") &&
         why.unless(call.head_dim <= most && call.value_dim <= most, "takes D and Dv up to ", most,
                    ", not ", call.head_dim, " and ", call.value_dim) &&
         why.unless(call.head_dim % 8 == 0 && call.value_dim % 8 == 0,
                    "needs a D and Dv that 8 divides, not ", call.head_dim, " and ",
                    call.value_dim) &&
         why.unless(all.queries < kMostSeen && all.keys < kMostSeen, "takes up to 2^29 rows") &&
         fits("q", call.q, all.queries, call.heads) && fits("k", call.k, all.keys, call.kv_heads) &&
         fits("v", call.v, all.keys, call.kv_heads) &&
         fits("dout", call.dout, all.queries, call.heads) &&
         fits("dq", call.dq, all.queries, call.heads) &&
         fits("dk", call.dk, all.keys, call.kv_heads) &&
         fits("dv", call.dv, all.keys, call.kv_heads);
}

}  // namespace

bool BackwardWgmmaCalls::takes(const BackwardCall& call, int64_t most, Why& why) {
  return takes_any(call, most, why);
}
bool BackwardWgmmaCalls::takes(const VarlenBackwardCall& call, int64_t most, Why& why) {
  return takes_any(call, most, why) && QueryFacts::can_count(call, why);
}

extern const Rung kBackwardWgmma;
constinit const Rung kBackwardWgmma =
    rung_of<BackwardWgmma, kHalves, AttentionBackward, AttentionVarlenBackward>({
        .name = "backward_wgmma",
        .from = "backward_mma",
        .idea = "wgmma: a warp copies, warpgroups own 64 rows each; the next scores are under way",
        .arch = Arch::kSm90a,
    });

}  // namespace ws::attention
