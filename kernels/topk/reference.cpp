// What the operations are checked against: cases, inputs, a stable sort on the host.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "catalogue/fill.hpp"
#include "kernels/topk/operations.hpp"

namespace ws::topk {
namespace {

// ---- References -------------------------------------------------------------------------------

// Whether a number comes before another; neither does where they are equal, as two NaN are.
bool precedes(double a, double b, bool largest) {
  if (std::isnan(a) || std::isnan(b)) {
    return largest ? std::isnan(a) && !std::isnan(b) : !std::isnan(a) && std::isnan(b);
  }
  return largest ? a > b : a < b;
}

// Whether an item of the outputs is a row: where the dimension is the last. Else all is one.
bool has_row_items(const Problem& problem) {
  const int rank = problem.tensor(kX).rank;
  return rank > 0 && dimension(problem) == rank - 1;
}

void reference_rows(const Problem& problem, const Selection& call, Slice slice,
                    std::span<double* const> expected) {
  const RowLayout<kOperands>& rows = call.rows;
  const int dim = dimension(problem);
  // Outputs as the caller of this has them: row-major.
  const auto dense = row_layout(with_last(problem.tensor(kX), dim),
                                with_last(Tensor::like(problem.tensor(kValues)), dim));
  const bool row_items = has_row_items(problem);
  const int64_t before = row_items ? slice.first : 0;
  const int64_t end = row_items ? slice.last : rows.rows;
  parallel_for(end - before, 1, [&](int64_t first, int64_t last) {
    std::vector<double> row(static_cast<size_t>(rows.columns));
    std::vector<int64_t> places(row.size());
    for (int64_t r = before + first; r < before + last; ++r) {
      with_type<kSelected>(call.dtype, [&]<class T>() {
        const T* x = rows.as<const T>(kX) + rows.offset(kX, r);
        for (size_t i = 0; i < row.size(); ++i) {
          row[i] = static_cast<double>(widened(x[static_cast<int64_t>(i) * rows.inner[kX]]));
        }
      });
      std::iota(places.begin(), places.end(), int64_t{0});
      // A total order: no two places are equal, so that only the first k need to be sorted.
      std::partial_sort(places.begin(), places.begin() + call.k, places.end(),
                        [&](int64_t a, int64_t b) {
                          const double x = row[static_cast<size_t>(a)];
                          const double y = row[static_cast<size_t>(b)];
                          if (precedes(x, y, call.largest)) return true;
                          return !precedes(y, x, call.largest) && a < b;
                        });
      for (int64_t j = 0; j < call.k; ++j) {
        const int64_t place = places[static_cast<size_t>(j)];
        const int64_t at = dense.offset(1, r) + j * dense.inner[1] - before * call.k;
        if (expected[kValues] != nullptr) {
          expected[kValues][at] = row[static_cast<size_t>(place)];
        }
        if (expected[kIndices] != nullptr) expected[kIndices][at] = static_cast<double>(place);
      }
    }
  });
}

// ---- Cases ------------------------------------------------------------------------------------

Case of_topk(std::array<int64_t, kMaxExtents> extents, int k, int dim = -1, bool largest = true,
             int offset = 0, int64_t padding = 0) {
  Case one{.extents = extents, .offset = offset, .padding = padding};
  one.attributes[0] = k;
  one.attributes[1] = dim;
  one.attributes[2] = largest;
  return one;
}
Case of_sort(std::array<int64_t, kMaxExtents> extents, int dim = -1, bool descending = false,
             int offset = 0, int64_t padding = 0) {
  Case one{.extents = extents, .offset = offset, .padding = padding};
  one.attributes[0] = dim;
  one.attributes[1] = descending;
  return one;
}

}  // namespace

void OverRows::make(const Case& chosen, DType dtype, Problem& problem) {
  Tensor x{.dtype = dtype, .rank = chosen.extents[2] > 0 ? 3 : 2};
  std::copy_n(chosen.extents.begin(), x.rank, x.shape.begin());
  int64_t stride = 1;
  for (int d = x.rank - 1; d >= 0; --d) {
    x.strides[static_cast<size_t>(d)] = stride;
    stride *= std::max<int64_t>(x.extent(d), 1);
    if (d == x.rank - 1) stride += chosen.padding;
  }
  problem.tensor(kX) = x;
}

// What must be read and written; what is compared depends on the kernel, and counts as no work.
Cost OverRows::cost(const Problem& problem) { return {.bytes = least_traffic(problem)}; }

Tolerance OverRows::tolerance(const Problem& /*problem*/, const Parameter& /*output*/) {
  return {};
}

int64_t OverRows::items(const Problem& problem, const Parameter& /*output*/) {
  const Tensor& values = problem.tensor(kValues);
  if (values.elements() == 0) return 0;
  return has_row_items(problem) ? values.elements() / values.extent(values.rank - 1) : 1;
}

// Normal numbers; in small calls with many equals and both zeros, and in some with NaN, infinities,
// rows in order or rows of one number; of integers most of a row is the least or the largest.
void OverRows::fill(const Problem& problem, int index, uint64_t seed) {
  const Tensor& x = problem.tensor(index);
  if (x.elements() > 200000) return fill_normal_input(problem, index, seed);
  const double rare = 4.0 / static_cast<double>(x.elements() + 1);
  const int64_t columns = x.rank == 0 ? 1 : std::max<int64_t>(x.extent(x.rank - 1), 1);
  if (!is_float(x.dtype)) {
    using Limits = std::numeric_limits<int32_t>;
    return fill_with(x, [=](int64_t i) {
      const auto at = static_cast<uint64_t>(i);
      if (random_uniform(seed + 1, at) < 0.1) return std::round(random_normal(seed, at) * 16);
      return static_cast<double>(i / columns % 2 == 0 ? Limits::min() : Limits::max());
    });
  }
  fill_with(x, [=](int64_t i) {
    const auto at = static_cast<uint64_t>(i);
    const double value = std::round(random_normal(seed, at) * 16) / 16;
    const int64_t row = i / columns;
    if (row % 5 == 3) return static_cast<double>(i % columns) / 8 - 20;
    if (row % 5 == 4) return i % 2 == 0 ? 0.0 : -0.0;
    if (random_uniform(seed + 1, at) >= rare) return value;
    if (seed % 4 == 0) return std::copysign(static_cast<double>(NAN), value);
    return seed % 4 == 1 ? std::copysign(INFINITY, value) : value;
  });
}

Cases TopK::cases() {
  static const std::vector<Case> kSmoke = {
      of_topk({3, 40}, 5),    of_topk({5, 257}, 8, -1, false), of_topk({2, 3, 70}, 1, 1),
      of_topk({6, 100}, 100), of_topk({1, 1030}, 7),
  };
  static const std::vector<Case> kVerify = {
      of_topk({1, 1}, 1),
      of_topk({7, 1}, 1),
      of_topk({7, 1}, 0),
      of_topk({3, 0}, 0),
      of_topk({0, 4}, 2),
      of_topk({6, 31}, 31),
      of_topk({5, 32}, 2, -1, false),
      of_topk({9, 256}, 8),
      of_topk({37, 64}, 6),
      of_topk({9, 128}, 8, -1, false),
      of_topk({5, 512}, 8),
      of_topk({7, 1024}, 5, -1, false),
      of_topk({5, 255}, 33, -1, true, 1),
      of_topk({6, 1000}, 8, -1, true, 3),
      of_topk({5, 1024}, 32, -1, false),
      of_topk({5, 1025}, 7, -1, true, 0, 5),
      of_topk({6, 1024}, 128),
      of_topk({4, 4096}, 64),
      of_topk({2, 5000}, 128, -1, false, 1),
      of_topk({1, 8192}, 300),
      of_topk({1, 20000}, 64),
      of_topk({4, 5, 6}, 3, 0),
      of_topk({4, 50, 6}, 20, 1, false),
      of_topk({2, 3, 64}, 3, 2),
  };
  static const std::vector<Case> kBench = {
      of_topk({16384, 1024}, 8),   of_topk({65536, 256}, 8),     of_topk({16384, 4096}, 64),
      of_topk({4096, 131072}, 64), of_topk({1024, 131072}, 1),   of_topk({64, 131072}, 64),
      of_topk({8192, 128256}, 50), of_topk({16384, 4096}, 1024),
  };
  return {kSmoke, kVerify, kBench};
}
void TopK::reference(const Problem& problem, Slice slice, std::span<double* const> expected) {
  reference_rows(problem, call(problem), slice, expected);
}

Cases Sort::cases() {
  static const std::vector<Case> kSmoke = {
      of_sort({3, 40}),       of_sort({5, 257}, -1, true),  of_sort({2, 1500}),
      of_sort({2, 30, 4}, 1), of_sort({1, 8300}, -1, true),
  };
  static const std::vector<Case> kVerify = {
      of_sort({1, 1}),
      of_sort({5, 1}),
      of_sort({3, 0}),
      of_sort({6, 31}, -1, true, 1),
      of_sort({5, 256}),
      of_sort({5, 1024}, -1, true),
      of_sort({5, 1025}, -1, false, 0, 3),
      of_sort({1, 5000}, -1, true),
      of_sort({2, 512}),
      of_sort({1, 2049}),
      of_sort({1, 8192}),
      of_sort({1, 16384}, -1, true),
      of_sort({2, 16385}, -1, false, 1, 3),
      of_sort({1, 8193, 2}, 1, true),
      of_sort({4, 5, 6}, 0),
  };
  static const std::vector<Case> kBench = {
      of_sort({4096, 8192}),
      of_sort({65536, 256}),
      of_sort({16384, 1024}),
      of_sort({256, 131072}),
  };
  return {kSmoke, kVerify, kBench};
}
void Sort::reference(const Problem& problem, Slice slice, std::span<double* const> expected) {
  reference_rows(problem, call(problem), slice, expected);
}

}  // namespace ws::topk
