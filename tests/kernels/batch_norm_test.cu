// What `verify` cannot ask of batch and group norm: calls that are refused, and why; infinities;
// a large mean with a small variance; running statistics over several batches; sets that fill the
// chip; which rung a call gets.
#include <gmock/gmock.h>

#include <cmath>
#include <functional>

#include "harness/verify.hpp"
#include "kernels/batch_norm/operations.hpp"
#include "tests/kernels/refused.hpp"
#include "tests/run.hpp"
#include "warpsmith/runtime.hpp"

namespace ws::batch_norm {
namespace {

using test::set;
using test::told;
using testing::HasSubstr;

const Operation& training() { return operation_named("batch_norm_training"); }
const Operation& backward() { return operation_named("batch_norm_backward"); }
const Operation& group() { return operation_named("group_norm_forward"); }
const Operation& group_backward() { return operation_named("group_norm_backward"); }

Problem problem_of(const Operation& operation, std::array<int64_t, kMaxExtents> extents,
                   DType dtype = DType::kF32, int64_t groups = 0) {
  Case chosen{.extents = extents};
  if (groups > 0) chosen.attributes[0] = groups;
  return make_problem(operation, chosen, dtype);
}

TEST(BatchNorm, CallsThatAreRefused) {
  using P = Problem;
  struct Refused {
    const char* words;
    std::function<void(Problem&)> change;
  };
  const Problem right = problem_of(training(), {2, 4, 3});
  EXPECT_EQ(told(right, [](Problem&) {}), "accepted");
  const Refused all[] = {
      {"of f32, f16 or bf16 with 2 to 5 dimensions", [](P& p) { p["x"].rank = 1; }},
      {"of f32, f16 or bf16", [](P& p) { p["x"].dtype = DType::kI32; }},
      {"one element a channel", [](P& p) { p["weight"].shape[0] = 3; }},
      {"one element a channel", [](P& p) { p["running_var"].dtype = DType::kBf16; }},
      {"Expected more than 1 value per channel when training",
       [](P& p) {
         p["x"].shape = {1, 4, 1};
         p["y"] = {};
       }},
  };
  for (const Refused& refused : all) {
    EXPECT_THAT(told(right, refused.change), HasSubstr(refused.words));
  }
  const Problem gradient = problem_of(backward(), {2, 4, 3});
  EXPECT_THAT(told(gradient, [](P& p) { p["x"].shape[2] = 4; }),
              HasSubstr("of the shape and dtype of 'grad'"));
  EXPECT_THAT(told(gradient, [](P& p) { p["mean"].dtype = DType::kF16; }),
              HasSubstr("f32 with one element a channel"));
  const Problem groups = problem_of(group(), {2, 4, 3}, DType::kF32, 2);
  EXPECT_THAT(told(groups, [](P& p) { set(p, "groups", int64_t{3}); }),
              HasSubstr("4 channels do not fall into groups=3"));
  EXPECT_THAT(told(groups, [](P& p) { set(p, "groups", int64_t{0}); }), HasSubstr("groups=0"));
}

// ---- Calls with memory --------------------------------------------------------------------------

class Instance {
 public:
  explicit Instance(const Problem& problem) : problem_(AnyCall(problem).problem()) {
    for (size_t i = 0; i < problem_.operation->parameters.size(); ++i) {
      Tensor& tensor = problem_.tensors[i];
      if (!tensor.exists()) continue;
      const size_t bytes = static_cast<size_t>(tensor.elements()) * size_of(tensor.dtype) + 16;
      buffers_.push_back(std::make_unique<test::Buffer<uint8_t>>(bytes));
      tensor.data = buffers_.back()->data();
    }
  }
  float* operator[](std::string_view name) { return problem_[name].as<float>(); }

  // f(call, rung) for each rung that takes the call here.
  template <class F>
  void each_rung(const F& f) {
    const AnyCall call(problem_);
    for (const Rung* rung : family_of(*problem_.operation).rungs) {
      if (!takes(*rung, call, runtime::capability())) continue;
      const Workspace wanted = workspace_of(*rung, call);
      test::Buffer<uint8_t> workspace(wanted.bytes + 256);
      f(*rung, [&] {
        run(*rung, call, {.workspace = workspace.data()});
        runtime::synchronize(nullptr);
      });
    }
  }

