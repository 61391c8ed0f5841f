// What `verify` cannot ask of cross-entropy: calls that are refused, and why; targets that are no
// classes, which the device finds; +infinity; gradients in the memory of the logits; which rung a
// call gets.
#include <gmock/gmock.h>

#include <cmath>
#include <functional>

#include "kernels/cross_entropy/operations.hpp"
#include "tests/kernels/refused.hpp"
#include "tests/run.hpp"
#include "warpsmith/device_error.hpp"
#include "warpsmith/runtime.hpp"

namespace ws::cross_entropy {
namespace {

using test::set;
using test::told;
using testing::HasSubstr;

const Operation& forward() { return operation_named("cross_entropy_forward"); }
const Operation& backward() { return operation_named("cross_entropy_backward"); }
const Operation& fused() { return operation_named("cross_entropy_fused"); }

Problem problem_of(const Operation& operation, std::array<int64_t, kMaxExtents> extents,
                   DType dtype = DType::kF32) {
  return make_problem(operation, {.extents = extents}, dtype);
}

// ---- Calls that are refused ---------------------------------------------------------------------

TEST(CrossEntropy, CallsThatAreRefused) {
  using P = Problem;
  struct Refused {
    const char* words;
    std::function<void(Problem&)> change;
  };
  const Problem right = problem_of(fused(), {4, 8, 0, 0, kWeightTensor | kDlossTensor});
  EXPECT_EQ(told(right, [](Problem&) {}), "accepted");
  const Refused all[] = {
      {"'logits' is f32 [], not of f32, f16 or bf16 with at least one dimension",
       [](P& p) { p["logits"].rank = 0; }},
      {"of f32, f16 or bf16", [](P& p) { p["logits"].dtype = DType::kI32; }},
      {"not i64 or i32 with one element a row", [](P& p) { p["target"].dtype = DType::kF32; }},
      {"not i64 or i32 with one element a row", [](P& p) { p["target"].shape[0] = 3; }},
      {"not f32 with one element a row", [](P& p) { p["dloss"].dtype = DType::kF16; }},
      {"not f32 with one element a class", [](P& p) { p["weight"].shape[0] = 4; }},
      {"not f32 with one element a class", [](P& p) { p["weight"].dtype = DType::kBf16; }},
      {"label_smoothing is from 0 to 1, not 1.5", [](P& p) { set(p, "label_smoothing", 1.5); }},
      {"label_smoothing is from 0 to 1", [](P& p) { set(p, "label_smoothing", double{NAN}); }},
      {"takes a finite z_loss", [](P& p) { set(p, "z_loss", double{INFINITY}); }},
  };
  for (const Refused& refused : all) {
    const std::string words = told(right, refused.change);
    EXPECT_THAT(words, HasSubstr(refused.words));
    EXPECT_THAT(words, HasSubstr("cross_entropy_fused: "));
  }
}

// Weights are read all the time: a gradient of one row may not be their memory.
TEST(CrossEntropyBackward, OfOneRowIsNotWrittenOverTheWeights) {
  test::Buffer<float> memory(64);
  Problem problem = problem_of(backward(), {1, 8, 0, 0, kWeightTensor});
  problem["logits"] = Tensor::dense(DType::kF32, {8});
  problem["target"] = Tensor::dense(DType::kI64, {});
  problem["lse"] = problem["dloss"] = Tensor::dense(DType::kF32, {});
  problem["dlogits"] = Tensor::dense(DType::kF32, {8});
  problem["logits"].data = memory.data();
  problem["weight"].data = memory.data() + 8;
  problem["target"].data = memory.data() + 16;
  problem["lse"].data = memory.data() + 20;
  problem["dloss"].data = memory.data() + 24;
  const auto with = [&](float* dlogits) {
    return told(problem, [&](Problem& p) { p["dlogits"].data = dlogits; });
  };
  EXPECT_EQ(with(memory.data() + 32), "accepted");
  EXPECT_EQ(with(memory.data()), "accepted");
  EXPECT_THAT(with(memory.data() + 8), HasSubstr("may not be the memory of 'weight'"));
  EXPECT_THAT(with(memory.data() + 4), HasSubstr("shares memory with"));
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
    refill();
  }

