// The words that CUDA adds to C++, where the rewriter leaves them to the preprocessor. Those that
// tell of a compiler for CUDA are on the command line (cuda_file/build.cpp).
#pragma once

#include <source_location>

// NOLINTBEGIN(bugprone-reserved-identifier)
#define CUDART_VERSION 12080
#define CUDA_VERSION 12080

#define __global__
#define __device__
#define __host__
#define __constant__
#define __managed__
#define __grid_constant__
#define __launch_bounds__(...)
#define __maxnreg__(...)
#define __cluster_dims__(...)
#define __forceinline__ inline
#define __align__(n) __attribute__((aligned(n)))
#define __builtin_align__(n) __attribute__((aligned(n)))
#define __device_builtin__
#define CUDARTAPI
#define CUDART_CB
#define CUDAAPI
#define CUDA_CB
// NOLINTEND(bugprone-reserved-identifier)

// The last parameter of what the emulator should tell the place of.
#define WS_CUDA_PLACE ::std::source_location place = ::std::source_location::current()
// For what stands in these headers and is part of the kernel that calls it: its accesses are the
// kernel's, at the kernel's lines.
#define WS_CUDA_INLINE __attribute__((always_inline)) inline
