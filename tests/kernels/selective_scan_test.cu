// What `verify` cannot ask of selective_scan: calls that are refused, and why; NaN; which rung a
// call gets.
#include <gmock/gmock.h>

#include <cmath>
#include <functional>
#include <memory>
#include <vector>

#include "catalogue/fill.hpp"
#include "kernels/selective_scan/operations.hpp"
#include "tests/kernels/refused.hpp"
#include "tests/run.hpp"
#include "warpsmith/runtime.hpp"

namespace ws::selective_scan {
namespace {

using test::told;
using testing::HasSubstr;

const Operation& forward() { return operation_named("selective_scan"); }
const Operation& backward() { return operation_named("selective_scan_backward"); }

Problem problem_of(const Operation& operation, std::array<int64_t, kMaxExtents> extents,
                   DType dtype = DType::kF32) {
  return make_problem(operation, {.extents = extents}, dtype);
}

TEST(SelectiveScan, CallsThatAreRefused) {
  using P = Problem;
  struct Refused {
    const char* words;
    std::function<void(Problem&)> change;
  };
  constexpr int64_t kEverything = kHasZ | kHasD | kHasBias | kHasInitial;
  const Problem right = problem_of(forward(), {2, 4, 8, 3, 2, kEverything});
  EXPECT_EQ(told(right, [](Problem&) {}), "accepted");
  const Refused all[] = {
      {"not f32, f16 or bf16 of [batch, dim, L]", [](P& p) { p["u"].rank = 2; }},
      {"'delta' is f16 [2, 4, 8], not of the shape and dtype of 'u'",
       [](P& p) { p["delta"].dtype = DType::kF16; }},
      {"'z' is f32 [2, 4, 7]", [](P& p) { p["z"].shape[2] = 7; }},
      {"1 to 256 states", [](P& p) { p["a"].shape[1] = 257; }},
      {"f32 of [dim, N]", [](P& p) { p["a"].dtype = DType::kF16; }},
      {"'b' is f32 [2, 3, 3, 8]", [](P& p) { p["b"].shape[1] = 3; }},
      {"not of the shape and dtype of 'b'", [](P& p) { p["c"].shape[2] = 2; }},
      {"'d' is f32 [5], not f32 of [dim]", [](P& p) { p["d"].shape[0] = 5; }},
      {"'delta_bias' is f16 [4]", [](P& p) { p["delta_bias"].dtype = DType::kF16; }},
      {"not f32 of [batch, dim, N]", [](P& p) { p["initial_state"].shape[2] = 4; }},
  };
  for (const Refused& refused : all) {
    EXPECT_THAT(told(right, refused.change), HasSubstr(refused.words));
  }
}

TEST(SelectiveScan, WhichRungACallGets) {
  const auto best_of = [](const Operation& operation, std::array<int64_t, kMaxExtents> extents) {
    return best(AnyCall(problem_of(operation, extents, DType::kBf16)), 90).name;
  };
  EXPECT_EQ(best_of(forward(), {8, 2047, 2048, 16}), "staged");
  EXPECT_EQ(best_of(forward(), {8, 2048, 2048, 64}), "staged");
  EXPECT_EQ(best_of(forward(), {8, 2048, 2048, 65}), "channel_scan");
  EXPECT_EQ(best_of(forward(), {8, 2048, 2048, 4}), "channel_pairs");
  EXPECT_EQ(best_of(forward(), {8, 2048, 2048, 16, 64}), "channel_pairs");
  EXPECT_EQ(best_of(forward(), {1, 2048, 1024, 16}), "channel_pairs");
  EXPECT_EQ(best_of(forward(), {1, 2047, 1024, 16}), "warp_scan");
  EXPECT_EQ(best_of(forward(), {1, 2048, 2048, 16}), "staged_parts");
  EXPECT_EQ(best_of(forward(), {1, 64, 32768, 16}), "staged_parts");
  EXPECT_EQ(best_of(forward(), {1, 32, 32768, 16}), "chunked");
  EXPECT_EQ(best_of(forward(), {1, 64, 32767, 16}), "any_layout");
  EXPECT_EQ(best_of(backward(), {8, 2048, 2048, 16}), "backward_scan");
  EXPECT_EQ(best_of(backward(), {8, 2048, 2047, 16}), "backward_any_layout");
}

// What is behind a NaN of a channel is NaN, and nothing else.
TEST(SelectiveScan, ANaNReachesWhatIsBehindIt) {
  Problem problem = AnyCall(problem_of(forward(), {1, 2, 1040, 3})).problem();
  std::vector<std::unique_ptr<test::Buffer<float>>> buffers;
  for (size_t i = 0; i < problem.operation->parameters.size(); ++i) {
    Tensor& tensor = problem.tensors[i];
    if (!tensor.exists()) continue;
    const auto count = static_cast<size_t>(tensor.elements());
    tensor.data = buffers.emplace_back(std::make_unique<test::Buffer<float>>(count))->data();
    if (problem.operation->parameters[i].is_read()) {
      problem.operation->fill(problem, static_cast<int>(i), 3);
    }
  }
  constexpr int64_t kAt = 517;
  problem["u"].as<float>()[kAt] = NAN;
  for (const Rung* rung : family_of(*problem.operation).rungs) {
    const AnyCall call(problem);
    if (!takes(*rung, call, runtime::capability())) continue;
    test::Buffer<uint64_t> scratch(workspace_of(*rung, call).bytes / 8 + 64);
    const auto past = reinterpret_cast<uintptr_t>(scratch.data()) % 256;
    ws::run(*rung, call, {.workspace = scratch.data() + (256 - past) / 8});
    runtime::synchronize_device();
    const float* out = problem["out"].as<float>();
    for (int64_t i = 0; i < 2 * 1040; ++i) {
      ASSERT_EQ(std::isnan(out[i]), i >= kAt && i < 1040) << rung->name << " " << i;
    }
  }
}

}  // namespace
}  // namespace ws::selective_scan
