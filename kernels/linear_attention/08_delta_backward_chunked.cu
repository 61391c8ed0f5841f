// Idea: 64 steps at once, there and back. Errors of a chunk are a triangular system, as what its
//   steps add is; back, so is what that is worth, with the inverses of steps in reverse. Knowing
//   both, dq and the two parts of dk are linear attention, in segments.
// From delta_backward_recurrent: products on tensor cores, S / 64 dependent steps in two walks,
//   three more in as many segments as fill the GPU.
// Traffic: 8 M + 2 D numbers of 16 bits a step written and read between the walks, inverses twice.
// Limits: 16 bits, D and M up to 128, rows at multiples of 16 bytes; no log_decay, whose gradient
//   would be sums over all steps of what is rounded here. What steps add is rounded to 16 bits,
//   in f16 up to 65504.
#include "kernels/linear_attention/04_chunked_mma.cuh"
#include "kernels/linear_attention/delta_backward.hpp"
#include "kernels/linear_attention/delta_inverse.hpp"

namespace ws::linear_attention {
namespace {

struct DeltaBackwardChunked {
  static constexpr int kSharedBytes = 160 * 1024;

  static bool supports(const DeltaBackwardCall& call, Why& why) {
    if (!why.unless(!call.has_decay, "takes no log_decay")) return false;
    if (!why.unless(device_facts().shared_bytes >= kSharedBytes, "needs ", kSharedBytes,
                    " bytes of shared memory")) {
      return false;
    }
    const DeltaBackwardWalks walks(call, nullptr);
    return mma_takes(walks.errors, why) && mma_takes(walks.added, why) &&
           mma_takes(walks.dq, why) && mma_takes(walks.of_state, why);
  }

  static Workspace workspace(const DeltaBackwardCall& call) {
    const DeltaBackwardWalks walks(call, nullptr);
    return {.bytes = walks.own + std::max(inverses_bytes(walks.errors, call.dtype),
                                          bytes_of_segments(walks.dq))};
  }

  template <class T, Gives kGives>
  static void walk(const Walk& walk, const Walk& of_inverses, const Rows& weighed,
                   const Context& own) {
    MmaWalkArguments a{.walk = walk,
                       .out_aligned = is_aligned(walk, walk.out, walk.value_dim) &&
                                      is_aligned(walk, weighed, walk.value_dim),
                       .inverses = own.workspace,
                       .weighed = weighed};
    MmaWalkArguments inverses = a;
    inverses.walk = of_inverses;
    const auto run = [&]<int kDim>() {
      InverseKernel<T, kDim>::run(inverses, own.stream);
      MmaWalkKernel<T, kDim, kGives>::run(a, own.stream);
    };
    if (walk.dim <= 64) return run.template operator()<64>();
    run.template operator()<kMmaMostDim>();
  }

  static void run(const DeltaBackwardCall& call, const Context& context) {
    if (call.matrices() == 0) return;
    const DeltaBackwardWalks walks(call, context.workspace);
    const Context own = part_of(context, walks.own);
    with_type<kHalves>(call.dtype, [&]<class T>() {
      walk<T, Gives::kErrors>(walks.errors, walks.errors, walks.weighed_errors, own);
      walk<T, Gives::kAdded>(walks.added, walks.keys_back(), walks.dv, own);
    });
    walk_in_segments(call.dtype, walks.dq, {}, own);
    walk_in_segments(call.dtype, walks.dk, {.taken_k = walks.dv, .taken_v = walks.added.q}, own);
    walk_in_segments(call.dtype, walks.of_state, {.before = true}, own);
    finish_delta_backward(call, walks, context.stream);
  }
};

}  // namespace

extern const Rung kDeltaBackwardChunked;
constinit const Rung kDeltaBackwardChunked =
    rung_of<DeltaBackwardChunked, kHalves, DeltaRuleBackward>({
        .name = "delta_backward_chunked",
        .from = "delta_backward_recurrent",
        .idea = "triangular inverses there and back, and three walks of linear attention",
    });

}  // namespace ws::linear_attention
