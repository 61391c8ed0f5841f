#include "kernels/linear_attention/04_chunked_mma.cuh"

#include "kernels/linear_attention/mma_walk.hpp"

namespace ws::linear_attention {

bool tensor_cores_take(const LinearAttention::Call& call, Why& why) {
  return mma_takes(call.walk, why);
}
bool tensor_cores_take(const BackwardCall& call, Why& why) {
  const BackwardWalks walks(call, BackwardPlan(call, true), nullptr);
  return mma_takes(walks.dq, why) && mma_takes(walks.dk, why) && mma_takes(walks.dv, why);
}

void walk_on_tensor_cores(DType dtype, const Walk& walk, const Segments& segments, Stream stream) {
  const bool aligned = is_aligned(walk, walk.out, walk.value_dim);
  const auto run = [&]<class T, int kDim, Gives kGives>() {
    MmaWalkKernel<T, kDim, kGives>::run(
        {.walk = walk, .segments = segments, .out_aligned = aligned}, stream);
  };
  with_type<kHalves>(dtype, [&]<class T>() {
    with_dim(walk.dim, [&]<int kDim>() {
      if (walk.dots.data != nullptr) {
        return run.template operator()<T, kDim, Gives::kOutputsAndDots>();
      }
      run.template operator()<T, kDim, Gives::kOutputs>();
    });
  });
}

extern const Rung kChunkedMma;
constinit const Rung kChunkedMma =
    rung_of<ChunkedMma, kHalves, LinearAttention, LinearAttentionBackward>({
        .name = "chunked_mma",
        .from = "chunked",
        .idea = "a chunk's four products on tensor cores, the next chunk copied meanwhile",
    });
}  // namespace ws::linear_attention
