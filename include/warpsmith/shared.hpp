// Shared memory: SharedArray<T, N> inside a kernel's SharedStorage, SharedSpan<T> for the part
// whose size is known at launch only. On the GPU both are plain memory; in the emulator every
// access is checked against the bounds and against bytes that nothing has written.
#pragma once

#include <concepts>
#include <cstring>
#include <type_traits>

#include "warpsmith/device.hpp"
#include "warpsmith/types.hpp"

#ifdef WS_EMULATED
#include "emulator/profile.hpp"
#endif

namespace ws {

#ifdef WS_EMULATED
// What `array[i]` gives in the emulator: reads and writes are checked. Write `const T x =
// array[i]`, not `auto`: a copy of the reference would read later.
template <class T>
class SharedReference {
 public:
  SharedReference(T* at, std::source_location place) : at_(at), place_(place) {}
  operator T() const {  // NOLINT(google-explicit-constructor): stands for a T
    T value;
    emulator::at(place_);
    emulator::load_shared(&value, at_, sizeof(T));
    emulator::profile_shared_load("ld.shared", at_, sizeof(T));
    return value;
  }
  const SharedReference& operator=(T value) const {
    emulator::at(place_);
    emulator::store_shared(at_, &value, sizeof(T));
    emulator::profile_shared_store("st.shared", at_, sizeof(T));
    return *this;
  }
  const SharedReference& operator=(const SharedReference& other) const {
    return *this = static_cast<T>(other);
  }
  SharedReference(const SharedReference&) = default;

 private:
  T* at_;
  std::source_location place_;
};

// The i of `array[i]` and the place where it stands: an operator[] has no other parameter.
struct SharedIndex {
  template <std::integral Index>
  SharedIndex(Index i, WS_PLACE)  // NOLINT(google-explicit-constructor): stands for an index
      : value(static_cast<int64_t>(i)), place(place) {}
  int64_t value;
  std::source_location place;
};
#else
using SharedIndex = int64_t;
#endif

// A view of consecutive elements in shared memory. `size` is checked in the emulator only.
template <class T>
class SharedSpan {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  __device__ __forceinline__ SharedSpan(T* data, int64_t size) : data_(data), size_(size) {}

#ifdef WS_EMULATED
  SharedReference<T> operator[](SharedIndex i) const { return {at(i.value, 1), i.place}; }
#else
  __device__ __forceinline__ T& operator[](int64_t i) const { return data_[i]; }
#endif

  // N elements from index i, one access; i must be a multiple of N.
  template <int N>
  __device__ __forceinline__ Vec<T, N> load(int64_t i WS_AND_PLACE) const {
#ifdef WS_EMULATED
    Vec<T, N> value;
    emulator::at(place);
    emulator::check_shared(at(i, N), sizeof(value), alignof(Vec<T, N>), "shared load");
    emulator::load_shared(&value, at(i, N), sizeof(value));
    emulator::profile_shared_load("ld.shared", at(i, N), sizeof(value));
    return value;
#else
    return *reinterpret_cast<const Vec<T, N>*>(data_ + i);
#endif
  }
  template <int N>
  __device__ __forceinline__ void store(int64_t i, const Vec<T, N>& value WS_AND_PLACE) const {
#ifdef WS_EMULATED
    emulator::at(place);
    emulator::check_shared(at(i, N), sizeof(value), alignof(Vec<T, N>), "shared store");
    emulator::store_shared(at(i, N), &value, sizeof(value));
    emulator::profile_shared_store("st.shared", at(i, N), sizeof(value));
#else
    *reinterpret_cast<Vec<T, N>*>(data_ + i) = value;
#endif
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
  __device__ __forceinline__ decltype(auto) operator[](SharedIndex i) { return span()[i]; }
  template <int Width>
  __device__ __forceinline__ Vec<T, Width> load(int64_t i WS_AND_PLACE) {
    return span().template load<Width>(i WS_PASS_AND_PLACE);
  }
  template <int Width>
  __device__ __forceinline__ void store(int64_t i, const Vec<T, Width>& value WS_AND_PLACE) {
    span().template store<Width>(i, value WS_PASS_AND_PLACE);
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
