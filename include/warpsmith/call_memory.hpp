// The memory that a call's kernels may touch, for the emulator to hold them to.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

namespace ws {

struct Extent {
  const void* begin = nullptr;
  size_t bytes = 0;
  bool written = false;  // else kernels only read it
};

// While one lives, the launches of its host thread belong to a call on this memory.
class CallMemory {
 public:
  explicit CallMemory(std::vector<Extent> extents)
      : extents_(std::move(extents)), above_(std::exchange(innermost(), this)) {}
  CallMemory(const CallMemory&) = delete;
  CallMemory& operator=(const CallMemory&) = delete;
  ~CallMemory() { innermost() = above_; }

  // Null outside of a call.
  static const std::vector<Extent>* extents() {
    return innermost() != nullptr ? &innermost()->extents_ : nullptr;
  }

 private:
  static CallMemory*& innermost() {
    static thread_local CallMemory* instance = nullptr;
    return instance;
  }

  std::vector<Extent> extents_;
  CallMemory* above_;
};

}  // namespace ws
