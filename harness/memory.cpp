#include "harness/memory.hpp"

#include <algorithm>
#include <utility>

#include "warpsmith/runtime.hpp"
#include "warpsmith/thread/divide.hpp"

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#endif

namespace ws::harness {
namespace {

constexpr size_t kAlignment = 256;
constexpr size_t kGuard = 1024;
constexpr auto kGuardByte = std::byte{0xA5};

}  // namespace

HostTensor::HostTensor(const Tensor& layout, std::byte fill)
    : bytes_(footprint(layout), fill), tensor_(layout) {
  tensor_.data = bytes_.data();
}

DeviceBuffer::DeviceBuffer(size_t bytes, size_t offset)
    : before_(kGuard + offset),
      bytes_(bytes),
      after_(round_up(before_ + bytes + kGuard, kAlignment) - before_ - bytes) {
  memory_.reset(static_cast<std::byte*>(runtime::allocate(before_ + bytes_ + after_)));
  // The middle stays untouched: a large buffer that nobody fills costs nothing.
  runtime::fill(memory_.get(), kGuardByte, before_);
  runtime::fill(data() + bytes_, kGuardByte, after_);
  allow_guards(false);
}

DeviceBuffer::~DeviceBuffer() = default;

#ifdef __SANITIZE_ADDRESS__
void DeviceBuffer::allow_guards(bool allowed) const {
  if (!runtime::kEmulated) return;  // the sanitizer knows nothing of a GPU's memory
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

void DeviceBuffer::Free::operator()(std::byte* memory) const { runtime::free(memory); }

void DeviceBuffer::fill(std::byte value) { runtime::fill(data(), value, bytes_); }
void DeviceBuffer::fill(std::byte value, size_t first) {
  if (first < bytes_) runtime::fill(data() + first, value, bytes_ - first);
}
void DeviceBuffer::upload(std::span<const std::byte> source) {
  runtime::copy(data(), source.data(), std::min(bytes_, source.size()));
}
void DeviceBuffer::download(std::span<std::byte> target, size_t offset) const {
  runtime::copy(target.data(), data() + offset, std::min(bytes_ - offset, target.size()));
}

std::optional<int64_t> DeviceBuffer::damage() const {
  allow_guards(true);
  std::vector<std::byte> guard(std::max(before_, after_));
  const auto intact = [](std::byte b) { return b == kGuardByte; };
  runtime::copy(guard.data(), data() + bytes_, after_);
  const auto end = guard.begin() + static_cast<std::ptrdiff_t>(after_);
  if (const auto at = std::find_if_not(guard.begin(), end, intact); at != end) {
    return at - guard.begin();
  }
  runtime::copy(guard.data(), memory_.get(), before_);
  allow_guards(false);
  // Of writes ahead of the buffer the one next to it.
  const auto begin =
      std::make_reverse_iterator(guard.begin() + static_cast<std::ptrdiff_t>(before_));
  if (const auto at = std::find_if_not(begin, guard.rend(), intact); at != guard.rend()) {
    return -1 - (at - begin);
  }
  return std::nullopt;
}

}  // namespace ws::harness