  Problem& problem() { return problem_; }
  Tensor& operator[](std::string_view name) { return problem_[name]; }

  // Inputs as verify has them, outputs NaN.
  void refill() {
    const auto& parameters = problem_.operation->parameters;
    size_t buffer = 0;
    for (size_t i = 0; i < parameters.size(); ++i) {
      if (!problem_.tensors[i].exists()) continue;
      std::ranges::fill(*buffers_[buffer++], uint8_t{0xFF});
      if (parameters[i].is_read()) problem_.operation->fill(problem_, static_cast<int>(i), 5);
    }
  }
  std::string run(const Rung& rung) {
    const AnyCall call(problem_);
    const Workspace workspace = workspace_of(rung, call);
    test::Buffer<uint8_t> scratch(workspace.bytes + 256);
    const auto at = reinterpret_cast<uintptr_t>(scratch.data());
    try {
      ws::run(rung, call, {.workspace = scratch.data() + (256 - at % 256) % 256});
      runtime::synchronize_device();
      return take_device_error().value_or("nothing told");
    } catch (const InvalidArgument& error) {  // in the emulator by the call itself
      return error.what();
    }
  }
  template <class F>
  int for_each_rung(F&& f) {
    int takers = 0;
    for (const Rung* rung : family_of(*problem_.operation).rungs) {
      if (!takes(*rung, AnyCall(problem_), runtime::capability())) continue;
      SCOPED_TRACE(concatenate(problem_.operation->name, "/", rung->name));
      ++takers;
      f(*rung);
    }
    return takers;
  }

