// Idea: 64 steps at once, there and back. Errors of a chunk are a triangular system, as what its
//   steps add is; back, so is what that is worth, with the inverses of steps in reverse. Both walks
//   leave the state before each of their chunks, which are the same steps: given these, every chunk
//   finds its part of the gradients alone.
// From delta_backward_recurrent: products on tensor cores, S / 64 dependent steps in two walks, and
//   a block a chunk that waits for nobody.
// Traffic: 2 M numbers of 16 bits a step and 2 D M a chunk from walks to chunks, inverses twice.
// Limits: 16 bits, D up to 256, aligned rows; D M / 16 bytes of workspace a step for states. What
//   steps add or take off is rounded to 16 bits, in f16 from 2^-24 to 65504.
#include "kernels/linear_attention/delta_backward.hpp"
#include "kernels/linear_attention/delta_inverse.hpp"

namespace ws::linear_attention {
namespace {

struct DeltaBackwardChunked {
  static constexpr int kSharedBytes = 162 * 1024;

  static bool supports(const DeltaBackwardCall& call, Why& why) {
    if (!why.unless(device_facts().shared_bytes >= kSharedBytes, "needs ", kSharedBytes,
                    " bytes of shared memory")) {
      return false;
    }
    const DeltaBackwardWalks walks(call, nullptr);
    return mma_takes(walks.errors, why) && mma_takes(walks.added, why);
  }

  static Workspace workspace(const DeltaBackwardCall& call) {
    const DeltaBackwardWalks walks(call, nullptr);
    return {.bytes = walks.own + inverses_bytes(walks.errors, call.dtype)};
  }

  template <class T, Gives kGives>
  static void walk(MmaWalkArguments a, const Walk& of_inverses, Stream stream) {
    const Walk& walk = a.walk;
    a.out_aligned =
        is_aligned(walk, walk.out, walk.value_dim) && is_aligned(walk, a.weighed, walk.value_dim);
    MmaWalkArguments inverses = a;
    inverses.walk = of_inverses;
    with_dim(walk.dim, [&]<int kDim>() {
      InverseKernel<T, kDim>::run(inverses, stream);
      with_columns<kDim>(
          walk, [&]<int kColumns>() { MmaWalkKernel<T, kDim, kGives, kColumns>::run(a, stream); });
    });
  }

  static void run(const DeltaBackwardCall& call, const Context& context) {
    if (call.matrices() == 0) return;
    const DeltaBackwardWalks walks(call, context.workspace);
    const void* const inverses = static_cast<std::byte*>(context.workspace) + walks.own;
    with_type<kHalves>(call.dtype, [&]<class T>() {
      walk<T, Gives::kErrors>({.walk = walks.errors, .inverses = inverses, .kept = walks.states},
                              walks.errors, context.stream);
      walk<T, Gives::kAdded>({.walk = walks.added,
                              .inverses = inverses,
                              .weighed = walks.dv,
                              .kept = walks.gradients,
                              .first_steps = walks.last_steps},
                             walks.keys_back(), context.stream);
    });
    find_delta_gradients(call, walks, context.stream);
  }
};

}  // namespace

extern const Rung kDeltaBackwardChunked;
constinit const Rung kDeltaBackwardChunked =
    rung_of<DeltaBackwardChunked, kHalves, DeltaRuleBackward>({
        .name = "delta_backward_chunked",
        .from = "delta_backward_recurrent",
        .idea = "triangular inverses there and back; from states at their ends, chunks alone",
    });

}  // namespace ws::linear_attention
