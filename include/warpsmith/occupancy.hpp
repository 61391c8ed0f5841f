// How many blocks of a kernel a device holds at once: what persistent grids are sized by.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>

#include "warpsmith/device_facts.hpp"

namespace ws {

// Blocks of `grid` that the current device holds at once, whole clusters; grid.blocks is not looked
// at. Remembered per kernel, device and cluster size: call it with one shape of threads and shared
// memory for each of these.
template <class Kernel>
int64_t resident_blocks(const Grid& grid) {
#ifdef WS_EMULATED
  return static_cast<int64_t>(device_facts().multiprocessors) * grid.cluster;
#else
  constexpr int kMaxCluster = 16;
  constexpr int kMaxDevices = 64;
  static std::array<std::array<std::atomic<int64_t>, kMaxDevices>, kMaxCluster + 1> known{};
  int device = 0;
  detail::check_cuda(cudaGetDevice(&device), "cudaGetDevice");
  require(grid.cluster <= kMaxCluster && device < kMaxDevices, "cluster ", grid.cluster, " device ",
          device);
  std::atomic<int64_t>& slot =
      known[static_cast<size_t>(grid.cluster)][static_cast<size_t>(device)];
  const int64_t remembered = slot.load(std::memory_order_relaxed);
  if (remembered != 0) return remembered;
  const int64_t blocks = [&] {
    const auto function = &detail::entry<Kernel>;
    const size_t shared_bytes = detail::static_shared_bytes<Kernel>() + grid.dynamic_shared;
    detail::check_cuda(
        cudaFuncSetAttribute(function, cudaFuncAttributeMaxDynamicSharedMemorySize,
                             static_cast<int>(shared_bytes)),
        "cudaFuncSetAttribute(shared memory)");
    if (grid.cluster == 1) {
      int per_multiprocessor = 0;
      detail::check_cuda(cudaOccupancyMaxActiveBlocksPerMultiprocessor(
                             &per_multiprocessor, function, grid.threads, shared_bytes),
                         "cudaOccupancyMaxActiveBlocksPerMultiprocessor");
      return std::max<int64_t>(1, int64_t{per_multiprocessor} * device_facts().multiprocessors);
    }
    if (grid.cluster > 8) {
      detail::check_cuda(
          cudaFuncSetAttribute(function, cudaFuncAttributeNonPortableClusterSizeAllowed, 1),
          "cudaFuncSetAttribute(cluster size)");
    }
    cudaLaunchAttribute attribute{};
    attribute.id = cudaLaunchAttributeClusterDimension;
    attribute.val.clusterDim.x = static_cast<unsigned>(grid.cluster);
    attribute.val.clusterDim.y = 1;
    attribute.val.clusterDim.z = 1;
    cudaLaunchConfig_t config{};
    config.gridDim = dim3(static_cast<unsigned>(grid.cluster));
    config.blockDim = dim3(static_cast<unsigned>(grid.threads));
    config.dynamicSmemBytes = shared_bytes;
    config.attrs = &attribute;
    config.numAttrs = 1;
    int clusters = 0;
    detail::check_cuda(cudaOccupancyMaxActiveClusters(&clusters, function, &config),
                       "cudaOccupancyMaxActiveClusters");
    return std::max<int64_t>(1, clusters) * grid.cluster;
  }();
  slot.store(blocks, std::memory_order_relaxed);
  return blocks;
#endif
}

}  // namespace ws
