// Idea: the four products of a chunk on tensor cores. Pairs are accumulators that become the left
//   operand where they lie; the state stays in accumulators of f32, and is rounded to 16 bits where
//   it is asked.
// From chunked: mma.sync, 16 steps a warp; the next chunk is copied (cp.async) while this one is
//   computed.
// Traffic: q and k once for every 64 columns of the state, v and out once.
// Limits: 16 bits; D up to 256, of gradients M too; aligned rows; 222 KB of shared memory, of up
//   to 128 rows 128 KB. S / 64 dependent chunks in B * H * M / 64 blocks: of 128 heads of 64
//   columns an SM has one, which waits for its own chunk. f16: states up to 65504.
#pragma once

#include "kernels/linear_attention/chunk.hpp"

namespace ws::linear_attention {

// A walk on tensor cores, in segments or, with Segments{}, whole.
void walk_on_tensor_cores(DType dtype, const Walk& walk, const Segments& segments, Stream stream);
bool tensor_cores_take(const LinearAttention::Call& call, Why& why);
bool tensor_cores_take(const BackwardCall& call, Why& why);

struct ChunkedMma : BackwardBy<ChunkedMma> {
  using BackwardBy<ChunkedMma>::run, BackwardBy<ChunkedMma>::workspace;
  static constexpr bool kFindsDots = true;

  template <class AnyCall>
  static bool supports(const AnyCall& call, Why& why) {
    return tensor_cores_take(call, why);
  }
  static size_t workspace_of_walk(const Walk& /*walk*/) { return 0; }
  static Workspace workspace(const LinearAttention::Call& /*call*/) { return {}; }
  static void walk(DType dtype, DType /*out*/, const Walk& walk, const Context& context) {
    walk_on_tensor_cores(dtype, walk, {}, context.stream);
  }
  static void run(const LinearAttention::Call& call, const Context& context) {
    if (call.walk.matrices() > 0) walk(call.dtype, call.dtype, call.walk, context);
  }
};

}  // namespace ws::linear_attention
