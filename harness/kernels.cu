#include "harness/kernels.hpp"

#include "warpsmith/ptx/special_register.hpp"
#include "warpsmith/thread/divide.hpp"
#include "warpsmith/thread/memory.hpp"

namespace ws::harness {
namespace {

// One access of 16 bytes a thread, many small blocks in address order: the best copy that we know
// of beside cudaMemcpyAsync (results/JOURNAL.md).
struct CopyKernel {
  static constexpr int kThreads = 256;
  struct Arguments {
    float* target;
    const float* source;
    int64_t vectors;
  };
  struct SharedStorage {};

  __device__ void operator()(SharedStorage&, const Arguments& a) const {
    const int64_t at = block_index() * kThreads + thread_index();
    if (at < a.vectors) thread::store(a.target + 4 * at, thread::load<4>(a.source + 4 * at));
  }
};

struct FlushKernel {
  static constexpr int kThreads = 512;
  struct Arguments {
    const float* source;
    int64_t vectors;
    float* sink;  // null
  };
  struct SharedStorage {};

  __device__ void operator()(SharedStorage&, const Arguments& a) const {
    float sum = 0;
    for (int64_t i = block_index() * kThreads + thread_index(); i < a.vectors;
         i += grid_blocks() * kThreads) {
      const Vec<float, 4> v = thread::load<4>(a.source + 4 * i);
      sum += v[0] + v[1] + v[2] + v[3];
    }
    // Nobody passes a sink; the compiler cannot know, and keeps the loads.
    if (a.sink != nullptr) thread::store(a.sink + thread_index(), sum);
  }
};

struct DelayKernel {
  static constexpr int kThreads = 32;
  struct Arguments {
    int64_t clocks;
  };
  struct SharedStorage {};

  __device__ void operator()(SharedStorage&, const Arguments& a) const {
    const int64_t start = ptx::clock64();
    while (ptx::clock64() - start < a.clocks) {
    }
  }
};

}  // namespace

void launch_copy(void* target, const void* source, size_t bytes, Stream stream) {
  const auto vectors = static_cast<int64_t>(bytes / 16);
  constexpr int64_t kPerBlock = CopyKernel::kThreads;
  if (vectors == 0) return;
  launch<CopyKernel>({.blocks = divide_up(vectors, kPerBlock), .threads = CopyKernel::kThreads},
                     stream,
                     {static_cast<float*>(target), static_cast<const float*>(source), vectors});
}

void launch_flush(const void* buffer, size_t bytes, Stream stream) {
  launch<FlushKernel>(
      {.blocks = 1024, .threads = FlushKernel::kThreads}, stream,
      {static_cast<const float*>(buffer), static_cast<int64_t>(bytes / 16), nullptr});
}

void launch_delay(int64_t clocks, Stream stream) {
  launch<DelayKernel>({.blocks = 1, .threads = 32}, stream, {clocks});
}

}  // namespace ws::harness
