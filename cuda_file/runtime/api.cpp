#include "cuda_file/include/warpsmith_cuda/api.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>

#include "cuda_file/include/warpsmith_cuda/device.hpp"
#include "cuda_file/runtime/kernels.hpp"
#include "cuda_file/runtime/memory.hpp"
#include "cuda_file/runtime/process.hpp"
#include "cuda_file/runtime/streams.hpp"
#include "emulator/emulator.hpp"
#include "warpsmith/arch.hpp"

namespace ws::cuda_file {
namespace {

uintptr_t number(const void* pointer) { return reinterpret_cast<uintptr_t>(pointer); }

cudaError_t refuse(cudaError_t error, const std::string& why, std::source_location place) {
  remember_error(error, why, place);
  return error;
}

// A kernel asks for what only the host has.
void require_host(const char* function, std::source_location place) {
  if (emulator::running()) {
    end_with("not supported", concatenate("a kernel calls ", function), place);
  }
}

bool is_devices(const Allocation* of) {
  return of != nullptr && (of->owner == Owner::kDevice || of->owner == Owner::kVariable ||
                           of->owner == Owner::kConstant);
}

// One side of a copy; `device` says what the direction promises.
cudaError_t check_side(const void* pointer, size_t bytes, bool device, const char* function,
                       const char* side, std::source_location place) {
  const Allocation* of = find(number(pointer));
  if (of != nullptr && of->freed) {
    return refuse(cudaErrorInvalidValue,
                  fmt::format("{}: the {} is {}, freed at {}", function, side, of->text(),
                              emulator::to_string(of->freed_at)),
                  place);
  }
  if (of != nullptr && number(pointer) + bytes > of->begin + of->bytes) {
    return refuse(cudaErrorInvalidValue,
                  fmt::format("{} of {} bytes: the {} is at byte {} of {}", function, bytes, side,
                              number(pointer) - of->begin, of->text()),
                  place);
  }
  if (device && of == nullptr) {
    return refuse(
        cudaErrorInvalidValue,
        fmt::format("{}: the {}, {}, is no memory of the device", function, side, pointer), place);
  }
  if (!device && is_devices(of)) {
    return refuse(
        cudaErrorInvalidValue,
        fmt::format("{}: the {} is {}, which is the device's", function, side, of->text()), place);
  }
  return cudaSuccess;
}

// What nobody has written is no number that means anything: as bytes of a NaN.
constexpr int kUnwritten = 0xFF;

void move(void* to, const void* from, size_t bytes) {
  if (bytes == 0) return;
  const DeviceAccess access;
  const Allocation* source = find(number(from));
  const Allocation* target = find(number(to));
  const uint8_t* read = source != nullptr && source->written != nullptr
                            ? source->written + (number(from) - source->begin)
                            : nullptr;
  uint8_t* written = target != nullptr && target->written != nullptr
                         ? target->written + (number(to) - target->begin)
                         : nullptr;
  std::memmove(to, from, bytes);
  if (read != nullptr && written == nullptr) {
    for (size_t i = 0; i < bytes; ++i) {
      if (read[i] == 0) static_cast<std::byte*>(to)[i] = std::byte{kUnwritten};
    }
  }
  if (written == nullptr) return;
  if (read != nullptr) {
    std::memmove(written, read, bytes);
  } else {
    std::memset(written, 1, bytes);
  }
}

cudaError_t check_copy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind,
                       const char* function, std::source_location place) {
  if (kind < cudaMemcpyHostToHost || kind > cudaMemcpyDefault) {
    return refuse(cudaErrorInvalidMemcpyDirection,
                  fmt::format("{}: direction {}", function, static_cast<int>(kind)), place);
  }
  if (bytes == 0) return cudaSuccess;
  const bool any = kind == cudaMemcpyDefault;
  const auto is_there = [](const void* p) { return find(number(p)) != nullptr; };
  const bool to_device =
      any ? is_there(to) : kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice;
  const bool from_device =
      any ? is_there(from) : kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice;
  const cudaError_t status = check_side(to, bytes, to_device, function, "target", place);
  if (status != cudaSuccess) return status;
  return check_side(from, bytes, from_device, function, "source", place);
}

// Rows of bytes; one, where they lie side by side. Of a volume those of all slices.
struct CopiedRows {
  void* to;
  size_t to_pitch;
  const void* from;
  size_t from_pitch;
  size_t width;
  size_t height;
  size_t slice = SIZE_MAX;  // rows
  size_t to_slice = 0;      // bytes from one to the next
  size_t from_slice = 0;

