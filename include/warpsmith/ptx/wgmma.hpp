// wgmma: a warpgroup multiplies matrices that lie in shared memory, asynchronously (PTX ISA,
// "Asynchronous Warpgroup Level Matrix Multiply-Accumulate Instructions"). sm_90a.
//
//   wgmma_fence(d);                                // registers are ready; A's too, if it has some
//   for (...) wgmma_m64k16<N, T>(d, a, b, true);   // 4 warps, from a warp index that 4 divides
//   wgmma_commit_group();
//   wgmma_wait_group<0>(d);                        // now d may be read, and shared memory reused
//
// All threads of the warpgroup execute each of them with the same descriptors. An instruction takes
// 32 bytes of K: 16 elements of 16 bits, 32 of 8 (e4m3, e5m2, s8), 8 of tf32. f16 accumulators, and
// A of s8 in registers, would be further functions.
#pragma once

#include <type_traits>

#include "warpsmith/ptx/address.hpp"
#include "warpsmith/ptx/swizzle.hpp"
#include "warpsmith/types.hpp"

#ifdef WS_EMULATED
#include "emulator/wgmma.hpp"
#endif

namespace ws::ptx {

// Which dimension of an operand is contiguous in shared memory: K, or M of A and N of B.
enum class Major { kK, kMN };

// ---- Descriptors -------------------------------------------------------------------------------

// Where an operand lies. In units of 16-byte chunks, 8 elements of 16 bits, its tile is made of
// atoms: 8 rows of one swizzle row (16, 32, 64 or 128 bytes). The two offsets lead from atom to
// atom:
//
// clang-format off
//   major, swizzle      an atom is               leading_bytes: next ...   stride_bytes: next ...
//   kK,  none           8 mn x 8 k               8 k                       8 mn
//   kK,  k32 to k128    8 mn x 16, 32, 64 k      (not used)                8 mn
//   kMN, none           8 k x 8 mn               8 k                       8 mn
//   kMN, k32 to k128    8 k x 16, 32, 64 mn      16, 32, 64 mn             8 k
// clang-format on
//
// Elements of 8 and of 32 bits, of which a chunk has 16 and 4, are K-major.
//
// `shared` starts at a multiple of swizzle_period; in K-major tiles wider than an instruction's 32
// bytes of k, the descriptor of the next is wgmma_advance(descriptor, 32), for the swizzle acts on
// addresses.
__device__ __forceinline__ uint64_t wgmma_descriptor(const void* shared, uint32_t leading_bytes,
                                                     uint32_t stride_bytes, Swizzle swizzle) {
  const uint32_t address = shared_address(shared);
#ifdef WS_EMULATED
  emulator::wgmma_check_descriptor(address, leading_bytes, stride_bytes);
#endif
  const auto field = [](uint32_t bytes) { return static_cast<uint64_t>((bytes & 0x3FFFF) >> 4); };
  // Layout types: 0 none, 1 128 bytes, 2 64 bytes, 3 32 bytes.
  const uint64_t type =
      swizzle == Swizzle::kNone ? 0 : 4 - static_cast<uint64_t>(static_cast<int>(swizzle));
  return field(address) | (field(leading_bytes) << 16) | (field(stride_bytes) << 32) | (type << 62);
}

// The same tile `bytes` further on, a multiple of 16.
__device__ __forceinline__ uint64_t wgmma_advance(uint64_t descriptor, uint32_t bytes) {
  return descriptor + (bytes >> 4);
}

// ---- Order -------------------------------------------------------------------------------------

// Keeps the compiler from moving accesses of the accumulators across this point: it does not know
// that wgmma writes them later than its place in the program.
template <class Register, int kCount>
__device__ __forceinline__ void wgmma_pin([[maybe_unused]] Register (&registers)[kCount]) {
#ifndef WS_EMULATED
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
    if constexpr (std::is_same_v<Register, float>) {
      asm volatile("" : "+f"(registers[i])::"memory");
    } else {
      asm volatile("" : "+r"(registers[i])::"memory");
    }
  }
#endif
}

