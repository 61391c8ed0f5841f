// What NVIDIA's samples bring along: a check of each call, and the choice of a device.
#pragma once

#include <cstdio>
#include <cstdlib>

#include <cuda_runtime.h>

// NOLINTBEGIN
inline const char* _cudaGetErrorEnum(cudaError_t error) { return cudaGetErrorName(error); }
template <class T>
void check(T result, const char* call, const char* file, int line) {
  if (result == T{}) return;
  std::fprintf(stderr, "CUDA error at %s:%d code=%u(%s) \"%s\"\n", file, line,
               static_cast<unsigned>(result), cudaGetErrorName(result), call);
  std::exit(EXIT_FAILURE);
}
#define checkCudaErrors(value) check((value), #value, __FILE__, __LINE__)
inline void __getLastCudaError(const char* message, const char* file, int line) {
  const cudaError_t error = cudaGetLastError();
  if (error == cudaSuccess) return;
  std::fprintf(stderr, "%s(%d): %s: (%d) %s\n", file, line, message, static_cast<int>(error),
               cudaGetErrorString(error));
  std::exit(EXIT_FAILURE);
}
#define getLastCudaError(message) __getLastCudaError(message, __FILE__, __LINE__)
inline int findCudaDevice(int, const char**) { return 0; }
inline int gpuGetMaxGflopsDeviceId() { return 0; }
inline int _ConvertSMVer2Cores(int, int) { return 128; }
#ifndef MAX
#define MAX(a, b) (a > b ? a : b)
#endif
// NOLINTEND
