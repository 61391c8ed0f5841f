// launch<Kernel>(grid, stream, arguments): the one way from the host into a kernel.
//
// A kernel is a struct:
//   static constexpr int kThreads;             // most threads a block may have: its launch bound
//   static constexpr int kMinBlocks;           // optional: blocks an SM must hold (registers)
//   static constexpr Arch kArch;               // optional, kSm80: least architecture
//   struct Arguments { ... };                  // trivially copyable, passed by value
//   struct SharedStorage { ... };              // its static shared memory
//   __device__ void operator()(SharedStorage&, const Arguments&) const;
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <string>
#include <type_traits>

#include "warpsmith/arch.hpp"
#include "warpsmith/device.hpp"
#include "warpsmith/device_facts.hpp"
#include "warpsmith/error.hpp"
#include "warpsmith/stream.hpp"

namespace ws {

// Shape of a launch: blocks and threads in one dimension.
struct Grid {
  int64_t blocks = 1;
  int threads = 1;
  int cluster = 1;            // blocks per cluster; needs sm_90 where it is not 1
  size_t dynamic_shared = 0;  // bytes beyond SharedStorage, see dynamic_shared()
  bool cooperative = false;   // all blocks resident at once, so that they may wait for each other
  // Begins while the launch before it in the stream ends, where the GPU can; then every thread of
  // it calls ptx::griddepcontrol_wait(). Worth a few us to a small kernel that goes on from a large
  // one.
  bool overlaps = false;
};

// Facts of a kernel that a launch would run, for `resources` and `show`. Without a GPU only the
// first line is known.
struct KernelFacts {
  Grid grid;
  size_t shared_bytes = 0;      // static and dynamic
  const void* entry = nullptr;  // for cudaFuncGetAttributes; null in the emulator
};

// While a LaunchObserver lives on this host thread, launches are reported to it and not executed.
class LaunchObserver {
 public:
  LaunchObserver() : above_(top()) { top() = this; }
  LaunchObserver(const LaunchObserver&) = delete;
  LaunchObserver& operator=(const LaunchObserver&) = delete;
  virtual ~LaunchObserver() { top() = above_; }
  virtual void observe(const KernelFacts& facts) = 0;

  static LaunchObserver*& top() {
    static thread_local LaunchObserver* instance = nullptr;
    return instance;
  }

 private:
  LaunchObserver* above_;
};

namespace detail {

template <class Kernel>
consteval Arch arch_of() {
  if constexpr (requires { Kernel::kArch; }) {
    return Kernel::kArch;
  } else {
    return Arch::kSm80;
  }
}

template <class Kernel>
consteval int min_blocks_of() {
  if constexpr (requires { Kernel::kMinBlocks; }) {
    return Kernel::kMinBlocks;
  } else {
    return 1;
  }
}

inline std::string describe(const Grid& grid, size_t shared_bytes) {
  return concatenate("blocks=", grid.blocks, " threads=", grid.threads, " cluster=", grid.cluster,
                     " shared=", shared_bytes, grid.cooperative ? " cooperative" : "");
}

// An empty SharedStorage asks for no shared memory.
template <class Kernel>
constexpr size_t static_shared_bytes() {
  using Storage = typename Kernel::SharedStorage;
  return std::is_empty_v<Storage> ? 0 : (sizeof(Storage) + 15) / 16 * 16;
}

#ifdef __CUDACC__
template <class Kernel>
__global__ void __launch_bounds__(Kernel::kThreads, min_blocks_of<Kernel>())
    entry(const __grid_constant__ typename Kernel::Arguments arguments) {
  // Compiled for an older architecture the kernel is empty: `supports` never lets it run there.
#ifdef __CUDA_ARCH__
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  constexpr bool kHasSm90a = true;
#else
  constexpr bool kHasSm90a = false;
#endif
#ifdef WS_EACH_KERNEL_ONCE
  constexpr bool kOnce = true;
#else
  constexpr bool kOnce = false;
#endif
  if constexpr (compiled_for(detail::arch_of<Kernel>(), __CUDA_ARCH__, kHasSm90a, kOnce)) {
    extern __shared__ __align__(1024) unsigned char memory[];
    Kernel{}(*reinterpret_cast<typename Kernel::SharedStorage*>(memory), arguments);
  }
#endif
}
#endif

#ifndef WS_EMULATED
inline void check_cuda(cudaError_t status, const char* what, const std::string& launch = {}) {
  if (status == cudaSuccess) return;
  cudaGetLastError();  // a sticky error would otherwise be blamed on the next call
  ErrorContext context;
  context.launch = launch;
  throw Error(concatenate(what, ": ", cudaGetErrorName(status), ": ", cudaGetErrorString(status)),
              context);
}

inline constexpr size_t kMaxDevices = 64;

inline size_t current_device() {
  int device = 0;
  check_cuda(cudaGetDevice(&device), "cudaGetDevice");
  require(device < static_cast<int>(kMaxDevices), "device ", device, ": at most ", kMaxDevices,
          " devices");
  return static_cast<size_t>(device);
}
#endif

#ifdef __CUDACC__
// A Grid as the runtime takes it; sets what the function must be told before.
template <class Kernel>
struct LaunchConfig {
  LaunchConfig(const Grid& grid, Stream stream) {
    const size_t shared_bytes = static_shared_bytes<Kernel>() + grid.dynamic_shared;
    const auto function = &entry<Kernel>;
    // Both attributes stick to the function, per device; setting one costs less than a tenth of a
    // launch, and small kernels skip it.
    if (shared_bytes > 48 * 1024) {
      check_cuda(cudaFuncSetAttribute(function, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                      static_cast<int>(shared_bytes)),
                 "cudaFuncSetAttribute(shared memory)", describe(grid, shared_bytes));
    }
    if (grid.cluster > 8) {
      check_cuda(cudaFuncSetAttribute(function, cudaFuncAttributeNonPortableClusterSizeAllowed, 1),
                 "cudaFuncSetAttribute(cluster size)", describe(grid, shared_bytes));
    }
    config.gridDim = dim3(static_cast<unsigned>(grid.blocks));
    config.blockDim = dim3(static_cast<unsigned>(grid.threads));
    config.dynamicSmemBytes = shared_bytes;
    config.stream = stream;
    config.attrs = attributes;
    if (arch_of<Kernel>() != Arch::kSm80) {  // older GPUs know no clusters, not even of one block
      cudaLaunchAttribute& attribute = attributes[config.numAttrs++];
      attribute.id = cudaLaunchAttributeClusterDimension;
      attribute.val.clusterDim.x = static_cast<unsigned>(grid.cluster);
      attribute.val.clusterDim.y = 1;
      attribute.val.clusterDim.z = 1;
    }
    if (grid.cooperative) {
      cudaLaunchAttribute& attribute = attributes[config.numAttrs++];
      attribute.id = cudaLaunchAttributeCooperative;
      attribute.val.cooperative = 1;
    }
    if (grid.overlaps && device_facts().capability >= 90) {
      cudaLaunchAttribute& attribute = attributes[config.numAttrs++];
      attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
      attribute.val.programmaticStreamSerializationAllowed = 1;
    }
  }
  LaunchConfig(const LaunchConfig&) = delete;  // `config` points into it
  LaunchConfig& operator=(const LaunchConfig&) = delete;

