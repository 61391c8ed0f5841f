// What a bench makes of times that it was given, as on a GPU.
#include "harness/judgement.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/harness/wrong_kernels/wrong_kernels.hpp"

namespace ws::harness {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

Machine h200() { return known_machine("NVIDIA H200"); }

Contender timed(const char* name, Role role, std::vector<double> times) {
  Contender c;
  c.name = name;
  c.role = role;
  c.times = std::move(times);
  return c;
}

TEST(Judged, FiguresAreTheTimes) {
  BenchGroup group;
  group.operation = "softmax";
  Rung rung{.name = "b", .from = "a", .idea = "", .deterministic = false};
  Contender c = timed("softmax/b", Role::kRung, {4, 2, 9});
  c.rung = &rung;
  c.calls = 7;
  c.error = 1e-5;
  const Measurement m = judged(c, group, 8e6);
  EXPECT_EQ(m.name, "softmax/b");
  EXPECT_EQ(m.runs, 3);
  EXPECT_EQ(m.calls, 7);
  EXPECT_EQ(m.median, 4);
  EXPECT_EQ(m.min, 2);
  EXPECT_EQ(m.max, 9);
  EXPECT_DOUBLE_EQ(m.rate, 2e12) << "8 MB in 4 us";
  EXPECT_EQ(m.error, 1e-5);
  EXPECT_EQ(m.from, "softmax/a");
  EXPECT_FALSE(m.deterministic);
  EXPECT_EQ(m.variant, 0) << "it has one way";
  rung.from = {};
  EXPECT_EQ(judged(c, group, 8e6).from, "") << "the bottom of its ladder";
}

TEST(Judged, VariantsCountFromOne) {
  Contender c = timed("cublasLt", Role::kPeer, {4});
  c.variants.resize(8);
  c.variant = 2;
  EXPECT_EQ(judged(c, {}, 1).title(), "cublasLt (3 of 8)");
}

TEST(Judged, WhatWasNotTimedHasItsReasonAlone) {
  Contender c = timed("cudnn", Role::kPeer, {});
  c.skip("rows are too long");
  BenchGroup group;
  group.floor = 1;
  const Measurement m = judged(c, group, 8e6);
  EXPECT_EQ(m.verdict, Verdict::kSkipped);
  EXPECT_EQ(m.reason, "rows are too long");
  EXPECT_EQ(m.runs, 0);
  EXPECT_EQ(m.rate, 0);
}

TEST(Judged, FasterThanTheFloorHasFailed) {
  BenchGroup group;
  group.floor = 3;
  const Measurement m = judged(timed("softmax/b", Role::kRung, {2.5}), group, 1);
  EXPECT_EQ(m.verdict, Verdict::kFailed);
  EXPECT_THAT(m.reason, StartsWith("a median of 2.500 us is below the physical floor of 3.000 us"));
  EXPECT_EQ(judged(timed("a", Role::kRung, {3}), group, 1).verdict, Verdict::kPassed);
  EXPECT_EQ(judged(timed("copy", Role::kCopy, {2.5}), group, 1).verdict, Verdict::kPassed);
  Contender wrong = timed("a", Role::kRung, {2.5});
  wrong.fail("it is wrong");
  EXPECT_EQ(judged(wrong, group, 1).reason, "it is wrong") << "the first reason stays";
}

TEST(Ceiling, OfMemoryIsTheFastestCopy) {
  BenchGroup group;
  group.measurements = {
      {.name = "softmax/a", .runs = 3, .rate = 5e12},
      {.name = "copy", .role = Role::kCopy, .runs = 3, .rate = 2e12},
      {.name = "cudaMemcpyAsync", .role = Role::kCopy, .runs = 3, .rate = 4e12},
      {.name = "again", .role = Role::kCopy, .runs = 3, .rate = 4e12},
      {.name = "softmax/b", .rate = 1e12},
  };
  find_ceiling(h200(), group);
  EXPECT_EQ(group.ceiling, 4e12);
  EXPECT_EQ(group.ceiling_name, "cudaMemcpyAsync");
  EXPECT_EQ(group.measurements[0].of_ceiling, 1.25) << "from an L2, more than a copy's";
  EXPECT_EQ(group.measurements[1].of_ceiling, 0.5);
  EXPECT_EQ(group.measurements[4].of_ceiling, 0) << "it never ran";
  BenchGroup without;
  without.measurements = {{.name = "softmax/a", .runs = 3, .rate = 5e12}};
  find_ceiling(h200(), without);
  EXPECT_EQ(without.measurements[0].of_ceiling, 0) << "no copy ran";
}

TEST(Ceiling, OfArithmeticIsTheDataSheets) {
  const auto ceiling = [](DType dtype, double rate) {
    BenchGroup group;
    group.memory_bound = false;
    group.dtype = dtype;
    group.measurements = {{.name = "gemm/a", .runs = 3, .rate = rate},
                          {.name = "copy", .role = Role::kCopy, .runs = 3, .rate = 4e12}};
    find_ceiling(h200(), group);
    EXPECT_DOUBLE_EQ(group.measurements[0].of_ceiling, rate / group.ceiling);
    return std::pair(group.ceiling, group.ceiling_name);
  };
  EXPECT_EQ(ceiling(DType::kF16, 8e14), std::pair(989e12, std::string("data sheet")));
  EXPECT_EQ(ceiling(DType::kF32, 67e12), std::pair(67e12, std::string("data sheet")));
  // No CUDA cores are as fast.
  EXPECT_EQ(ceiling(DType::kF32, 68e12), std::pair(989e12 / 2, std::string("data sheet, TF32")));
  EXPECT_EQ(ceiling(DType::kF16, 1e15).first, 989e12) << "f16 has no faster units";
}

TEST(Group, SaysWhatBoundsTheProblem) {
  Operation op = wrong::center();
  static Cost cost;
  op.cost = [](const Problem&) { return cost; };
  const Instance instance(op, {.extents = {4, 64}}, DType::kF16, 1);
  cost = {.bytes = 4.8e6, .flops = 0};
  BenchGroup group = group_of(h200(), instance);
  EXPECT_EQ(group.operation, "center");
  EXPECT_EQ(group.problem, "center f16 [4, 64]");
  EXPECT_THAT(group.extents, ElementsAre(4, 64));
  EXPECT_EQ(group.dtype, DType::kF16);
  EXPECT_TRUE(group.memory_bound);
  EXPECT_DOUBLE_EQ(group.floor, 1) << "all of them cross the memory: there is no L2";
  cost.flops = 988e6;  // 1 us at 989e12: as long as the bytes take
  EXPECT_TRUE(group_of(h200(), instance).memory_bound);
  cost.flops = 990e6;
  EXPECT_FALSE(group_of(h200(), instance).memory_bound);
  cost.at_most = true;
  EXPECT_EQ(group_of(h200(), instance).floor, 0) << "an upper bound proves nothing";
  op.cost_of_data = [](const Problem&) { return Cost{.bytes = 12}; };
  EXPECT_EQ(group_of(h200(), instance).cost.bytes, 12);
}

TEST(CompareAfter, TellsWhatIsWrongInTheLastSet) {
  Instance instance(wrong::center(), {.extents = {4, 1027}}, DType::kF32, 1);
  TensorSets sets(instance, 4096);
  ASSERT_GT(sets.count(), 1U);
  const Rung* rungs[] = {&wrong::rung("right"), &wrong::rung("off_by_one_row"),
                         &wrong::rung("throws")};
  std::vector<Contender> contenders = contenders_of(wrong::center(), rungs, sets, {});
  for (Contender& c : contenders) compare_after(c, sets, instance, nullptr);
  EXPECT_EQ(contenders[0].verdict, Verdict::kPassed) << contenders[0].reason;
  EXPECT_GE(contenders[0].error, 0);
  EXPECT_LE(contenders[0].error, 1e-4);
  EXPECT_EQ(contenders[1].verdict, Verdict::kFailed);
  EXPECT_THAT(contenders[1].reason, StartsWith("after timing: "));
  EXPECT_GT(contenders[1].error, 1e-4);
  EXPECT_EQ(contenders[2].verdict, Verdict::kFailed);
  EXPECT_THAT(contenders[2].reason, HasSubstr("this rung always throws"));
  EXPECT_EQ(contenders[2].error, -1) << "nothing was compared";
}

TEST(CompareAfter, OfLargeProblemsASampleIsEnough) {
  Instance instance(wrong::center(), {.extents = {5000, 8}}, DType::kF32, 1,
                    {.flops = 1e9, .elements = 4000});
  TensorSets sets(instance, 0);
  const Rung* rungs[] = {&wrong::rung("right")};
  std::vector<Contender> contenders = contenders_of(wrong::center(), rungs, sets, {});
  compare_after(contenders[0], sets, instance, nullptr);
  EXPECT_EQ(contenders[0].verdict, Verdict::kPassed) << contenders[0].reason;
  EXPECT_GE(contenders[0].error, 0);
}

TEST(CompareAfter, WhatIsNotWrittenAgainIsMissed) {
  Instance instance(wrong::center(), {.extents = {4, 64}}, DType::kF32, 1);
  TensorSets sets(instance, 0);
  const Rung* rungs[] = {&wrong::rung("right")};
  std::vector<Contender> contenders = contenders_of(wrong::center(), rungs, sets, {});
  compare_after(contenders[0], sets, instance, nullptr);
  ASSERT_EQ(contenders[0].verdict, Verdict::kPassed);
  contenders[0].run = [](size_t) {};
  compare_after(contenders[0], sets, instance, nullptr);
  EXPECT_THAT(contenders[0].reason, HasSubstr("was never written")) << "the poison is fresh";
}

}  // namespace
}  // namespace ws::harness