  static CopiedRows of(void* to, const void* from, size_t bytes) {
    return {to, bytes, from, bytes, bytes, 1};
  }
  void* target(size_t row) const {
    return static_cast<std::byte*>(to) + row / slice * to_slice + row % slice * to_pitch;
  }
  const void* source(size_t row) const {
    return static_cast<const std::byte*>(from) + row / slice * from_slice +
           row % slice * from_pitch;
  }
};

cudaError_t check_rows(const CopiedRows& rows, cudaMemcpyKind kind, const char* function,
                       std::source_location place) {
  for (size_t row = 0; row < rows.height; ++row) {
    const cudaError_t status =
        check_copy(rows.target(row), rows.source(row), rows.width, kind, function, place);
    if (status != cudaSuccess) return status;
  }
  return cudaSuccess;
}

// What is given is checked now, and once more when a graph does it.
cudaError_t copy_in(cudaStream_t stream, const CopiedRows& rows, cudaMemcpyKind kind,
                    const char* function, std::source_location place) {
  require_host(function, place);
  const cudaError_t status = check_rows(rows, kind, function, place);
  if (status != cudaSuccess) return status;
  return do_in(stream, function, place, [=] {
    const cudaError_t again = check_rows(rows, kind, function, place);
    if (again != cudaSuccess) return again;
    for (size_t row = 0; row < rows.height; ++row) {
      move(rows.target(row), rows.source(row), rows.width);
    }
    return cudaSuccess;
  });
}

// The host waits for it.
cudaError_t copy(const CopiedRows& rows, cudaMemcpyKind kind, const char* function,
                 std::source_location place) {
  const cudaError_t status = check_blocking(function, place);
  return status != cudaSuccess ? status : copy_in(nullptr, rows, kind, function, place);
}

cudaError_t set_now(void* pointer, int value, size_t bytes, const char* function,
                    std::source_location place) {
  const cudaError_t status = check_side(pointer, bytes, true, function, "target", place);
  if (status != cudaSuccess) return status;
  const DeviceAccess access;
  std::memset(pointer, value, bytes);
  const Allocation* of = find(number(pointer));
  if (of->written != nullptr) {
    std::memset(of->written + (number(pointer) - of->begin), 1, bytes);
  }
  return cudaSuccess;
}

cudaError_t set_in(cudaStream_t stream, void* pointer, int value, size_t bytes,
                   const char* function, std::source_location place) {
  require_host(function, place);
  if (bytes == 0) return cudaSuccess;
  const cudaError_t status = check_side(pointer, bytes, true, function, "target", place);
  if (status != cudaSuccess) return status;
  return do_in(stream, function, place,
               [=] { return set_now(pointer, value, bytes, function, place); });
}

cudaError_t release_memory(void* pointer, const char* function, std::source_location place) {
  require_host(function, place);
  if (const cudaError_t status = check_unsafe(function, place); status != cudaSuccess) {
    return status;
  }
  if (pointer == nullptr || release(pointer, place)) return cudaSuccess;
  const Allocation* of = find(number(pointer));
  std::string why = concatenate(function, " of ", pointer, ": ");
  if (of == nullptr) {
    why += "nothing of that address was allocated";
  } else if (of->freed) {
    why += concatenate(of->text(), ", freed already at ", emulator::to_string(of->freed_at));
  } else {
    why += concatenate("byte ", number(pointer) - of->begin, " of ", of->text());
  }
  return refuse(cudaErrorInvalidValue, why, place);
}

}  // namespace

cudaError_t allocate(void** pointer, size_t bytes, MemoryKind kind, const char* function,
                     std::source_location place) {
  require_host(function, place);
  *pointer = nullptr;
  if (const cudaError_t status = check_unsafe(function, place); status != cudaSuccess) {
    return status;
  }
  if (bytes == 0) return cudaSuccess;
  const Owner owner = kind == MemoryKind::kDevice    ? Owner::kDevice
                      : kind == MemoryKind::kManaged ? Owner::kManaged
                                                     : Owner::kPinned;
  *pointer = allocate(bytes, owner, function, place);
  if (*pointer != nullptr) return cudaSuccess;
  return refuse(cudaErrorMemoryAllocation,
                fmt::format("{} of {} bytes: {} of {} are taken (--memory)", function, bytes,
                            allocated_bytes(), memory_limit()),
                place);
}

