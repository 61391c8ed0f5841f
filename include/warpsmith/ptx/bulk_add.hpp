// Bulk additions: shared memory added to global memory by the copy engine, without registers (PTX
// ISA, "Data Movement and Conversion Instructions: cp.reduce.async.bulk").
#pragma once

#include "warpsmith/ptx/bulk.hpp"
#include "warpsmith/types.hpp"

#ifdef WS_EMULATED
#include <cstring>

#include "emulator/bulk_add.hpp"
#endif

namespace ws::ptx {

// cp.reduce.async.bulk.global.shared::cta.add: as bulk_store, but the elements are added to those
// in memory, each atomically by itself and rounded to nearest even. T: float, half, bf16.
template <class T>
__device__ __forceinline__ void bulk_add(T* global, const T* shared, uint32_t bytes WS_AND_PLACE) {
  static_assert(std::is_same_v<T, float> || std::is_same_v<T, half> || std::is_same_v<T, bf16>);
#ifdef WS_EMULATED
  emulator::at(place);
  emulator::bulk_add(global, shared, bytes, sizeof(T), [](std::byte* to, const std::byte* value) {
    T old;
    T added;
    std::memcpy(&old, to, sizeof(T));
    std::memcpy(&added, value, sizeof(T));
    old = from_float<T>(to_float(old) + to_float(added));
    std::memcpy(to, &old, sizeof(T));
  });
#else
  const size_t to = __cvta_generic_to_global(global);
  if constexpr (std::is_same_v<T, float>) {
    asm volatile(
        "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%0], [%1], %2;" ::"l"(to),
        "r"(shared_address(shared)), "r"(bytes)
        : "memory");
  } else if constexpr (std::is_same_v<T, half>) {
    asm volatile(
        "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.noftz.f16 [%0], [%1], %2;" ::"l"(
            to),
        "r"(shared_address(shared)), "r"(bytes)
        : "memory");
  } else {
    asm volatile(
        "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.noftz.bf16 [%0], [%1], %2;" ::"l"(
            to),
        "r"(shared_address(shared)), "r"(bytes)
        : "memory");
  }
#endif
}

}  // namespace ws::ptx