 private:
  Problem problem_;
  std::vector<std::unique_ptr<test::Buffer<uint8_t>>> buffers_;
};

constexpr int kBatch = 3;
constexpr int kChannels = 8;
constexpr int kSpatial = 50;

void fill_x(float* x, const std::function<float(int channel, int at)>& value) {
  for (int n = 0; n < kBatch; ++n) {
    for (int c = 0; c < kChannels; ++c) {
      for (int i = 0; i < kSpatial; ++i) {
        x[(n * kChannels + c) * kSpatial + i] = value(c, n * kSpatial + i);
      }
    }
  }
}
void fill_parameters(Instance& instance) {
  for (int c = 0; c < kChannels; ++c) {
    instance["weight"][c] = 1;
    instance["bias"][c] = 0;
    instance["running_mean"][c] = 1;
    instance["running_var"][c] = 2;
  }
}

TEST(BatchNorm, WhatIsNoNumberStaysInItsChannel) {
  Instance instance(problem_of(training(), {kBatch, kChannels, kSpatial}));
  instance.each_rung([&](const Rung& rung, const auto& run) {
    SCOPED_TRACE(rung.name);
    fill_parameters(instance);
    fill_x(instance["x"], [](int c, int at) {
      if (at == 77 && c == 2) return NAN;
      if (at == 77 && c == 5) return INFINITY;
      return static_cast<float>(at % 7);
    });
    run();
    for (int c = 0; c < kChannels; ++c) {
      const bool wrong = c == 2 || c == 5;
      for (int i = 0; i < kSpatial; ++i) {
        EXPECT_EQ(std::isnan(instance["y"][c * kSpatial + i]), wrong) << c << ", " << i;
      }
      EXPECT_EQ(std::isfinite(instance["running_var"][c]), !wrong);
    }
  });
}

TEST(BatchNorm, ALargeMeanCostsNoVariance) {
  Instance instance(problem_of(training(), {kBatch, kChannels, kSpatial}));
  instance.each_rung([&](const Rung& rung, const auto& run) {
    SCOPED_TRACE(rung.name);
    fill_parameters(instance);
    fill_x(instance["x"], [](int c, int at) {
      return 4096 * static_cast<float>(c) + (at % 2 == 0 ? 0.5F : -0.5F);
    });
    run();
    for (int c = 0; c < kChannels; ++c) {
      EXPECT_NEAR(instance["mean"][c], 4096 * c, 4e-3);
      EXPECT_NEAR(instance["rstd"][c], 2, 1e-3);
    }
  });
}

TEST(BatchNorm, RunningStatisticsMoveOnceACall) {
  Instance instance(problem_of(training(), {kBatch, kChannels, kSpatial}));
  instance.each_rung([&](const Rung& rung, const auto& run) {
    SCOPED_TRACE(rung.name);
    fill_parameters(instance);
    fill_x(instance["x"],
           [](int c, int at) { return static_cast<float>(c) + (at % 2 == 0 ? 1.0F : -1.0F); });
    run();
    run();
    constexpr double kUnbiased = 150.0 / 149.0;
    for (int c = 0; c < kChannels; ++c) {
      EXPECT_NEAR(instance["running_mean"][c], 0.81 * 1 + 0.19 * c, 1e-5);
      EXPECT_NEAR(instance["running_var"][c], 0.81 * 2 + 0.19 * kUnbiased, 1e-5);
    }
  });
}

// Infinity in x does not reach a gradient that does not depend on it.
TEST(BatchNormBackward, ConstantStatisticsLookAtNoInput) {
  Problem problem = problem_of(backward(), {kBatch, kChannels, kSpatial});
  set(problem, "training", false);
  Instance instance(problem);
  instance.each_rung([&](const Rung& rung, const auto& run) {
    SCOPED_TRACE(rung.name);
    fill_x(instance["x"], [](int, int) { return INFINITY; });
    fill_x(instance["grad"], [](int, int) { return 3.0F; });
    for (int c = 0; c < kChannels; ++c) {
      instance["weight"][c] = 2;
      instance["mean"][c] = 0;
      instance["rstd"][c] = 0.5;
    }
    run();
    for (int i = 0; i < kBatch * kChannels * kSpatial; ++i) EXPECT_EQ(instance["dx"][i], 3);
  });
}

// One number far from all others, where a group begins or elsewhere: what is measured from it must
// not lose the deviation of the others. Of 4000 rows of 8 channels in two groups.
TEST(GroupNorm, AnOutlierCostsNoVariance) {
  constexpr int kRows = 4000;
  Instance instance(problem_of(group(), {1, 8, kRows, kSideBySide}, DType::kF32, 2));
  for (const int at : {0, 8 * 77 + 3}) {
    double sum = 0;
    double squares = 0;
    for (int i = 0; i < 8 * kRows; ++i) {
      const float x = i == at ? 1000.0F : static_cast<float>(i / 8 % 5 - 2);
      instance["x"][i] = x;
      if (i % 8 >= 4) continue;
      sum += x;
      squares += static_cast<double>(x) * x;
    }
    const double mean = sum / (4 * kRows);
    const double rstd = 1 / std::sqrt(squares / (4 * kRows) - mean * mean + 1e-5);
    instance.each_rung([&](const Rung& rung, const auto& run) {
      SCOPED_TRACE(rung.name);
      for (int c = 0; c < 8; ++c) instance["weight"][c] = 1;
      for (int c = 0; c < 8; ++c) instance["bias"][c] = 0;
      run();
      EXPECT_NEAR(instance["mean"][0], mean, 1e-5);
      EXPECT_NEAR(instance["rstd"][0], rstd, 2e-5 * rstd);
    });
  }
}

// ---- Where blocks begin and end, and sets that fill the chip ------------------------------------

void expect_right(std::string_view name, std::string_view rung,
                  std::array<int64_t, kMaxExtents> extents, int64_t groups = 0,
                  DType dtype = DType::kF32) {
  const Operation& operation = operation_named(name);
  Case chosen{.extents = extents};
  if (groups > 0) chosen.attributes[0] = groups;
  harness::Instance instance(operation, chosen, dtype, 5);
  const harness::Verification result =
      harness::verify(*rung_named(family_of(operation), rung), instance);
  EXPECT_EQ(result.verdict, harness::Verdict::kPassed) << result.problem << "\n" << result.reason;
}

// Spans of a vector or two, of which a block holds more rows than it has boxes for.
TEST(GroupNorm, ManyRowsOfFewChannels) {
  for (const int64_t rows : {8192, 8193, 13001}) {
    expect_right("group_norm_forward", "groups_channels_last_on_chip", {1, 8, rows, kSideBySide}, 2,
                 DType::kBf16);
    expect_right("group_norm_backward", "backward_groups_channels_last_on_chip",
                 {1, 8, rows, kSideBySide}, 2, DType::kF16);
  }
  expect_right("group_norm_forward", "groups_channels_last_on_chip", {2, 8, 6007, kSideBySide}, 8);
}

// Blocks of 4096 floats, of 16 bits 8192: runs that begin in a vector and in another block, runs of
// one vector, channels of which a block has all, and a run that is longer than a block.
TEST(BatchNormInference, RunsThatBlocksCut) {
  const auto expect = [](std::array<int64_t, kMaxExtents> extents, DType dtype) {
    expect_right("batch_norm_inference", "one_line", extents, 0, dtype);
  };
  test::in_every_order([&] {
    expect({3, 24, 147}, DType::kBf16);
    expect({5, 257, 4}, DType::kF32);
  });
  expect({9, 128, 8}, DType::kF16);
  expect({2, 1, 9000}, DType::kF32);
  expect({1, 3, 5000}, DType::kF16);
}

// Sets that 8, 16 and 32 lanes hold, by a window each and by several, and one more; blocks of which
// some lanes have no set; groups that leave lanes of a block without a channel.
TEST(BatchNormLanes, SetsOfEverySize) {
  for (const int64_t spatial :
       {1, 3, 32, 33, 61, 64, 65, 125, 128, 129, 253, 256, 257, 509, 1021}) {
    const int64_t channels = spatial % 2 == 0 ? 18 : 7;
    expect_right("group_norm_forward", "lanes_per_set", {3, channels, spatial}, channels);
    expect_right("group_norm_backward", "backward_lanes_per_channel", {3, channels, spatial},
                 channels, DType::kBf16);
    expect_right("batch_norm_training", "lanes_per_set", {2, channels, spatial / 2 + 2}, 0,
                 DType::kF16);
  }
  test::in_every_order([&] {
    expect_right("group_norm_backward", "backward_lanes_per_channel", {5, 35, 49}, 7);
    expect_right("group_norm_backward", "backward_lanes_per_channel", {3, 33, 9}, 3, DType::kF16);
    expect_right("group_norm_backward", "backward_lanes_per_channel", {2, 24, 260}, 3);
    expect_right("group_norm_forward", "lanes_per_set", {5, 35, 49}, 7, DType::kBf16);
  });
}

// As the emulator's four multiprocessors hold them: 56320 vectors, 28160 of each of two inputs.
TEST(BatchNormGrid, TurnsAndWhatIsReadAgain) {
  WS_REQUIRE_ARCH(Arch::kSm90);
  // Two sets at a time, in three turns; shares begin and end within a run.
  test::in_every_order([&] {
    expect_right("batch_norm_training", "grid_on_chip", {2, 6, 40000});
    expect_right("batch_norm_backward", "backward_grid_on_chip", {2, 5, 20000});
    expect_right("group_norm_backward", "backward_groups_grid", {5, 4, 10000}, 1);
  });
  // One set at a time.
  expect_right("batch_norm_forward", "grid_on_chip", {2, 3, 200000}, 0, DType::kF16);
  expect_right("batch_norm_backward", "backward_grid_on_chip", {3, 2, 30000});
  expect_right("group_norm_backward", "backward_groups_grid", {2, 4, 20000}, 1);
  // More than that.
  test::in_every_order([&] {
    expect_right("batch_norm_training", "grid_on_chip", {2, 2, 120000});
    expect_right("batch_norm_backward", "backward_grid_on_chip", {2, 2, 60000});
  });
  expect_right("group_norm_forward", "grid_on_chip", {2, 4, 60000}, 1);
}

// ---- Which rung ---------------------------------------------------------------------------------

TEST(BatchNorm, RungsThatCallsGet) {
  const auto chosen = [](const Operation& operation, std::array<int64_t, kMaxExtents> extents,
                         int64_t groups = 0) {
    return std::string(best(AnyCall(problem_of(operation, extents, DType::kF16, groups)), 90).name);
  };
  EXPECT_EQ(chosen(training(), {32, 256, 3136}), "shares_on_chip");
  EXPECT_EQ(chosen(training(), {32, 64, 12544}), "shares_on_chip");
  EXPECT_EQ(chosen(training(), {32, 512, 784}), "shares_on_chip");
  EXPECT_EQ(chosen(training(), {128, 2048, 49}), "bands_on_chip");
  EXPECT_EQ(chosen(training(), {32, 64, 3025}), "channel_queue");
  EXPECT_EQ(chosen(training(), {1024, 512, 3025}), "vector");
  EXPECT_EQ(chosen(training(), {256, 512, 12544}), "grid_on_chip");
  EXPECT_EQ(chosen(training(), {32, 3, 3136}), "shares_on_chip");
  EXPECT_EQ(chosen(training(), {256, 64, 12544}), "grid_on_chip");
  EXPECT_EQ(chosen(training(), {2, 3, 3136}), "vector");
  EXPECT_EQ(chosen(training(), {256, 3, 3025}), "two_pass_grid");
  EXPECT_EQ(chosen(training(), {32, 256, 3136, kSideBySide}), "channels_last_kept");
  EXPECT_EQ(chosen(training(), {8, 65536, 49, kSideBySide}), "channels_last");
  EXPECT_EQ(chosen(training(), {2, 64, 9, kSideBySide}), "channels_last_on_chip");
  EXPECT_EQ(chosen(training(), {32, 3, 3136, kSideBySide}), "any_layout");
  EXPECT_EQ(chosen(training(), {8, 64, 49, kGaps}), "any_layout");
  const Operation& inference = operation_named("batch_norm_inference");
  EXPECT_EQ(chosen(inference, {32, 256, 49}), "one_line");
  EXPECT_EQ(chosen(inference, {32, 256, 4}), "two_pass_grid");  // runs of less than a vector
  EXPECT_EQ(chosen(inference, {33, 3, 49}), "two_pass_grid");   // a part of a vector at the end
  EXPECT_EQ(chosen(inference, {65536, 64, 1024}), "two_pass_grid");
  EXPECT_EQ(chosen(inference, {32, 256, 49, kSideBySide}), "channels_last");
  EXPECT_EQ(chosen(backward(), {32, 256, 3136}), "backward_shares_on_chip");
  EXPECT_EQ(chosen(backward(), {32, 3, 3136}), "backward_shares_on_chip");
  EXPECT_EQ(chosen(backward(), {64, 256, 12544}), "backward_grid_on_chip");
  EXPECT_EQ(chosen(backward(), {256, 3, 50176}), "backward_grid_on_chip");
  EXPECT_EQ(chosen(backward(), {512, 3, 50176}), "backward_two_pass");
  EXPECT_EQ(chosen(backward(), {128, 2048, 49}), "backward_bands_on_chip");
  EXPECT_EQ(chosen(backward(), {32, 256, 3136, kSideBySide}), "backward_channels_last_kept");
  EXPECT_EQ(chosen(backward(), {8, 65536, 49, kSideBySide}), "backward_channels_last");
  EXPECT_EQ(chosen(group(), {8, 64, 300}, 8), "vector");
  EXPECT_EQ(chosen(group(), {256, 256, 196}, 256), "lanes_per_set");
  EXPECT_EQ(chosen(group(), {8, 64, 100}, 8), "lanes_per_set");
  EXPECT_EQ(chosen(group(), {32, 256, 3136}, 32), "shares_on_chip");
  EXPECT_EQ(chosen(group(), {32, 64, 12544}, 64), "shares_on_chip");
  EXPECT_EQ(chosen(group(), {2, 64, 50176}, 4), "shares_on_chip");
  EXPECT_EQ(chosen(group(), {2, 64, 262144}, 32), "shares_on_chip");
  EXPECT_EQ(chosen(group(), {2, 64, 262144}, 16), "grid_on_chip");
  EXPECT_EQ(chosen(group(), {32, 256, 3136, kSideBySide}, 32), "groups_channels_last_on_chip");
  EXPECT_EQ(chosen(group(), {8, 320, 4096, kSideBySide}, 32), "groups_channels_last_on_chip");
  EXPECT_EQ(chosen(group(), {32, 64, 12544, kSideBySide}, 64), "groups_channels_last_on_chip");
  EXPECT_EQ(chosen(group(), {1, 128, 262144, kSideBySide}, 32), "groups_channels_last");
  EXPECT_EQ(chosen(group(), {8, 3, 3136, kSideBySide}, 3), "any_layout");
  EXPECT_EQ(chosen(group(), {2, 1024, 49, kSideBySide}, 1), "groups_channels_last_on_chip");
  EXPECT_EQ(chosen(group(), {2, 2048, 49, kSideBySide}, 1), "groups_channels_last");  // 4 KiB a row
  EXPECT_EQ(chosen(group(), {2, 2560, 49, kSideBySide}, 1), "any_layout");            // 5 KiB a row
  EXPECT_EQ(chosen(group_backward(), {32, 256, 3136, kSideBySide}, 32),
            "backward_groups_channels_last_on_chip");
  EXPECT_EQ(chosen(group_backward(), {1, 128, 262144, kSideBySide}, 32),
            "backward_groups_channels_last");
  EXPECT_EQ(chosen(group_backward(), {8, 64, 300}, 8), "backward_groups");
  EXPECT_EQ(chosen(group_backward(), {8, 64, 100}, 8), "backward_lanes_per_channel");
  EXPECT_EQ(chosen(group_backward(), {8, 512, 8}, 8), "backward_groups_on_chip");  // 64 channels
  EXPECT_EQ(chosen(group_backward(), {32, 512, 784}, 32), "backward_groups_on_chip");
  EXPECT_EQ(chosen(group_backward(), {1, 64, 1 << 20}, 8), "backward_groups");
}

// 2^31 elements and more: nothing is run, but addresses are those of 64 bits.
TEST(BatchNorm, LargeTensorsAreTaken) {
  for (const auto& extents : {std::array<int64_t, kMaxExtents>{65536, 64, 1024},
                              std::array<int64_t, kMaxExtents>{65536, 64, 1024, kSideBySide}}) {
    const AnyCall call(problem_of(training(), extents, DType::kF16));
    EXPECT_NE(best(call, 90).name, "any_layout");
    EXPECT_LT(workspace_of(best(call, 90), call).bytes, size_t{1} << 26);
  }
}

}  // namespace
}  // namespace ws::batch_norm
