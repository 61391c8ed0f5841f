// DeviceFacts as CUDA's runtime tells them, of a CUDA build only.
#pragma once

#include <cuda_runtime.h>

#include <array>
#include <mutex>

#include "warpsmith/device_facts.hpp"
#include "warpsmith/launch.hpp"

namespace ws::detail {

inline int attribute(cudaDeviceAttr which, int device) {
  int value = 0;
  check_cuda(cudaDeviceGetAttribute(&value, which, device), "cudaDeviceGetAttribute");
  return value;
}

inline DeviceFacts facts_of(int device) {
  DeviceFacts facts;
  facts.capability = 10 * attribute(cudaDevAttrComputeCapabilityMajor, device) +
                     attribute(cudaDevAttrComputeCapabilityMinor, device);
  facts.multiprocessors = attribute(cudaDevAttrMultiProcessorCount, device);
  facts.threads_per_multiprocessor = attribute(cudaDevAttrMaxThreadsPerMultiProcessor, device);
  facts.shared_bytes = attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin, device);
  facts.l2_bytes = static_cast<size_t>(attribute(cudaDevAttrL2CacheSize, device));
  facts.clock = 1e3 * attribute(cudaDevAttrClockRate, device);
  // Two transfers per clock.
  facts.memory_rate = 2e3 * attribute(cudaDevAttrMemoryClockRate, device) *
                      attribute(cudaDevAttrGlobalMemoryBusWidth, device) / 8;
  return facts;
}

inline const DeviceFacts& facts_of_current_device() {
  static std::array<DeviceFacts, kMaxDevices> known;
  static std::array<std::once_flag, kMaxDevices> asked;
  const size_t device = current_device();
  std::call_once(asked[device], [device] { known[device] = facts_of(static_cast<int>(device)); });
  return known[device];
}

}  // namespace ws::detail