  cudaLaunchConfig_t config{};
  cudaLaunchAttribute attributes[3];
};
#endif

}  // namespace detail

// The host compiler's units of a CUDA build see the types above only.
#if WS_DEVICE_CODE
// Enqueues one launch; nothing is allocated, nothing waits. Throws ws::Error with CUDA's own words.
template <class Kernel>
void launch(const Grid& grid, [[maybe_unused]] Stream stream,
            const typename Kernel::Arguments& arguments) {
  static_assert(std::is_trivially_copyable_v<typename Kernel::Arguments>,
                "arguments travel to the device as bytes");
  const size_t shared_bytes = detail::static_shared_bytes<Kernel>() + grid.dynamic_shared;
  if (grid.threads < 1 || grid.threads > Kernel::kThreads || grid.blocks < 1 ||
      grid.blocks > 0x7FFFFFFF) [[unlikely]] {
    throw Error(concatenate("a launch of ", grid.blocks, " blocks of ", grid.threads,
                            " threads is outside [1, 2147483647] x [1, ", Kernel::kThreads, "]"));
  }
#ifdef WS_EMULATED
  if (LaunchObserver* observer = LaunchObserver::top()) {
    observer->observe({grid, shared_bytes, nullptr});
    return;
  }
  emulator::launch(
      {grid.blocks, grid.threads, grid.cluster, shared_bytes, grid.cooperative, grid.overlaps,
       Multiprocessor::registers_of_thread(Kernel::kThreads, detail::min_blocks_of<Kernel>())},
      [&](std::byte* memory) {
        Kernel{}(*reinterpret_cast<typename Kernel::SharedStorage*>(memory), arguments);
      });
#else
  const auto function = &detail::entry<Kernel>;
  if (LaunchObserver* observer = LaunchObserver::top()) {
    observer->observe({grid, shared_bytes, reinterpret_cast<const void*>(function)});
    return;
  }
  const detail::LaunchConfig<Kernel> config(grid, stream);
  const cudaError_t status = cudaLaunchKernelEx(&config.config, function, arguments);
  if (status != cudaSuccess) [[unlikely]] {
    detail::check_cuda(status, "cudaLaunchKernelEx", detail::describe(grid, shared_bytes));
  }
#endif
}

// How many clusters of this shape the current device holds at once, at least one: what a persistent
// kernel launches. Asked of the driver once per kernel, cluster size and device. The emulator shows
// two, so that they share the work.
template <class Kernel>
int64_t resident_clusters([[maybe_unused]] const Grid& cluster) {
#ifdef WS_EMULATED
  return 2;
#else
  constexpr size_t kSizes = 17;
  static std::array<std::array<std::atomic<int>, kSizes>, detail::kMaxDevices> known{};
  std::atomic<int>& clusters =
      known[detail::current_device()][static_cast<size_t>(cluster.cluster)];
  if (clusters == 0) {
    int count = 0;
    const detail::LaunchConfig<Kernel> config(cluster, nullptr);
    detail::check_cuda(
        cudaOccupancyMaxActiveClusters(&count, &detail::entry<Kernel>, &config.config),
        "cudaOccupancyMaxActiveClusters",
        detail::describe(cluster, config.config.dynamicSmemBytes));
    clusters = std::max(count, 1);
  }
  return clusters;
#endif
}
#endif

// Zeroes `bytes` at `data` in the order of the stream.
inline void set_zero(void* data, size_t bytes, [[maybe_unused]] Stream stream) {
  if (LaunchObserver::top() != nullptr) return;
#ifdef WS_EMULATED
  std::memset(data, 0, bytes);
#else
  detail::check_cuda(cudaMemsetAsync(data, 0, bytes, stream), "cudaMemsetAsync");
#endif
}

}  // namespace ws