void refuse_memory_node(cudaStream_t stream, const char* function, std::source_location place) {
  if (recording_of(stream, function, place).stream == nullptr) return;
  end_with("not supported", concatenate(function, " of a stream that is being captured"), place);
}

cudaError_t copy_symbol(const void* symbol, size_t symbol_bytes, size_t offset, void* memory,
                        size_t bytes, bool to_symbol, std::source_location place) {
  const cudaError_t status =
      check_blocking(to_symbol ? "cudaMemcpyToSymbol" : "cudaMemcpyFromSymbol", place);
  if (status != cudaSuccess) return status;
  return copy_symbol_in(nullptr, symbol, symbol_bytes, offset, memory, bytes, to_symbol, place);
}

cudaError_t copy_symbol_in(cudaStream_t stream, const void* symbol, size_t symbol_bytes,
                           size_t offset, void* memory, size_t bytes, bool to_symbol,
                           std::source_location place) {
  const char* const function = to_symbol ? "cudaMemcpyToSymbol" : "cudaMemcpyFromSymbol";
  require_host(function, place);
  const Allocation* of = find(number(symbol));
  if (of == nullptr || of->begin != number(symbol)) {
    return refuse(cudaErrorInvalidSymbol,
                  fmt::format("{}: no __device__ or __constant__ variable", function), place);
  }
  if (offset + bytes > symbol_bytes) {
    return refuse(
        cudaErrorInvalidValue,
        fmt::format("{}: bytes [{}, {}) of {}", function, offset, offset + bytes, of->text()),
        place);
  }
  auto* const at = const_cast<std::byte*>(static_cast<const std::byte*>(symbol)) + offset;
  return do_in(stream, function, place, [=] {
    to_symbol ? move(at, memory, bytes) : move(memory, at, bytes);
    return cudaSuccess;
  });
}

// ---- Kernels -----------------------------------------------------------------------------------

cudaError_t set_attribute(const void* entry, cudaFuncAttribute attribute, int value,
                          std::source_location place) {
  if (attribute != cudaFuncAttributeMaxDynamicSharedMemorySize) return cudaSuccess;
  if (value < 0 || static_cast<size_t>(value) > Multiprocessor::kSharedBytesOfBlock) {
    return refuse(cudaErrorInvalidValue,
                  fmt::format("cudaFuncSetAttribute: {} bytes of dynamic shared memory; a block of "
                              "an H100 or H200 can have {}",
                              value, Multiprocessor::kSharedBytesOfBlock),
                  place);
  }
  facts_of(entry).most_dynamic_shared = static_cast<size_t>(value);
  return cudaSuccess;
}

cudaError_t get_attributes(cudaFuncAttributes* attributes, const void* entry, int most_threads) {
  const KernelFacts& facts = facts_of(entry);
  *attributes = {};
  attributes->maxThreadsPerBlock = most_threads > 0 ? std::min(most_threads, 1024) : 1024;
  attributes->numRegs = 32;
  attributes->ptxVersion = attributes->binaryVersion = 90;
  attributes->maxDynamicSharedSizeBytes =
      static_cast<int>(std::max<size_t>(facts.most_dynamic_shared, 48 * 1024));
  return cudaSuccess;
}

LaunchExtents extents_of(const cudaLaunchConfig_t& config) {
  LaunchExtents extents{config.gridDim, config.blockDim, config.dynamicSmemBytes, config.stream};
  for (unsigned i = 0; i < config.numAttrs; ++i) {
    const cudaLaunchAttribute& attribute = config.attrs[i];
    if (attribute.id == cudaLaunchAttributeCooperative) {
      extents.cooperative = attribute.val.cooperative != 0;
    }
    if (attribute.id == cudaLaunchAttributeClusterDimension) {
      extents.cluster =
          dim3(attribute.val.clusterDim.x, attribute.val.clusterDim.y, attribute.val.clusterDim.z);
    }
  }
  return extents;
}

