// What device code calls: who am I, barriers, shuffles, votes, fences, clocks.
#pragma once

#include <type_traits>

#include "warpsmith_cuda/types.hpp"

namespace ws::cuda_file::device {

// What the rewriter makes of threadIdx, blockIdx, blockDim and gridDim: real numbers, which `auto`
// and printf take as well. Constant for a thread, so that a compiler asks once.
[[gnu::const]] uint3 thread_index();
[[gnu::const]] uint3 block_index();
[[gnu::const]] dim3 block_extent();
[[gnu::const]] dim3 grid_extent();

// PTX's special registers. Where blocks run means nothing here, nor do clocks.
WS_CUDA_INLINE unsigned thread_number() {
  const uint3 t = thread_index();
  const dim3 b = block_extent();
  return (t.z * b.y + t.y) * b.x + t.x;
}
WS_CUDA_INLINE unsigned lane() { return thread_number() % 32; }
WS_CUDA_INLINE unsigned warp() { return thread_number() / 32; }
WS_CUDA_INLINE unsigned lane_mask_equal() { return 1u << lane(); }
WS_CUDA_INLINE unsigned lane_mask_below() { return lane_mask_equal() - 1; }
WS_CUDA_INLINE unsigned lane_mask_from() { return ~lane_mask_below(); }
WS_CUDA_INLINE unsigned lane_mask_above() { return lane_mask_from() & ~lane_mask_equal(); }
WS_CUDA_INLINE unsigned lane_mask_up_to() { return ~lane_mask_above(); }
WS_CUDA_INLINE constexpr unsigned multiprocessors() { return 132; }
WS_CUDA_INLINE unsigned multiprocessor() {
  const uint3 at = block_index();
  const dim3 grid = grid_extent();
  return ((at.z * grid.y + at.y) * grid.x + at.x) % multiprocessors();
}
unsigned long long clock();

enum class Shuffle { kIndex, kUp, kDown, kXor };
// `words` of 4 bytes each, in place.
void shuffle(Shuffle mode, unsigned mask, void* words, int count, int lane, int width,
             std::source_location place);
unsigned ballot(unsigned mask, bool predicate, std::source_location place);
unsigned match(unsigned mask, unsigned long long value, std::source_location place);
enum class Reduction { kAdd, kMin, kMax, kAnd, kOr, kXor };
unsigned reduce(Reduction operation, unsigned mask, unsigned value, bool is_signed,
                std::source_location place);
enum class BlockVote { kCount, kAnd, kOr };
int sync_threads(BlockVote vote, bool predicate, std::source_location place);
enum class Scope { kBlock, kDevice, kSystem };
void fence(Scope scope, std::source_location place);
void sync_grid(std::source_location place);
bool is_cooperative();
void arrive_cluster(std::source_location place);
void wait_cluster(std::source_location place);
unsigned cluster_rank();
unsigned cluster_blocks();
void* map_to_rank(const void* shared, unsigned rank, std::source_location place);
// All lanes of the warp meet, each with something of its own: the last one acts for all.
void converge(const char* operation, void* mine, void (*act)(void* const* lanes),
              std::source_location place);
bool is_shared(const void* address);
bool is_global(const void* address);
bool is_constant(const void* address);
bool is_local(const void* address);

template <class T>
WS_CUDA_INLINE T shuffle_value(Shuffle mode, unsigned mask, T value, int lane, int width,
                               std::source_location place) {
  static_assert(std::is_trivially_copyable_v<T>);
  constexpr int kWords = (sizeof(T) + 3) / 4;
  unsigned words[kWords] = {};
  __builtin_memcpy(words, &value, sizeof(T));
  shuffle(mode, mask, words, kWords, lane, width, place);
  __builtin_memcpy(&value, words, sizeof(T));
  return value;
}

}  // namespace ws::cuda_file::device

// NOLINTBEGIN
inline constexpr int warpSize = 32;

void __syncthreads(WS_CUDA_PLACE);
void __syncwarp(unsigned mask = 0xFFFFFFFFu, WS_CUDA_PLACE);
WS_CUDA_INLINE int __syncthreads_count(int predicate, WS_CUDA_PLACE) {
  return ::ws::cuda_file::device::sync_threads(::ws::cuda_file::device::BlockVote::kCount,
                                               predicate != 0, place);
}
WS_CUDA_INLINE int __syncthreads_and(int predicate, WS_CUDA_PLACE) {
  return ::ws::cuda_file::device::sync_threads(::ws::cuda_file::device::BlockVote::kAnd,
                                               predicate != 0, place);
}
WS_CUDA_INLINE int __syncthreads_or(int predicate, WS_CUDA_PLACE) {
  return ::ws::cuda_file::device::sync_threads(::ws::cuda_file::device::BlockVote::kOr,
                                               predicate != 0, place);
}

#define WS_SHUFFLE(name, mode, Lane)                                                            \
  template <class T>                                                                            \
  WS_CUDA_INLINE T name(unsigned mask, T value, Lane lane, int width = 32, WS_CUDA_PLACE) {     \
    return ::ws::cuda_file::device::shuffle_value(::ws::cuda_file::device::Shuffle::mode, mask, \
                                                  value, static_cast<int>(lane), width, place); \
  }
WS_SHUFFLE(__shfl_sync, kIndex, int)
WS_SHUFFLE(__shfl_up_sync, kUp, unsigned)
WS_SHUFFLE(__shfl_down_sync, kDown, unsigned)
WS_SHUFFLE(__shfl_xor_sync, kXor, int)
#undef WS_SHUFFLE