namespace detail {
#ifdef WS_EMULATED
template <class... Registers>
void wgmma_fence_at(std::source_location place, Registers&... registers) {
  emulator::at(place);
  emulator::wgmma_fence({{registers, sizeof(registers)}...});
}
template <int kPending, class... Registers>
void wgmma_wait_group_at(std::source_location place, Registers&...) {
  static_assert(kPending >= 0 && kPending <= 7);
  emulator::at(place);
  emulator::wgmma_wait_group(kPending);
}
#else
template <class... Registers>
__device__ __forceinline__ void wgmma_fence_at(Registers&... registers) {
  (wgmma_pin(registers), ...);
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
template <int kPending, class... Registers>
__device__ __forceinline__ void wgmma_wait_group_at(Registers&... accumulators) {
  static_assert(kPending >= 0 && kPending <= 7);
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kPending) : "memory");
  (wgmma_pin(accumulators), ...);
}
#endif
}  // namespace detail

// wgmma.fence: this warp's accesses to registers come before those of its later wgmma. Needed
// before the first one, and whenever a thread has touched accumulators or A registers in between.
// Names the accumulators, and A where it is in registers: from here to the product they must not
// change.
template <class A>
__device__ __forceinline__ void wgmma_fence(A& a WS_AND_PLACE) {
  detail::wgmma_fence_at(WS_PASS_FIRST_PLACE a);
}
template <class A, class B>
__device__ __forceinline__ void wgmma_fence(A& a, B& b WS_AND_PLACE) {
  detail::wgmma_fence_at(WS_PASS_FIRST_PLACE a, b);
}
template <class... Registers>
  requires(sizeof...(Registers) == 0 || sizeof...(Registers) > 2)
__device__ __forceinline__ void wgmma_fence(Registers&... registers) {
  detail::wgmma_fence_at(WS_PASS_FIRST_NO_PLACE registers...);
}

// wgmma.commit_group: the products issued since the last commit form a group.
__device__ __forceinline__ void wgmma_commit_group(WS_PLACE) {
#ifdef WS_EMULATED
  emulator::at(place);
  emulator::wgmma_commit_group();
#else
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
#endif
}

// wgmma.wait_group: waits until at most the kPending youngest groups are in flight. Names the
// accumulators that are read afterwards.
template <int kPending>
__device__ __forceinline__ void wgmma_wait_group(WS_PLACE) {
  detail::wgmma_wait_group_at<kPending>(WS_PASS_PLACE);
}
template <int kPending, class A>
__device__ __forceinline__ void wgmma_wait_group(A& a WS_AND_PLACE) {
  detail::wgmma_wait_group_at<kPending>(WS_PASS_FIRST_PLACE a);
}
template <int kPending, class A, class B>
__device__ __forceinline__ void wgmma_wait_group(A& a, B& b WS_AND_PLACE) {
  detail::wgmma_wait_group_at<kPending>(WS_PASS_FIRST_PLACE a, b);
}
template <int kPending, class... Registers>
  requires(sizeof...(Registers) > 2)
__device__ __forceinline__ void wgmma_wait_group(Registers&... accumulators) {
  detail::wgmma_wait_group_at<kPending>(WS_PASS_FIRST_NO_PLACE accumulators...);
}

// ---- Products ----------------------------------------------------------------------------------

