// Idea: a tile of 256 columns that are not neighbours: 128 of the gate and the 128 of the other
//   half that go with them, so that the two sums of one output lie in one lane. Of a cluster's two
//   blocks each copies one half, for both.
// From wgmma: the output is half as wide as the product, and only it is written: M F elements
//   instead of 2 M F written, read and M F written again.
// Traffic: gemm/warp_specialized's of a product of 2 F columns, less half of its output.
// Limits: sm_90a, f16 and bf16; a stride of x and weight 1, rows of y contiguous, all three at
//   multiples of 16 bytes; F, of a weight by columns, a multiple of 8.
#pragma once

#include "kernels/linear/epilogue.hpp"
#include "kernels/linear/wgmma.hpp"

namespace ws::linear {

// Base stores what one half of a tile's sums makes of the other.
template <class Base, int kTileN>
struct GatedOutput : Base {
  static constexpr bool kPaired = true;

  int second_half;  // columns from a gate to what it gates

  template <class Store>
  static GatedOutput of(const GatedCall& call) {
    return {Base::template of<Store>(call), static_cast<int>(call.n)};
  }

  template <class Store>
  __device__ __forceinline__ void put(Store& store, int row, int column, const float* sums) const {
    constexpr int kSums = Store::kColumns / 2;
    constexpr int kApart = kTileN / 4;  // a lane's sums of half a tile
    float y[kSums];
#pragma unroll
    for (int s = 0; s < kSums; ++s)
      y[s] = elementwise::Swish::Functor{}(sums[s]) * sums[kApart + s];
    Base::put(store, row, column, y);
  }
};

// A gated product cannot be turned: y has its rows in one piece.
inline bool halves_are_taken(const GatedCall& call, Why& why) {
  constexpr int64_t kMost = 0x3FFFFFFF;
  return why.unless(call.c.contiguous == gemm::Contiguous::kColumns, "y is stored by columns") &&
         why.unless(call.n <= kMost, "F is over ", kMost) &&
         why.unless(call.dtype == DType::kF32 || call.b.contiguous == gemm::Contiguous::kRows ||
                        call.n % 8 == 0,
                    "F = ", call.n, " columns of a weight by columns are no multiple of 16 bytes");
}

// Base: how y is stored.
template <class T, class Base>
void run_wgmma_gated(const GatedCall& call, Stream stream) {
  using Policy = gemm::WgmmaBig;
  using Output = GatedOutput<Base, Policy::kTileN>;
  gemm::with_contiguous(call, [&]<gemm::Contiguous kA, gemm::Contiguous kB>() {
    using Kernel = WgmmaKernel<T, kA, kB, Policy, Output>;
    const auto output = Output::template of<typename Kernel::Store>(call);
    start_wgmma<Kernel, T>(call, 2 * call.n, output, stream);
  });
}

struct WgmmaGated {
  static bool supports(const GatedCall& call, Why& why) {
    return can_be_stored(call, call.dtype, why) && halves_are_taken(call, why);
  }
  static void run(const GatedCall& call, const Context& context) {
    with_type<kHalves>(call.dtype, [&]<class T>() {
      run_wgmma_gated<T, gemm::TensorOutput<T>>(call, context.stream);
    });
  }
};

}  // namespace ws::linear