 private:
  Problem problem_;
  std::vector<std::unique_ptr<test::Buffer<uint8_t>>> buffers_;
};

// Each row of 4096 is several stages or blocks to nobody, and taken by all.
constexpr int64_t kColumns = 4096;

TEST(CrossEntropy, AWrongTargetIsToldAndItsRowIsNotWritten) {
  for (const Operation* operation : {&forward(), &backward(), &fused()}) {
    for (const int64_t wrong : {kColumns, int64_t{-1}, int64_t{1} << 40}) {
      Instance instance(problem_of(*operation, {4, kColumns}, DType::kF32));
      const int takers = instance.for_each_rung([&](const Rung& rung) {
        instance.refill();
        int64_t* target = instance["target"].as<int64_t>();
        target[0] = 5, target[1] = wrong, target[2] = -100, target[3] = kColumns - 1;
        const float before = instance["logits"].as<float>()[kColumns + 7];
        EXPECT_THAT(instance.run(rung),
                    HasSubstr(concatenate("index ", wrong,
                                          " at position 1 of 'target' is outside [0, 4096)")));
        for (const char* name : {"loss", "lse"}) {
          if (operation == &backward()) continue;
          const float* numbers = instance[name].as<float>();
          EXPECT_GT(numbers[0], 0) << name;
          EXPECT_TRUE(std::isnan(numbers[1])) << name;
          EXPECT_EQ(numbers[2], 0) << name;
          EXPECT_GT(numbers[3], 0) << name;
        }
        if (operation == &forward()) return;
        const float* gradient = instance[operation == &fused() ? "logits" : "dlogits"].as<float>();
        const float kept = gradient[kColumns + 7];
        EXPECT_TRUE(operation == &fused() ? kept == before : std::isnan(kept));
        EXPECT_EQ(gradient[2 * kColumns + 7], 0);
        EXPECT_FALSE(std::isnan(gradient[4 * kColumns - 1]));
      });
      EXPECT_GE(takers, 3);
    }
  }
}

// As torch's log_softmax, whose sum of exponentials is NaN then.
TEST(CrossEntropy, InfinityMakesItsRowNaN) {
  for (const Operation* operation : {&forward(), &fused()}) {
    Instance instance(problem_of(*operation, {3, kColumns}, DType::kBf16));
    instance.for_each_rung([&](const Rung& rung) {
      instance.refill();
      for (const int64_t at : {int64_t{0}, int64_t{999}, kColumns - 1}) {
        instance["logits"].as<bf16>()[at] = bf16(INFINITY);
      }
      int64_t* target = instance["target"].as<int64_t>();
      target[0] = target[1] = target[2] = 17;
      EXPECT_EQ(instance.run(rung), "nothing told");
      EXPECT_TRUE(std::isnan(instance["loss"].as<float>()[0]));
      EXPECT_TRUE(std::isnan(instance["lse"].as<float>()[0]));
      EXPECT_FALSE(std::isnan(instance["loss"].as<float>()[1]));
    });
  }
}

// A gradient in the memory of the logits is the same bits as one beside them.
TEST(CrossEntropyBackward, InPlace) {
  for (const int64_t columns : {int64_t{33}, int64_t{1000}, kColumns}) {
    Instance instance(problem_of(backward(), {5, columns}, DType::kF16));
    const auto count = static_cast<size_t>(5 * columns) * sizeof(half);
    instance.for_each_rung([&](const Rung& rung) {
      instance.refill();
      EXPECT_EQ(instance.run(rung), "nothing told");
      const Tensor beside = instance["dlogits"];
      const Tensor logits = instance["logits"];
      instance["dlogits"] = logits;
      EXPECT_EQ(instance.run(rung), "nothing told");
      instance["dlogits"] = beside;
      EXPECT_EQ(std::memcmp(beside.data, logits.data, count), 0) << rung.name;
    });
  }
}

// Gradients that are one number in all rows, as a sum's: a stride of 0.
TEST(CrossEntropyFused, OneGradientOfAllLosses) {
  Instance instance(problem_of(fused(), {4, 96, 0, 0, kDlossTensor}));
  float* dloss = instance["dloss"].as<float>();
  instance["dloss"].strides[0] = 0;
  instance.for_each_rung([&](const Rung& rung) {
    std::vector<float> gradients[2];
    for (const int which : {0, 1}) {
      instance.refill();
      dloss[0] = which == 0 ? 1.0F : 0.5F;
      set(instance.problem(), "scale", which == 0 ? 0.5 : 1.0);
      EXPECT_EQ(instance.run(rung), "nothing told");
      const float* begin = instance["logits"].as<float>();
      gradients[which].assign(begin, begin + 96);
    }
    EXPECT_EQ(gradients[0], gradients[1]) << rung.name;
  });
}

TEST(CrossEntropy, WhichRungACallGets) {
  const auto best_of = [](const Operation& operation, std::array<int64_t, kMaxExtents> extents,
                          DType dtype = DType::kBf16, double smoothing = 0) {
    Problem problem = problem_of(operation, extents, dtype);
    set(problem, "label_smoothing", smoothing);
    return best(AnyCall(problem), 90).name;
  };
  EXPECT_EQ(best_of(forward(), {1000, 10}), "row_in_registers");
  EXPECT_EQ(best_of(forward(), {4096, 128256}), "stream");
  EXPECT_EQ(best_of(forward(), {8, 128256}), "vector");
  EXPECT_EQ(best_of(forward(), {4096, 50257}), "vector");
  EXPECT_EQ(best_of(forward(), {8, 128256, 0, 2}), "any_layout");
  EXPECT_EQ(best_of(forward(), {8, 64, 0, 0, kWeightTensor}, DType::kF32, 0.1), "any_layout");
  EXPECT_EQ(best_of(backward(), {8, 100}), "backward_in_registers");
  EXPECT_EQ(best_of(backward(), {8, 50257}), "backward_vector");
  EXPECT_EQ(best_of(fused(), {8, 4096}), "fused_in_registers");
  EXPECT_EQ(best_of(fused(), {8, 128256}), "fused_queue");
  EXPECT_EQ(best_of(fused(), {8, 262144}, DType::kF32), "fused_cluster");
  EXPECT_EQ(best_of(fused(), {8, 50257}), "fused_queue");
  EXPECT_EQ(best_of(fused(), {8, 300001}), "fused_two_pass");
}

}  // namespace
}  // namespace ws::cross_entropy
