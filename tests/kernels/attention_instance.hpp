// A call of attention with memory, for tests that run single rungs on it.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "catalogue/catalogue.hpp"
#include "tests/run.hpp"
#include "warpsmith/device_error.hpp"
#include "warpsmith/runtime.hpp"

namespace ws::attention {

// Inputs random, outputs NaN, and NaN around those.
class Instance {
 public:
  explicit Instance(const Problem& problem) : problem_(AnyCall(problem).problem()) {
    const auto& parameters = problem_.operation->parameters;
    for (size_t i = 0; i < parameters.size(); ++i) {
      Tensor& tensor = problem_.tensors[i];
      if (!tensor.exists()) continue;
      int64_t last = 0;
      for (int d = 0; d < tensor.rank; ++d) last += (tensor.extent(d) - 1) * tensor.stride(d);
      const size_t bytes = static_cast<size_t>(last + 1) * size_of(tensor.dtype) + 2 * kAround;
      buffers_.push_back(std::make_unique<test::Buffer<uint8_t>>(bytes));
      tensor.data = buffers_.back()->data() + kAround;
      if (parameters[i].is_written()) {
        outputs_.push_back({static_cast<int>(i), buffers_.back().get()});
      } else {
        problem_.operation->fill(problem_, static_cast<int>(i), 5);
      }
    }
  }

  Problem& problem() { return problem_; }
  Tensor& operator[](std::string_view name) { return problem_[name]; }
  AnyCall call() const { return AnyCall(problem_); }

  // Calls f(rung) for each rung that takes the call, and says how many there were.
  template <class F>
  int for_each_rung(F&& f) {
    int takers = 0;
    for (const Rung* rung : family_of(*problem_.operation).rungs) {
      if (!takes(*rung, call(), runtime::capability())) continue;
      SCOPED_TRACE(concatenate(problem_.operation->name, "/", rung->name));
      ++takers;
      f(*rung);
    }
    return takers;
  }

  const Rung& rung(std::string_view name) const {
    return *rung_named(family_of(*problem_.operation), name);
  }

  void run(const Rung& rung) {
    for (auto& [index, buffer] : outputs_) std::ranges::fill(*buffer, uint8_t{0xFF});  // NaN
    const Workspace workspace = workspace_of(rung, call());
    test::Buffer<uint8_t> scratch(workspace.bytes + 256);
    const auto at = reinterpret_cast<uintptr_t>(scratch.data());
    uint8_t* const memory = scratch.data() + (256 - at % 256) % 256;
    ws::run(rung, call(), {.workspace = memory});
    runtime::synchronize_device();
    expect_margins();
    EXPECT_TRUE(std::all_of(memory, memory + workspace.zeroed, [](uint8_t b) { return b == 0; }))
        << "what began as zeros is the next call's";
  }
  // Also where a call says no more than that something was wrong.
  std::string told(const Rung& rung) {
    try {
      run(rung);
      return take_device_error().value_or("nothing told");
    } catch (const std::exception& error) {  // in the emulator by the call itself
      expect_margins();
      take_device_error();
      return error.what();
    }
  }

  void run_best() { run(best(call(), runtime::capability())); }

  void expect_right(const Rung& rung) {
    run(rung);
    for (const auto& [index, buffer] : outputs_) {
      const std::vector<double> expected = this->expected(index);
      for (size_t i = 0; i < expected.size(); ++i) expect_near(rung, index, i, expected[i]);
    }
  }
  void expect_right() {
    EXPECT_GE(for_each_rung([&](const Rung& rung) { expect_right(rung); }), 1);
  }

  std::vector<double> expected(int index) const {
    const Parameter& output = problem_.operation->parameters[static_cast<size_t>(index)];
    std::vector<double> values(static_cast<size_t>(problem_.tensor(index).elements()));
    std::array<double*, kMaxTensors> targets{};
    targets[static_cast<size_t>(index)] = values.data();
    problem_.operation->reference(problem_, {0, problem_.operation->items(problem_, output)},
                                  targets);
    return values;
  }
  void expect_near(const Rung& rung, int index, size_t i, double want) const {
    const Tolerance allowed =
        tolerance_of(rung, problem_, problem_.operation->parameters[static_cast<size_t>(index)]);
    const double got = element(problem_.tensor(index), static_cast<int64_t>(i));
    if (std::isinf(want)) {
      EXPECT_EQ(got, want) << "element " << i;
    } else {
      EXPECT_LE(std::abs(got - want), allowed.worst * (std::abs(want) + allowed.floor))
          << "element " << i;
    }
  }

 private:
  static constexpr size_t kAround = 256;

  void expect_margins() const {
    for (const auto& [index, buffer] : outputs_) {
      for (size_t i = 0; i < kAround; ++i) {
        ASSERT_EQ((*buffer)[i], 0xFF) << i;
        ASSERT_EQ((*buffer)[buffer->size() - 1 - i], 0xFF) << i;
      }
    }
  }

  struct Output {
    int index;
    test::Buffer<uint8_t>* buffer;
  };
  Problem problem_;
  std::vector<std::unique_ptr<test::Buffer<uint8_t>>> buffers_;
  std::vector<Output> outputs_;
};

}  // namespace ws::attention
