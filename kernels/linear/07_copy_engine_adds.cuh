// Idea: the copy engine adds. A tile of sums leaves as a reduction in memory
//   (cp.reduce.async.bulk), which L2 carries out: no SM reads c, and no warp waits for it.
// From wgmma: the epilogue that reads a matrix is gone, its loads and the wait for them.
// Traffic: gemm/warp_specialized's with c in f32: 4 bytes an element into L2, which reads and
//   writes the 4 that lie in memory. Each element gets one addition a call: the same bits in every
//   run.
// Limits: sm_90a, f16 and bf16; base addresses and row strides of all three, and rows of c, are
//   multiples of 16 bytes. L2 takes subnormal numbers of f32 for zeros.
#pragma once

#include "kernels/linear/wgmma.hpp"

namespace ws::linear {

struct AddingOutput {
  using Element = float;

  ptx::TensorMap map;

  __device__ __forceinline__ void prefetch() const { ptx::prefetch_tensor_map(map); }
  template <class Store>
  __device__ __forceinline__ void put(Store& store, int row, int column, const float* sums) const {
    store.add(map, row, column, sums);
  }
};

template <class T, class Policy>
void run_adding_tile(const Call& call, Stream stream) {
  gemm::with_contiguous(call, [&]<gemm::Contiguous kA, gemm::Contiguous kB>() {
    using Kernel = WgmmaKernel<T, kA, kB, Policy, AddingOutput>;
    start_wgmma<Kernel, T>(call, call.n, AddingOutput{output_map<Kernel>(call)}, stream);
  });
}

struct CopyEngineAdds {
  static bool supports(const Call& call, Why& why) { return can_be_stored(call, DType::kF32, why); }
  static void run(const Call& call, const Context& context) {
    with_type<kHalves>(call.dtype, [&]<class T>() {
      WidePolicies::with(gemm::plan_whole_tiles<WidePolicies>(call).policy,
                         [&]<class Policy>() { run_adding_tile<T, Policy>(call, context.stream); });
    });
  }
};

}  // namespace ws::linear
