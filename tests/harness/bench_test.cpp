#include "harness/bench.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/machine.hpp"
#include "harness/resources.hpp"
#include "tests/harness/wrong_kernels/wrong_kernels.hpp"

namespace ws::harness {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;

Machine h200() {
  Machine m;
  m.device = "NVIDIA H200";
  m.capability = 90;
  m.multiprocessors = 132;
  m.l2_bytes = 60'000'000;
  m.clock = 1.98e9;
  m.memory_rate = 4.8e12;
  return m;
}

TEST(Bench, RefusesInTheEmulator) {
  const Rung* rung = &wrong::rung("right");
  try {
    bench(wrong::center(), {&rung, 1}, {.extents = {4, 4}}, DType::kF32, {});
    FAIL();
  } catch (const InvalidArgument& error) {
    EXPECT_THAT(error.what(), HasSubstr("timings in the emulator mean nothing"));
  }
}

TEST(Machine, KnowsThePeaksOfItsTable) {
  EXPECT_EQ(peak_flops(h200(), DType::kF16), 989e12);
  EXPECT_EQ(peak_flops(h200(), DType::kF32), 67e12);
  EXPECT_EQ(peak_flops(h200(), DType::kE4m3), 2 * 989e12);
  Machine unknown = h200();
  unknown.device = "Somebody's GPU";
  EXPECT_NEAR(peak_flops(unknown, DType::kBf16), 1.98e9 * 132 * 4096, 1);
}

TEST(Machine, FloorCountsBytesThatMustCrossTheMemory) {
  const Problem large = make_problem(wrong::center(), {.extents = {16384, 4096}}, DType::kF32);
  const double bytes = 16384.0 * 4096 * 8;
  // 60 MB of the output may still lie in the L2.
  EXPECT_NEAR(floor_microseconds(h200(), large, {bytes, 0}), (bytes - 6e7) / 4.8e12 * 1e6, 1e-6);
  // Compute-bound: half the time at the data sheet's rate.
  const Problem f16 = make_problem(wrong::center(), {.extents = {16, 16}}, DType::kF16);
  EXPECT_NEAR(floor_microseconds(h200(), f16, {0, 1e12}), 1e12 / (2 * 989e12) * 1e6, 1e-6);
}

TEST(Report, HoldsWhatCompareReads) {
  BenchGroup group;
  group.operation = "softmax";
  group.problem = "softmax f16 [2, 2]";
  group.measurements = {
      {.name = "softmax/a", .runs = 50, .median = 2, .min = 1, .max = 3, .rate = 1e9},
      {.name = "cudnn", .role = Role::kPeer, .runs = 50, .median = 3, .min = 2, .max = 4},
      {.name = "softmax/b", .verdict = Verdict::kSkipped, .reason = "rows are too long"},
  };
  const Json json = report({}, {&group, 1});
  EXPECT_EQ(json["tool"], "warpsmith");
  EXPECT_TRUE(json["device"].contains("name"));
  EXPECT_TRUE(json.contains("revision"));
  EXPECT_TRUE(json.contains("date"));
  const Json& measurements = json["results"][0]["measurements"];
  ASSERT_THAT(measurements, SizeIs(3));
  EXPECT_EQ(measurements[0]["over_peer"], 1.5);
  EXPECT_FALSE(measurements[2].contains("median_us"));
  EXPECT_EQ(measurements[2]["reason"], "rows are too long");
}

TEST(Resources, SeesLaunchesWithoutRunningThem) {
  const auto launches =
      resources_of(wrong::rung("right"), wrong::center(), {.extents = {16384, 4096}}, DType::kF32);
  ASSERT_THAT(launches, SizeIs(1));
  EXPECT_EQ(launches[0].grid.blocks, 16384);
  EXPECT_EQ(launches[0].grid.threads, 64);
  EXPECT_EQ(launches[0].shared_bytes, 256U);
  EXPECT_EQ(launches[0].registers, -1) << "the emulator has none";
}

}  // namespace
}  // namespace ws::harness
