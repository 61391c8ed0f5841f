// Idea: one launch: each block adds its sum to the total by an atomic; the last one hands it on.
// From shuffle: the second launch becomes an atomic a block. An access takes 1 to 16 elements; they
// add up in f32 (i32 of i8), or in 16 bits where the name says acc_.
// Traffic: every element once, kWidth elements a thread.
// Limits: the order of the atomics is nobody's, so f32 sums differ from run to run. acc_ rungs take
// calls that allow it; i8 takes what an i32 holds.
// Long: twelve rows of one template, as the public collections name them.
#pragma once

#include "catalogue/row.hpp"
#include "kernels/reduce/reducers.hpp"
#include "warpsmith/block/reduce.hpp"
#include "warpsmith/launch.hpp"
#include "warpsmith/ptx/atomic.hpp"
#include "warpsmith/ptx/fence.hpp"

namespace ws::reduce {

// Sum in the workspace: zero before and after a call.
template <class Sum>
struct Total {
  Sum sum;
  uint32_t arrived;
};

// To a number to calculate with, and back: adding f16 rounds to f16 each time.
template <class Accumulator, class T>
__device__ __forceinline__ Accumulator accumulator_of(T x) {
  if constexpr (kIsNarrowFloat<Accumulator>) {
    return from_float<Accumulator>(widen<float>(x));
  } else {
    return widen<Accumulator>(x);
  }
}
template <class Accumulator>
__device__ __forceinline__ Accumulator plus(Accumulator a, Accumulator b) {
  if constexpr (kIsNarrowFloat<Accumulator>) {
    return from_float<Accumulator>(to_float(a) + to_float(b));
  } else {
    return a + b;
  }
}

template <class T, class Accumulator, int kInputs, int kWidth>
struct BlockAllReduceKernel {
  static constexpr int kThreads = 256;
  using Sum = std::conditional_t<std::is_integral_v<Accumulator>, int32_t, float>;
  struct Arguments {
    const T* inputs[kInputs];
    int64_t count;
    Total<Sum>* total;
    void* output;
    DType output_dtype;
  };
  struct SharedStorage {
    typename block::AllReduce<Accumulator, kThreads>::Storage sums;
  };

  __device__ void operator()(SharedStorage& shared, const Arguments& a) const {
    block::AllReduce<Accumulator, kThreads> all_reduce(shared.sums);
    const int64_t i = (block_index() * kThreads + thread_index()) * kWidth;
    auto sum = accumulator_of<Accumulator>(T{});
    if (i + kWidth <= a.count) {
      Vec<T, kWidth> x[kInputs];
      for (int k = 0; k < kInputs; ++k) x[k] = thread::load<kWidth>(a.inputs[k] + i);
      for (int e = 0; e < kWidth; ++e) sum = plus(sum, term(x, e));
    } else {
      for (int64_t e = i; e < a.count; ++e) {
        Vec<T, 1> x[kInputs];
        for (int k = 0; k < kInputs; ++k) x[k] = thread::load<1>(a.inputs[k] + e);
        sum = plus(sum, term(x, 0));
      }
    }
    sum = all_reduce(sum, plus<Accumulator>);
    if (thread_index() != 0) return;
    ptx::red_global_add(&a.total->sum, widen<Sum>(sum));
    ptx::fence_acq_rel<ptx::Scope::kGpu>();
    const uint32_t before = ptx::atom_global_add(&a.total->arrived, 1U);
    if (before + 1 != grid_blocks()) return;
    ptx::fence_acq_rel<ptx::Scope::kGpu>();
    store_as(a.output_dtype, a.output, 0, thread::load(&a.total->sum));
    thread::store(&a.total->sum, Sum{0});
    thread::store(&a.total->arrived, 0U);
  }

