// What the tensor-core rungs share: the kernel, its launch, and how the sums of a tile become C.
#pragma once

#include "kernels/gemm/35_warp_specialized.cuh"
#include "kernels/scaled_gemm/operations.hpp"
#include "warpsmith/thread/memory.hpp"
#include "warpsmith/tile/warp_store.hpp"
#include "warpsmith/warp/shuffle.hpp"

namespace ws::scaled_gemm {

// ---- Outputs ------------------------------------------------------------------------------------

// i32, as the tensor core left them.
using IntegerOutput = gemm::TensorOutput<int32_t>;

// Scales of sums over all of K.
struct EndScales {
  // As in Call; null: they are along K.
  const float* scale_a = nullptr;
  const float* scale_b = nullptr;
  int a_row = 0;
  int b_column = 0;

  EndScales() = default;
  explicit EndScales(const Call& call) {
    if (call.by_blocks) return;
    scale_a = call.scale_a;
    scale_b = call.scale_b;
    a_row = static_cast<int>(call.a_row);
    b_column = static_cast<int>(call.b_column);
  }

  __device__ __forceinline__ float of_row(int row) const {
    return thread::load(scale_a + int64_t{row} * a_row);
  }
  __device__ __forceinline__ float of_column(int column) const {
    return thread::load(scale_b + int64_t{column} * b_column);
  }
};

struct Bias {
  const void* bias = nullptr;
  int bias_step = 0;

  Bias() = default;
  explicit Bias(const Call& call) : bias(call.bias), bias_step(static_cast<int>(call.bias_step)) {}

  template <class T>
  __device__ __forceinline__ float bias_of(int column) const {
    return to_float(thread::load(static_cast<const T*>(bias) + int64_t{column} * bias_step));
  }
};

// With the bias, rounded to one of three dtypes. That is asked for at run time: a kernel for each
// would be three times as many.
struct RoundedOutput : Bias {
  using Element = bf16;  // what is staged: 64 columns; of f32 they are twice 32
  enum class To : uint8_t { kBf16, kF16, kF32 };

  ptx::TensorMap map{};
  int rows = 0;
  int columns = 0;
  To dtype = To::kBf16;

  RoundedOutput() = default;
  explicit RoundedOutput(const Call& call)
      : Bias(call), rows(static_cast<int>(call.m)), columns(static_cast<int>(call.n)) {
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
    switch (dtype) {
      case To::kBf16: return put_as<bf16, 64>(store, row, column, sums);
      case To::kF16: return put_as<half, 64>(store, row, column, sums);
      case To::kF32: return put_as<float, 32>(store, row, column, sums);
    }
  }