namespace detail {
template <int N, class T>
constexpr bool check_wgmma() {
  static_assert(N % 8 == 0 && N >= 8 && N <= 256, "wgmma takes N = 8, 16, ... 256");
  static_assert(std::is_same_v<T, half> || std::is_same_v<T, bf16>);
  return true;
}

template <class T>
inline constexpr bool kIsFp8 = std::is_same_v<T, e4m3> || std::is_same_v<T, e5m2>;

#ifdef WS_EMULATED
template <class T>
constexpr emulator::WgmmaElement wgmma_element() {
  using enum emulator::WgmmaElement;
  if (std::is_same_v<T, half>) return kF16;
  if (std::is_same_v<T, bf16>) return kBf16;
  if (std::is_same_v<T, float>) return kTf32;
  if (std::is_same_v<T, e4m3>) return kE4m3;
  if (std::is_same_v<T, e5m2>) return kE5m2;
  static_assert(kIsFloat<T> || std::is_same_v<T, int8_t>);
  return kS8;
}

// The model of a product of K-major operands in shared memory.
template <class A, class B>
void wgmma_k_major(int n, void* d, uint64_t a, uint64_t b, bool accumulate,
                   std::source_location place) {
  emulator::at(place);
  emulator::wgmma_mma_async({.n = n,
                             .a_element = wgmma_element<A>(),
                             .b_element = wgmma_element<B>(),
                             .a_mn_major = false,
                             .b_mn_major = false,
                             .a_registers = nullptr,
                             .a = a,
                             .b = b,
                             .accumulate = accumulate,
                             .d = d});
}
// The same with A in registers.
template <class T>
void wgmma_from_registers(int n, void* d, const uint32_t* a, uint64_t b, bool accumulate,
                          std::source_location place) {
  emulator::at(place);
  emulator::wgmma_mma_async({.n = n,
                             .a_element = wgmma_element<T>(),
                             .b_element = wgmma_element<T>(),
                             .a_mn_major = false,
                             .b_mn_major = false,
                             .a_registers = a,
                             .a = 0,
                             .b = b,
                             .accumulate = accumulate,
                             .d = d});
}
#endif
}  // namespace detail

// wgmma.mma_async.m64nNk16: D = A * B + D, or A * B where accumulate is false. A [64, 16] and B
// [16, N] of T (half or bf16) by their descriptors, D [64, N] of float in registers.
//
// Thread t of the warpgroup holds, with row = 16 * (t / 32) + t % 32 / 4 and pair = 2 * (t % 4):
//   d[4 * j + 0, 1] = D[row][8 * j + pair, + 1]     d[4 * j + 2, 3] = D[row + 8][8 * j + pair, + 1]
template <int N, class T, Major kMajorA = Major::kK, Major kMajorB = Major::kK>
__device__ __forceinline__ void wgmma_m64k16(float (&d)[N / 2], uint64_t a, uint64_t b,
                                             bool accumulate WS_AND_PLACE) {
  static_assert(detail::check_wgmma<N, T>());
#ifdef WS_EMULATED
  emulator::at(place);
  emulator::wgmma_mma_async({.n = N,
                             .a_element = detail::wgmma_element<T>(),
                             .b_element = detail::wgmma_element<T>(),
                             .a_mn_major = kMajorA == Major::kMN,
                             .b_mn_major = kMajorB == Major::kMN,
                             .a_registers = nullptr,
                             .a = a,
                             .b = b,
                             .accumulate = accumulate,
                             .d = d});
#else
  // The instruction's name carries N, and asm its operands one by one: a branch for each N.
#define WS_WGMMA_ASM(n, type, text, a, b, scale, major_a, major_b, ...)                          \
  asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, " scale                                         \
               ", 0;\n"                                                                          \
               "wgmma.mma_async.sync.aligned.m64n" #n "k16.f32." type "." type " {" text "}, " a \
               ", " b ", p, 1, 1, " major_a ", " major_b ";\n}"                                  \
               : __VA_ARGS__                                                                     \
               : "l"(a_), "l"(b_), "r"(static_cast<int>(accumulate)),                            \
                 "n"(static_cast<int>(kMajorA)), "n"(static_cast<int>(kMajorB)))
#define WS_WGMMA_SHAPE(n, text, o0, o1, o2, o3, o4, o5, o6, ...)      \
  if constexpr (N == n) {                                             \
    if constexpr (std::is_same_v<T, half>) {                          \
      WS_WGMMA_ASM(n, "f16", text, o0, o1, o2, o3, o4, __VA_ARGS__);  \
    } else {                                                          \
      WS_WGMMA_ASM(n, "bf16", text, o0, o1, o2, o3, o4, __VA_ARGS__); \
    }                                                                 \
  }
  const uint64_t a_ = a;
  const uint64_t b_ = b;
#define WS_WGMMA_SUM "+f"
#include "warpsmith/ptx/wgmma_shapes.inc"
#undef WS_WGMMA_SUM
#undef WS_WGMMA_SHAPE
#undef WS_WGMMA_ASM
#endif
}

