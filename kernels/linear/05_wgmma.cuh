// Idea: the epilogue between wgmma's registers and the copy engine's store. A bias is loaded before
//   the tile's products and waits in registers; a matrix is loaded as the sums are finished.
// From mma_pipeline: the product is gemm/warp_specialized's, or gemm/pingpong's where its tiles
//   suit; y leaves under the next tile's copies.
// Traffic: that of the product; a bias of 512 bytes a tile from L2, a matrix once. A tile of 128 x
//   256 is 128 sums a lane: 128 multiply-adds, and of gelu 12 instructions a sum more, 2 us in
//   which an SM's tensor cores wait, unless they have the other warpgroup's products (pingpong).
//   Those of 64 of K take 0.7 us.
// Limits: sm_90a, f16 and bf16; base addresses and row strides of mat1, mat2 and y, and rows of y,
//   are multiples of 16 bytes, the copy engine's rule. input lies anywhere.
#pragma once

#include "kernels/linear/epilogue.hpp"
#include "kernels/linear/pairs.hpp"
#include "kernels/linear/wgmma.hpp"

namespace ws::linear {

// Long: how what is added is loaded, held and used stand beside each other.
//
// T: of what is added; Out: of what is written. A lane has the sums of pairs of neighbours in two
// rows, eight apart, every eight columns.
template <class T, class Out>
struct EpilogueOutput {
  using Element = Out;

  ptx::TensorMap map;
  Epilogue<T> epilogue;
  int m, n;
  bool by_pairs;  // neighbours in a row of what is added are one access

  EpilogueOutput() = default;
  EpilogueOutput(const ptx::TensorMap& output, const Call& call)
      : map(output),
        epilogue(call),
        m(static_cast<int>(call.m)),
        n(static_cast<int>(call.n)),
        by_pairs(lie_in_pairs<T>(call, call.n)) {}

  using Pair = linear::Pair<T>;

  // What is added to kCount pairs, of which number e begins at from(e), where there(e, ...).
  template <int kCount, class From, class There>
  __device__ __forceinline__ void load(Pair* pairs, const From& from, const There& there) const {
    by_pairs ? load_pairs<T, kCount>(pairs, from, there)
             : load_halves<T, kCount>(pairs, epilogue.column, from, there);
  }

  // A lane's pairs of a bias, for a tile's columns.
  template <int kTileN, int /*kRowBlocks*/>
  struct Held {
    Pair pairs[kTileN / 8];

    __device__ __forceinline__ void load(const EpilogueOutput& output, int /*row*/, int first) {
      const Epilogue<T>& epilogue = output.epilogue;
      if (epilogue.source == nullptr || epilogue.row != 0) return;
      const int column = first + lane_index() % 4 * 2;
      output.template load<kTileN / 8>(
          pairs, [&](int e) { return epilogue.source + (column + e * 8) * epilogue.column; },
          [&](int e, int second) { return column + e * 8 + second < output.n; });
    }
    __device__ __forceinline__ const Pair* from(int /*block*/, int column) const {
      return pairs + column / 8;
    }
  };

  __device__ __forceinline__ void prefetch() const { ptx::prefetch_tensor_map(map); }

  template <class Store>
  __device__ __forceinline__ void put(Store& store, const Pair* held, int row, int column,
                                      const float* sums) const {
    constexpr int kSums = Store::kColumns / 2;
    float y[kSums];
    if (epilogue.source == nullptr) {
#pragma unroll
      for (int s = 0; s < kSums; ++s) y[s] = epilogue.alpha * sums[s];
    } else if (epilogue.row == 0) {
#pragma unroll
      for (int s = 0; s < kSums; s += 2) finish_pair(y + s, sums + s, held[s / 4]);
    } else {
      Pair pairs[kSums / 2];
      // Pair by pair: a row, the row eight below it, the next eight columns.
      const int i = row + lane_index() / 4;
      const int j = column + lane_index() % 4 * 2;
      load<kSums / 2>(
          pairs,
          [&](int e) {
            return epilogue.source + (i + e % 2 * 8) * epilogue.row +
                   (j + e / 2 * 8) * epilogue.column;
          },
          [&](int e, int second) { return i + e % 2 * 8 < m && j + e / 2 * 8 + second < n; });
#pragma unroll
      for (int s = 0; s < kSums; s += 2) finish_pair(y + s, sums + s, pairs[s / 2]);
    }
    with_activation(epilogue.activation, [&](const auto& function) {
#pragma unroll
      for (int s = 0; s < kSums; ++s) y[s] = function(y[s]);
    });
    store.put(map, row, column, y);
  }

 private:
  __device__ __forceinline__ void finish_pair(float* y, const float* sums, const Pair& pair) const {
    y[0] = epilogue.alpha * sums[0] + epilogue.beta * pair[0];
    y[1] = epilogue.alpha * sums[1] + epilogue.beta * pair[1];
  }
};

template <class T, class Out, class Policy>
void run_wgmma_tile(const Call& call, Stream stream) {
  gemm::with_contiguous(call, [&]<gemm::Contiguous kA, gemm::Contiguous kB>() {
    using Kernel = WgmmaKernel<T, kA, kB, Policy, EpilogueOutput<T, Out>>;
    start_wgmma<Kernel, T>(call, call.n, EpilogueOutput<T, Out>(output_map<Kernel>(call), call),
                           stream);
  });
}

template <class T, class Out, class Policies>
void run_wgmma_by_plan(const Call& call, Stream stream) {
  Policies::with(gemm::plan_whole_tiles<Policies>(call).policy,
                 [&]<class Policy>() { run_wgmma_tile<T, Out, Policy>(call, stream); });
}
template <class T>
void run_wgmma(const Call& call, Stream stream) {
  call.out_dtype == DType::kF32 ? run_wgmma_by_plan<T, float, WidePolicies>(call, stream)
                                : run_wgmma_by_plan<T, T, AddmmPolicies>(call, stream);
}
// 05_wgmma.cu and wgmma_bf16.cu have them.
extern template void run_wgmma<half>(const Call&, Stream);
extern template void run_wgmma<bf16>(const Call&, Stream);

struct Wgmma {
  static bool supports(const Call& call, Why& why) {
    return can_be_stored(call, call.out_dtype, why);
  }
  static void run(const Call& call, const Context& context) {
    call.dtype == DType::kF16 ? run_wgmma<half>(call, context.stream)
                              : run_wgmma<bf16>(call, context.stream);
  }
};

}  // namespace ws::linear
