// What the host must know of the current device to shape a launch.
#pragma once

#include <array>
#include <mutex>

#include "warpsmith/launch.hpp"

namespace ws {

struct DeviceFacts {
  int multiprocessors = 0;
  int shared_bytes = 0;  // the most shared memory that a block can have
};

// Of the current device; asked for once per device and process. The emulator shows a small Hopper
// GPU, so that persistent kernels have several tiles for each block.
inline const DeviceFacts& device_facts() {
#ifdef WS_EMULATED
  static const DeviceFacts kEmulated{.multiprocessors = 4, .shared_bytes = 227 * 1024};
  return kEmulated;
#else
  static std::array<DeviceFacts, detail::kMaxDevices> known;
  static std::array<std::once_flag, detail::kMaxDevices> asked;
  const size_t at = detail::current_device();
  std::call_once(asked[at], [&] {
    const auto ask = [at](int& value, cudaDeviceAttr attribute) {
      detail::check_cuda(cudaDeviceGetAttribute(&value, attribute, static_cast<int>(at)),
                         "cudaDeviceGetAttribute");
    };
    ask(known[at].multiprocessors, cudaDevAttrMultiProcessorCount);
    ask(known[at].shared_bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin);
  });
  return known[at];
#endif
}

}  // namespace ws
