// Problems of gemm and bmm with memory, for the tests of their kernels.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <random>

#include "catalogue/catalogue.hpp"
#include "kernels/gemm/operations.hpp"
#include "tests/run.hpp"
#include "warpsmith/runtime.hpp"

namespace ws::gemm {

inline const Operation& operation() { return operation_named("gemm"); }
inline const Operation& batched() { return operation_named("bmm"); }
inline const Rung& rung(std::string_view name) { return *resolve(concatenate("gemm/", name)).rung; }

// A case with memory: inputs random, the output NaN, and NaN between the rows.
template <class T>
class Instance {
 public:
  explicit Instance(const Case& chosen, const Operation& of = operation())
      : problem_(make_problem(of, chosen, kDType<T>)) {
    std::mt19937 engine(5);
    std::normal_distribution<float> normal;
    problem_ = AnyCall(problem_).problem();  // with the output's layout
    for (int i = 0; i < 3; ++i) {
      Tensor& tensor = problem_.tensor(i);
      int64_t size = 1;
      for (int d = 0; d < tensor.rank; ++d) size += tensor.extent(d) * tensor.stride(d);
      buffers_.push_back(std::make_unique<test::Buffer<T>>(static_cast<size_t>(size)));
      std::ranges::fill(*buffers_.back(), T(NAN));
      tensor.data = buffers_.back()->data();
      for (int64_t at = 0; i < 2 && at < tensor.elements(); ++at) {
        tensor.as<T>()[offset_of(tensor, at)] = T(normal(engine));
      }
    }
  }

  Problem& problem() { return problem_; }
  AnyCall call() const { return AnyCall(problem_); }

  // As near to the reference as a rung may be that adds up in `accumulate`.
  void expect_right(DType accumulate = DType::kF32) {
    const Tensor& c = problem_.tensor(2);
    std::vector<double> expected(static_cast<size_t>(c.elements()));
    std::array<double*, kMaxTensors> targets{};
    targets[2] = expected.data();
    const Parameter& output = Gemm::kParameters[2];
    const Operation& of = *problem_.operation;
    of.reference(problem_, {0, of.items(problem_, output)}, targets);
    const Tolerance allowed = accumulate == DType::kF32
                                  ? of.tolerance(problem_, output)
                                  : of.tolerance_in(problem_, output, accumulate);
    for (int64_t i = 0; i < c.elements(); ++i) {
      const double at = expected[static_cast<size_t>(i)];
      ASSERT_LE(std::abs(element(c, i) - at), allowed.worst * (std::abs(at) + allowed.floor))
          << "element " << i << " of " << problem_.describe();
    }
  }

 private:
  Problem problem_;
  std::vector<std::unique_ptr<test::Buffer<T>>> buffers_;
};

inline void run_and_wait(const Rung& rung, const AnyCall& call) {
  ws::run(rung, call, {});
  runtime::synchronize_device();
}

}  // namespace ws::gemm