// The same with A in registers, two elements of T in each. With row and pair as above:
//   a[0] = A[row][pair, + 1]        a[2] = A[row][pair + 8, + 1]
//   a[1] = A[row + 8][pair, + 1]    a[3] = A[row + 8][pair + 8, + 1]
// The registers are read until the wait: do not touch them before.
template <int N, class T, Major kMajorB = Major::kK>
__device__ __forceinline__ void wgmma_m64k16(float (&d)[N / 2], const uint32_t (&a)[4], uint64_t b,
                                             bool accumulate WS_AND_PLACE) {
  static_assert(detail::check_wgmma<N, T>());
#ifdef WS_EMULATED
  emulator::at(place);
  emulator::wgmma_mma_async({.n = N,
                             .a_element = detail::wgmma_element<T>(),
                             .b_element = detail::wgmma_element<T>(),
                             .a_mn_major = false,
                             .b_mn_major = kMajorB == Major::kMN,
                             .a_registers = a,
                             .a = 0,
                             .b = b,
                             .accumulate = accumulate,
                             .d = d});
#else
#define WS_WGMMA_ASM(n, type, text, a0, a1, a2, a3, b, scale, major_b, ...)                        \
  asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, " scale                                           \
               ", 0;\n"                                                                            \
               "wgmma.mma_async.sync.aligned.m64n" #n "k16.f32." type "." type " {" text "}, {" a0 \
               ", " a1 ", " a2 ", " a3 "}, " b ", p, 1, 1, " major_b ";\n}"                        \
               : __VA_ARGS__                                                                       \
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b_),                              \
                 "r"(static_cast<int>(accumulate)), "n"(static_cast<int>(kMajorB)))
#define WS_WGMMA_SHAPE(n, text, o0, o1, o2, o3, o4, o5, o6, ...)              \
  if constexpr (N == n) {                                                     \
    if constexpr (std::is_same_v<T, half>) {                                  \
      WS_WGMMA_ASM(n, "f16", text, o0, o1, o2, o3, o4, o5, o6, __VA_ARGS__);  \
    } else {                                                                  \
      WS_WGMMA_ASM(n, "bf16", text, o0, o1, o2, o3, o4, o5, o6, __VA_ARGS__); \
    }                                                                         \
  }
  const uint64_t b_ = b;
#define WS_WGMMA_SUM "+f"
#include "warpsmith/ptx/wgmma_shapes.inc"
#undef WS_WGMMA_SUM
#undef WS_WGMMA_SHAPE
#undef WS_WGMMA_ASM
#endif
}

// ---- Products of other types: K-major operands in shared memory ---------------------------------

// An accumulator of elements T.
template <class T>
using WgmmaSum = std::conditional_t<std::is_same_v<T, int8_t>, int32_t, float>;

#ifndef WS_EMULATED
#define WS_WGMMA_ASM(n, types, text, a, b, scale, factors, ...)                                    \
  asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, " scale                                           \
               ", 0;\n"                                                                            \
               "wgmma.mma_async.sync.aligned.m64n" #n types " {" text "}, " a ", " b ", p" factors \
               ";\n}"                                                                              \
               : __VA_ARGS__                                                                       \
               : "l"(a_), "l"(b_), "r"(static_cast<int>(accumulate)))
// A in registers.
#define WS_WGMMA_REGISTERS_ASM(n, types, text, a0, a1, a2, a3, b, scale, ...)                   \
  asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, " scale                                        \
               ", 0;\n"                                                                         \
               "wgmma.mma_async.sync.aligned.m64n" #n types " {" text "}, {" a0 ", " a1 ", " a2 \
               ", " a3 "}, " b ", p, 1, 1;\n}"                                                  \
               : __VA_ARGS__                                                                    \
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b_),                           \
                 "r"(static_cast<int>(accumulate)))
#endif

// wgmma.mma_async.m64nNk32 of e4m3 and e5m2, each operand its own, to f32. Fragments of D as above.
//
// An H200 adds up products of 8 bits with fewer bits than f32 has: it aligns those of an
// instruction and the accumulator to the largest exponent and keeps some 14 bits (the emulator:
// all of f32's). Sums of many products are therefore best added up in registers now and then.
template <int N, class A, class B>
  requires(detail::kIsFp8<A> && detail::kIsFp8<B>)
