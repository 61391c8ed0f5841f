// Shared memory: SharedArray<T, N> inside a kernel's SharedStorage, SharedSpan<T> for the part
// whose size is known at launch only. On the GPU both are plain memory; in the emulator every
// access is checked against the bounds and against bytes that nothing has written.
#pragma once

#include <cstring>
#include <type_traits>

#include "warpsmith/device.hpp"
#include "warpsmith/types.hpp"

namespace ws {

#ifdef WS_EMULATED
// What `array[i]` gives in the emulator: reads and writes are checked. Write `const T x =
// array[i]`, not `auto`: a copy of the reference would read later.
template <class T>
class SharedReference {
 public:
  explicit SharedReference(T* at) : at_(at) {}
  operator T() const {  // NOLINT(google-explicit-constructor): stands for a T
    emulator::read_shared(at_, sizeof(T), "shared load");
    emulator::count(emulator::Count::kSharedLoadBytes, sizeof(T));
    return *at_;
  }
  const SharedReference& operator=(T value) const {
    *at_ = value;
    emulator::write_shared(at_, sizeof(T), "shared store");
    emulator::count(emulator::Count::kSharedStoreBytes, sizeof(T));
    return *this;
  }
  const SharedReference& operator=(const SharedReference& other) const {
    return *this = static_cast<T>(other);
  }
  SharedReference(const SharedReference&) = default;

 private:
  T* at_;
};
#endif

// A view of consecutive elements in shared memory. `size` is checked in the emulator only.
template <class T>
class SharedSpan {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  __device__ __forceinline__ SharedSpan(T* data, int64_t size) : data_(data), size_(size) {}

#ifdef WS_EMULATED
  SharedReference<T> operator[](int64_t i) const { return SharedReference<T>(at(i, 1)); }
#else
  __device__ __forceinline__ T& operator[](int64_t i) const { return data_[i]; }
#endif

  // N elements from index i, one access; i must be a multiple of N.
  template <int N>
  __device__ __forceinline__ Vec<T, N> load(int64_t i) const {
#ifdef WS_EMULATED
    emulator::check_shared(at(i, N), sizeof(Vec<T, N>), alignof(Vec<T, N>), "shared load");
    emulator::read_shared(at(i, N), sizeof(Vec<T, N>), "shared load");
    emulator::count(emulator::Count::kSharedLoadBytes, sizeof(Vec<T, N>));
#endif
    return *reinterpret_cast<const Vec<T, N>*>(data_ + i);
  }
  template <int N>
  __device__ __forceinline__ void store(int64_t i, const Vec<T, N>& value) const {
#ifdef WS_EMULATED
    emulator::check_shared(at(i, N), sizeof(Vec<T, N>), alignof(Vec<T, N>), "shared store");
    emulator::write_shared(at(i, N), sizeof(Vec<T, N>), "shared store");
    emulator::count(emulator::Count::kSharedStoreBytes, sizeof(Vec<T, N>));
#endif
    *reinterpret_cast<Vec<T, N>*>(data_ + i) = value;
  }

  // The address of element i, for the instructions of ptx/ that take one.
  __device__ __forceinline__ T* pointer(int64_t i = 0) const { return data_ + i; }
  __device__ __forceinline__ int64_t size() const { return size_; }

 private:
#ifdef WS_EMULATED
  T* at(int64_t i, int64_t count) const {
    if (i < 0 || i + count > size_) {
      emulator::fail(emulator::Fault::kOutOfRange,
                     concatenate("shared elements [", i, ", ", i + count, ") of ", size_));
    }
    return data_ + i;
  }
#endif
  T* data_;
  int64_t size_;
};

// N elements inside a SharedStorage, aligned to `Alignment` bytes (128 for bulk copies, 1024 for
// swizzled tensor copies).
template <class T, int N, int Alignment = 16>
struct SharedArray {
  static_assert(std::is_trivially_copyable_v<T> && N > 0);

  __device__ __forceinline__ SharedSpan<T> span() { return {storage, N}; }
  __device__ __forceinline__ decltype(auto) operator[](int64_t i) { return span()[i]; }
  template <int Width>
  __device__ __forceinline__ Vec<T, Width> load(int64_t i) {
    return span().template load<Width>(i);
  }
  template <int Width>
  __device__ __forceinline__ void store(int64_t i, const Vec<T, Width>& value) {
    span().template store<Width>(i, value);
  }
  __device__ __forceinline__ T* pointer(int64_t i = 0) { return storage + i; }
  static constexpr int size() { return N; }

  // Raw bytes, so that T's constructors never run: shared memory starts unwritten.
  alignas(Alignment) T storage[N];
};

// The shared memory that a launch asked for beyond the kernel's SharedStorage (Grid::dynamic_shared
// bytes), as `size` elements of T; it starts at the next multiple of 16 bytes.
template <class T, class SharedStorage>
__device__ __forceinline__ SharedSpan<T> dynamic_shared(SharedStorage& shared, int64_t size) {
  // As launch() counts it: an empty SharedStorage takes no memory.
  constexpr size_t kOffset =
      std::is_empty_v<SharedStorage> ? 0 : (sizeof(SharedStorage) + 15) / 16 * 16;
  return {reinterpret_cast<T*>(reinterpret_cast<std::byte*>(&shared) + kOffset), size};
}

}  // namespace ws
