// Atomic functions on global and shared memory: relaxed, as CUDA's are.
#pragma once

#include <type_traits>

#include "warpsmith_cuda/types.hpp"

namespace ws::cuda_file::device {

void begin_atomic(void* address, size_t bytes, const char* operation, std::source_location place);
void end_atomic(void* address, size_t bytes, bool changed);

// Between begin and end nobody else comes to the address, so ordinary accesses will do: which the
// emulator must not look at once more.
template <class T, class Update>
__attribute__((no_sanitize("thread"))) T atomic(T* address, const char* operation, Update update,
                                                std::source_location place) {
  begin_atomic(address, sizeof(T), operation, place);
  const T old = *address;
  const T next = update(old);
  *address = next;
  end_atomic(address, sizeof(T), __builtin_memcmp(&old, &next, sizeof(T)) != 0);
  return old;
}

}  // namespace ws::cuda_file::device

// NOLINTBEGIN
#define WS_ATOMIC(function, name, T, result)                           \
  WS_CUDA_INLINE T function(T* address, T value, WS_CUDA_PLACE) {      \
    return ::ws::cuda_file::device::atomic(                            \
        address, name, [value](T old) -> T { return result; }, place); \
  }
#define WS_ATOMIC_SCOPES(function, name, T, result) \
  WS_ATOMIC(function, name, T, result)              \
  WS_ATOMIC(function##_block, name, T, result)      \
  WS_ATOMIC(function##_system, name, T, result)

using ws_cuda_uint = unsigned int;
using ws_cuda_ulong = unsigned long;
using ws_cuda_longlong = long long;
using ws_cuda_ulonglong = unsigned long long;

WS_ATOMIC_SCOPES(atomicAdd, "atomicAdd", int, static_cast<int>(static_cast<unsigned>(old) + value))
WS_ATOMIC_SCOPES(atomicAdd, "atomicAdd", ws_cuda_uint, old + value)
WS_ATOMIC_SCOPES(atomicAdd, "atomicAdd", ws_cuda_ulonglong, old + value)
WS_ATOMIC_SCOPES(atomicAdd, "atomicAdd", ws_cuda_ulong, old + value)
WS_ATOMIC_SCOPES(atomicAdd, "atomicAdd", float, old + value)
WS_ATOMIC_SCOPES(atomicAdd, "atomicAdd", double, old + value)
WS_ATOMIC_SCOPES(atomicSub, "atomicSub", int, static_cast<int>(static_cast<unsigned>(old) - value))
WS_ATOMIC_SCOPES(atomicSub, "atomicSub", ws_cuda_uint, old - value)
#define WS_ATOMIC_EXCHANGE(T) \
  WS_ATOMIC_SCOPES(atomicExch, "atomicExch", T, (static_cast<void>(old), value))
WS_ATOMIC_EXCHANGE(int)
WS_ATOMIC_EXCHANGE(ws_cuda_uint)
WS_ATOMIC_EXCHANGE(ws_cuda_ulonglong)
WS_ATOMIC_EXCHANGE(float)
#undef WS_ATOMIC_EXCHANGE
#define WS_ATOMIC_INTEGER(T)                                               \
  WS_ATOMIC_SCOPES(atomicMin, "atomicMin", T, (value < old ? value : old)) \
  WS_ATOMIC_SCOPES(atomicMax, "atomicMax", T, (old < value ? value : old)) \
  WS_ATOMIC_SCOPES(atomicAnd, "atomicAnd", T, (old & value))               \
  WS_ATOMIC_SCOPES(atomicOr, "atomicOr", T, (old | value))                 \
  WS_ATOMIC_SCOPES(atomicXor, "atomicXor", T, (old ^ value))
WS_ATOMIC_INTEGER(int)
WS_ATOMIC_INTEGER(ws_cuda_uint)
WS_ATOMIC_INTEGER(ws_cuda_longlong)
WS_ATOMIC_INTEGER(ws_cuda_ulonglong)
#undef WS_ATOMIC_INTEGER
WS_ATOMIC_SCOPES(atomicInc, "atomicInc", ws_cuda_uint, (old >= value ? 0u : old + 1))
WS_ATOMIC_SCOPES(atomicDec, "atomicDec", ws_cuda_uint, (old == 0 || old > value ? value : old - 1))
#undef WS_ATOMIC_SCOPES
#undef WS_ATOMIC

#define WS_ATOMIC_CAS(T)                                                                 \
  WS_CUDA_INLINE T atomicCAS(T* address, T expected, T value, WS_CUDA_PLACE) {           \
    return ::ws::cuda_file::device::atomic(                                              \
        address, "atomicCAS",                                                            \
        [expected, value](T old) -> T { return old == expected ? value : old; }, place); \
  }                                                                                      \
  WS_CUDA_INLINE T atomicCAS_block(T* address, T expected, T value, WS_CUDA_PLACE) {     \
    return atomicCAS(address, expected, value, place);                                   \
  }                                                                                      \
  WS_CUDA_INLINE T atomicCAS_system(T* address, T expected, T value, WS_CUDA_PLACE) {    \
    return atomicCAS(address, expected, value, place);                                   \
  }
WS_ATOMIC_CAS(int)
WS_ATOMIC_CAS(ws_cuda_uint)
WS_ATOMIC_CAS(ws_cuda_ulonglong)
using ws_cuda_ushort = unsigned short;
WS_ATOMIC_CAS(ws_cuda_ushort)
#undef WS_ATOMIC_CAS
// NOLINTEND