int resident_blocks(int most_threads, int threads, size_t shared) {
  if (threads < 1 || threads > (most_threads > 0 ? most_threads : 1024)) return 0;
  const int warps = (threads + 31) / 32;
  const auto by_shared =
      static_cast<int>(Multiprocessor::kSharedBytes / (shared + Multiprocessor::kSharedReserved));
  return std::min({Multiprocessor::kBlocks, Multiprocessor::kThreads / 32 / warps, by_shared});
}

}  // namespace ws::cuda_file

// ---- CUDA's own names --------------------------------------------------------------------------

namespace cf = ws::cuda_file;

const char* cudaGetErrorName(cudaError_t error) {
  switch (error) {
#define WS_NAME(name, value, text) \
  case cuda##name: return "cuda" #name;
    WS_CUDA_ERRORS(WS_NAME)
#undef WS_NAME
  }
  return "unrecognized error code";
}
const char* cudaGetErrorString(cudaError_t error) {
  switch (error) {
#define WS_TEXT(name, value, text) \
  case cuda##name: return text;
    WS_CUDA_ERRORS(WS_TEXT)
#undef WS_TEXT
  }
  return "unrecognized error code";
}
cudaError_t cudaGetLastError() { return static_cast<cudaError_t>(cf::last_error(true)); }
cudaError_t cudaPeekAtLastError() { return static_cast<cudaError_t>(cf::last_error(false)); }

// ---- Devices: one, with the numbers of an H200
// ---------------------------------------------------

namespace {}

