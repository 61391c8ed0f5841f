// What the operations take, and the loops that a call becomes.
#include "kernels/histogram/operations.hpp"

#include <algorithm>
#include <cmath>

namespace ws::histogram {
namespace {

void require_input(const Problem& problem) {
  const Tensor& x = problem.tensor(0);
  require(problem.operation->dtypes.has(x.dtype), problem.operation->name, " takes ",
          to_string(problem.operation->dtypes), ", not ", x);
}

void require_weights(const Problem& problem, const Tensor& weights) {
  const Tensor& x = problem.tensor(0);
  require(weights.dtype == DType::kF32 && weights.same_shape(x), problem.operation->name,
          ": 'x' is ", x, ", 'weights' is ", weights, ": f32 of one shape with x is wanted");
}

int64_t require_edges(const Problem& problem) {  // how many bins they have
  const Tensor& edges = problem.tensor(1);
  require(edges.dtype == DType::kF32 && edges.rank == 1 && edges.extent(0) >= 2 &&
              edges.extent(0) <= kMostBins,
          problem.operation->name, ": 'edges' is ", edges,
          ": f32, of rank 1, two or more are wanted");
  return edges.extent(0) - 1;
}

int64_t bins_of(const Problem& problem) {
  const int64_t bins = problem.integer("bins");
  require(bins >= 1 && bins <= kMostBins, problem.operation->name, ": bins is ", bins,
          ": from 1 to ", kMostBins);
  return bins;
}

// The order of elements is nobody's business: they are walked as they lie.
Counted counted(const Problem& problem, const Tensor* weights, const Tensor& output) {
  const Tensor& x = problem.tensor(0);
  Counted call;
  call.x = x.data;
  call.dtype = x.dtype;
  call.output = output.data;
  call.output_dtype = output.dtype;
  call.bins = output.extent(0);
  call.output_stride = output.stride(0);
  call.count = x.elements();
  if (weights != nullptr) call.weights = weights->as<const float>();
  std::array<reduce::Loop, kMaxRank> loops;
  size_t count = 0;
  for (int d = 0; d < x.rank && call.count > 0; ++d) {
    if (x.extent(d) == 1) continue;
    loops[count++] = {x.extent(d), {x.stride(d), weights != nullptr ? weights->stride(d) : 0}};
  }
  std::ranges::stable_sort(loops.begin(), loops.begin() + count, std::greater{},
                           [](const reduce::Loop& loop) { return std::abs(loop.strides[0]); });
  for (size_t i = 0; i < count; ++i) {
    if (call.loops > 0) {
      reduce::Loop& outer = call.loop[call.loops - size_t{1}];
      if (outer.strides[0] == loops[i].strides[0] * loops[i].extent &&
          outer.strides[1] == loops[i].strides[1] * loops[i].extent) {
        outer = {outer.extent * loops[i].extent, loops[i].strides};
        continue;
      }
    }
    call.loop[call.loops++] = loops[i];
  }
  return call;
}

}  // namespace

void CountBins::infer(Problem& problem) {
  require_input(problem);
  problem.tensor(1) = Tensor::dense(DType::kI64, {bins_of(problem)});
}
CountBins::Call CountBins::call(const Problem& problem) {
  return {counted(problem, nullptr, problem.tensor(1))};
}

void SumBins::infer(Problem& problem) {
  require_input(problem);
  const Tensor& weights = problem.tensor(1);
  require_weights(problem, weights);
  problem.tensor(2) = Tensor::dense(DType::kF32, {bins_of(problem)});
}
SumBins::Call SumBins::call(const Problem& problem) {
  return {counted(problem, &problem.tensor(1), problem.tensor(2))};
}

void Histc::infer(Problem& problem) {
  require_input(problem);
  const auto min = static_cast<float>(problem.number("min"));
  const auto max = static_cast<float>(problem.number("max"));
  const int64_t bins = bins_of(problem);
  require(std::isfinite(min) && std::isfinite(max) && min < max, "histc: min is ", min, ", max is ",
          max, ": finite, and min below max");
  require(std::isfinite((max - min) * static_cast<float>(bins)), "histc: (max - min) * bins of ",
          min, ", ", max, " and ", bins, " overflows f32");
  problem.tensor(1) = Tensor::dense(DType::kF32, {bins});
}
Histc::Call Histc::call(const Problem& problem) {
  return {counted(problem, nullptr, problem.tensor(1)), static_cast<float>(problem.number("min")),
          static_cast<float>(problem.number("max"))};
}

void CountBetween::infer(Problem& problem) {
  require_input(problem);
  problem.tensor(2) = Tensor::dense(DType::kI64, {require_edges(problem)});
}
CountBetween::Call CountBetween::call(const Problem& problem) {
  const Tensor& edges = problem.tensor(1);
  return {counted(problem, nullptr, problem.tensor(2)), edges.as<const float>(), edges.stride(0)};
}

void SumBetween::infer(Problem& problem) {
  require_input(problem);
  require_weights(problem, problem.tensor(2));
  problem.tensor(3) = Tensor::dense(DType::kF32, {require_edges(problem)});
}
SumBetween::Call SumBetween::call(const Problem& problem) {
  const Tensor& edges = problem.tensor(1);
  return {{counted(problem, &problem.tensor(2), problem.tensor(3)), edges.as<const float>(),
           edges.stride(0)}};
}

}  // namespace ws::histogram