 private:
  // The same buffers for another type.
  template <class T, int kWidth, int kBuffers>
  __device__ __forceinline__ void put_as(tile::WarpStore<bf16, kBuffers>& store, int row,
                                         int column, float* sums) const {
    if (bias != nullptr) {
#pragma unroll
      for (int j = 0; j < 16; ++j) {
        // Of those that hang over the edge the last: they are not stored.
        const int at = column + j / 2 * 8 + lane_index() % 4 * 2 + j % 2;
        const float add = bias_of<T>(at < columns ? at : columns - 1);
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

// Scales of one block of rows, and of columns from one on.
struct HeldPart {
  const float* rows;
  const float* columns;
};

// Scaled first.
struct ScaledOutput : RoundedOutput, EndScales {
  ScaledOutput() = default;
  explicit ScaledOutput(const Call& call) : RoundedOutput(call), EndScales(call) {}

#if WS_DEVICE_CODE
  // The scales of the thread's rows, and of columns the lane's of each 32: asked for before the
  // products, for they would be waited for after. 192 sums leave no registers for them.
  template <int kTileN, int kRowBlocks>
    requires(kTileN * kRowBlocks / 2 < 192)
  struct Held {
    float of_rows[kRowBlocks][2];
    float of_columns[kTileN / kWarpSize];

    __device__ __forceinline__ void load(const ScaledOutput& output, int row, int column) {
#pragma unroll
      for (int i = 0; i < kRowBlocks; ++i) output.load_rows(of_rows[i], row + i * 64);
#pragma unroll
      for (int i = 0; i < kTileN / kWarpSize; ++i) {
        of_columns[i] = output.of_column_at(column + i * kWarpSize + lane_index());
      }
    }
    __device__ __forceinline__ HeldPart from(int block, int column) const {
      return {of_rows[block], of_columns + column / kWarpSize};
    }
  };

  template <int kBuffers>
  __device__ __forceinline__ void put(tile::WarpStore<bf16, kBuffers>& store, const HeldPart& held,
                                      int row, int column, float* sums) const {
    scale(sums, held.rows,
          [&](int j, int of) { return warp::shuffle(held.columns[j / 8], of % kWarpSize); });
    RoundedOutput::put(store, row, column, sums);
  }
  template <int kBuffers>
  __device__ __forceinline__ void put(tile::WarpStore<bf16, kBuffers>& store, int row, int column,
                                      float* sums) const {
    // Never null: the branch keeps the compiler from loading more than it has registers for.
    if (scale_a != nullptr) {
      float of_rows[2];
      load_rows(of_rows, row);
      scale(sums, of_rows, [&](int /*j*/, int of) { return of_column_at(column + of); });
    }
    RoundedOutput::put(store, row, column, sums);
  }

 private:
  // Of those that hang over the edge the last: they are not stored.
  __device__ __forceinline__ void load_rows(float* of_rows, int row) const {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int at = row + i * 8 + lane_index() / 4;
      of_rows[i] = of_row(at < rows ? at : rows - 1);
    }
  }
  __device__ __forceinline__ float of_column_at(int column) const {
    return of_column(column < columns ? column : columns - 1);
  }

  // of_column(j, place) of the thread's j-th column.
  template <class F>
  __device__ __forceinline__ static void scale(float* sums, const float* of_rows,
                                               const F& of_column) {
#pragma unroll
    for (int j = 0; j < 16; ++j) {
      const float factor = of_column(j, j / 2 * 8 + lane_index() % 4 * 2 + j % 2);
      sums[j / 2 * 4 + j % 2] *= of_rows[0] * factor;
      sums[j / 2 * 4 + j % 2 + 2] *= of_rows[1] * factor;
    }
  }
#endif
};

// Scales that differ along K: the sums that are left need none.
struct BlockScales {
  const float* a = nullptr;
  const float* b = nullptr;
  int64_t a_row = 0;
  int64_t a_block = 0;
  int64_t b_block = 0;
  int64_t b_column = 0;

  BlockScales() = default;
  explicit BlockScales(const Call& call)
      : a(call.scale_a),
        b(call.scale_b),
        a_row(call.a_row),
        a_block(call.a_block),
        b_block(call.b_block),
        b_column(call.b_column) {}
};

struct BlocksOutput : RoundedOutput {
  static constexpr bool kBeside = true;
  BlockScales blocks;

  BlocksOutput() = default;
  explicit BlocksOutput(const Call& call) : RoundedOutput(call), blocks(call) {}
};

// C in rows that start anywhere, stored by lanes: scaled, with the bias, of one of three dtypes.
struct ScaledLines : EndScales, Bias {
  void* data = nullptr;
  int64_t leading = 0;
  bool aligned = false;  // rows start at multiples of 16 bytes
  DType dtype{};
  BlockScales blocks;

  ScaledLines() = default;
  explicit ScaledLines(const Call& call)
      : EndScales(call),
        Bias(call),
        data(call.c.data),
        leading(call.c.leading),
        aligned(gemm::alignment_of(call.c, call.c_dtype) == 16),
        dtype(call.c_dtype) {
    if (call.by_blocks) blocks = BlockScales(call);
  }

  // kWidth sums at (row, column), of which `left` are C's.
  template <int kWidth>
  __device__ __forceinline__ void put(int row, int column, int left,
                                      const Vec<float, kWidth>& sums) const {
    switch (dtype) {
      case DType::kF16: return put_as<half>(row, column, left, sums);
      case DType::kF32: return put_as<float>(row, column, left, sums);
      default: return put_as<bf16>(row, column, left, sums);
    }
  }

 private:
  template <class T, int kWidth>
  __device__ __forceinline__ void put_as(int row, int column, int left,
                                         const Vec<float, kWidth>& sums) const {
    Vec<float, kWidth> scaled = sums;
    const float of_a = scale_a == nullptr ? 1 : of_row(row);
#pragma unroll
    for (int k = 0; k < kWidth; ++k) {
      const int at = column + (k < left ? k : left - 1);
      if (scale_b != nullptr) scaled[k] *= of_a * of_column(at);
      if (bias != nullptr) scaled[k] += bias_of<T>(at);
    }
    gemm::put_some(static_cast<T*>(data) + row * leading + column, left,
                   thread::convert<T>(scaled));
  }
};

// ---- The kernel ---------------------------------------------------------------------------------

template <class A, class B, class Policy, class Output>
using WgmmaKernel = gemm::WarpSpecializedKernel<A, Contiguous::kColumns, Contiguous::kRows, Policy,
                                                gemm::WholeTiles, Output, B>;

#if WS_DEVICE_CODE
// Issues a warpgroup's products of one slice, as a group: of the `panel`-th 64 rows of A's stage.
template <class StageA, class StageB, int kSums>
__device__ __forceinline__ void multiply_slice(float (&products)[kSums], uint64_t a, uint64_t b,
                                               int panel) {
  ptx::wgmma_pin(products);
  ptx::wgmma_fence();
#pragma unroll
  for (int k = 0; k < StageA::kRow; k += StageA::kStep) {
    ptx::wgmma_m64k32<kSums * 2, typename StageA::Element, typename StageB::Element>(
        products, StageA::advance(a, panel, k), StageB::advance(b, 0, k), k > 0);
  }
  ptx::wgmma_commit_group();
}
#endif

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