cudaError_t cudaGetDeviceCount(int* count) {
  *count = 1;
  return cudaSuccess;
}
cudaError_t cudaGetDevice(int* device) {
  *device = 0;
  return cudaSuccess;
}
cudaError_t cudaSetDevice(int device, std::source_location place) {
  if (device == 0) return cudaSuccess;
  return cf::refuse(cudaErrorInvalidDevice, fmt::format("device {} of 1", device), place);
}
cudaError_t cudaSetDeviceFlags(unsigned) { return cudaSuccess; }
cudaError_t cudaChooseDevice(int* device, const cudaDeviceProp*) {
  *device = 0;
  return cudaSuccess;
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* p, int device, std::source_location place) {
  if (device != 0) return cudaSetDevice(device, place);
  *p = {};
  std::strcpy(p->name, "Warpsmith emulator of an H200");
  p->totalGlobalMem = cf::memory_limit();
  p->sharedMemPerBlock = 48 * 1024;
  p->regsPerBlock = p->regsPerMultiprocessor = ws::Multiprocessor::kRegisters;
  p->warpSize = 32;
  p->memPitch = 0x7FFFFFFF;
  p->maxThreadsPerBlock = 1024;
  p->maxThreadsDim[0] = p->maxThreadsDim[1] = 1024;
  p->maxThreadsDim[2] = 64;
  p->maxGridSize[0] = 0x7FFFFFFF;
  p->maxGridSize[1] = p->maxGridSize[2] = 65535;
  p->clockRate = 1980000;
  p->totalConstMem = 64 * 1024;
  p->major = 9;
  p->textureAlignment = p->surfaceAlignment = 512;
  p->texturePitchAlignment = 32;
  p->maxTexture1D = 131072;
  p->maxTexture2D[0] = 131072;
  p->maxTexture2D[1] = 65536;
  p->maxTexture3D[0] = p->maxTexture3D[1] = p->maxTexture3D[2] = 16384;
  p->maxTexture1DLayered[0] = p->maxTexture2DLayered[0] = p->maxTexture2DLayered[1] = 32768;
  p->maxTexture1DLayered[1] = p->maxTexture2DLayered[2] = 2048;
  p->deviceOverlap = p->canMapHostMemory = p->concurrentKernels = p->unifiedAddressing = 1;
  p->multiProcessorCount = cf::device::multiprocessors();
  p->ECCEnabled = 1;
  p->asyncEngineCount = 3;
  p->memoryClockRate = 3201000;
  p->memoryBusWidth = 6016;
  p->l2CacheSize = 60 * 1024 * 1024;
  p->maxThreadsPerMultiProcessor = ws::Multiprocessor::kThreads;
  p->streamPrioritiesSupported = p->globalL1CacheSupported = p->localL1CacheSupported = 1;
  p->sharedMemPerMultiprocessor = ws::Multiprocessor::kSharedBytes;
  p->managedMemory = p->concurrentManagedAccess = p->cooperativeLaunch = 1;
  p->sharedMemPerBlockOptin = ws::Multiprocessor::kSharedBytesOfBlock;
  p->maxBlocksPerMultiProcessor = ws::Multiprocessor::kBlocks;
  p->reservedSharedMemPerBlock = ws::Multiprocessor::kSharedReserved;
  return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device,
                                   std::source_location place) {
  cudaDeviceProp p;
  const cudaError_t status = cudaGetDeviceProperties(&p, device, place);
  if (status != cudaSuccess) return status;
  switch (attribute) {
    case cudaDevAttrMaxThreadsPerBlock: *value = p.maxThreadsPerBlock; break;
    case cudaDevAttrMaxBlockDimX: *value = p.maxThreadsDim[0]; break;
    case cudaDevAttrMaxBlockDimY: *value = p.maxThreadsDim[1]; break;
    case cudaDevAttrMaxBlockDimZ: *value = p.maxThreadsDim[2]; break;
    case cudaDevAttrMaxGridDimX: *value = p.maxGridSize[0]; break;
    case cudaDevAttrMaxGridDimY: *value = p.maxGridSize[1]; break;
    case cudaDevAttrMaxGridDimZ: *value = p.maxGridSize[2]; break;
    case cudaDevAttrMaxSharedMemoryPerBlock: *value = 48 * 1024; break;
    case cudaDevAttrTotalConstantMemory: *value = 64 * 1024; break;
    case cudaDevAttrWarpSize: *value = 32; break;
    case cudaDevAttrMaxRegistersPerBlock: *value = p.regsPerBlock; break;
    case cudaDevAttrClockRate: *value = p.clockRate; break;
    case cudaDevAttrMultiProcessorCount: *value = p.multiProcessorCount; break;
    case cudaDevAttrIntegrated: *value = 0; break;
    case cudaDevAttrConcurrentKernels: *value = 1; break;
    case cudaDevAttrMemoryClockRate: *value = p.memoryClockRate; break;
    case cudaDevAttrGlobalMemoryBusWidth: *value = p.memoryBusWidth; break;
    case cudaDevAttrL2CacheSize: *value = p.l2CacheSize; break;
    case cudaDevAttrMaxThreadsPerMultiProcessor: *value = p.maxThreadsPerMultiProcessor; break;
    case cudaDevAttrComputeCapabilityMajor: *value = p.major; break;
    case cudaDevAttrComputeCapabilityMinor: *value = p.minor; break;
    case cudaDevAttrMaxSharedMemoryPerMultiprocessor:
      *value = static_cast<int>(p.sharedMemPerMultiprocessor);
      break;
    case cudaDevAttrMaxRegistersPerMultiprocessor: *value = p.regsPerMultiprocessor; break;
    case cudaDevAttrUnifiedAddressing:
    case cudaDevAttrManagedMemory:
    case cudaDevAttrConcurrentManagedAccess:
    case cudaDevAttrComputePreemptionSupported:
    case cudaDevAttrCooperativeLaunch:
    case cudaDevAttrMemoryPoolsSupported: *value = 1; break;
    case cudaDevAttrPageableMemoryAccess: *value = 0; break;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
      *value = static_cast<int>(p.sharedMemPerBlockOptin);
      break;
    case cudaDevAttrMaxBlocksPerMultiprocessor: *value = p.maxBlocksPerMultiProcessor; break;
  }
  return cudaSuccess;
}

cudaError_t cudaDeviceSynchronize(std::source_location place) {
  return cf::check_wait_for_all("cudaDeviceSynchronize", place);
}
cudaError_t cudaThreadSynchronize(std::source_location place) {
  return cf::check_wait_for_all("cudaThreadSynchronize", place);
}
cudaError_t cudaDeviceReset() { return cudaSuccess; }
cudaError_t cudaDeviceSetLimit(cudaLimit, size_t) { return cudaSuccess; }
cudaError_t cudaDeviceGetLimit(size_t* value, cudaLimit) {
  *value = size_t{1} << 20;
  return cudaSuccess;
}
cudaError_t cudaDeviceSetSharedMemConfig(cudaSharedMemConfig) { return cudaSuccess; }
cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  *least = 0;
  *greatest = -5;
  return cudaSuccess;
}
cudaError_t cudaDriverGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}
cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}
cudaError_t cudaDeviceCanAccessPeer(int* can, int, int) {
  *can = 0;
  return cudaSuccess;
}
cudaError_t cudaProfilerStart() { return cudaSuccess; }
cudaError_t cudaProfilerStop() { return cudaSuccess; }

