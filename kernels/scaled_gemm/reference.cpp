// What int_mm and scaled_mm compute, in double precision; their shapes, cost and tolerance, and the
// problems to verify and to time.
#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/scaled_gemm/operations.hpp"
#include "warpsmith/thread/divide.hpp"

namespace ws::scaled_gemm {
namespace {

constexpr DType kOutputs[] = {DType::kBf16, DType::kF16, DType::kF32};

DType output_of(const Problem& problem) { return kOutputs[problem.choice<size_t>("out_dtype")]; }

// What both operations have; `c` is the tensor's index.
Call call_of(const Problem& problem, int c) {
  const Tensor& a = problem.tensor(0);
  const Tensor& b = problem.tensor(1);
  Call call;
  call.dtype = a.dtype;
  call.b_dtype = b.dtype;
  call.c_dtype = problem.tensor(c).dtype;
  call.m = a.extent(0);
  call.n = b.extent(1);
  call.k = a.extent(1);
  call.a = gemm::matrix_of(a, false);
  call.b = gemm::matrix_of(b, true);
  call.c = gemm::matrix_of(problem.tensor(c), false);
  return call;
}

// [rows, columns], the longer way first where it is transposed.
Tensor lay(DType dtype, int64_t rows, int64_t columns, bool transposed, int64_t padding) {
  Tensor tensor = Tensor::dense(dtype, {rows, columns});
  const int64_t leading = (transposed ? rows : columns) + padding;
  tensor.strides = {transposed ? 1 : leading, transposed ? leading : 1};
  return tensor;
}

void check_matrices(const Problem& problem, std::string_view name) {
  const Tensor& a = problem.tensor(0);
  const Tensor& b = problem.tensor(1);
  require(a.rank == 2 && b.rank == 2, name, " takes matrices, got ", a, " and ", b);
  require(a.extent(1) == b.extent(0), name, " takes one K, got ", a, " and ", b);
}

// Rows [slice.first, slice.last) of A B, to c: a(i, k) b(k, j), panels of B at a time, so that they
// stay in cache.
template <class FA, class FB>
void multiply_rows(int64_t n, int64_t k, Slice slice, double* c, const FA& a, const FB& b) {
  const int64_t rows = slice.last - slice.first;
  std::fill(c, c + rows * n, 0.0);
  constexpr int64_t kPanel = 32;
  std::vector<double> panel(static_cast<size_t>(kPanel * n));
  for (int64_t first = 0; first < k; first += kPanel) {
    const int64_t depth = std::min(kPanel, k - first);
    for (int64_t p = 0; p < depth; ++p) {
      for (int64_t j = 0; j < n; ++j) panel[static_cast<size_t>(p * n + j)] = b(first + p, j);
    }
    for (int64_t i = 0; i < rows; ++i) {
      for (int64_t p = 0; p < depth; ++p) {
        const double factor = a(slice.first + i, first + p);
        const double* row = &panel[static_cast<size_t>(p * n)];
        for (int64_t j = 0; j < n; ++j) c[i * n + j] += factor * row[j];
      }
    }
  }
}

}  // namespace

// ---- int_mm -----------------------------------------------------------------------------------

Call IntMm::call(const Problem& problem) { return call_of(problem, 2); }

void IntMm::infer(Problem& problem) {
  const Tensor& a = problem.tensor(0);
  const Tensor& b = problem.tensor(1);
  check_matrices(problem, kName);
  require(a.dtype == DType::kI8 && b.dtype == DType::kI8, "int_mm takes i8, got ", a, " and ", b);
  problem.tensor(2) = Tensor::dense(DType::kI32, {a.extent(0), b.extent(1)});
}

void IntMm::make(const Case& chosen, DType dtype, Problem& problem) {
  const auto [m, n, k, views, unused1, unused2, unused3, unused4] = chosen.extents;
  problem.tensor(0) = lay(dtype, m, k, (views & kATransposed) != 0, chosen.padding);
  problem.tensor(1) = lay(dtype, k, n, (views & kBRows) == 0, chosen.padding);
  infer(problem);
  problem.tensor(2).strides[0] += chosen.padding;
}

Cost IntMm::cost(const Problem& problem) {
  const Call call = IntMm::call(problem);
  return {.bytes = least_traffic(problem),
          .flops = 2 * static_cast<double>(call.m) * static_cast<double>(call.n) *
                   static_cast<double>(call.k)};
}

Tolerance IntMm::tolerance(const Problem& /*problem*/, const Parameter& /*output*/) { return {}; }

int64_t IntMm::items(const Problem& problem, const Parameter& /*output*/) {
  return problem.tensor(2).extent(0);
}

void IntMm::reference(const Problem& problem, Slice slice, std::span<double* const> expected) {
  const Call call = IntMm::call(problem);
  const auto* a = call.a.as<const int8_t>();
  const auto* b = call.b.as<const int8_t>();
  double* const c = expected[2];
  multiply_rows(
      call.n, call.k, slice, c,
      [&](int64_t i, int64_t k) {
        return static_cast<double>(a[i * call.a.row + k * call.a.column]);
      },
      [&](int64_t k, int64_t j) {
        return static_cast<double>(b[j * call.b.row + k * call.b.column]);
      });
  // Doubles hold the sums exactly; i32 what is left of them modulo 2^32.
  for (int64_t i = 0; i < (slice.last - slice.first) * call.n; ++i) {
    c[i] = static_cast<int32_t>(static_cast<uint32_t>(static_cast<int64_t>(c[i])));
  }
}

// ---- scaled_mm --------------------------------------------------------------------------------

Call ScaledMm::call(const Problem& problem) {
  Call call = call_of(problem, 5);
  const Tensor& a = problem.tensor(2);
  const Tensor& b = problem.tensor(3);
  const Tensor& bias = problem.tensor(4);
  call.scale_a = a.as<const float>();
  call.scale_b = b.as<const float>();
  // An extent of 1 repeats.
  const auto step = [](const Tensor& scale, int d) {
    return scale.elements() > 1 && scale.extent(d) > 1 ? scale.stride(d) : 0;
  };
  call.a_row = step(a, 0);
  call.a_block = step(a, 1);
  call.b_block = step(b, 0);
  call.b_column = step(b, 1);
  call.b_columns = b.elements() > 1 && b.extent(1) == call.n ? 1 : kBlock;
  // Of no K there are no blocks, and no scales.
  call.by_blocks = a.elements() == 0 || b.elements() == 0 || call.a_block != 0 ||
                   call.b_block != 0 || (call.b_column != 0 && call.b_columns != 1);
  if (bias.exists()) {
    call.bias = bias.data;
    call.bias_step = call.n > 1 ? bias.stride(0) : 0;
  }
  call.fast = problem.flag("use_fast_accum");
  return call;
}

void ScaledMm::infer(Problem& problem) {
  check_matrices(problem, kName);
  const Tensor& a = problem.tensor(0);
  const Tensor& b = problem.tensor(1);
  const Tensor& scale_a = problem.tensor(2);
  const Tensor& scale_b = problem.tensor(3);
  const Tensor& bias = problem.tensor(4);
  require(kFp8.has(a.dtype) && kFp8.has(b.dtype), "scaled_mm takes e4m3 and e5m2, got ", a, " and ",
          b);
  const int64_t m = a.extent(0);
  const int64_t n = b.extent(1);
  const int64_t blocks = divide_up(a.extent(1), kBlock);
  const auto is = [](const Tensor& scale, int64_t rows, int64_t columns) {
    return scale.rank == 2 && scale.extent(0) == rows && scale.extent(1) == columns;
  };
  const auto is_one = [](const Tensor& scale) { return scale.rank <= 2 && scale.elements() == 1; };
  require(scale_a.dtype == DType::kF32 && scale_b.dtype == DType::kF32,
          "scaled_mm takes scales of f32, got ", scale_a, " and ", scale_b);
  const bool plain_a = is_one(scale_a) || is(scale_a, m, 1);
  const bool plain_b = is_one(scale_b) || is(scale_b, 1, n);
  const bool blocks_a = is(scale_a, m, blocks);
  const bool blocks_b = is(scale_b, blocks, divide_up(n, kBlock));
  require((plain_a && plain_b) || (blocks_a && blocks_b), "scaled_mm of ", a, " and ", b,
          " takes scales of one element, [M, 1] and [1, N], or [M, ceil(K / 128)] and [ceil(K / "
          "128), ceil(N / 128)], got ",
          scale_a, " and ", scale_b);
  const DType output = output_of(problem);
  if (bias.exists()) {
    require(bias.rank == 1 && bias.extent(0) == n && bias.dtype == output,
            "scaled_mm takes a bias of ", to_string(output), " [", n, "], got ", bias);
  }
  problem.tensor(5) = Tensor::dense(output, {m, n});
}

void ScaledMm::make(const Case& chosen, DType dtype, Problem& problem) {
  const auto [m, n, k, options, unused1, unused2, unused3, unused4] = chosen.extents;
  const DType b_dtype = (options & kE5m2B) != 0 ? DType::kE5m2 : DType::kE4m3;
  const int64_t blocks = divide_up(k, kBlock);
  problem.tensor(0) = lay(dtype, m, k, (options & kATransposed) != 0, chosen.padding);
  problem.tensor(1) = lay(b_dtype, k, n, (options & kBRows) == 0, chosen.padding);
  const auto scales = [&](int i, int64_t rows, int64_t columns) {
    problem.tensor(i) = Tensor::dense(DType::kF32, {rows, columns});
  };
  if ((options & kBlockScales) != 0) {
    // Column by column, as torch asks.
    problem.tensor(2) = lay(DType::kF32, m, blocks, true, 0);
    problem.tensor(3) = lay(DType::kF32, blocks, divide_up(n, kBlock), true, 0);
  } else if ((options & kRowScales) != 0) {
    scales(2, m, 1);
    scales(3, 1, n);
  } else {
    scales(2, 1, 1);
    problem.tensor(3) = Tensor::dense(DType::kF32, {1});
  }
  problem.tensor(4) = {};
  if ((options & kBias) != 0) problem.tensor(4) = Tensor::dense(output_of(problem), {n});
  infer(problem);
  problem.tensor(5).strides[0] += chosen.padding;
}

Cost ScaledMm::cost(const Problem& problem) {
  const Call call = ScaledMm::call(problem);
  return {.bytes = least_traffic(problem),
          .flops = 2 * static_cast<double>(call.m) * static_cast<double>(call.n) *
                   static_cast<double>(call.k)};
}

// Positive scales, so that a sum of K products of standard normal numbers keeps its size.
void ScaledMm::fill(const Problem& problem, int index, uint64_t seed) {
  if (index != 2 && index != 3) return fill_normal_input(problem, index, seed);
  fill_with(problem.tensor(index),
            [seed](int64_t i) { return 0.5 + random_uniform(seed, static_cast<uint64_t>(i)); });
}

// Rounded once, after a sum in f32 of sums of 128 products. Those a tensor core may add up with 13
// bits behind the point of its largest number, and cuts off the others: of 33 numbers four times in
// 128 of K, which is some 2^-12 of the sum, twice that allowed. Where it may add up all of K so, it
// cuts the sum itself K / 32 times, which is a bias.
Tolerance ScaledMm::tolerance(const Problem& problem, const Parameter& /*output*/) {
  const Call call = ScaledMm::call(problem);
  const auto k = static_cast<double>(call.k);
  const double rounding = std::ldexp(1.0, call.c_dtype == DType::kBf16  ? -8
                                          : call.c_dtype == DType::kF16 ? -11
                                                                        : -24);
  const double cuts = call.fast && !call.by_blocks ? 2 + k / 64 : 2;
  const double accumulation = std::ldexp(1.0, -12) * cuts;
  const bool has_many = call.m * call.n >= 64;
  return {.relative = has_many ? rounding + accumulation : 0,
          .worst = 1.01 * rounding + 8 * accumulation,
          .floor = std::sqrt(k) + std::ldexp(1.0, -14)};
}

int64_t ScaledMm::items(const Problem& problem, const Parameter& /*output*/) {
  return problem.tensor(5).extent(0);
}

void ScaledMm::reference(const Problem& problem, Slice slice, std::span<double* const> expected) {
  const Call call = ScaledMm::call(problem);
  double* const c = expected[5];
  with_type<kFp8>(call.dtype, [&]<class A>() {
    with_type<kFp8>(call.b_dtype, [&]<class B>() {
      const A* a = call.a.as<const A>();
      const B* b = call.b.as<const B>();
      multiply_rows(
          call.n, call.k, slice, c,
          [&](int64_t i, int64_t k) {
            return static_cast<double>(to_float(a[i * call.a.row + k * call.a.column])) *
                   call.scale_a[i * call.a_row + k / kBlock * call.a_block];
          },
          [&](int64_t k, int64_t j) {
            return static_cast<double>(to_float(b[j * call.b.row + k * call.b.column])) *
                   call.scale_b[k / kBlock * call.b_block + j / call.b_columns * call.b_column];
          });
    });
  });
  if (call.bias == nullptr) return;
  for (int64_t i = 0; i < slice.last - slice.first; ++i) {
    for (int64_t j = 0; j < call.n; ++j) c[i * call.n + j] += element(problem.tensor(4), j);
  }
}

// ---- Cases ------------------------------------------------------------------------------------

namespace {

constexpr Case integers(int64_t m, int64_t n, int64_t k, int views = 0, int64_t padding = 0,
                        int offset = 0) {
  return {.extents = {m, n, k, views}, .offset = offset, .padding = padding};
}

constexpr std::array kIntSmoke = {integers(40, 72, 96), integers(24, 40, 33, IntMm::kBRows, 1),
                                  integers(9, 13, 48, IntMm::kATransposed)};

// Around tiles of 128 rows, 128 and 256 columns, 128 deep; rows of 16 bytes and others.
constexpr std::array kIntVerify = {
    integers(1, 1, 1),
    integers(0, 8, 8),
    integers(3, 5, 0),
    integers(1, 136, 16),
    integers(136, 1, 144),
    integers(128, 256, 128),
    integers(130, 264, 272),
    integers(200, 392, 400, 0, 16),
    integers(65, 67, 160),
    integers(129, 131, 65, IntMm::kATransposed | IntMm::kBRows),
    integers(64, 72, 80, 0, 0, 1),
    integers(40, 24, 144, IntMm::kBRows),
    integers(9, 17, 130, IntMm::kBRows),
    integers(1, 33, 64, IntMm::kBRows),
    integers(33, 1, 31, IntMm::kBRows),
    integers(70, 70, 70, IntMm::kBRows),
    // Around copies' tiles of 128 x 128 and pieces of 16 bytes; a C that is copied out, one that is
    // not.
    integers(300, 272, 300, IntMm::kATransposed | IntMm::kBRows),
    integers(145, 259, 257, IntMm::kATransposed, 3),
    integers(18, 290, 290, IntMm::kBRows, 0, 5),
    integers(6, 255, 1100, 0, 3, 1),
    // Few rows, a C whose rows start anywhere.
    integers(19, 197, 1296),
};

constexpr std::array kIntBench = {
    integers(1024, 1024, 1024),  integers(2048, 2048, 2048),
    integers(4096, 4096, 4096),  integers(8192, 8192, 8192),
    integers(64, 8192, 8192),    integers(16, 8192, 8192),
    integers(4096, 4096, 14336), integers(4096, 4096, 4096, IntMm::kBRows),
    integers(4095, 4097, 4099)};

using Options = ScaledMm::Options;

constexpr Case scaled(int64_t m, int64_t n, int64_t k, int options = 0, int out_dtype = 0,
                      bool fast = false, int64_t padding = 0, int offset = 0) {
  return {.extents = {m, n, k, options},
          .offset = offset,
          .padding = padding,
          .attributes = {Value::choice(out_dtype), fast}};
}

constexpr auto kRow = Options::kRowScales;
constexpr auto kBlocks = Options::kBlockScales;
constexpr auto kOther = Options::kE5m2B;
constexpr auto kAdd = Options::kBias;
constexpr int kF16Out = 1;
constexpr int kF32Out = 2;

constexpr std::array kSmoke = {
    scaled(40, 72, 144, kOther),
    scaled(24, 40, 33, kRow | kAdd | Options::kBRows, kF32Out, false, 1),
    scaled(24, 48, 272, kBlocks | kOther),
    scaled(16, 24, 160, kRow, 0, true),
    scaled(12, 16, 64, kBlocks),
};

constexpr std::array kVerify = {
    scaled(1, 1, 1),
    scaled(0, 8, 8, kRow),
    scaled(3, 5, 0, kAdd | kRow),
    scaled(3, 5, 0, kBlocks),
    scaled(1, 136, 16, kRow),
    scaled(136, 1, 144, kRow | kOther),
    scaled(256, 128, 128),
    scaled(128, 256, 256, kOther, 0, true),
    scaled(130, 264, 272, kRow | kAdd, kF16Out, true),
    scaled(264, 136, 272, kRow | kAdd | kOther, kF32Out),
    scaled(130, 264, 272, kBlocks | kOther),
    scaled(140, 200, 288, kBlocks | kAdd, kF16Out, false, 16),
    scaled(65, 67, 160, kBlocks | kOther, kF32Out),
    scaled(129, 131, 65, kRow | Options::kATransposed | Options::kBRows),
    scaled(40, 24, 144, Options::kBRows),
    scaled(9, 17, 130, Options::kBRows),
    scaled(1, 33, 64, Options::kBRows),
    scaled(33, 1, 31, Options::kBRows),
    scaled(70, 70, 70, Options::kBRows),
    scaled(64, 72, 80, kOther, 0, false, 0, 1),
    // Copies, of which scales of blocks, of rows and of tensors count the same K.
    scaled(140, 264, 300, kBlocks | kOther | Options::kATransposed | Options::kBRows),
    scaled(150, 259, 390, kBlocks | kAdd | Options::kBRows, kF16Out, false, 3),
    scaled(260, 133, 257, kRow | kAdd | kOther | Options::kATransposed, kF32Out, true, 1),
    scaled(17, 301, 527, kBlocks, kF32Out, false, 5, 3),
    scaled(129, 255, 255, kOther | Options::kBRows, 0, true),
    // Few rows, a C whose rows start anywhere; slices left over from turns of four.
    scaled(19, 197, 1296, kRow | kAdd, kF16Out, true),
    scaled(37, 203, 784, kBlocks | kAdd | kOther),
    scaled(72, 200, 1168, kBlocks),
};

constexpr std::array kBench = {
    scaled(1024, 1024, 1024),          scaled(1024, 1024, 1024, kBlocks),
    scaled(4096, 4096, 4096),          scaled(4096, 4096, 4096, 0, 0, true),
    scaled(4096, 4096, 4096, kRow),    scaled(4096, 4096, 4096, kRow, 0, true),
    scaled(4096, 4096, 4096, kBlocks), scaled(8192, 8192, 8192, 0, 0, true),
    scaled(8192, 8192, 8192, kRow),    scaled(8192, 8192, 8192, kBlocks),
    scaled(64, 8192, 8192, kRow),      scaled(64, 8192, 8192, kBlocks),
    scaled(16, 8192, 8192, kRow),      scaled(16, 8192, 8192, kRow, 0, true),
    scaled(16, 8192, 8192, kBlocks),   scaled(128, 8192, 8192, kRow),
    scaled(512, 8192, 8192, kRow),     scaled(2048, 2048, 2048, kBlocks),
    scaled(4096, 7168, 2048, kBlocks), scaled(4096, 4096, 4096, kRow | Options::kBRows),
    scaled(4095, 4097, 4099, kBlocks),
};

}  // namespace

Cases IntMm::cases() { return {kIntSmoke, kIntVerify, kIntBench}; }
Cases ScaledMm::cases() { return {kSmoke, kVerify, kBench}; }

}  // namespace ws::scaled_gemm
