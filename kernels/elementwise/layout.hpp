// What a kernel must know of the tensors of a call: one loop nest for all of them, with as few
// loops as the strides allow.
#pragma once

#include <algorithm>
#include <cstdlib>

#include "catalogue/problem.hpp"

namespace ws::elementwise {

inline constexpr int kMaxOperands = 3;  // inputs, then the output

struct Layout {
  int rank = 0;  // loops, outermost first; those of one iteration are gone
  int64_t elements = 1;
  std::array<int64_t, kMaxRank> extents{};
  std::array<std::array<int64_t, kMaxRank>, kMaxOperands> strides{};  // in elements, by operand

  // Whether all operands are dense and in the same order: then one index serves them all.
  bool is_flat(int operands) const {
    if (rank > 1) return false;
    for (int k = 0; k < operands && rank == 1; ++k) {
      if (strides[static_cast<size_t>(k)][0] != 1) return false;
    }
    return true;
  }
};

// `input` seen in the shape of `output`: dimensions that it lacks, or has once, get stride 0.
inline Tensor expand(const Tensor& input, const Tensor& output) {
  Tensor view = output;
  view.data = input.data;
  view.dtype = input.dtype;
  const int missing = output.rank - input.rank;
  for (int d = 0; d < output.rank; ++d) {
    const auto to = static_cast<size_t>(d);
    const auto from = static_cast<size_t>(d - missing);
    const bool repeats = d < missing || (input.shape[from] == 1 && output.shape[to] != 1);
    view.strides[to] = repeats ? 0 : input.strides[from];
  }
  return view;
}

// The loop nest of a checked problem. Loops are ordered by the output's strides, the inner loop
// walks it in memory order, and neighbours are merged where every operand permits.
inline Layout layout_of(const Problem& problem) {
  const int operands = problem.tensor_count;
  const Tensor& output = problem.tensor(operands - 1);
  Layout layout;
  layout.elements = output.elements();

  const auto is_plain = [&](const Tensor& t) {
    return t.rank == output.rank && t.contiguous() &&
           std::equal(t.shape.begin(), t.shape.begin() + t.rank, output.shape.begin());
  };
  bool all_plain = true;
  for (int k = 0; k < operands; ++k) all_plain = all_plain && is_plain(problem.tensor(k));
  if (all_plain || layout.elements == 0) {  // nearly every call
    layout.rank = 1;
    layout.extents[0] = layout.elements;
    for (auto& strides : layout.strides) strides[0] = 1;
    return layout;
  }

  std::array<Tensor, kMaxOperands> views;
  for (int k = 0; k < operands; ++k) {
    views[static_cast<size_t>(k)] = expand(problem.tensor(k), output);
  }
  std::array<size_t, kMaxRank> order{};
  size_t loops = 0;
  for (size_t d = 0; d < static_cast<size_t>(output.rank); ++d) {
    if (output.shape[d] != 1) order[loops++] = d;
  }
  std::stable_sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(loops),
                   [&](size_t a, size_t b) {
                     return std::abs(output.strides[a]) > std::abs(output.strides[b]);
                   });
  for (size_t loop = 0; loop < loops; ++loop) {
    const size_t d = order[loop];
    const auto last = static_cast<size_t>(layout.rank) - 1;
    bool merges = layout.rank > 0;
    for (size_t k = 0; k < static_cast<size_t>(operands) && merges; ++k) {
      merges = layout.strides[k][last] == views[k].strides[d] * output.shape[d];
    }
    const size_t to = merges ? last : static_cast<size_t>(layout.rank++);
    layout.extents[to] = output.shape[d] * (merges ? layout.extents[to] : 1);
    for (size_t k = 0; k < static_cast<size_t>(operands); ++k) {
      layout.strides[k][to] = views[k].strides[d];
    }
  }
  return layout;
}

}  // namespace ws::elementwise
