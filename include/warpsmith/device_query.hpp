// What a device says of itself, for who reads it: `warpsmith doctor`.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace ws::runtime {

struct DeviceQuantity {
  std::string_view name;
  int64_t value = 0;
  std::string_view unit = {};  // "bytes"; empty: a number, or 1 for yes
};

// Of the current device, in the order in which it is read; in the emulator what it models.
std::vector<DeviceQuantity> device_query();

}  // namespace ws::runtime