// ---- Memory
// --------------------------------------------------------------------------------------

cudaError_t cudaMallocPitch(void** pointer, size_t* pitch, size_t width, size_t height,
                            std::source_location place) {
  constexpr size_t kPitch = 512;
  *pitch = (width + kPitch - 1) / kPitch * kPitch;
  return cf::allocate(pointer, *pitch * height, cf::MemoryKind::kDevice, "cudaMallocPitch", place);
}
cudaError_t cudaMalloc3D(cudaPitchedPtr* pointer, cudaExtent extent, std::source_location place) {
  pointer->xsize = extent.width;
  pointer->ysize = extent.height;
  return cudaMallocPitch(&pointer->ptr, &pointer->pitch, extent.width, extent.height * extent.depth,
                         place);
}
cudaError_t cudaFree(void* pointer, std::source_location place) {
  return cf::release_memory(pointer, "cudaFree", place);
}
cudaError_t cudaFreeAsync(void* pointer, cudaStream_t stream, std::source_location place) {
  cf::refuse_memory_node(stream, "cudaFreeAsync", place);
  return cf::release_memory(pointer, "cudaFreeAsync", place);
}
cudaError_t cudaFreeHost(void* pointer, std::source_location place) {
  return cf::release_memory(pointer, "cudaFreeHost", place);
}
cudaError_t cudaHostRegister(void* pointer, size_t bytes, unsigned, std::source_location place) {
  if (cf::find(cf::number(pointer)) != nullptr) {
    return cf::refuse(cudaErrorHostMemoryAlreadyRegistered, "cudaHostRegister", place);
  }
  cf::add_host_memory(pointer, bytes, place);
  return cudaSuccess;
}
cudaError_t cudaHostUnregister(void* pointer, std::source_location place) {
  if (cf::release(pointer, place)) return cudaSuccess;
  return cf::refuse(cudaErrorHostMemoryNotRegistered, "cudaHostUnregister", place);
}
cudaError_t cudaHostGetDevicePointer(void** device, void* host, unsigned,
                                     std::source_location place) {
  const cf::Allocation* of = cf::find(cf::number(host));
  if (of == nullptr || !of->is_for_host()) {
    return cf::refuse(cudaErrorInvalidValue, "cudaHostGetDevicePointer of pageable memory", place);
  }
  *device = host;
  return cudaSuccess;
}
cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
  *total = cf::memory_limit();
  *free = *total - std::min(*total, cf::allocated_bytes());
  return cudaSuccess;
}
cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* pointer) {
  const cf::Allocation* of = cf::find(cf::number(pointer));
  *attributes = {cudaMemoryTypeUnregistered, 0, nullptr, const_cast<void*>(pointer)};
  if (of == nullptr) return cudaSuccess;
  attributes->devicePointer = const_cast<void*>(pointer);
  if (cf::is_devices(of)) {
    attributes->type = cudaMemoryTypeDevice;
    attributes->hostPointer = nullptr;
  } else {
    attributes->type = of->owner == cf::Owner::kPinned ? cudaMemoryTypeHost : cudaMemoryTypeManaged;
  }
  return cudaSuccess;
}

namespace {
// Of what is told about managed memory: that it is, and that there is such a device.
cudaError_t check_managed(const void* pointer, size_t bytes, int device, const char* function,
                          std::source_location place) {
  const cf::Allocation* of = cf::find(cf::number(pointer));
  if (of == nullptr || of->freed ||
      (of->owner != cf::Owner::kManaged && of->owner != cf::Owner::kManagedVariable)) {
    return cf::refuse(cudaErrorInvalidValue,
                      fmt::format("{} of {}, which is no managed memory", function,
                                  of == nullptr ? fmt::format("{}", pointer) : of->text()),
                      place);
  }
  if (cf::number(pointer) + bytes > of->begin + of->bytes) {
    return cf::refuse(cudaErrorInvalidValue,
                      fmt::format("{} of {} bytes from byte {} of {}", function, bytes,
                                  cf::number(pointer) - of->begin, of->text()),
                      place);
  }
  if (device == 0 || device == cudaCpuDeviceId) return cudaSuccess;
  return cf::refuse(cudaErrorInvalidDevice, fmt::format("{}: device {} of 1", function, device),
                    place);
}
int device_of(cudaMemLocation location) {
  return location.type == cudaMemLocationTypeDevice ? location.id : cudaCpuDeviceId;
}
}  // namespace

