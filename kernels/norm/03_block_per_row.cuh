// Idea: a block owns a row; its warps merge their sums through shared memory. A thread takes
// kElements neighbours at a time, in accesses of kAccess: x2, x4, x8 and x8_pack show what wider
// accesses are worth, acc_f16 what it is worth, and costs, to add up in f16.
// From warp_per_row: a row has eight warps that wait for memory at the same time.
// Traffic: three reads, one write; the second and third read come from L1 while the row fits.
// Limits: a dense matrix with its parameters, which start at multiples of an access; rows of whole
// kElements. In f16 only for callers who accept it (acc_f16=true), up to 8192 columns.
#pragma once

#include "kernels/norm/plain.hpp"
#include "warpsmith/block/reduce.hpp"
#include "warpsmith/launch.hpp"
#include "warpsmith/ptx/half.hpp"
#include "warpsmith/thread/math.hpp"
#include "warpsmith/thread/memory.hpp"

namespace ws::norm {

// How numbers are added up.
struct InF32 {
  using Sum = float;
  __device__ __forceinline__ static float add(float a, float b) { return a + b; }
  __device__ __forceinline__ static float of(float value) { return value; }
};
struct InF16 {
  using Sum = half;
  __device__ __forceinline__ static half add(half a, half b) {
    half sum;
    sum.bits = ptx::add_rn_f16(a.bits, b.bits);
    return sum;
  }
  __device__ __forceinline__ static half of(float value) { return half(value); }
};

template <class T, bool kCentred, int kElements, int kAccess, class Adding>
struct BlockPerRowKernel {
  static constexpr int kThreads = 256;
  using Sum = typename Adding::Sum;
  using Reduce = block::AllReduce<Sum, kThreads>;
  using Arguments = Plain<T>;
  struct SharedStorage {
    typename Reduce::Storage sums;
  };

  __device__ void operator()(SharedStorage& shared, const Arguments& a) const {
    const T* x = a.x + block_index() * a.columns;
    T* y = a.y + block_index() * a.columns;
    Reduce all_reduce(shared.sums);

    // The mean of term(x) over the row.
    const auto mean_of = [&](const auto& term) {
      Sum sum = Adding::of(0);
      for (int64_t i = thread_index() * kElements; i < a.columns; i += kThreads * kElements) {
#pragma unroll
        for (int k = 0; k < kElements; k += kAccess) {
          const auto values = thread::load<kAccess>(x + i + k);
#pragma unroll
          for (int j = 0; j < kAccess; ++j) {
            sum = Adding::add(sum, Adding::of(term(to_float(values[j]))));
          }
        }
      }
      return static_cast<float>(all_reduce(sum, Adding::add)) / static_cast<float>(a.columns);
    };
    float mean = 0;
    if constexpr (kCentred) mean = mean_of([](float v) { return v; });
    const float variance = mean_of([=](float v) { return (v - mean) * (v - mean); });
    const float rstd = thread::rsqrt(variance + a.eps);

    for (int64_t i = thread_index() * kElements; i < a.columns; i += kThreads * kElements) {
#pragma unroll
      for (int k = 0; k < kElements; k += kAccess) {
        const auto values = thread::load<kAccess>(x + i + k);
        const auto weight = thread::load<kAccess>(a.weight + i + k);
        Vec<T, kAccess> bias{};
        if constexpr (kCentred) bias = thread::load<kAccess>(a.bias + i + k);
        Vec<float, kAccess> out;
#pragma unroll
        for (int j = 0; j < kAccess; ++j) {
          const float z = (to_float(values[j]) - mean) * rstd;
          out[j] = z * to_float(weight[j]) + (kCentred ? to_float(bias[j]) : 0.0F);
        }
        thread::store(y + i + k, thread::convert<T>(out));
      }
    }
  }
};

template <int kElements, int kAccess, class Adding = InF32>
struct BlockPerRow {
  static constexpr int64_t kMostF16 = 8192;  // columns: 65504 / 8 for the squares of each

  template <class Call>
  static bool supports(const Call& call, Why& why) {
    const auto bytes = static_cast<int64_t>(kAccess * size_of(call.dtype));
    const auto aligned = [&](const void* data) {
      return reinterpret_cast<uintptr_t>(data) % static_cast<uintptr_t>(bytes) == 0;
    };
    if constexpr (std::is_same_v<Adding, InF16>) {
      if (!why.unless(call.allows_f16_sums, "adds up in f16: needs acc_f16=true") ||
          !why.unless(call.rows.columns <= kMostF16, "adds up rows of up to ", kMostF16,
                      " elements in f16, not ", call.rows.columns)) {
        return false;
      }
    }
    return is_plain(call, why) &&
           why.unless(call.rows.columns % kElements == 0, "takes rows of whole ", kElements,
                      " elements, not ", call.rows.columns) &&
           why.unless(aligned(call.rows.data[kX]) && aligned(call.rows.data[kY]) &&
                          aligned(call.weight.data) && aligned(call.bias.data),
                      "accesses ", bytes,
                      " bytes at a time: needs tensors that start at a multiple");
  }
  template <class Call>
  static void run(const Call& call, const Context& context) {
    with_type<kFloats>(call.dtype, [&]<class T>() {
      constexpr bool kTaken = std::is_same_v<Adding, InF32> || std::is_same_v<T, half>;
      if constexpr (kTaken && kAccess * sizeof(T) <= 16) {
        using Kernel = BlockPerRowKernel<T, Call::kCentred, kElements, kAccess, Adding>;
        launch<Kernel>({.blocks = call.rows.rows, .threads = Kernel::kThreads}, context.stream,
                       plain_of<T>(call));
      }
    });
  }
};

}  // namespace ws::norm
