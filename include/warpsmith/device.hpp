// The ground under every kernel: CUDA under nvcc, the emulator under a host compiler.
//
// Kernels use CUDA's own words (__device__, #pragma unroll) and the functions below for who and
// where they are; nothing else in a kernel tells the two worlds apart.
#pragma once

#include <cstddef>
#include <cstdint>

#ifdef WS_EMULATED
#include <source_location>

#include "emulator/emulator.hpp"
// NOLINTBEGIN(bugprone-reserved-identifier)
#define __device__
#define __host__
#define __forceinline__ inline
// NOLINTEND(bugprone-reserved-identifier)
#else
#include <cuda_runtime.h>  // in a .cpp too, where the words mean nothing

#include "warpsmith/ptx/special_register.hpp"
#endif

// The last parameter of what touches memory or meets other threads: the place in the source that
// asks for it, by which the emulator tells of it. A function that stands between an instruction and
// the kernel whose line a reader would look for has the parameter too, and passes it on. On the GPU
// there is none.
#ifdef WS_EMULATED
#define WS_PLACE std::source_location place = std::source_location::current()
#define WS_AND_PLACE , WS_PLACE
#define WS_PASS_PLACE place
#define WS_PASS_AND_PLACE , place
// Where parameters without an end leave none for the place: it goes first, if it is known.
#define WS_PASS_FIRST_PLACE place,
#define WS_PASS_FIRST_NO_PLACE std::source_location(),
#else
#define WS_PLACE
#define WS_AND_PLACE
#define WS_PASS_PLACE
#define WS_PASS_AND_PLACE
#define WS_PASS_FIRST_PLACE
#define WS_PASS_FIRST_NO_PLACE
#endif

// Whether this compiler sees kernels: nvcc and the emulator's do. The host compiler's units of a
// CUDA build do not: for them, what kernels are made of does not exist.
#if defined(WS_EMULATED) || defined(__CUDACC__)
#define WS_DEVICE_CODE 1
#else
#define WS_DEVICE_CODE 0
#endif

namespace ws {

inline constexpr int kWarpSize = 32;
inline constexpr uint32_t kFullMask = 0xFFFFFFFFu;

#ifdef WS_EMULATED
inline int thread_index() { return emulator::self().index; }
inline int block_threads() { return emulator::self().block->threads; }
inline int64_t block_index() { return emulator::self().block->index; }
inline int64_t grid_blocks() { return emulator::grid_blocks(); }
inline int cluster_rank() { return emulator::self().block->cluster_rank; }
inline int cluster_size() { return emulator::cluster_size(); }
#elif defined(__CUDACC__)
// Position of the thread in its block. Blocks and grids are one-dimensional throughout: a kernel
// that walks tiles says itself how an index becomes a tile.
__device__ __forceinline__ int thread_index() { return static_cast<int>(threadIdx.x); }
__device__ __forceinline__ int block_threads() { return static_cast<int>(blockDim.x); }
__device__ __forceinline__ int64_t block_index() { return blockIdx.x; }
__device__ __forceinline__ int64_t grid_blocks() { return gridDim.x; }
// Clusters are one-dimensional too: a block's rank is its index modulo the cluster's size.
__device__ __forceinline__ int cluster_rank() { return static_cast<int>(ptx::cluster_ctarank()); }
__device__ __forceinline__ int cluster_size() { return static_cast<int>(ptx::cluster_nctarank()); }
#endif

#if WS_DEVICE_CODE
__device__ __forceinline__ int lane_index() { return thread_index() % kWarpSize; }
__device__ __forceinline__ int warp_index() { return thread_index() / kWarpSize; }
#endif

}  // namespace ws