__device__ __forceinline__ void wgmma_m64k32(float (&d)[N / 2], uint64_t a, uint64_t b,
                                             bool accumulate WS_AND_PLACE) {
  static_assert(N % 8 == 0 && N >= 8 && N <= 256, "wgmma takes N = 8, 16, ... 256");
#ifdef WS_EMULATED
  detail::wgmma_k_major<A, B>(N, d, a, b, accumulate, place);
#else
#define WS_WGMMA_SHAPE(n, text, o0, o1, o2, o3, o4, o5, o6, ...)                     \
  if constexpr (N == n) {                                                            \
    if constexpr (std::is_same_v<A, e4m3> && std::is_same_v<B, e4m3>) {              \
      WS_WGMMA_ASM(n, "k32.f32.e4m3.e4m3", text, o0, o1, o2, ", 1, 1", __VA_ARGS__); \
    } else if constexpr (std::is_same_v<A, e4m3>) {                                  \
      WS_WGMMA_ASM(n, "k32.f32.e4m3.e5m2", text, o0, o1, o2, ", 1, 1", __VA_ARGS__); \
    } else if constexpr (std::is_same_v<B, e4m3>) {                                  \
      WS_WGMMA_ASM(n, "k32.f32.e5m2.e4m3", text, o0, o1, o2, ", 1, 1", __VA_ARGS__); \
    } else {                                                                         \
      WS_WGMMA_ASM(n, "k32.f32.e5m2.e5m2", text, o0, o1, o2, ", 1, 1", __VA_ARGS__); \
    }                                                                                \
  }
  const uint64_t a_ = a;
  const uint64_t b_ = b;
#define WS_WGMMA_SUM "+f"
#include "warpsmith/ptx/wgmma_shapes.inc"
#undef WS_WGMMA_SUM
#undef WS_WGMMA_SHAPE
#endif
}

// The same with A in registers, four elements in each, those of the lowest k in the lowest byte.
// With row as above and four = 4 * (t % 4):
//   a[0] = A[row][four ... four + 3]        a[2] = A[row][four + 16 ... four + 19]
//   a[1] = A[row + 8][four ... four + 3]    a[3] = A[row + 8][four + 16 ... four + 19]
template <int N, class A, class B>
  requires(detail::kIsFp8<A> && detail::kIsFp8<B>)
__device__ __forceinline__ void wgmma_m64k32(float (&d)[N / 2], const uint32_t (&a)[4], uint64_t b,
                                             bool accumulate WS_AND_PLACE) {
  static_assert(std::is_same_v<A, e4m3> && std::is_same_v<B, e4m3>, "others have not been needed");
  static_assert(N % 8 == 0 && N >= 8 && N <= 256, "wgmma takes N = 8, 16, ... 256");
#ifdef WS_EMULATED
  detail::wgmma_from_registers<A>(N, d, a, b, accumulate, place);
#else
#define WS_WGMMA_SHAPE(n, text, o0, o1, o2, o3, o4, o5, o6, ...)                               \
  if constexpr (N == n) {                                                                      \
    WS_WGMMA_REGISTERS_ASM(n, "k32.f32.e4m3.e4m3", text, o0, o1, o2, o3, o4, o5, __VA_ARGS__); \
  }
  const uint64_t b_ = b;
#define WS_WGMMA_SUM "+f"
#include "warpsmith/ptx/wgmma_shapes.inc"
#undef WS_WGMMA_SUM
#undef WS_WGMMA_SHAPE
#endif
}

// The same of s8 to s32, which wraps.
template <int N, class A, class B>
  requires(std::is_same_v<A, int8_t> && std::is_same_v<B, int8_t>)
__device__ __forceinline__ void wgmma_m64k32(int32_t (&d)[N / 2], uint64_t a, uint64_t b,
                                             bool accumulate WS_AND_PLACE) {
  static_assert(N == 8 || N == 24 || (N % 16 == 0 && N >= 16 && N <= 256),
                "wgmma of s8 takes N = 8, 16, 24, 32, 48, 64, ... 256");
#ifdef WS_EMULATED
  detail::wgmma_k_major<A, B>(N, d, a, b, accumulate, place);
#else
#define WS_WGMMA_SHAPE(n, text, o0, o1, o2, o3, o4, o5, o6, ...)         \
  if constexpr (N == n) {                                                \
    WS_WGMMA_ASM(n, "k32.s32.s8.s8", text, o0, o1, o2, "", __VA_ARGS__); \
  }
  const uint64_t a_ = a;
  const uint64_t b_ = b;
#define WS_WGMMA_SUM "+r"
#include "warpsmith/ptx/wgmma_shapes.inc"
#undef WS_WGMMA_SUM
#undef WS_WGMMA_SHAPE
#endif
}

