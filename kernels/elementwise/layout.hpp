// What a kernel must know of the tensors of a call: one loop nest for all of them, with as few
// loops as the strides allow.
#pragma once

#include <algorithm>
#include <cstdlib>
#include <ostream>

#include "catalogue/problem.hpp"

namespace ws::elementwise {

inline constexpr int kMaxOperands = 5;  // inputs, then outputs

struct Layout {
  int operands = 0;
  int rank = 0;  // loops, outermost first; those of one iteration are gone
  int64_t elements = 1;
  std::array<int64_t, kMaxRank> extents{};
  std::array<std::array<int64_t, kMaxRank>, kMaxOperands> strides{};  // in elements, by operand

  // Whether all operands are dense and in the same order: then one index serves them all.
  bool is_flat() const {
    if (rank > 1) return false;
    for (int k = 0; k < operands && rank == 1; ++k) {
      if (strides[static_cast<size_t>(k)][0] != 1) return false;
    }
    return true;
  }

  // "5 x 17 elements, strides 17, 1 and 1, 5"
  friend std::ostream& operator<<(std::ostream& out, const Layout& layout) {
    const auto list = [&](const std::array<int64_t, kMaxRank>& values, const char* between) {
      for (int i = 0; i < layout.rank; ++i) {
        out << (i > 0 ? between : "") << values[static_cast<size_t>(i)];
      }
    };
    list(layout.extents, " x ");
    out << " elements, strides ";
    for (int k = 0; k < layout.operands; ++k) {
      out << (k > 0 ? " and " : "");
      list(layout.strides[static_cast<size_t>(k)], ", ");
    }
    return out;
  }
};

// The loop nest of a checked problem, whose first tensors are the operands. Loops are ordered by
// the output's strides, the inner loop walks it in memory order, and neighbours are merged where
// every operand permits.
inline Layout layout_of(const Problem& problem, int operands) {
  const Tensor& output = problem.tensor(operands - 1);
  Layout layout;
  layout.operands = operands;
  layout.elements = output.elements();

  const auto is_plain = [&](const Tensor& t) { return t.same_shape(output) && t.contiguous(); };
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
    views[static_cast<size_t>(k)] = broadcast(problem.tensor(k), output);
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
