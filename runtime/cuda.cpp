// warpsmith/runtime.hpp on CUDA's runtime.
#include "warpsmith/runtime.hpp"

#include <cuda_runtime.h>

#include <cstring>

#include "warpsmith/cuda_facts.hpp"
#include "warpsmith/device_query.hpp"
#include "warpsmith/launch.hpp"

namespace ws {
namespace {

using detail::check_cuda;

std::string version(int number) { return concatenate(number / 1000, ".", number % 1000 / 10); }

cudaEvent_t event_of(void* event) { return static_cast<cudaEvent_t>(event); }

}  // namespace

const DeviceFacts& device_facts() { return detail::facts_of_current_device(); }

namespace runtime {

int device_count(std::string* why) noexcept {
  int count = 0;
  const cudaError_t status = cudaGetDeviceCount(&count);
  if (status == cudaSuccess && count > 0) return count;
  cudaGetLastError();  // this failure is told here, not by the next call
  if (why != nullptr) *why = status == cudaSuccess ? "no device" : cudaGetErrorString(status);
  return 0;
}

void require_device() {
  std::string why;
  require(device_count(&why) > 0, "this warpsmith is the CUDA build and finds no GPU (", why,
          "); the preset `emulated` runs without one, `warpsmith doctor` tells more");
}

int current_device() { return static_cast<int>(detail::current_device()); }

DeviceScope::DeviceScope(int device) {
  int current = 0;
  check_cuda(cudaGetDevice(&current), "cudaGetDevice");
  if (current == device) return;
  check_cuda(cudaSetDevice(device), "cudaSetDevice");
  previous_ = current;
}

DeviceScope::~DeviceScope() {
  if (previous_ >= 0) cudaSetDevice(previous_);
}

std::string device_name() {
  cudaDeviceProp properties{};
  check_cuda(cudaGetDeviceProperties(&properties, current_device()), "cudaGetDeviceProperties");
  return properties.name;
}

std::string driver_version() {
  int number = 0;
  check_cuda(cudaDriverGetVersion(&number), "cudaDriverGetVersion");
  return version(number);
}

std::string runtime_version() { return version(CUDART_VERSION); }

std::vector<DeviceQuantity> device_query() {
  struct Asked {
    cudaDeviceAttr attribute;
    std::string_view name;
    std::string_view unit = {};
  };
  static constexpr Asked kAll[] = {
      {cudaDevAttrMaxThreadsPerBlock, "threads a block"},
      {cudaDevAttrMaxThreadsPerMultiProcessor, "threads an SM"},
      {cudaDevAttrMaxBlocksPerMultiprocessor, "blocks an SM"},
      {cudaDevAttrWarpSize, "lanes a warp"},
      {cudaDevAttrMaxRegistersPerBlock, "registers a block"},
      {cudaDevAttrMaxRegistersPerMultiprocessor, "registers an SM"},
      {cudaDevAttrMaxSharedMemoryPerBlock, "shared memory a block", "bytes"},
      {cudaDevAttrMaxSharedMemoryPerBlockOptin, "the same, if asked for", "bytes"},
      {cudaDevAttrReservedSharedMemoryPerBlock, "reserved of it", "bytes"},
      {cudaDevAttrMaxSharedMemoryPerMultiprocessor, "shared memory an SM", "bytes"},
      {cudaDevAttrTotalConstantMemory, "constant memory", "bytes"},
      {cudaDevAttrL2CacheSize, "L2", "bytes"},
      {cudaDevAttrMaxPersistingL2CacheSize, "L2 that may persist", "bytes"},
      {cudaDevAttrClockRate, "clock of the SMs", "kHz"},
      {cudaDevAttrMemoryClockRate, "clock of the memory", "kHz"},
      {cudaDevAttrGlobalMemoryBusWidth, "memory bus", "bits"},
      {cudaDevAttrEccEnabled, "ECC"},
      {cudaDevAttrAsyncEngineCount, "copy engines"},
      {cudaDevAttrConcurrentKernels, "kernels side by side"},
      {cudaDevAttrCooperativeLaunch, "cooperative launches"},
      {cudaDevAttrClusterLaunch, "clusters"},
      {cudaDevAttrManagedMemory, "managed memory"},
      {cudaDevAttrConcurrentManagedAccess, "host and device at once in it"},
      {cudaDevAttrMemoryPoolsSupported, "memory pools"},
      {cudaDevAttrMaxGridDimX, "blocks a grid, x"},
  };
  std::vector<DeviceQuantity> all;
  for (const Asked& asked : kAll) {
    all.push_back({asked.name, detail::attribute(asked.attribute, current_device()), asked.unit});
  }
  return all;
}

MemoryInfo memory_info() {
  MemoryInfo info;
  check_cuda(cudaMemGetInfo(&info.free, &info.total), "cudaMemGetInfo");
  return info;
}

void* allocate(size_t bytes) {
  cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
  check_cuda(cudaThreadExchangeStreamCaptureMode(&mode), "cudaThreadExchangeStreamCaptureMode");
  void* memory = nullptr;
  const cudaError_t status = cudaMalloc(&memory, bytes);
  cudaThreadExchangeStreamCaptureMode(&mode);
  check_cuda(status, "cudaMalloc", concatenate(bytes, " bytes"));
  return memory;
}

void* allocate_managed(size_t bytes) {
  void* memory = nullptr;
  check_cuda(cudaMallocManaged(&memory, bytes), "cudaMallocManaged", concatenate(bytes, " bytes"));
  return memory;
}

void free(void* memory) noexcept {
  cudaFree(memory);  // a failure here has been reported by the call that caused it
}

void* allocate_mapped(size_t bytes) {
  void* memory = nullptr;
  check_cuda(cudaHostAlloc(&memory, bytes, cudaHostAllocMapped | cudaHostAllocPortable),
             "cudaHostAlloc", concatenate(bytes, " bytes"));
  std::memset(memory, 0, bytes);
  return memory;
}

void free_mapped(void* memory) noexcept { cudaFreeHost(memory); }

void copy(void* target, const void* source, size_t bytes) {
  check_cuda(cudaMemcpy(target, source, bytes, cudaMemcpyDefault), "cudaMemcpy");
}

void fill(void* target, std::byte value, size_t bytes) {
  check_cuda(cudaMemset(target, std::to_integer<int>(value), bytes), "cudaMemset");
  synchronize();
}

void copy_async(void* target, const void* source, size_t bytes, Stream stream) {
  check_cuda(cudaMemcpyAsync(target, source, bytes, cudaMemcpyDefault, stream), "cudaMemcpyAsync");
}

void synchronize(Stream stream) {
  check_cuda(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
  check_cuda(cudaGetLastError(), "kernel");
}

void synchronize_device() {
  check_cuda(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  check_cuda(cudaGetLastError(), "kernel");
}

bool is_capturing(Stream stream) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  check_cuda(cudaStreamIsCapturing(stream, &status), "cudaStreamIsCapturing");
  return status != cudaStreamCaptureStatusNone;
}

uint64_t stream_id(Stream stream) {
  unsigned long long id = 0;  // NOLINT(google-runtime-int): CUDA's type
  check_cuda(cudaStreamGetId(stream, &id), "cudaStreamGetId");
  return id;
}

bool is_usable() noexcept {
  cudaGetLastError();
  return cudaDeviceSynchronize() == cudaSuccess;
}

Event::Event() {
  cudaEvent_t event = nullptr;
  check_cuda(cudaEventCreate(&event), "cudaEventCreate");
  event_ = event;
}

Event::~Event() {
  if (event_ != nullptr) cudaEventDestroy(event_of(event_));
}

void Event::record(Stream stream) {
  check_cuda(cudaEventRecord(event_of(event_), stream), "cudaEventRecord");
}

double Event::microseconds_since(const Event& start) const {
  float milliseconds = 0;
  check_cuda(cudaEventElapsedTime(&milliseconds, event_of(start.event_), event_of(event_)),
             "cudaEventElapsedTime");
  return 1e3 * milliseconds;
}

KernelUsage usage_of(const void* entry, int threads, size_t shared_bytes) {
  KernelUsage usage;
  cudaFuncAttributes attributes{};
  check_cuda(cudaFuncGetAttributes(&attributes, entry), "cudaFuncGetAttributes");
  usage.registers = attributes.numRegs;
  usage.local_bytes = static_cast<int>(attributes.localSizeBytes);
  check_cuda(cudaFuncSetAttribute(entry, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                  static_cast<int>(shared_bytes)),
             "cudaFuncSetAttribute(shared memory)");
  check_cuda(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&usage.blocks_per_multiprocessor, entry,
                                                           threads, shared_bytes),
             "cudaOccupancyMaxActiveBlocksPerMultiprocessor");
  return usage;
}

void reset_counts() {}
std::vector<std::pair<std::string_view, uint64_t>> counts() { return {}; }

void set_thread_order(std::string_view) {
  throw InvalidArgument("--order is for the emulator; a GPU orders its threads itself");
}
std::vector<std::string_view> orders_to_check() { return {""}; }
ThreadOrderScope::ThreadOrderScope(std::string_view) {}
ThreadOrderScope::~ThreadOrderScope() = default;

}  // namespace runtime
}  // namespace ws
