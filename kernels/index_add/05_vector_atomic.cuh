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
  struct Arguments {
    Indices index;
    const T* source;
    T* y;
    uint32_t count;         // of vectors
    thread::Divider row;    // vectors of a row
    thread::Divider inner;  // of a stretch of it
    int64_t rows[2];        // strides of source and y, in each direction
    int64_t outers[2];
    float alpha;
  };
  struct SharedStorage {};

  __device__ void operator()(SharedStorage& /*shared*/, const Arguments& a) const {
    const auto vector = static_cast<uint32_t>(block_index() * kThreads + thread_index());
    if (vector >= a.count) return;
    const uint32_t i = a.row.quotient(vector);
    const uint32_t lane = vector - i * a.row.divisor();
    const uint32_t outer = a.inner.quotient(lane);
    const int64_t inner = int64_t{lane - outer * a.inner.divisor()} * kWidth;
    const int64_t row = a.index[i];
    auto value = thread::load<kWidth>(a.source + i * a.rows[0] + outer * a.outers[0] + inner);
    if (!a.index.is_right(row, i)) return;
#pragma unroll
    for (int k = 0; k < kWidth; ++k) value[k] = from_float<T>(a.alpha * to_float(value[k]));
    T* y = a.y + row * a.rows[1] + outer * a.outers[1] + inner;
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
    const embedding::AddSorted& lines = call.lines;
    if (!call.is_in_place()) give<T>(call, nullptr, context);
    const int64_t of_row = lines.vectors(call.dtype);
    if (lines.count == 0) return;
    launch<Kernel>(
        {.blocks = divide_up(lines.count * of_row, int64_t{Kernel::kThreads}),
         .threads = Kernel::kThreads},
        context.stream,
        {{call.index, call.wide_index, call.index_stride, "index_add/vector_atomic", call.rows},
         static_cast<const T*>(call.each),
         static_cast<T*>(call.table),
         static_cast<uint32_t>(lines.count * of_row),
         thread::Divider(of_row),
         thread::Divider(lines.inner / Kernel::kWidth),
         {lines.row_strides[embedding::kSource], lines.row_strides[embedding::kY]},
         {lines.outer_strides[embedding::kSource], lines.outer_strides[embedding::kY]},
         call.alpha});
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
