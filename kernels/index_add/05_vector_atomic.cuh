// Idea: 16 bytes of a source are added by one instruction (red.v4, since sm_90): four f32, or four
// pairs of 16 bits.
// From small_index: a quarter of the atomics, an eighth of them for 16 bits, which add up where
// they lie, without sums in a workspace. Their names say so: each addition rounds.
// Traffic: x both ways; the source once, and a read and a write of what it is added to, in the L2
// or from memory.
// Limits: rows of whole vectors of 16 bytes. Before sm_90 an instruction for each word, of bf16 a
// loop of compare-and-swap.
#pragma once

#include "kernels/index_add/elements.hpp"
#include "warpsmith/ptx/atomic_vector.hpp"

namespace ws::index_add {

#if WS_DEVICE_CODE
template <class T>
struct VectorAtomicKernel {
  static constexpr int kThreads = 256;
  static constexpr int kWidth = 16 / sizeof(T);
  using Steps = LineSteps<T, kWidth>;
  struct Arguments {
    Indices index;
    Steps vectors;
    uint32_t count;
    float alpha;
  };
  struct SharedStorage {};

  __device__ void operator()(SharedStorage& /*shared*/, const Arguments& a) const {
    const auto vector = static_cast<uint32_t>(block_index() * kThreads + thread_index());
    if (vector >= a.count) return;
    const auto at = a.vectors.find(vector);
    const int64_t row = a.index[at.i];
    auto value = thread::load<kWidth>(a.vectors.source_at(at));
    if (!a.index.is_right(row, at.i)) return;
#pragma unroll
    for (int k = 0; k < kWidth; ++k) value[k] = from_float<T>(a.alpha * to_float(value[k]));
    T* y = a.vectors.y_at(row, at);
    if constexpr (kWidth == 4) {
      ptx::red_global_add(y, value);
    } else {
      ptx::red_global_add_noftz_x8(y, value);
    }
  }
};

template <class T>
struct VectorAtomic {
  static bool supports(const IndexAdd::Call& call, Why& why) {
    return why.unless(call.has_lines && call.lines.width(call.dtype) > 1,
                      "takes rows of whole vectors of 16 bytes") &&
           call.lines.supported(call.dtype, why);
  }
  static void run(const IndexAdd::Call& call, const Context& context) {
    using Kernel = VectorAtomicKernel<T>;
    if (!call.is_in_place()) give<T>(call, nullptr, context);
    if (call.lines.count == 0) return;
    const int64_t count = Kernel::Steps::count(call);
    launch<Kernel>(
        {.blocks = divide_up(count, int64_t{Kernel::kThreads}), .threads = Kernel::kThreads},
        context.stream,
        {line_indices_of(call, "index_add/vector_atomic"), typename Kernel::Steps(call),
         static_cast<uint32_t>(count), call.alpha});
  }
};

inline constexpr Rung kVectorAtomic = rung_of<VectorAtomic<float>, DTypes{DType::kF32}, IndexAdd>(
    {.name = "vector_atomic",
     .from = "small_index",
     .idea = "16 bytes of a source added by one instruction",
     .deterministic = false});
inline constexpr Rung kPackedAccF16 = rung_of<VectorAtomic<half>, DTypes{DType::kF16}, IndexAdd>(
    {.name = "packed_acc_f16",
     .from = "vector_atomic",
     .idea = "the same of pairs of f16, which add up in f16",
     .deterministic = false,
     .accumulate = DType::kF16,
     .file = "05_vector_atomic.cuh"});
inline constexpr Rung kPackedAccBf16 = rung_of<VectorAtomic<bf16>, DTypes{DType::kBf16}, IndexAdd>(
    {.name = "packed_acc_bf16",
     .from = "packed_acc_f16",
     .idea = "the same of pairs of bf16, which add up in bf16",
     .deterministic = false,
     .accumulate = DType::kBf16,
     .file = "05_vector_atomic.cuh"});
#endif

}  // namespace ws::index_add
