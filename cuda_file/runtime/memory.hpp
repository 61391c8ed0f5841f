// The memory that a CUDA file can have: what cudaMalloc and its kin gave, and its __device__,
// __constant__ and __managed__ variables.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "emulator/place.hpp"

namespace ws::cuda_file {

enum class Owner : uint8_t { kDevice, kManaged, kPinned, kVariable, kConstant, kManagedVariable };

struct Allocation {
  uintptr_t begin = 0;
  size_t bytes = 0;
  Owner owner = Owner::kDevice;
  const char* name = "";       // of the function that gave it, or of the variable
  emulator::Place place;       // where
  uint8_t* written = nullptr;  // for each byte; null: all of it is
  bool freed = false;
  emulator::Place freed_at;

  bool holds(uintptr_t address) const { return address - begin < bytes; }
  bool is_for_host() const {
    return owner == Owner::kManaged || owner == Owner::kPinned || owner == Owner::kManagedVariable;
  }
  // "the 4096 bytes of cudaMalloc at my.cu:31"
  std::string text() const;
};

// Null where there is no memory left.
void* allocate(size_t bytes, Owner owner, const char* name, emulator::Place place);
// False where nothing begins there.
bool release(void* pointer, emulator::Place place);
void add_variable(Allocation variable);
// Host memory that the program registers, as pinned.
void add_host_memory(void* begin, size_t bytes, emulator::Place place);

// What holds the address; freed memory too. `cached` for the many accesses of kernels.
const Allocation* find(uintptr_t address);
const Allocation* find_cached(uintptr_t address);
// What ends below the address or begins above it, nearer than a kilobyte... to speak of it.
const Allocation* nearest(uintptr_t address);
bool in_arena(uintptr_t address);        // memory that has been given, or never was
bool may_be_devices(uintptr_t address);  // where host code must not go, or near it

size_t allocated_bytes();
size_t memory_limit();

// What host code may not touch can be touched while one lives.
class DeviceAccess {
 public:
  DeviceAccess();
  DeviceAccess(const DeviceAccess&) = delete;
  DeviceAccess& operator=(const DeviceAccess&) = delete;
  ~DeviceAccess();
};

}  // namespace ws::cuda_file