cudaError_t cudaMemAdvise(const void* pointer, size_t bytes, cudaMemoryAdvise, int device,
                          std::source_location place) {
  return check_managed(pointer, bytes, device, "cudaMemAdvise", place);
}
cudaError_t cudaMemAdvise(const void* pointer, size_t bytes, cudaMemoryAdvise advice,
                          cudaMemLocation location, std::source_location place) {
  return cudaMemAdvise(pointer, bytes, advice, device_of(location), place);
}
cudaError_t cudaMemPrefetchAsync(const void* pointer, size_t bytes, int device, cudaStream_t stream,
                                 std::source_location place) {
  const cudaError_t status = check_managed(pointer, bytes, device, "cudaMemPrefetchAsync", place);
  if (status != cudaSuccess) return status;
  return cf::do_in(stream, "cudaMemPrefetchAsync", place, [] { return cudaSuccess; });
}
cudaError_t cudaMemPrefetchAsync(const void* pointer, size_t bytes, cudaMemLocation location,
                                 unsigned, cudaStream_t stream, std::source_location place) {
  return cudaMemPrefetchAsync(pointer, bytes, device_of(location), stream, place);
}

cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind,
                       std::source_location place) {
  return cf::copy(cf::CopiedRows::of(to, from, bytes), kind, "cudaMemcpy", place);
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream, std::source_location place) {
  return cf::copy_in(stream, cf::CopiedRows::of(to, from, bytes), kind, "cudaMemcpyAsync", place);
}

namespace {
cudaError_t check_pitches(const cf::CopiedRows& rows, const char* function,
                          std::source_location place) {
  if (rows.width <= rows.to_pitch && rows.width <= rows.from_pitch) return cudaSuccess;
  return cf::refuse(cudaErrorInvalidPitchValue,
                    fmt::format("{}: a width of {} bytes, pitches of {} and {}", function,
                                rows.width, rows.to_pitch, rows.from_pitch),
                    place);
}
}  // namespace

cudaError_t cudaMemcpy2D(void* to, size_t to_pitch, const void* from, size_t from_pitch,
                         size_t width, size_t height, cudaMemcpyKind kind,
                         std::source_location place) {
  const cf::CopiedRows rows{to, to_pitch, from, from_pitch, width, height};
  const cudaError_t status = check_pitches(rows, "cudaMemcpy2D", place);
  return status != cudaSuccess ? status : cf::copy(rows, kind, "cudaMemcpy2D", place);
}
cudaError_t cudaMemcpy2DAsync(void* to, size_t to_pitch, const void* from, size_t from_pitch,
                              size_t width, size_t height, cudaMemcpyKind kind, cudaStream_t stream,
                              std::source_location place) {
  const cf::CopiedRows rows{to, to_pitch, from, from_pitch, width, height};
  const cudaError_t status = check_pitches(rows, "cudaMemcpy2DAsync", place);
  return status != cudaSuccess ? status
                               : cf::copy_in(stream, rows, kind, "cudaMemcpy2DAsync", place);
}
namespace {

// The rows of a volume; those of one of no bytes are none.
cudaError_t rows_of(cf::CopiedRows& rows, const cudaMemcpy3DParms* parameters, const char* function,
                    std::source_location place) {
  const cudaMemcpy3DParms& p = *parameters;
  const auto at = [](const cudaPitchedPtr& volume, const cudaPos& first) {
    return static_cast<std::byte*>(volume.ptr) + (first.z * volume.ysize + first.y) * volume.pitch +
           first.x;
  };
  const cudaExtent& extent = p.extent;
  const size_t height = extent.width > 0 ? extent.height * extent.depth : 0;
  rows = {at(p.dstPtr, p.dstPos),
          p.dstPtr.pitch,
          at(p.srcPtr, p.srcPos),
          p.srcPtr.pitch,
          extent.width,
          height,
          std::max<size_t>(extent.height, 1),
          p.dstPtr.pitch * p.dstPtr.ysize,
          p.srcPtr.pitch * p.srcPtr.ysize};
  const auto fits = [&](const cudaPitchedPtr& volume, const cudaPos& first) {
    return first.x + extent.width <= volume.pitch &&
           (extent.depth < 2 || first.y + extent.height <= volume.ysize);
  };
  if (height == 0 || (fits(p.dstPtr, p.dstPos) && fits(p.srcPtr, p.srcPos))) return cudaSuccess;
  return cf::refuse(
      cudaErrorInvalidValue,
      fmt::format("{}: {} bytes x {} rows do not fit between the pitches {} and {} and the {} and "
                  "{} rows of a slice",
                  function, extent.width, extent.height, p.dstPtr.pitch, p.srcPtr.pitch,
                  p.dstPtr.ysize, p.srcPtr.ysize),
      place);
}

}  // namespace

