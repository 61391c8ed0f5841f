// What `verify` cannot ask of quantized: known codes, numbers that are none, calls that are
// refused.
#include <gmock/gmock.h>

#include <cmath>

#include "catalogue/catalogue.hpp"
#include "kernels/quantized/operations.hpp"
#include "tests/kernels/refused.hpp"
#include "tests/kernels/tensor_of.hpp"
#include "tests/run.hpp"

namespace ws::quantized {
namespace {

using test::Buffer;
using test::tensor_of;
using testing::HasSubstr;

struct Quantized {
  std::vector<uint8_t> codes;
  float scale;
};

// A row of one group in codes, by a rung.
Quantized quantized(const std::string& rung, Format format, const std::vector<float>& row) {
  const auto columns = static_cast<int64_t>(row.size());
  Buffer<float> x(row);
  const int64_t bytes = columns * bits_of(format) / 8;
  Buffer<uint8_t> codes(static_cast<size_t>(bytes));
  Buffer<float> scales(1);
  Problem problem;
  problem.operation = &operation_named("quantize_blockwise");
  test::set(problem, "format", Value::choice(static_cast<int>(format)));
  test::set(problem, "group_size", columns);
  problem["x"] = tensor_of(x, {1, columns});
  problem["weight"] = tensor_of(codes, {1, bytes});
  if (format == Format::kFp8) problem["weight"].dtype = DType::kE4m3;
  problem["scales"] = tensor_of(scales, {1, 1});
  ws::run(*resolve("quantized/" + rung).rung, AnyCall(problem), {});
  runtime::synchronize_device();
  return {.codes = {codes.begin(), codes.end()}, .scale = scales[0]};
}

constexpr const char* kRungs[] = {"quantize_naive", "quantize_lanes", "quantize_packed"};

TEST(Quantized, LevelsOfNf4AreTheirOwnCodes) {
  const std::vector<float> levels(std::begin(kNf4Levels), std::end(kNf4Levels));
  for (const char* rung : kRungs) {
    const Quantized result = quantized(rung, Format::kNf4, levels);
    EXPECT_EQ(result.scale, 1) << rung;
    for (size_t i = 0; i < 8; ++i) {
      EXPECT_EQ(result.codes[i], (2 * i) << 4 | (2 * i + 1)) << rung << ": the first is above";
    }
  }
}

TEST(Quantized, TiesGoToEvenCodesAndToTheLowerLevel) {
  std::vector<float> row(16, 0);
  row[0] = 7;  // the scale is 1
  row[1] = 0.5F;
  row[2] = 1.5F;
  row[3] = -2.5F;
  for (const char* rung : kRungs) {
    const Quantized result = quantized(rung, Format::kInt4, row);
    EXPECT_EQ(result.codes[0], 15 << 4 | 8) << rung;
    EXPECT_EQ(result.codes[1], 10 << 4 | 6) << rung;
  }
  row = std::vector<float>(16, (kNf4Levels[7] + kNf4Levels[8]) / 2);
  row[0] = 1;
  for (const char* rung : kRungs) {
    EXPECT_EQ(quantized(rung, Format::kNf4, row).codes[1], 7 << 4 | 7) << rung;
  }
}

TEST(Quantized, Fp8IsRoundedToEvenAndNeverBeyondTheLargest) {
  std::vector<float> row(16, 0);
  row[0] = -448;  // the scale is 1
  row[1] = 17;    // between 16 and 18
  row[2] = 19;    // between 18 and 20
  row[3] = 0x1p-10F;
  row[4] = 3 * 0x1p-10F;
  row[5] = 0x1p-9F;
  for (const char* rung : kRungs) {
    const Quantized result = quantized(rung, Format::kFp8, row);
    EXPECT_EQ(result.scale, 1) << rung;
    const std::vector<uint8_t> first(result.codes.begin(), result.codes.begin() + 6);
    EXPECT_THAT(first, testing::ElementsAre(0xFE, 0x58, 0x5A, 0, 2, 1)) << rung;
    // A scale that is rounded down, below f32's least normal number: the largest are beyond 448.
    const std::vector<float> small(16, 1.4F * 448 * 0x1p-149F);
    EXPECT_EQ(quantized(rung, Format::kFp8, small).codes[0], 0x7E) << rung;
  }
}

TEST(Quantized, Fp8KeepsNan) {
  std::vector<float> row(16, 1);
  row[9] = NAN;
  for (const char* rung : kRungs) {
    const Quantized result = quantized(rung, Format::kFp8, row);
    EXPECT_TRUE(std::isnan(result.scale)) << rung;
    EXPECT_EQ(result.codes[9] & 0x7F, 0x7F) << rung;
  }
}

// In every rung an e4m3 that is no number reaches its own row of the weight alone.
TEST(Quantized, Fp8ThatIsNoNumberIsNone) {
  Buffer<half> x(std::vector<half>(64, half(1)));
  std::vector<uint8_t> bits(128, 0x38);  // 1
  bits[70] = 0xFF;
  Buffer<uint8_t> codes(bits);
  Buffer<float> scales(std::vector<float>(2, 0.5F));
  for (const char* rung : {"naive", "warp_per_row", "tensor_core", "code_ring", "group_columns",
                           "row_strips", "wgmma_codes"}) {
    Buffer<half> y(2);
    Problem problem;
    problem.operation = &operation_named("quantized_linear");
    problem["x"] = tensor_of(x, {1, 64});
    problem["weight"] = tensor_of(codes, {2, 64});
    problem["weight"].dtype = DType::kE4m3;
    problem["scales"] = tensor_of(scales, {2, 1});
    problem["y"] = tensor_of(y, {1, 2});
    const AnyCall call(problem);
    const Rung& found = *resolve(concatenate("quantized/", rung)).rung;
    Buffer<uint8_t> workspace(workspace_of(found, call).bytes + 256);
    ws::run(found, call, {.workspace = workspace.data()});
    runtime::synchronize_device();
    EXPECT_EQ(to_float(y[0]), 32) << rung;
    EXPECT_TRUE(std::isnan(to_float(y[1]))) << rung;
  }
}

TEST(Quantized, ScalesTellOfZerosAndOfWhatIsNoNumber) {
  for (const char* rung : kRungs) {
    EXPECT_EQ(quantized(rung, Format::kInt4, std::vector<float>(16, 0)).codes[0], 8 << 4 | 8);
    std::vector<float> row(16, 1);
    row[5] = INFINITY;
    EXPECT_EQ(quantized(rung, Format::kNf4, row).scale, INFINITY) << rung;
    row[9] = NAN;
    EXPECT_TRUE(std::isnan(quantized(rung, Format::kNf4, row).scale)) << rung;
  }
}

TEST(Quantized, BadCallsAreRefusedWithTheirNumbers) {
  Problem good;
  good.operation = &operation_named("quantized_linear");
  good["x"] = Tensor::dense(DType::kF16, {2, 64});
  good["weight"] = Tensor::dense(DType::kU8, {3, 32});
  good["scales"] = Tensor::dense(DType::kF32, {3, 1});
  const auto told = [&](const auto& change) { return test::told(good, change); };
  EXPECT_EQ(told([](Problem&) {}), "accepted");
  EXPECT_THAT(told([](Problem& p) { test::set(p, "group_size", 24); }),
              HasSubstr("a multiple of 16 up to 2147483648, not 24"));
  EXPECT_THAT(told([](Problem& p) { test::set(p, "format", Value::choice(0)); }),
              HasSubstr("codes of int8 are a matrix of i8, not u8 [3, 32]"));
  EXPECT_THAT(told([](Problem& p) { test::set(p, "group_size", 32); }),
              HasSubstr("f32 [3, 2], not f32 [3, 1]"));
  EXPECT_THAT(told([](Problem& p) { p["zeros"] = Tensor::dense(DType::kU8, {3, 1}); }),
              HasSubstr("nf4 has none"));
  EXPECT_THAT(told([](Problem& p) { p["weight"] = Tensor::dense(DType::kE5m2, {3, 32}); }),
              HasSubstr("not e5m2 [3, 32]"));
  EXPECT_THAT(told([](Problem& p) {
                p["weight"] = Tensor::dense(DType::kI8, {3, 64});
                p["zeros"] = Tensor::dense(DType::kU8, {3, 1});
              }),
              HasSubstr("are i8 [3, 1], not u8 [3, 1]"));
  EXPECT_THAT(told([](Problem& p) { p["x"] = Tensor::dense(DType::kF16, {2, 62}); }),
              HasSubstr("a weight of 64 columns, u8 [3, 32], does not go with x, f16 [2, 62]"));
  EXPECT_THAT(told([](Problem& p) { p["bias"] = Tensor::dense(DType::kF32, {3}); }),
              HasSubstr("bias is f16 [3], not f32 [3]"));

  Problem quantize;
  quantize.operation = &operation_named("quantize_blockwise");
  quantize["x"] = Tensor::dense(DType::kF32, {3, 7});
  EXPECT_THAT(test::told(quantize, [](Problem& p) { test::set(p, "format", Value::choice(1)); }),
              HasSubstr("columns are even, not f32 [3, 7]"));
  EXPECT_THAT(test::told(quantize,
                         [](Problem& p) {
                           test::set(p, "format", Value::choice(3));
                           test::set(p, "zero_point", true);
                         }),
              HasSubstr("int8 and int4 have a zero_point, fp8 has none"));
}

// Addresses of nothing: `best` looks at none.
std::string chosen(std::array<int64_t, kMaxExtents> extents, Format format) {
  Case of{.extents = extents};
  of.attributes[0] = Value::choice(static_cast<int>(format));
  of.attributes[1] = int64_t{128};
  const Operation& operation = operation_named("quantized_linear");
  return std::string(best(AnyCall(make_problem(operation, of, DType::kF16)), 90).name);
}

TEST(QuantizedLinear, RungsThatCallsGet) {
  EXPECT_EQ(chosen({1, 28672, 8192}, Format::kInt8), "group_columns");
  EXPECT_EQ(chosen({1, 28672, 8192}, Format::kInt4), "group_columns");
  EXPECT_EQ(chosen({1, 4096, 4096}, Format::kInt8), "code_ring") << "a ring has no time to fill";
  EXPECT_EQ(chosen({1, 4096, 4096}, Format::kFp8), "code_ring");
  EXPECT_EQ(chosen({1, 4096, 4096}, Format::kInt4), "group_columns");
  EXPECT_EQ(chosen({8, 28672, 8192}, Format::kNf4), "wgmma_codes");
  EXPECT_EQ(chosen({8, 28672, 8192}, Format::kInt8), "row_strips");
  EXPECT_EQ(chosen({16, 28672, 8192}, Format::kInt8), "wgmma_codes");
  EXPECT_EQ(chosen({8, 16384, 8192}, Format::kInt4), "wgmma_codes");
  EXPECT_EQ(chosen({8, 16383, 8192}, Format::kInt4), "tensor_core") << "fewer rows of an SM";
  EXPECT_EQ(chosen({16, 8192, 8192}, Format::kInt4), "wgmma_codes");
  EXPECT_EQ(chosen({17, 28672, 8192}, Format::kInt4), "tensor_core");
  EXPECT_EQ(chosen({16, 4096, 14336}, Format::kInt4), "tensor_core") << "few rows for a ring";
  EXPECT_EQ(chosen({4, 8192, 8192}, Format::kInt8), "row_strips");
  EXPECT_EQ(chosen({8, 4096, 4096}, Format::kInt4), "tensor_core");
  EXPECT_EQ(chosen({8, 4096, 4096}, Format::kNf4), "code_ring");
}

}  // namespace
}  // namespace ws::quantized
