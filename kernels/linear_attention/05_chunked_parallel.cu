// Idea: a head's steps are cut into segments that blocks walk at one time. First each finds what
//   its segment adds to the state; a scan of these few states is what each begins with; then each
//   walks its segment for the outputs.
// From chunked_mma: B * H * M / 64 * segments blocks, enough of them to fill the GPU, for a second
//   read of k and v but of each head's last segment, and two passes over the states between them.
// Traffic: with two segments 1.25 times the least, with eight 1.44 times.
// Limits: as chunked_mma; segments of at least 256 steps.
#include "kernels/linear_attention/04_chunked_mma.cuh"

namespace ws::linear_attention {
namespace {

constexpr int64_t kLeastChunks = 4;  // of a segment

Segments segments_of(const Walk& walk) {
  const int64_t blocks = walk.matrices() * divide_up(walk.value_dim, 64);
  const int64_t chunks = divide_up(walk.steps, kChunk);
  if (blocks == 0 || chunks <= kLeastChunks) return {};
  // Blocks that are there at once, two on each SM, of more than 128 rows one: all walk as long as
  // each other, so that more would be a second wave.
  const int64_t held = device_facts().multiprocessors * (walk.dim > 128 ? 1 : 2);
  const int64_t wanted =
      std::min(std::max(held / blocks, int64_t{1}), divide_up(chunks, kLeastChunks));
  const int64_t of_each = divide_up(chunks, wanted);
  const int64_t count = divide_up(chunks, of_each);
  if (count == 1) return {};
  return {.count = count, .chunks = of_each};
}

// A thread a number of a state: what segments add becomes what there is before them.
struct StatesKernel {
  static constexpr int kThreads = 256;
  struct Arguments {
    Walk walk;
    Segments segments;
  };
  struct SharedStorage {};

  __device__ void operator()(SharedStorage& /*shared*/, const Arguments& a) const {
    const Walk& walk = a.walk;
    const int64_t elements = walk.dim * walk.value_dim;
    const int64_t index = block_index() * kThreads + thread_index();
    if (index >= walk.matrices() * elements) return;
    const int64_t matrix = index / elements;
    const int64_t element = index % elements;
    float* const states = a.segments.states + matrix * a.segments.count * elements + element;
    const float* const totals = a.segments.totals + matrix * a.segments.count;
    float before = 0;
    if (walk.initial.data != nullptr) {
      before = thread::load(walk.initial.at(matrix / walk.heads, matrix % walk.heads,
                                            element / walk.value_dim, element % walk.value_dim));
    }
    float added = thread::load(states);
    for (int64_t segment = 1; segment < a.segments.count; ++segment) {
      const bool goes_on = segment + 1 < a.segments.count;
      const float next = goes_on ? thread::load(states + segment * elements) : 0.0F;
      before = before * thread::exp2(thread::load(totals + segment - 1)) + added;
      thread::store(states + segment * elements, before);
      added = next;
    }
  }
};

struct ChunkedParallel : BackwardBy<ChunkedParallel> {
  using BackwardBy<ChunkedParallel>::run, BackwardBy<ChunkedParallel>::workspace;
  static constexpr bool kFindsDots = true;

  template <class AnyCall>
  static bool supports(const AnyCall& call, Why& why) {
    return tensor_cores_take(call, why);
  }

  static size_t workspace_of_walk(const Walk& walk) {
    const int64_t count = segments_of(walk).count;
    if (count == 1) return 0;
    return static_cast<size_t>(count * (walk.state_elements() + walk.matrices())) * sizeof(float);
  }
  static Workspace workspace(const LinearAttention::Call& call) {
    return {.bytes = workspace_of_walk(call.walk)};
  }

  static void walk(DType dtype, DType /*out*/, const Walk& walk, const Context& context) {
    Segments segments = segments_of(walk);
    if (segments.count > 1) {
      segments.states = static_cast<float*>(context.workspace);
      segments.totals = segments.states + segments.count * walk.state_elements();
      segments.finds_states = true;
      walk_on_tensor_cores(dtype, walk, segments, context.stream);
      segments.finds_states = false;
      launch<StatesKernel>({.blocks = divide_up(walk.state_elements(), StatesKernel::kThreads),
                            .threads = StatesKernel::kThreads},
                           context.stream, {walk, segments});
    }
    walk_on_tensor_cores(dtype, walk, segments, context.stream);
  }
  static void run(const LinearAttention::Call& call, const Context& context) {
    if (call.walk.matrices() > 0) walk(call.dtype, call.dtype, call.walk, context);
  }
};

}  // namespace

extern const Rung kChunkedParallel;
constinit const Rung kChunkedParallel =
    rung_of<ChunkedParallel, kHalves, LinearAttention, LinearAttentionBackward>({
        .name = "chunked_parallel",
        .from = "chunked_mma",
        .idea = "segments of a head walked at one time, from states that a scan of few found",
    });

}  // namespace ws::linear_attention
