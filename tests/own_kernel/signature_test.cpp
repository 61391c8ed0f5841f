// How functions are called: one rule over all operations of the catalogue.
#include "own_kernel/signature.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <string>

#include "harness/embedded.hpp"
#include "own_kernel/place.hpp"

namespace ws::own_kernel {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::string signature(const char* operation, DType dtype, Form form = Form::kShort) {
  return Signature(operation_named(operation), dtype, form).text();
}

TEST(Signature, HasTensorsExtentsAndTheStream) {
  EXPECT_EQ(signature("softmax", DType::kF32),
            "void softmax(const float* x, float* out, int64_t rows, int64_t columns, "
            "cudaStream_t stream)");
  EXPECT_EQ(signature("gemm", DType::kF16),
            "void gemm(const __half* a, const __half* b, __half* c, int64_t M, int64_t N, "
            "int64_t K, cudaStream_t stream)");
  // What a plain call has of the tensors that may be left out.
  EXPECT_EQ(signature("layer_norm", DType::kBf16),
            "void layer_norm(const __nv_bfloat16* x, const __nv_bfloat16* weight, "
            "const __nv_bfloat16* bias, __nv_bfloat16* y, int64_t rows, int64_t columns, "
            "cudaStream_t stream)");
  // Types follow from the operation.
  EXPECT_EQ(signature("sum", DType::kI32),
            "void sum(const int32_t* x, int64_t* y, int64_t n0, cudaStream_t stream)");
}

TEST(Signature, HasAttributesInItsFullForm) {
  EXPECT_EQ(signature("gelu", DType::kF32, Form::kFull),
            "void gelu(const float* x, float* y, int64_t rows, int64_t columns, int approximate, "
            "cudaStream_t stream)");
  EXPECT_THAT(signature("layer_norm", DType::kF32, Form::kFull),
              HasSubstr("const float* residual, float* y, float* mean, float* rstd, float* sum, "
                        "int64_t rows, int64_t columns, float eps, bool stats, bool prenorm, "
                        "bool acc_f16, cudaStream_t stream)"));
  EXPECT_THAT(signature("amax", DType::kF32, Form::kFull),
              HasSubstr("const int* dim, int dim_count, bool keepdim, "));
  EXPECT_FALSE(has_full_form(operation_named("mul")));
  EXPECT_TRUE(has_full_form(operation_named("softmax")));
}

// Every operation can be tried: it has a signature for each of its types but fp8, problems for it
// of more than one size, and a kernel to start from.
TEST(Signature, EveryOperationHasOne) {
  for (const Family* family : families()) {
    for (const Operation& operation : family->operations) {
      EXPECT_FALSE(dtypes_of(operation).empty()) << operation.name;
      for (const DType dtype : kAllDTypes) {
        if (!dtypes_of(operation).has(dtype)) continue;
        for (const Form form : kForms) {
          const Signature one(operation, dtype, form);
          const std::vector<Case> cases = one.cases();
          EXPECT_GE(cases.size(), 5U) << one.text();
          for (const Case& chosen : cases) {
            EXPECT_THAT(one.why_not(chosen), IsEmpty());
            EXPECT_EQ(chosen.offset, 0);
          }
        }
      }
      const std::string path = std::string("kernels/") + std::string(family->name) + "/start/" +
                               std::string(operation.name) + ".cu.in";
      EXPECT_TRUE(std::ranges::any_of(embedded_files(), [&](const EmbeddedFile& file) {
        return file.path == path && file.text.find("@SIGNATURE@") != std::string_view::npos;
      })) << path;
    }
  }
}

TEST(Signature, SaysWhyACaseCannotBeCalledSo) {
  const Operation& softmax = operation_named("softmax");
  const Signature plain(softmax, DType::kF32, Form::kShort);
  const Signature full(softmax, DType::kF32, Form::kFull);
  EXPECT_THAT(plain.why_not({.extents = {4, 8}}), IsEmpty());
  EXPECT_THAT(plain.why_not({.extents = {4, 8}, .attributes = {true}}),
              HasSubstr("no parameter bounded"));
  EXPECT_THAT(full.why_not({.extents = {4, 8}, .attributes = {true}}), IsEmpty());
  EXPECT_THAT(full.why_not({.extents = {4, 8}, .offset = 1}), HasSubstr("aligned"));
  EXPECT_THAT(full.why_not({.extents = {4, 8}, .padding = 1}), HasSubstr("dense"));
  EXPECT_THAT(full.why_not({.extents = {4, 8, 3}}), HasSubstr("'x' is dense"));
  EXPECT_THAT(
      Signature(operation_named("sum"), DType::kF32, Form::kFull).why_not({.extents = {4, 8}}),
      HasSubstr("'x' has the extents n0"));
  EXPECT_THAT(full.why_not({.extents = {0, 8}}), HasSubstr("something to do"));
  EXPECT_THAT(Signature(operation_named("layer_norm"), DType::kF32, Form::kShort)
                  .why_not({.extents = {4, 8, 0, 0, 0, 1}}),
              HasSubstr("without 'residual'"));
}

TEST(Place, IsBesideTheNearestRungAndBelowACheaperOne) {
  // naive, safe, warp, block, top
  const std::array<Rung, 5> rungs{};
  const std::vector<Costs> ladder = {
      {&rungs[0], 1000}, {&rungs[1], 1500}, {&rungs[2], 100}, {&rungs[3], 130}, {&rungs[4], 50}};
  const auto place = [&](double cost) {
    const Place found = place_of({nullptr, cost}, ladder);
    return std::pair(found.like.value_or(99), found.next.value_or(99));
  };
  EXPECT_EQ(place(1000), std::pair(size_t{0}, size_t{2})) << "safe costs more";
  EXPECT_EQ(place(5000), std::pair(size_t{1}, size_t{2}));
  EXPECT_EQ(place(100), std::pair(size_t{2}, size_t{4})) << "block costs more";
  EXPECT_EQ(place(52), std::pair(size_t{4}, size_t{99}));
  const std::vector<Costs> falling = {{&rungs[0], 10}, {&rungs[1], 1000}};
  EXPECT_EQ(place_of({nullptr, 900}, falling).like, 1U);
  EXPECT_EQ(place_of({nullptr, 900}, falling).next, 0U) << "none above it is cheaper, one below is";
  // Little traffic for many clocks is not like much traffic for as many.
  const std::vector<Costs> tiled = {
      {&rungs[0], 1000, 80}, {&rungs[1], 1200, 3}, {&rungs[2], 900, 2}};
  EXPECT_EQ(place_of({nullptr, 950, 80}, tiled).like, 0U);
  EXPECT_EQ(place_of({nullptr, 950, 80}, tiled).next, 1U);
  EXPECT_FALSE(place_of({nullptr, 1}, {}).like);
}

}  // namespace
}  // namespace ws::own_kernel
