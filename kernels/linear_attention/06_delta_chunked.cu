// Idea: what 64 steps of the delta rule add is one triangular system. With L[t][s] = beta[s]
//   e^(A[t] - A[s]) <k[t], k[s]> below the diagonal they add U = beta (I + L)^-1 (V - e^A K state):
//   the inverse knows nothing of the state, so all chunks find theirs at one time; then the walk is
//   that of linear attention with U for V (the WY form).
// From chunked_mma: three products more a chunk, and 64 x 64 numbers of 16 bits that are written
//   once and read by each block; where heads are few, blocks of 32 or 16 columns of the state.
// Traffic: k twice, q, k and inverses once for all columns of a block, v and out once.
// Limits: as chunked_mma. The state's own change is a D x D matrix a chunk, so that there are no
//   segments: at most B * H * M / 16 blocks. Keys of a norm above 1 make inverses large.
// Long: the inverse is a kernel of its own.
#include "kernels/linear_attention/delta_inverse.hpp"

namespace ws::linear_attention {
namespace {

struct DeltaChunked {
  static bool supports(const DeltaRule::Call& call, Why& why) { return mma_takes(call.walk, why); }

  static Workspace workspace(const DeltaRule::Call& call) {
    return {.bytes = inverses_bytes(call.walk, call.dtype)};
  }

  static void run(const DeltaRule::Call& call, const Context& context) {
    const Walk& walk = call.walk;
    if (walk.matrices() == 0) return;
    const MmaWalkArguments a{.walk = walk,
                             .out_aligned = is_aligned(walk, walk.out, walk.value_dim),
                             .inverses = context.workspace};
    with_type<kHalves>(call.dtype, [&]<class T>() {
      with_dim(walk.dim, [&]<int kDim>() {
        InverseKernel<T, kDim>::run(a, context.stream);
        with_columns<kDim>(walk, [&]<int kColumns>() {
          MmaWalkKernel<T, kDim, Gives::kDeltaOutputs, kColumns>::run(a, context.stream);
        });
      });
    });
  }
};

}  // namespace

extern const Rung kDeltaChunked;
constinit const Rung kDeltaChunked = rung_of<DeltaChunked, kHalves, DeltaRule>({
    .name = "delta_chunked",
    .from = "chunked_mma",
    .idea = "a triangular inverse a chunk makes of the delta rule a walk of linear attention",
});

}  // namespace ws::linear_attention
