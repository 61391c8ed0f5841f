// What `verify` cannot ask of gemm on the CUDA cores: every configuration whatever the shape,
// copies of every width, and what sums in f16 are allowed.
#include <gmock/gmock.h>

#include <cmath>

#include "catalogue/catalogue.hpp"
#include "kernels/gemm/06_double_buffer.cuh"
#include "kernels/gemm/07_async_copy.cuh"
#include "kernels/gemm/08_warp_tile.cuh"
#include "kernels/gemm/09_copy_engine.cuh"
#include "kernels/gemm/11_async_convert.cuh"
#include "kernels/gemm/12_acc_f16.cuh"
#include "tests/kernels/gemm_instance.hpp"
#include "tests/run.hpp"
#include "warpsmith/runtime.hpp"

namespace ws::gemm {
namespace {

using enum Gemm::Layout;
constexpr Gemm::Layout kAllLayouts[] = {kNn, kNt, kTn, kTt};

// A shape in f32 through a kernel of the CUDA cores: its layouts' padding is that of the case.
template <template <Contiguous, Contiguous, class> class Kernel, class Policy>
void expect_simt_right(int64_t m, int64_t n, int64_t k, int64_t padding) {
  for (const Gemm::Layout layout : kAllLayouts) {
    Instance<float> instance(shape(m, n, k, layout, padding));
    const Call call = Gemm::call(instance.problem());
    with_types<DTypes{DType::kF32}>(call, [&]<class, Contiguous kA, Contiguous kB>() {
      Kernel<kA, kB, Policy>::run(call, nullptr);
    });
    runtime::synchronize_device();
    instance.expect_right();
  }
}

// Tiles that hang over every edge; K of many stages, of one, and that does not divide.
TEST(CopyEngine, BigTile) {
  WS_REQUIRE_ARCH(Arch::kSm90);
  expect_simt_right<CopyEngineKernel, CopyEngineBig>(132, 132, 164, 4);
  expect_simt_right<CopyEngineKernel, CopyEngineBig>(128, 256, 32, 0);
}

TEST(CopyEngine, SmallTile) {
  WS_REQUIRE_ARCH(Arch::kSm90);
  expect_simt_right<CopyEngineKernel, CopyEngineSmall>(68, 140, 132, 0);
}

// The transposed product, whose C is stored by columns.
TEST(CopyEngine, Transposed) {
  WS_REQUIRE_ARCH(Arch::kSm90);
  using Policy = SimtPolicy<SimtShape{.tile_m = 128,
                                      .tile_n = 128,
                                      .thread_m = 8,
                                      .thread_n = 16,
                                      .blocks = 2,
                                      .stages = 3,
                                      .unroll = 2,
                                      .by_columns = true}>;
  const auto expect_right = [](int64_t n, Gemm::Layout layout) {
    Instance<float> instance(shape(132, n, 36, layout));
    const Call call = transposed(Gemm::call(instance.problem()));
    with_types<DTypes{DType::kF32}>(call, [&]<class, Contiguous kA, Contiguous kB>() {
      CopyEngineKernel<kA, kB, Policy>::run(call, nullptr);
    });
    runtime::synchronize_device();
    instance.expect_right();
  };
  for (const Gemm::Layout layout : kAllLayouts) expect_right(140, layout);
  expect_right(141, kNt);  // rows of C at multiples of 4 bytes
}

TEST(CopyEngine, InEveryOrder) {
  WS_REQUIRE_ARCH(Arch::kSm90);
  test::in_every_order([] { expect_simt_right<CopyEngineKernel, CopyEngineBig>(36, 132, 132, 0); });
}

TEST(WarpTile, CopiesOfEveryWidth) {
  for (const int64_t padding : {0, 1}) {  // rows at multiples of 16 bytes, and of 4
    expect_simt_right<WarpTileKernel, WarpTileShape>(132, 140, 68, padding);
  }
}

// Every tile of double_buffer and async_copy, with rows that four elements divide and that they do
// not.
template <template <class> class Kernel, int kMiddleSlice>
void expect_quads_right() {
  for (const auto& [m, n, k] : {std::array{132, 260, 40}, {129, 257, 33}}) {
    Instance<float> instance(shape(m, n, k, kNn));
    const Call call = Gemm::call(instance.problem());
    for (const int multiprocessors : {1, 5, 1000}) {
      with_quad_policy<kMiddleSlice>(call, multiprocessors,
                                     [&]<class Policy>() { Kernel<Policy>::run(call, nullptr); });
      runtime::synchronize_device();
      instance.expect_right();
    }
  }
}
template <class Policy>
using DoubleBufferF32 = DoubleBufferKernel<float, Policy>;
TEST(DoubleBuffer, EveryTile) { expect_quads_right<DoubleBufferF32, 8>(); }
TEST(AsyncCopy, EveryTile) { expect_quads_right<AsyncCopyKernel, 16>(); }

// The same of f16, whose pieces are of eight.
template <template <class> class Kernel>
void expect_octets_right(DType accumulate = DType::kF32) {
  for (const auto& [m, n, k] : {std::array{136, 264, 72}, {129, 257, 33}}) {
    Instance<half> instance(shape(m, n, k, kNn));
    const Call call = Gemm::call(instance.problem());
    for (const int multiprocessors : {1, 1000}) {
      with_octet_policy(call, multiprocessors,
                        [&]<class Policy>() { Kernel<Policy>::run(call, nullptr); });
      runtime::synchronize_device();
      instance.expect_right(accumulate);
    }
  }
}
template <class Policy>
using DoubleBufferF16 = DoubleBufferKernel<half, Policy>;
template <class Policy>
using DoubleBufferAccF16 = DoubleBufferKernel<half, Policy, PairTile<Policy::kColumns>>;
TEST(DoubleBuffer, EveryTileOfF16) { expect_octets_right<DoubleBufferF16>(); }
TEST(AsyncConvert, EveryTile) { expect_octets_right<AsyncConvertKernel>(); }
TEST(AccF16, EveryTile) { expect_octets_right<DoubleBufferAccF16>(DType::kF16); }

// What f16 sums are allowed is more than f32 needs, and less than eight products of 1024 are worth.
TEST(AccF16, ItsToleranceFindsEightMissingProducts) {
  Instance<half> instance(shape(64, 64, 1024, kNn));
  const Problem& problem = instance.problem();
  const Parameter& output = Gemm::kParameters[2];
  std::vector<double> expected(64 * 64);
  std::array<double*, kMaxTensors> targets{};
  targets[2] = expected.data();
  Gemm::reference(problem, {0, 64}, targets);
  const auto error_of = [&] {
    run_and_wait(rung("acc_f16"), instance.call());
    double error = 0;
    double norm = 0;
    for (size_t i = 0; i < expected.size(); ++i) {
      const double got = element(problem.tensor(2), static_cast<int64_t>(i));
      error += (got - expected[i]) * (got - expected[i]);
      norm += expected[i] * expected[i];
    }
    return std::sqrt(error / norm);
  };
  const double allowed = Gemm::tolerance_in(problem, output, DType::kF16).relative;
  const double whole = error_of();
  EXPECT_LT(whole, 0.7 * allowed);
  EXPECT_GT(whole, 2 * Gemm::tolerance(problem, output).relative);
  for (int64_t row = 0; row < 64; ++row) {
    for (int64_t k = 500; k < 508; ++k) problem.tensor(0).as<half>()[row * 1024 + k] = half(0);
  }
  EXPECT_GT(error_of(), 2 * allowed);
}

}  // namespace
}  // namespace ws::gemm
