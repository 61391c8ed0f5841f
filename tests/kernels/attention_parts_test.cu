// What `verify` cannot ask of attention on tensor cores: biases of other dtypes and shapes, windows
// wider than any sequence, sequences and pages that are wrong; and that attention over two halves
// of the keys, merged, is attention over all.
#include <gmock/gmock.h>

#include <cmath>
#include <limits>

#include "tests/kernels/attention_instance.hpp"
#include "tests/run.hpp"

namespace ws::attention {
namespace {

using testing::HasSubstr;

Problem attention(const std::array<int64_t, kMaxExtents>& extents, DType dtype = DType::kBf16) {
  return make_problem(operation_named("attention"), {.extents = extents}, dtype);
}

TEST(MmaFlash, BiasesOfOtherDtypesThatRepeat) {
  const std::array<Tensor, 4> biases = {
      Tensor::dense(DType::kF32, {2, 4, 70, 90}), Tensor::dense(DType::kF32, {1, 4, 1, 90}),
      Tensor::dense(DType::kBf16, {2, 1, 70, 1}), Tensor::dense(DType::kBool, {70, 90})};
  for (const Tensor& bias : biases) {
    Problem problem = attention({2, 4, 70, 90, 64, 2});
    problem.tensor(problem.operation->index_of("bias")) = bias;
    SCOPED_TRACE(bias.describe());
    Instance instance(problem);
    instance.expect_right(instance.rung("mma_flash"));
  }
}

TEST(MmaFlash, WindowsWiderThanAnySequence) {
  constexpr int64_t kWide = std::numeric_limits<int64_t>::max();
  for (const auto& [left, right] :
       {std::pair<int64_t, int64_t>{kWide, 3}, {5, kWide}, {kWide, kWide}}) {
    Case chosen{.extents = {1, 1, 40, 80, 64}};
    chosen.attributes[1] = left;
    chosen.attributes[2] = right;
    Instance instance(make_problem(operation_named("attention"), chosen, DType::kBf16));
    instance.expect_right(instance.rung("mma_flash"));
  }
}

// Scales of any sign, one of them none at all.
TEST(MmaFlash, ScalesThatTurnScoresRound) {
  for (const double scale : {-0.2, 0.0}) {
    Case chosen{.extents = {1, 2, 40, 80, 128}};
    chosen.attributes[3] = scale;
    Instance instance(make_problem(operation_named("attention"), chosen, DType::kBf16));
    instance.expect_right(instance.rung("mma_flash"));
  }
}

TEST(MmaFlash, ABadSequenceIsToldAndNothingIsWrittenForIt) {
  Problem problem = make_problem(operation_named("attention_varlen"),
                                 {.extents = {3, 2, 60, 70, 64}}, DType::kF16);
  Instance instance(problem);
  auto* const starts = instance["cu_seqlens_k"].as<int32_t>();
  std::ranges::copy(std::array<int32_t, 4>{0, 20, 71, 70}, starts);
  auto* const queries = instance["cu_seqlens_q"].as<int32_t>();
  std::ranges::copy(std::array<int32_t, 4>{0, 20, 40, 60}, queries);
  EXPECT_THAT(instance.told(instance.rung("mma_flash")), HasSubstr("'cu_seqlens_k'"));
  const Tensor& lse = instance["lse"];  // [heads, queries]
  for (int64_t row = 0; row < 60; ++row) {
    EXPECT_EQ(std::isnan(element(lse, row)), row >= 20) << row;
  }
}

// Attention over keys 0 ... 40 and over the others, merged.
TEST(MergeAttnStates, HalvesOfTheKeysMakeTheWhole) {
  for (const DType dtype : {DType::kF32, DType::kF16, DType::kBf16}) {
    SCOPED_TRACE(to_string(dtype));
    Instance whole(attention({2, 4, 37, 90, 64, 2}, dtype));
    whole.run_best();
    Problem merging =
        make_problem(operation_named("merge_attn_states"), {.extents = {2, 4, 37, 64}}, dtype);
    Instance merged(merging);
    std::vector<std::unique_ptr<Instance>> parts;
    for (const auto& [first, count] : {std::pair<int64_t, int64_t>{0, 40}, {40, 50}}) {
      parts.push_back(std::make_unique<Instance>(whole.problem()));
      Instance& part = *parts.back();
      for (const std::string_view name : {"q", "k", "v"}) part[name] = whole[name];
      for (const std::string_view name : {"k", "v"}) {
        Tensor& rows = part[name];
        rows.data = static_cast<std::byte*>(rows.data) +
                    static_cast<size_t>(first * rows.stride(2)) * size_of(dtype);
        rows.shape[2] = count;
      }
      part.run_best();
      const bool is_first = first == 0;
      merged[is_first ? "out_a" : "out_b"] = part["out"];
      merged[is_first ? "lse_a" : "lse_b"] = part["lse"];
    }
    for (const std::string_view rung : {"merge_naive", "merge_vector"}) {
      merged.run(merged.rung(rung));
      const double bound = dtype == DType::kF32 ? 1e-5 : dtype == DType::kF16 ? 2e-3 : 1.6e-2;
      for (int64_t i = 0; i < whole["out"].elements(); ++i) {
        ASSERT_NEAR(element(merged["out"], i), element(whole["out"], i), bound) << rung << " " << i;
      }
      for (int64_t i = 0; i < whole["lse"].elements(); ++i) {
        ASSERT_NEAR(element(merged["lse"], i), element(whole["lse"], i), 1e-5) << rung << " " << i;
      }
    }
  }
}

}  // namespace
}  // namespace ws::attention