cudaError_t cudaMemcpy3D(const cudaMemcpy3DParms* parameters, std::source_location place) {
  cf::CopiedRows rows{};
  const cudaError_t status = rows_of(rows, parameters, "cudaMemcpy3D", place);
  return status != cudaSuccess ? status : cf::copy(rows, parameters->kind, "cudaMemcpy3D", place);
}
cudaError_t cudaMemcpy3DAsync(const cudaMemcpy3DParms* parameters, cudaStream_t stream,
                              std::source_location place) {
  cf::CopiedRows rows{};
  const cudaError_t status = rows_of(rows, parameters, "cudaMemcpy3DAsync", place);
  return status != cudaSuccess
             ? status
             : cf::copy_in(stream, rows, parameters->kind, "cudaMemcpy3DAsync", place);
}
cudaError_t cudaMemcpyPeer(void* to, int, const void* from, int, size_t bytes,
                           std::source_location place) {
  return cf::copy(cf::CopiedRows::of(to, from, bytes), cudaMemcpyDeviceToDevice, "cudaMemcpyPeer",
                  place);
}
cudaError_t cudaMemset(void* pointer, int value, size_t bytes, std::source_location place) {
  return cf::set_in(nullptr, pointer, value, bytes, "cudaMemset", place);
}
cudaError_t cudaMemsetAsync(void* pointer, int value, size_t bytes, cudaStream_t stream,
                            std::source_location place) {
  return cf::set_in(stream, pointer, value, bytes, "cudaMemsetAsync", place);
}
cudaError_t cudaMemset2DAsync(void* pointer, size_t pitch, int value, size_t width, size_t height,
                              cudaStream_t stream, std::source_location place) {
  for (size_t row = 0; row < height; ++row) {
    const cudaError_t status = cf::set_in(stream, static_cast<std::byte*>(pointer) + row * pitch,
                                          value, width, "cudaMemset2D", place);
    if (status != cudaSuccess) return status;
  }
  return cudaSuccess;
}
cudaError_t cudaMemset2D(void* pointer, size_t pitch, int value, size_t width, size_t height,
                         std::source_location place) {
  return cudaMemset2DAsync(pointer, pitch, value, width, height, nullptr, place);
}
cudaError_t cudaMemset3D(cudaPitchedPtr volume, int value, cudaExtent extent,
                         std::source_location place) {
  for (size_t slice = 0; slice < extent.depth; ++slice) {
    const cudaError_t status =
        cudaMemset2D(static_cast<std::byte*>(volume.ptr) + slice * volume.ysize * volume.pitch,
                     volume.pitch, value, extent.width, extent.height, place);
    if (status != cudaSuccess) return status;
  }
  return cudaSuccess;
}

cudaError_t cudaLaunchKernel(const void*, dim3, dim3, void**, size_t, cudaStream_t,
                             std::source_location place) {
  cf::end_with("not supported",
               "cudaLaunchKernel through a void*: pass the kernel itself, without a cast", place);
}
cudaError_t cudaLaunchCooperativeKernel(const void*, dim3, dim3, void**, size_t, cudaStream_t,
                                        std::source_location place) {
  cf::end_with("not supported",
               "cudaLaunchCooperativeKernel through a void*: pass the kernel itself, without a "
               "cast",
               place);
}