// wgmma.mma_async.m64nNk8 of tf32 to f32: operands are f32 in memory, of whose 23 bits of mantissa
// the tensor core reads the upper 10: it cuts them off, where a conversion before would round.
template <int N>
__device__ __forceinline__ void wgmma_m64k8(float (&d)[N / 2], uint64_t a, uint64_t b,
                                            bool accumulate WS_AND_PLACE) {
  static_assert(N % 8 == 0 && N >= 8 && N <= 256, "wgmma takes N = 8, 16, ... 256");
#ifdef WS_EMULATED
  detail::wgmma_k_major<float, float>(N, d, a, b, accumulate, place);
#else
#define WS_WGMMA_SHAPE(n, text, o0, o1, o2, o3, o4, o5, o6, ...)                  \
  if constexpr (N == n) {                                                         \
    WS_WGMMA_ASM(n, "k8.f32.tf32.tf32", text, o0, o1, o2, ", 1, 1", __VA_ARGS__); \
  }
  const uint64_t a_ = a;
  const uint64_t b_ = b;
#define WS_WGMMA_SUM "+f"
#include "warpsmith/ptx/wgmma_shapes.inc"
#undef WS_WGMMA_SUM
#undef WS_WGMMA_SHAPE
#endif
}

// The same with A in registers, an f32 in each. With row and pair as above, t % 4 the column:
//   a[0] = A[row][t % 4]        a[2] = A[row][t % 4 + 4]
//   a[1] = A[row + 8][t % 4]    a[3] = A[row + 8][t % 4 + 4]
template <int N>
__device__ __forceinline__ void wgmma_m64k8(float (&d)[N / 2], const uint32_t (&a)[4], uint64_t b,
                                            bool accumulate WS_AND_PLACE) {
  static_assert(N % 8 == 0 && N >= 8 && N <= 256, "wgmma takes N = 8, 16, ... 256");
#ifdef WS_EMULATED
  detail::wgmma_from_registers<float>(N, d, a, b, accumulate, place);
#else
#define WS_WGMMA_SHAPE(n, text, o0, o1, o2, o3, o4, o5, o6, ...)                              \
  if constexpr (N == n) {                                                                     \
    WS_WGMMA_REGISTERS_ASM(n, "k8.f32.tf32.tf32", text, o0, o1, o2, o3, o4, o5, __VA_ARGS__); \
  }
  const uint64_t b_ = b;
#define WS_WGMMA_SUM "+f"
#include "warpsmith/ptx/wgmma_shapes.inc"
#undef WS_WGMMA_SUM
#undef WS_WGMMA_SHAPE
#endif
}

#ifndef WS_EMULATED
#undef WS_WGMMA_ASM
#undef WS_WGMMA_REGISTERS_ASM
#endif

// The one of them that takes elements of A and B: 32 bytes of K.
template <int N, class A, class B, Major kMajorA, Major kMajorB>
__device__ __forceinline__ void wgmma_32_bytes(WgmmaSum<A> (&d)[N / 2], uint64_t a, uint64_t b,
                                               bool accumulate WS_AND_PLACE) {
  if constexpr (sizeof(A) == 2) {
    static_assert(std::is_same_v<A, B>);
    wgmma_m64k16<N, A, kMajorA, kMajorB>(d, a, b, accumulate WS_PASS_AND_PLACE);
  } else {
    static_assert(kMajorA == Major::kK && kMajorB == Major::kK, "K-major alone");
    if constexpr (sizeof(A) == 1) {
      wgmma_m64k32<N, A, B>(d, a, b, accumulate WS_PASS_AND_PLACE);
    } else {
      wgmma_m64k8<N>(d, a, b, accumulate WS_PASS_AND_PLACE);
    }
  }
}

}  // namespace ws::ptx
