// Memory for the harness: tensors on the host, and guarded buffers where kernels work.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "catalogue/catalogue.hpp"

namespace ws::harness {

// A tensor's bytes on the host. What its strides skip is filled like the rest.
class HostTensor {
 public:
  explicit HostTensor(const Tensor& layout, std::byte fill = std::byte{0xFF});
  HostTensor(const HostTensor&) = delete;  // tensor_ points into bytes_
  HostTensor(HostTensor&&) noexcept = default;
  HostTensor& operator=(const HostTensor&) = delete;
  HostTensor& operator=(HostTensor&&) noexcept = default;
  ~HostTensor() = default;

  const Tensor& tensor() const { return tensor_; }
  std::span<std::byte> bytes() { return bytes_; }
  std::span<const std::byte> bytes() const { return bytes_; }

 private:
  std::vector<std::byte> bytes_;
  Tensor tensor_;
};

// Memory that kernels reach (the GPU's; in the emulator the host's), between guard bytes. data() is
// `offset` bytes past a multiple of 256.
class DeviceBuffer {
 public:
  explicit DeviceBuffer(size_t bytes, size_t offset = 0);
  DeviceBuffer(DeviceBuffer&&) noexcept = default;
  DeviceBuffer& operator=(DeviceBuffer&&) noexcept = default;
  ~DeviceBuffer();

  std::byte* data() const { return memory_.get() + before_; }
  size_t bytes() const { return bytes_; }
  void fill(std::byte value);
  void fill(std::byte value, size_t first);        // from byte `first` on
  void upload(std::span<const std::byte> source);  // from the host or the device
  // target.size() bytes from `offset` on.
  void download(std::span<std::byte> target, size_t offset = 0) const;

  // Where the first changed guard byte lies: negative before data(), else behind it, 0 the first
  // byte past the end. Empty where all guards are whole.
  std::optional<int64_t> damage() const;

  // Under AddressSanitizer the guards of new buffers are out of bounds for everybody, so that reads
  // past the end are found too. Off in tests of kernels that write there.
  static inline bool sanitize_guards = true;

 private:
  void allow_guards(bool allowed) const;

  struct Free {
    void operator()(std::byte* memory) const;
  };
  std::unique_ptr<std::byte, Free> memory_;
  size_t before_ = 0;  // guard bytes ahead of data()
  size_t bytes_ = 0;
  size_t after_ = 0;
};

}  // namespace ws::harness
