// What the tensor-core rungs share: the kernel, its launch, and how the sums of a tile become C.
#pragma once

#include "kernels/gemm/35_warp_specialized.cuh"
#include "kernels/scaled_gemm/operations.hpp"
#include "warpsmith/thread/memory.hpp"
#include "warpsmith/tile/warp_store.hpp"

namespace ws::scaled_gemm {

// ---- Outputs ------------------------------------------------------------------------------------

// i32, as the tensor core left them.
using IntegerOutput = gemm::TensorOutput<int32_t>;

// Scaled, with the bias, rounded to one of three dtypes. That is asked for at run time: a kernel
// for each would be three times as many.
struct ScaledOutput {
  using Element = bf16;  // what is staged: 64 columns; of f32 they are twice 32
  enum class To : uint8_t { kBf16, kF16, kF32 };

  ptx::TensorMap map{};
  int rows = 0;
  int columns = 0;
  To dtype = To::kBf16;
  // As in Call; null: all scales are along K, and the sums have been scaled.
  const float* scale_a = nullptr;
  const float* scale_b = nullptr;
  int a_row = 0;
  int b_column = 0;
  const void* bias = nullptr;
  int bias_step = 0;

  ScaledOutput() = default;
  explicit ScaledOutput(const Call& call)
      : rows(static_cast<int>(call.m)),
        columns(static_cast<int>(call.n)),
        bias(call.bias),
        bias_step(static_cast<int>(call.bias_step)) {
    if (!call.by_blocks) {
      scale_a = call.scale_a;
      scale_b = call.scale_b;
      a_row = static_cast<int>(call.a_row);
      b_column = static_cast<int>(call.b_column);
    }
    with_type<kFloats>(call.c_dtype, [&]<class T>() {
      constexpr int kColumns = 128 / sizeof(T);
      map = tile::WarpStore<T, 1, kColumns>::tensor_map(call.c.as<const T>(), call.m, call.n,
                                                        call.c.leading);
      dtype = std::is_same_v<T, bf16> ? To::kBf16 : std::is_same_v<T, half> ? To::kF16 : To::kF32;
    });
  }

#if WS_DEVICE_CODE
  __device__ __forceinline__ void prefetch() const { ptx::prefetch_tensor_map(map); }

  // A warp's 16 rows of 64 columns, whose sums it changes: copies of them find no registers.
  template <int kBuffers>
  __device__ __forceinline__ void put(tile::WarpStore<bf16, kBuffers>& store, int row, int column,
                                      float* sums) const {
    scale(sums, row, column);
    switch (dtype) {
      case To::kBf16: return put_as<bf16, 64>(store, row, column, sums);
      case To::kF16: return put_as<half, 64>(store, row, column, sums);
      case To::kF32: return put_as<float, 32>(store, row, column, sums);
    }
  }

 private:
  // The thread's column 2 * j and the next of it, of those that hang over the edge the last: they
  // are not stored.
  __device__ __forceinline__ int column_of(int column, int j) const {
    const int at = column + j / 2 * 8 + lane_index() % 4 * 2 + j % 2;
    return at < columns ? at : columns - 1;
  }

  __device__ __forceinline__ void scale(float* sums, int row, int column) const {
    if (scale_a == nullptr) return;
    float of_row[2];
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int at = row + lane_index() / 4 + i * 8;
      of_row[i] = thread::load(scale_a + int64_t{at < rows ? at : rows - 1} * a_row);
    }
#pragma unroll
    for (int j = 0; j < 16; ++j) {
      const float factor = thread::load(scale_b + int64_t{column_of(column, j)} * b_column);
      sums[j / 2 * 4 + j % 2] *= of_row[0] * factor;
      sums[j / 2 * 4 + j % 2 + 2] *= of_row[1] * factor;
    }
  }

  // The same buffers for another type.
  template <class T, int kWidth, int kBuffers>
  __device__ __forceinline__ void put_as(tile::WarpStore<bf16, kBuffers>& store, int row,
                                         int column, float* sums) const {
    if (bias != nullptr) {
#pragma unroll
      for (int j = 0; j < 16; ++j) {
        const int64_t at = int64_t{column_of(column, j)} * bias_step;
        const float add = to_float(thread::load(static_cast<const T*>(bias) + at));
        sums[j / 2 * 4 + j % 2] += add;
        sums[j / 2 * 4 + j % 2 + 2] += add;
      }
    }
    tile::WarpStore<T, kBuffers, kWidth> other{reinterpret_cast<T*>(store.buffers), store.buffer};
#pragma unroll
    for (int j = 0; j < 64; j += kWidth) other.put(map, row, column + j, sums + j / 2);
    store.buffer = other.buffer;
  }
#endif
};

// What differs along K; null where nothing does, and each sum is added as it is.
struct BlockScales {
  const float* a = nullptr;
  const float* b = nullptr;
  int64_t a_row = 0;
  int64_t a_block = 0;
  int64_t b_block = 0;
  int64_t b_column = 0;

  static BlockScales of(const Call& call) {
    if (!call.by_blocks) return {};
    return {call.scale_a, call.scale_b, call.a_row, call.a_block, call.b_block, call.b_column};
  }
};

struct PromotedOutput : ScaledOutput {
  BlockScales blocks;

  PromotedOutput() = default;
  explicit PromotedOutput(const Call& call) : ScaledOutput(call), blocks(BlockScales::of(call)) {}
};

// ---- The kernel ---------------------------------------------------------------------------------

template <class A, class B, class Policy, class Output>
using WgmmaKernel = gemm::WarpSpecializedKernel<A, Contiguous::kColumns, Contiguous::kRows, Policy,
                                                gemm::WholeTiles, Output, B>;

// Kernel is one of those, or made from one.
template <class Kernel, class Output>
void launch_wgmma(const Call& call, const Output& output, Stream stream,
                  int max_blocks = device_facts().multiprocessors) {
  const tile::Raster raster = Kernel::raster(call);
  Kernel::template start<Kernel>(
      {.a = Kernel::StageA::tensor_map(call.a.as<const typename Kernel::StageA::Element>(), call.m,
                                       call.k, call.a.leading),
       .b = Kernel::StageB::tensor_map(call.b.as<const typename Kernel::StageB::Element>(), call.n,
                                       call.k, call.b.leading),
       .c = output,
       .raster = raster,
       .work = {raster.count(), static_cast<int>(divide_up(call.k, Kernel::kTileK))},
       .m = static_cast<int>(call.m),
       .n = static_cast<int>(call.n)},
      Kernel::clusters_of(raster, max_blocks), stream);
}

}  // namespace ws::scaled_gemm
