#include "harness/memory.hpp"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <utility>

#ifndef WS_EMULATED
#include <cuda_runtime.h>
#endif
#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#endif

namespace ws::harness {
namespace {

constexpr size_t kAlignment = 256;
constexpr size_t kGuard = 1024;
constexpr auto kGuardByte = std::byte{0xA5};

#ifdef WS_EMULATED
std::byte* allocate(size_t bytes) {
  auto* memory = static_cast<std::byte*>(std::aligned_alloc(kAlignment, bytes));
  if (memory == nullptr) throw Error(concatenate("no memory for a buffer of ", bytes, " bytes"));
  return memory;
}
void set_bytes(std::byte* target, std::byte value, size_t bytes) {
  std::memset(target, std::to_integer<int>(value), bytes);
}
void copy_bytes(std::byte* target, const std::byte* source, size_t bytes) {
  if (bytes > 0) std::memcpy(target, source, bytes);
}
#else
std::byte* allocate(size_t bytes) {
  void* memory = nullptr;
  detail::check_cuda(cudaMalloc(&memory, bytes), "cudaMalloc", concatenate(bytes, " bytes"));
  return static_cast<std::byte*>(memory);
}
void set_bytes(std::byte* target, std::byte value, size_t bytes) {
  detail::check_cuda(cudaMemset(target, std::to_integer<int>(value), bytes), "cudaMemset");
}
void copy_bytes(std::byte* target, const std::byte* source, size_t bytes) {
  detail::check_cuda(cudaMemcpy(target, source, bytes, cudaMemcpyDefault), "cudaMemcpy");
}
#endif

size_t round_up(size_t value, size_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

}  // namespace

size_t footprint(const Tensor& tensor) {
  int64_t last = 0;
  for (int d = 0; d < tensor.rank; ++d) {
    const auto i = static_cast<size_t>(d);
    if (tensor.shape[i] == 0) return 0;
    last += (tensor.shape[i] - 1) * tensor.strides[i];
  }
  return static_cast<size_t>(last + 1) * size_of(tensor.dtype);
}

HostTensor::HostTensor(const Tensor& layout, std::byte fill)
    : bytes_(footprint(layout), fill), tensor_(layout) {
  tensor_.data = bytes_.data();
}

DeviceBuffer::DeviceBuffer(size_t bytes, size_t offset)
    : before_(kGuard + offset),
      bytes_(bytes),
      after_(round_up(before_ + bytes + kGuard, kAlignment) - before_ - bytes) {
  memory_.reset(allocate(before_ + bytes_ + after_));
  // The middle stays untouched: a large buffer that nobody fills costs nothing.
  set_bytes(memory_.get(), kGuardByte, before_);
  set_bytes(data() + bytes_, kGuardByte, after_);
  allow_guards(false);
}

DeviceBuffer::~DeviceBuffer() = default;

#if defined(WS_EMULATED) && defined(__SANITIZE_ADDRESS__)
void DeviceBuffer::allow_guards(bool allowed) const {
  if (allowed) {
    ASAN_UNPOISON_MEMORY_REGION(memory_.get(), before_ + bytes_ + after_);
  } else if (sanitize_guards) {
    ASAN_POISON_MEMORY_REGION(memory_.get(), before_);
    ASAN_POISON_MEMORY_REGION(data() + bytes_, after_);
  }
}
#else
void DeviceBuffer::allow_guards(bool) const {}
#endif

void DeviceBuffer::Free::operator()(std::byte* memory) const {
#ifdef WS_EMULATED
  std::free(memory);
#else
  cudaFree(memory);  // a failure here has been reported by the call that caused it
#endif
}

void DeviceBuffer::fill(std::byte value) { set_bytes(data(), value, bytes_); }
void DeviceBuffer::upload(std::span<const std::byte> source) {
  copy_bytes(data(), source.data(), std::min(bytes_, source.size()));
}
void DeviceBuffer::download(std::span<std::byte> target, size_t offset) const {
  copy_bytes(target.data(), data() + offset, std::min(bytes_ - offset, target.size()));
}

std::optional<int64_t> DeviceBuffer::damage() const {
  allow_guards(true);
  std::vector<std::byte> guard(std::max(before_, after_));
  const auto intact = [](std::byte b) { return b == kGuardByte; };
  copy_bytes(guard.data(), data() + bytes_, after_);
  const auto end = guard.begin() + static_cast<std::ptrdiff_t>(after_);
  if (const auto at = std::find_if_not(guard.begin(), end, intact); at != end) {
    return at - guard.begin();
  }
  copy_bytes(guard.data(), memory_.get(), before_);
  allow_guards(false);
  // Of writes ahead of the buffer the one next to it.
  const auto begin =
      std::make_reverse_iterator(guard.begin() + static_cast<std::ptrdiff_t>(before_));
  if (const auto at = std::find_if_not(begin, guard.rend(), intact); at != guard.rend()) {
    return -1 - (at - begin);
  }
  return std::nullopt;
}

#ifdef WS_EMULATED
void synchronize(Stream) {}
bool device_is_usable() { return true; }
#else
void synchronize(Stream stream) {
  detail::check_cuda(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
  detail::check_cuda(cudaGetLastError(), "kernel");
}
bool device_is_usable() {
  cudaGetLastError();
  return cudaDeviceSynchronize() == cudaSuccess;
}
#endif

}  // namespace ws::harness
