// Thread block clusters: their barrier, and the shared memory of the other blocks (PTX ISA,
// "barrier.cluster", "mapa", "ld", "st", "st.async", "elect.sync").
#pragma once

#include <bit>

#include "warpsmith/ptx/address.hpp"

#ifdef WS_EMULATED
#include "emulator/copies.hpp"
#endif

namespace ws::ptx {

// barrier.cluster.arrive.release.aligned: arrives; what this thread did is seen by those who wait.
__device__ __forceinline__ void cluster_arrive(WS_PLACE) {
#ifdef WS_EMULATED
  emulator::at(place);
  emulator::barrier_cluster_arrive(true);
#else
  asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
#endif
}

// barrier.cluster.arrive.relaxed.aligned: arrives without passing memory on.
__device__ __forceinline__ void cluster_arrive_relaxed(WS_PLACE) {
#ifdef WS_EMULATED
  emulator::at(place);
  emulator::barrier_cluster_arrive(false);
#else
  asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
#endif
}

// barrier.cluster.wait.acquire.aligned: waits until all threads of the cluster have arrived.
__device__ __forceinline__ void cluster_wait(WS_PLACE) {
#ifdef WS_EMULATED
  emulator::at(place);
  emulator::barrier_cluster_wait();
#else
  asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
#endif
}

// All threads of the cluster meet. A kernel that touches other blocks' shared memory begins with
// one (they may not run yet) and ends with one (they may be gone).
__device__ __forceinline__ void cluster_sync(WS_PLACE) {
  cluster_arrive(WS_PASS_PLACE);
  cluster_wait(WS_PASS_PLACE);
}

// mapa.shared::cluster: the address of the byte in block `rank`'s shared memory that stands where
// `local` stands in this block's.
__device__ __forceinline__ uint32_t map_shared_rank(const void* local, int rank WS_AND_PLACE) {
#ifdef WS_EMULATED
  emulator::at(place);
  return emulator::map_shared_rank(local, rank);
#else
  uint32_t address = 0;
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;"
               : "=r"(address)
               : "r"(shared_address(local)), "r"(rank));
  return address;
#endif
}

// A value that one ld or st of 4, 8 or 16 bytes moves.
template <class T>
concept ClusterValue =
    std::is_trivially_copyable_v<T> && (sizeof(T) == 4 || sizeof(T) == 8 || sizeof(T) == 16);

// ld.shared::cluster: loads from any block's shared memory; `address` from map_shared_rank.
template <ClusterValue T>
__device__ __forceinline__ T ld_shared_cluster(uint32_t address WS_AND_PLACE) {
#ifdef WS_EMULATED
  emulator::at(place);
  T value;
  emulator::load_cluster(&value, address, sizeof(T));
  return value;
#else
  if constexpr (sizeof(T) == 4) {
    uint32_t bits = 0;
    asm volatile("ld.shared::cluster.b32 %0, [%1];" : "=r"(bits) : "r"(address) : "memory");
    return std::bit_cast<T>(bits);
  } else if constexpr (sizeof(T) == 8) {
    uint64_t bits = 0;
    asm volatile("ld.shared::cluster.b64 %0, [%1];" : "=l"(bits) : "r"(address) : "memory");
    return std::bit_cast<T>(bits);
  } else {
    uint4 bits{};
    asm volatile("ld.shared::cluster.v4.b32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(bits.x), "=r"(bits.y), "=r"(bits.z), "=r"(bits.w)
                 : "r"(address)
                 : "memory");
    return std::bit_cast<T>(bits);
  }
#endif
}

// st.shared::cluster: stores to any block's shared memory.
template <ClusterValue T>
__device__ __forceinline__ void st_shared_cluster(uint32_t address, const T& value WS_AND_PLACE) {
#ifdef WS_EMULATED
  emulator::at(place);
  emulator::store_cluster(address, &value, sizeof(T));
#else
  if constexpr (sizeof(T) == 4) {
    asm volatile("st.shared::cluster.b32 [%0], %1;" ::"r"(address),
                 "r"(std::bit_cast<uint32_t>(value))
                 : "memory");
  } else if constexpr (sizeof(T) == 8) {
    asm volatile("st.shared::cluster.b64 [%0], %1;" ::"r"(address),
                 "l"(std::bit_cast<uint64_t>(value))
                 : "memory");
  } else {
    const uint4 bits = std::bit_cast<uint4>(value);
    asm volatile("st.shared::cluster.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(address), "r"(bits.x),
                 "r"(bits.y), "r"(bits.z), "r"(bits.w)
                 : "memory");
  }
#endif
}

// st.async: stores to another block's shared memory and then counts the bytes on the mbarrier at
// `mbarrier`, which is in the same block as `address`: both from map_shared_rank.
template <ClusterValue T>
__device__ __forceinline__ void st_async(uint32_t address, const T& value,
                                         uint32_t mbarrier WS_AND_PLACE) {
#ifdef WS_EMULATED
  emulator::at(place);
  emulator::st_async(address, &value, sizeof(T), mbarrier);
#else
  if constexpr (sizeof(T) == 4) {
    asm volatile(
        "st.async.shared::cluster.mbarrier::complete_tx::bytes.b32 [%0], %1, [%2];" ::"r"(address),
        "r"(std::bit_cast<uint32_t>(value)), "r"(mbarrier)
        : "memory");
  } else if constexpr (sizeof(T) == 8) {
    asm volatile(
        "st.async.shared::cluster.mbarrier::complete_tx::bytes.b64 [%0], %1, [%2];" ::"r"(address),
        "l"(std::bit_cast<uint64_t>(value)), "r"(mbarrier)
        : "memory");
  } else {
    const uint4 bits = std::bit_cast<uint4>(value);
    asm volatile(
        "st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.b32 [%0], {%1, %2, %3, %4}, "
        "[%5];" ::"r"(address),
        "r"(bits.x), "r"(bits.y), "r"(bits.z), "r"(bits.w), "r"(mbarrier)
        : "memory");
  }
#endif
}

// elect.sync: true in one of the lanes of `mask`, always the same for a mask; which one is not
// said.
__device__ __forceinline__ bool elect_sync(uint32_t mask = kFullMask WS_AND_PLACE) {
#ifdef WS_EMULATED
  emulator::at(place);
  return emulator::elect(mask);
#else
  uint32_t elected = 0;
  asm volatile(
      "{\n"
      ".reg .pred elected;\n"
      "elect.sync _|elected, %1;\n"
      "selp.u32 %0, 1, 0, elected;\n"
      "}"
      : "=r"(elected)
      : "r"(mask)
      : "memory");
  return elected != 0;
#endif
}

}  // namespace ws::ptx