  template <int N>
  __device__ __forceinline__ static Accumulator term(const Vec<T, N> (&x)[kInputs], int e) {
    if constexpr (kInputs == 1) {
      return accumulator_of<Accumulator>(x[0][e]);
    } else {
      return accumulator_of<Accumulator>(widen<float>(x[0][e]) * widen<float>(x[1][e]));
    }
  }
};

// What a T is accumulated in.
struct InWide {
  static constexpr bool kReduced = false;
  template <class T>
  using Of = std::conditional_t<std::is_integral_v<T>, int32_t, float>;
};
struct InF16 {
  static constexpr bool kReduced = true;
  template <class T>
  using Of = half;
};
struct InBf16 {
  static constexpr bool kReduced = true;
  template <class T>
  using Of = bf16;
};

template <int kWidth, class In, DTypes kTaken>
struct BlockAllReduce {
  template <class Call>
  static bool supports(const Call& call, Why& why) {
    constexpr int64_t kPerBlock = 256 * kWidth;
    bool aligned = true;
    for (const void* input : call.inputs) {
      aligned = aligned && reinterpret_cast<uintptr_t>(input) % (kWidth * size_of(call.dtype)) == 0;
    }
    return why.unless(call.has_rows() && call.outputs == 1,
                      "adds up all elements of a tensor "
                      "without gaps") &&
           why.unless(aligned, "takes tensors that start at a multiple of ", kWidth, " elements") &&
           why.unless(!In::kReduced || call.reduced_precision,
                      "accumulates in 16 bits: needs allow_reduced_precision=true") &&
           why.unless(is_float(call.dtype) || call.output_dtype == DType::kI32 ||
                          call.count <= int64_t{1} << 24,
                      "adds up in i32, which holds any 2^24 elements, not ", call.count) &&
           why.unless(divide_up(call.count, kPerBlock) <= 0x7FFFFFFF, "launches a block for ",
                      kPerBlock, " elements: too many for ", call.count);
  }
  template <class Call>
  static Workspace workspace(const Call& /*call*/) {
    return {.bytes = sizeof(Total<float>), .zeroed = sizeof(Total<float>)};
  }
  template <class Call>
  static void run(const Call& call, const Context& context) {
    constexpr bool kIsDot = std::is_same_v<Call, Dot::Call>;
    with_type<kTaken&(kIsDot ? Dot::kDTypes : Sum::kDTypes)>(call.dtype, [&]<class T>() {
      using Kernel = BlockAllReduceKernel<T, typename In::template Of<T>, kIsDot ? 2 : 1, kWidth>;
      typename Kernel::Arguments arguments{};
      for (int k = 0; k < (kIsDot ? 2 : 1); ++k) arguments.inputs[k] = call.template input<T>(k);
      arguments.count = call.count;
      arguments.total = static_cast<Total<typename Kernel::Sum>*>(context.workspace);
      arguments.output = call.output;
      arguments.output_dtype = call.output_dtype;
      launch<Kernel>({.blocks = divide_up(call.count, int64_t{Kernel::kThreads} * kWidth),
                      .threads = Kernel::kThreads},
                     context.stream, arguments);
    });
  }
};

inline constexpr DTypes kI8 = {DType::kI8};

// The rows: how many elements an access, what for, from which rung.
template <int kWidth, class In, DTypes kTaken, class... Ops>
constexpr Rung block_all_reduce(Rung text) {
  text.deterministic = kTaken.bits == kI8.bits;  // integers add up in any order
  text.file = "10_block_all_reduce.cuh";
  return rung_of<BlockAllReduce<kWidth, In, kTaken>, kTaken, Ops...>(text);
}

inline constexpr DTypes kFloatsAndI8 = kFloats | kI8;
inline constexpr DTypes kF16AndFp8 = kF16 | kFp8;

inline constexpr Seed kBlockAllReduceSeeds[] = {
    {.name = "block_all_reduce_f32_f32", .operation = "sum", .dtypes = kF32},
    {.name = "block_all_reduce_f16_f32", .operation = "sum", .dtypes = kF16},
    {.name = "block_all_reduce_bf16_f32", .operation = "sum", .dtypes = kBf16},
    {.name = "block_all_reduce_i8_i32", .operation = "sum", .dtypes = kI8},
    {.name = "dot_product_f32", .operation = "dot", .dtypes = kF32},
    {.name = "dot_product_f16_f32", .operation = "dot", .dtypes = kF16},
};
inline constexpr Rung kBlockAllReduce = block_all_reduce<1, InWide, kFloatsAndI8, Sum, Dot>(
    {.name = "block_all_reduce",
     .from = "shuffle",
     .idea = "one launch: an atomic a block; the last block hands the total on",
     .seeds = kBlockAllReduceSeeds});

inline constexpr Seed kBlockAllReduceX2Seeds[] = {
    {.name = "block_all_reduce_f16x2_f32", .operation = "sum", .dtypes = kF16},
    {.name = "block_all_reduce_bf16x2_f32", .operation = "sum", .dtypes = kBf16},
    {.name = "dot_product_f16x2_f32", .operation = "dot", .dtypes = kF16},
};
inline constexpr Rung kBlockAllReduceX2 = block_all_reduce<2, InWide, kHalves, Sum, Dot>(
    {.name = "block_all_reduce_x2",
     .from = "block_all_reduce",
     .idea = "block_all_reduce with 2 elements an access",
     .seeds = kBlockAllReduceX2Seeds});

inline constexpr Seed kBlockAllReduceX4Seeds[] = {
    {.name = "block_all_reduce_f32x4_f32", .operation = "sum", .dtypes = kF32},
    {.name = "dot_product_f32x4", .operation = "dot", .dtypes = kF32},
};
inline constexpr Rung kBlockAllReduceX4 = block_all_reduce<4, InWide, kF32, Sum, Dot>(
    {.name = "block_all_reduce_x4",
     .from = "block_all_reduce",
     .idea = "block_all_reduce with 4 elements an access: 16 bytes of f32",
     .seeds = kBlockAllReduceX4Seeds});

inline constexpr Seed kBlockAllReduceX8Seeds[] = {
    {.name = "block_all_reduce_f16x8_pack_f32", .operation = "sum", .dtypes = kF16},
    {.name = "block_all_reduce_bf16x8_pack_f32", .operation = "sum", .dtypes = kBf16},
    {.name = "dot_product_f16x8_pack_f32", .operation = "dot", .dtypes = kF16},
};
inline constexpr Rung kBlockAllReduceX8 = block_all_reduce<8, InWide, kHalves, Sum, Dot>(
    {.name = "block_all_reduce_x8",
     .from = "block_all_reduce_x2",
     .idea = "block_all_reduce with 8 elements an access: 16 bytes of f16 or bf16",
     .seeds = kBlockAllReduceX8Seeds});

inline constexpr Seed kBlockAllReduceX16Seeds[] = {
    {.name = "block_all_reduce_i8x16_pack_i32", .operation = "sum"}};
inline constexpr Rung kBlockAllReduceX16 = block_all_reduce<16, InWide, kI8, Sum>(
    {.name = "block_all_reduce_x16",
     .from = "block_all_reduce",
     .idea = "block_all_reduce with 16 elements an access: 16 bytes of i8",
     .seeds = kBlockAllReduceX16Seeds});

inline constexpr Seed kAccF16Seeds[] = {
    {.name = "block_all_reduce_f16_f16", .operation = "sum", .dtypes = kF16},
    {.name = "block_all_reduce_fp8_e4m3_f16", .operation = "sum", .dtypes = {DType::kE4m3}},
    {.name = "block_all_reduce_fp8_e5m2_f16", .operation = "sum", .dtypes = {DType::kE5m2}},
};
inline constexpr Rung kAccF16 = block_all_reduce<1, InF16, kF16AndFp8, Sum>(
    {.name = "acc_f16",
     .from = "block_all_reduce",
     .idea = "block_all_reduce with sums of a block in f16",
     .seeds = kAccF16Seeds});

inline constexpr Seed kAccF16X2Seeds[] = {
    {.name = "block_all_reduce_f16x2_f16", .operation = "sum"}};
inline constexpr Rung kAccF16X2 =
    block_all_reduce<2, InF16, kF16, Sum>({.name = "acc_f16_x2",
                                           .from = "acc_f16",
                                           .idea = "acc_f16 with 2 elements an access",
                                           .seeds = kAccF16X2Seeds});

inline constexpr Seed kAccF16X8Seeds[] = {
    {.name = "block_all_reduce_f16x8_pack_f16", .operation = "sum"}};
inline constexpr Rung kAccF16X8 =
    block_all_reduce<8, InF16, kF16, Sum>({.name = "acc_f16_x8",
                                           .from = "acc_f16_x2",
                                           .idea = "acc_f16 with 8 elements an access: 16 bytes",
                                           .seeds = kAccF16X8Seeds});

inline constexpr Seed kAccF16X16Seeds[] = {
    {.name = "block_all_reduce_fp8_e4m3x16_pack_f16", .operation = "sum", .dtypes = {DType::kE4m3}},
    {.name = "block_all_reduce_fp8_e5m2x16_pack_f16", .operation = "sum", .dtypes = {DType::kE5m2}},
};
inline constexpr Rung kAccF16X16 = block_all_reduce<16, InF16, kFp8, Sum>(
    {.name = "acc_f16_x16",
     .from = "acc_f16",
     .idea = "acc_f16 with 16 elements an access: 16 bytes of e4m3 or e5m2",
     .seeds = kAccF16X16Seeds});

inline constexpr Seed kAccBf16Seeds[] = {
    {.name = "block_all_reduce_bf16_bf16", .operation = "sum"}};
inline constexpr Rung kAccBf16 = block_all_reduce<1, InBf16, kBf16, Sum>(
    {.name = "acc_bf16",
     .from = "block_all_reduce",
     .idea = "block_all_reduce with sums of a block in bf16",
     .seeds = kAccBf16Seeds});

inline constexpr Seed kAccBf16X2Seeds[] = {
    {.name = "block_all_reduce_bf16x2_bf16", .operation = "sum"}};
inline constexpr Rung kAccBf16X2 =
    block_all_reduce<2, InBf16, kBf16, Sum>({.name = "acc_bf16_x2",
                                             .from = "acc_bf16",
                                             .idea = "acc_bf16 with 2 elements an access",
                                             .seeds = kAccBf16X2Seeds});

inline constexpr Seed kAccBf16X8Seeds[] = {
    {.name = "block_all_reduce_bf16x8_pack_bf16", .operation = "sum"}};
inline constexpr Rung kAccBf16X8 =
    block_all_reduce<8, InBf16, kBf16, Sum>({.name = "acc_bf16_x8",
                                             .from = "acc_bf16_x2",
                                             .idea = "acc_bf16 with 8 elements an access: 16 bytes",
                                             .seeds = kAccBf16X8Seeds});

}  // namespace ws::reduce
