// Idea: one thread, several neighbouring elements, in accesses of several elements each.
// From scalar: an access of 2, 4 or 8 times the bytes is still one instruction and one request, so
// the same number of requests in flight covers more memory. vector_x8 takes two accesses of 4,
// whose lanes leave gaps for each other; pack takes what 16 bytes hold, whatever the dtype.
// Traffic: every byte once.
// Limits: flat layouts, pointers aligned to the access. A tail shorter than a vector goes one by
// one.
#pragma once

#include "kernels/elementwise/dispatch.hpp"
#include "warpsmith/launch.hpp"
#include "warpsmith/thread/divide.hpp"

namespace ws::elementwise {

// kAccesses accesses of kWidth elements a thread.
template <class T, class Functor, int kWidth, int kAccesses>
struct VectorKernel {
  static_assert(kWidth * sizeof(T) <= 16, "one access moves at most 16 bytes");
  static constexpr int kThreads = 256;
  static constexpr int kItems = kWidth * kAccesses;

  struct Arguments {
    Pointers<T, Functor::kInputs> at;
    Functor f;
    int64_t elements;
  };
  struct SharedStorage {};

  __device__ void operator()(SharedStorage&, const Arguments& a) const {
    const int64_t first = (block_index() * kThreads + thread_index()) * kItems;
    if (first + kItems <= a.elements) {
      Vec<T, kWidth> x[kAccesses][Functor::kInputs];
#pragma unroll
      for (int j = 0; j < kAccesses; ++j) {
#pragma unroll
        for (int k = 0; k < Functor::kInputs; ++k) {
          x[j][k] = thread::load<kWidth>(a.at.inputs[k] + first + j * kWidth);
        }
      }
#pragma unroll
      for (int j = 0; j < kAccesses; ++j) {
        thread::store(a.at.outputs[0] + first + j * kWidth, apply(a.f, x[j]));
      }
    } else {
      for (int64_t i = first; i < a.elements; ++i) {
        T x[Functor::kInputs];
#pragma unroll
        for (int k = 0; k < Functor::kInputs; ++k) x[k] = thread::load(a.at.inputs[k] + i);
        thread::store(a.at.outputs[0] + i, apply(a.f, x));
      }
    }
  }
};

// kWidthOf<T> elements an access, kAccesses accesses a thread.
template <template <class T> class WidthOf, int kAccesses>
struct Vector {
  template <class Call>
  static bool supports(const Call& call, Why& why) {
    if (!needs_flat(call, why)) return false;
    const size_t bytes = with_type<kFloats>(
        call.dtype, [&]<class T>() { return sizeof(T) * size_t{WidthOf<T>::value}; });
    for (int k = 0; k < call.layout.operands; ++k) {
      const auto i = static_cast<size_t>(k);
      const auto past = reinterpret_cast<uintptr_t>(call.data[i]) % bytes;
      if (!why.unless(past == 0, "needs pointers aligned to ", bytes, " bytes; '",
                      Call::Operation::kParameters[i].name, "' is ", past, " past")) {
        return false;
      }
    }
    return true;
  }

  template <class Call>
  static void run(const Call& call, const Context& context) {
    dispatch(call, [&]<class T, class Functor>(const Functor& f) {
      using Kernel = VectorKernel<T, Functor, WidthOf<T>::value, kAccesses>;
      const int64_t elements = call.layout.elements;
      launch<Kernel>({.blocks = divide_up(elements, Kernel::kThreads * Kernel::kItems),
                      .threads = Kernel::kThreads},
                     context.stream, {Pointers<T, Functor::kInputs>(call), f, elements});
    });
  }
};

template <class T>
using Two = std::integral_constant<int, 2>;
template <class T>
using Four = std::integral_constant<int, 4>;
template <class T>
using Whole16Bytes = std::integral_constant<int, 16 / sizeof(T)>;

inline constexpr Seed kVectorX2Seeds[] = {{"{}_f16x2", {}, {DType::kF16}}};
inline constexpr Rung kVectorX2 = Functions::rung<Vector<Two, 1>>({
    .name = "vector_x2",
    .from = "scalar",
    .idea = "two elements a thread, one access",
    .seeds = kVectorX2Seeds,
    .file = "02_vector.cuh",
});

inline constexpr Seed kVectorX4Seeds[] = {{"{}_f32x4", {}, {DType::kF32}}};
inline constexpr Rung kVectorX4 = Functions::rung<Vector<Four, 1>>({
    .name = "vector_x4",
    .from = "vector_x2",
    .idea = "four elements a thread, one access",
    .seeds = kVectorX4Seeds,
    .file = "02_vector.cuh",
});

inline constexpr Seed kVectorX8Seeds[] = {{"{}_f16x8", {}, {DType::kF16}}};
inline constexpr Rung kVectorX8 = Functions::rung<Vector<Four, 2>>({
    .name = "vector_x8",
    .from = "vector_x4",
    .idea = "eight elements a thread, two accesses",
    .seeds = kVectorX8Seeds,
    .file = "02_vector.cuh",
});

inline constexpr Seed kPackSeeds[] = {
    {"{}_f16x8_pack", {}, {DType::kF16}},
    {"elementwise_template_mul_pack_f32", "mul", {DType::kF32}},
    {"elementwise_template_mul_pack_f16", "mul", {DType::kF16}},
};
inline constexpr Rung kPack = Functions::rung<Vector<Whole16Bytes, 1>>({
    .name = "pack",
    .from = "vector_x4",
    .idea = "16 bytes a thread, one access, whatever the dtype",
    .seeds = kPackSeeds,
    .file = "02_vector.cuh",
});

}  // namespace ws::elementwise
