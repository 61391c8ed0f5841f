// Idea: a warp's request is served in sectors of 32 bytes: what its lanes ask for should lie side
//   by side, so that all of each sector is used.
// From strided to chunk_per_thread: lanes are as far apart as before, but what a request leaves of
//   its sectors is what the next ones of the same lanes want: a cache may have kept it.
// From chunk_per_thread to coalesced: neighbouring lanes take neighbouring elements.
// From coalesced to vectorized: four elements a lane: 16 sectors a request, a quarter of requests.
// Traffic: 8 sectors for each that is needed, on both sides, of the first two; each byte once.
// Limits: none; vectorized wants tensors that start at multiples of 16 bytes.
#pragma once

#include "kernels/lessons/launch_each.hpp"

namespace ws::lessons {

// Elements from one lane's to the next one's, in the first two: 128 bytes, a cache line.
inline constexpr int kApart = 32;

struct StridedKernel {
  static constexpr int kThreads = 256;
  using Arguments = Call;
  struct SharedStorage {};

  // x as a matrix of kApart columns, whose elements are taken column by column.
  __device__ void operator()(SharedStorage& /*shared*/, const Arguments& a) const {
    const int64_t rows = divide_up(a.count, kApart);
    const int64_t t = block_index() * kThreads + thread_index();
    const int64_t column = t / rows;
    const int64_t row = t % rows;
    const int64_t i = row * kApart + column;
    if (column < kApart && i < a.count) thread::store(a.y + i, thread::load(a.x + i));
  }
};

struct ChunkPerThreadKernel {
  static constexpr int kThreads = 256;
  static constexpr int kPerBlock = kThreads * kApart;
  using Arguments = Call;
  struct SharedStorage {};

  __device__ void operator()(SharedStorage& /*shared*/, const Arguments& a) const {
    const int64_t first = (block_index() * kThreads + thread_index()) * kApart;
    const int64_t last = first + kApart < a.count ? first + kApart : a.count;
    for (int64_t i = first; i < last; ++i) thread::store(a.y + i, thread::load(a.x + i));
  }
};

struct CoalescedKernel {
  static constexpr int kThreads = 256;
  static constexpr int kPerBlock = kThreads;
  using Arguments = Call;
  struct SharedStorage {};

  __device__ void operator()(SharedStorage& /*shared*/, const Arguments& a) const {
    const int64_t i = block_index() * kThreads + thread_index();
    if (i < a.count) thread::store(a.y + i, thread::load(a.x + i));
  }
};

struct VectorizedKernel {
  static constexpr int kThreads = 256;
  static constexpr int kPerBlock = kThreads * 4;
  using Arguments = Call;
  struct SharedStorage {};

  __device__ void operator()(SharedStorage& /*shared*/, const Arguments& a) const {
    const int64_t i = (block_index() * kThreads + thread_index()) * 4;
    if (i + 4 <= a.count) {
      thread::store(a.y + i, thread::load<4>(a.x + i));
    } else {
      for (int64_t e = i; e < a.count; ++e) thread::store(a.y + e, thread::load(a.x + e));
    }
  }
};

struct Strided {
  static void run(const Call& call, const Context& context) {
    const int64_t places = round_up(call.count, kApart);  // of the matrix
    launch<StridedKernel>(
        {.blocks = divide_up(places, StridedKernel::kThreads), .threads = StridedKernel::kThreads},
        context.stream, call);
  }
};

struct Vectorized : LaunchEach<VectorizedKernel> {
  static bool supports(const Call& call, Why& why) {
    return why.unless(
        (reinterpret_cast<uintptr_t>(call.x) | reinterpret_cast<uintptr_t>(call.y)) % 16 == 0,
        "takes tensors that start at multiples of 16 bytes");
  }
};

inline constexpr Rung kStrided = rung_of<Strided, Coalescing>({
    .name = "strided",
    .idea = "neighbouring lanes take elements 128 bytes apart",
    .file = "01_coalescing.cuh",
});
inline constexpr Rung kChunkPerThread = rung_of<LaunchEach<ChunkPerThreadKernel>, Coalescing>({
    .name = "chunk_per_thread",
    .from = "strided",
    .idea = "a thread walks through its own 128 bytes: as scattered, but soon again",
    .file = "01_coalescing.cuh",
});
inline constexpr Rung kCoalesced = rung_of<LaunchEach<CoalescedKernel>, Coalescing>({
    .name = "coalesced",
    .from = "chunk_per_thread",
    .idea = "neighbouring lanes take neighbouring elements",
    .file = "01_coalescing.cuh",
});
// The public list has one entry for the five subjects.
inline constexpr Seed kLessonsSeeds[] = {
    {.name = "bank conflicts; warp divergence; unified memory; unrolling; coalescing"}};
inline constexpr Rung kVectorized = rung_of<Vectorized, Coalescing>({
    .name = "vectorized",
    .from = "coalesced",
    .idea = "the same in 16 bytes a lane",
    .seeds = kLessonsSeeds,
    .file = "01_coalescing.cuh",
});

}  // namespace ws::lessons