WS_CUDA_INLINE unsigned __ballot_sync(unsigned mask, int predicate, WS_CUDA_PLACE) {
  return ::ws::cuda_file::device::ballot(mask, predicate != 0, place);
}
WS_CUDA_INLINE int __any_sync(unsigned mask, int predicate, WS_CUDA_PLACE) {
  return ::ws::cuda_file::device::ballot(mask, predicate != 0, place) != 0;
}
WS_CUDA_INLINE int __all_sync(unsigned mask, int predicate, WS_CUDA_PLACE) {
  return ::ws::cuda_file::device::ballot(mask, predicate != 0, place) == mask;
}
WS_CUDA_INLINE int __uni_sync(unsigned mask, int predicate, WS_CUDA_PLACE) {
  const unsigned votes = ::ws::cuda_file::device::ballot(mask, predicate != 0, place);
  return votes == 0 || votes == mask;
}
unsigned __activemask(WS_CUDA_PLACE);

template <class T>
WS_CUDA_INLINE unsigned __match_any_sync(unsigned mask, T value, WS_CUDA_PLACE) {
  static_assert(sizeof(T) == 4 || sizeof(T) == 8, "__match_any_sync takes 4 or 8 bytes");
  unsigned long long bits = 0;
  __builtin_memcpy(&bits, &value, sizeof(T));
  return ::ws::cuda_file::device::match(mask, bits, place);
}
template <class T>
WS_CUDA_INLINE unsigned __match_all_sync(unsigned mask, T value, int* predicate, WS_CUDA_PLACE) {
  const unsigned same = __match_any_sync(mask, value, place);
  *predicate = same == mask;
  return same == mask ? mask : 0;
}

#define WS_REDUCE(name, operation)                                                              \
  WS_CUDA_INLINE unsigned name(unsigned mask, unsigned value, WS_CUDA_PLACE) {                  \
    return ::ws::cuda_file::device::reduce(::ws::cuda_file::device::Reduction::operation, mask, \
                                           value, false, place);                                \
  }                                                                                             \
  WS_CUDA_INLINE int name(unsigned mask, int value, WS_CUDA_PLACE) {                            \
    return static_cast<int>(                                                                    \
        ::ws::cuda_file::device::reduce(::ws::cuda_file::device::Reduction::operation, mask,    \
                                        static_cast<unsigned>(value), true, place));            \
  }
WS_REDUCE(__reduce_add_sync, kAdd)
WS_REDUCE(__reduce_min_sync, kMin)
WS_REDUCE(__reduce_max_sync, kMax)
WS_REDUCE(__reduce_and_sync, kAnd)
WS_REDUCE(__reduce_or_sync, kOr)
WS_REDUCE(__reduce_xor_sync, kXor)
#undef WS_REDUCE

WS_CUDA_INLINE void __threadfence_block(WS_CUDA_PLACE) {
  ::ws::cuda_file::device::fence(::ws::cuda_file::device::Scope::kBlock, place);
}
WS_CUDA_INLINE void __threadfence(WS_CUDA_PLACE) {
  ::ws::cuda_file::device::fence(::ws::cuda_file::device::Scope::kDevice, place);
}
WS_CUDA_INLINE void __threadfence_system(WS_CUDA_PLACE) {
  ::ws::cuda_file::device::fence(::ws::cuda_file::device::Scope::kSystem, place);
}

// Counters that grow; what they count means nothing here.
long long clock64();
unsigned long long __globaltimer();
void __nanosleep(unsigned nanoseconds, WS_CUDA_PLACE);
[[noreturn]] void __trap(WS_CUDA_PLACE);
void __brkpt();
#define __builtin_assume(...) ((void)0)
WS_CUDA_INLINE void __prof_trigger(int) {}

// Loads and stores with an opinion about caches are loads and stores.
#define WS_LOAD(name)                       \
  template <class T>                        \
  WS_CUDA_INLINE T name(const T* address) { \
    return *address;                        \
  }
WS_LOAD(__ldg)
WS_LOAD(__ldca)
WS_LOAD(__ldcg)
WS_LOAD(__ldcs)
WS_LOAD(__ldlu)
WS_LOAD(__ldcv)
#undef WS_LOAD
#define WS_STORE(name)                                              \
  template <class T>                                                \
  WS_CUDA_INLINE void name(T* address, std::type_identity_t<T> v) { \
    *address = v;                                                   \
  }
WS_STORE(__stwb)
WS_STORE(__stcg)
WS_STORE(__stcs)
WS_STORE(__stwt)
#undef WS_STORE

WS_CUDA_INLINE unsigned __isShared(const void* p) { return ::ws::cuda_file::device::is_shared(p); }
WS_CUDA_INLINE unsigned __isGlobal(const void* p) { return ::ws::cuda_file::device::is_global(p); }
WS_CUDA_INLINE unsigned __isConstant(const void* p) {
  return ::ws::cuda_file::device::is_constant(p);
}
WS_CUDA_INLINE unsigned __isLocal(const void* p) { return ::ws::cuda_file::device::is_local(p); }
size_t __cvta_generic_to_shared(const void* pointer);
WS_CUDA_INLINE size_t __cvta_generic_to_global(const void* p) {
  return reinterpret_cast<size_t>(p);
}
// NOLINTEND
