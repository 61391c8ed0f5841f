// What the operations are checked against: cases, inputs, references, tolerances.
#include <algorithm>
#include <cmath>
#include <mutex>
#include <vector>

#include "catalogue/fill.hpp"
#include "kernels/histogram/operations.hpp"

namespace ws::histogram {
namespace {

uint64_t at(int64_t i) { return static_cast<uint64_t>(i); }

// ---- References -------------------------------------------------------------------------------

// Totals of all bins: add(index, totals) for every element, in pieces on all cores.
template <class Add>
void add_up(int64_t elements, int64_t bins, double* expected, const Add& add) {
  std::fill_n(expected, bins, 0.0);
  const int64_t grain = std::max(int64_t{1} << 16, 4 * bins);
  std::mutex mutex;
  parallel_for(elements, grain, [&](int64_t first, int64_t last) {
    std::vector<double> totals(static_cast<size_t>(bins));
    for (int64_t i = first; i < last; ++i) add(i, totals.data());
    const std::lock_guard lock(mutex);
    for (int64_t b = 0; b < bins; ++b) expected[b] += totals[static_cast<size_t>(b)];
  });
}

bool is_bin(double value, int64_t bins) { return value >= 0 && value < static_cast<double>(bins); }

// ---- Inputs -----------------------------------------------------------------------------------

// A case's spread is in the rank of x: [n], [1, n], [1, 1, n].
Spread spread_of(const Tensor& x) {
  if (x.rank == 3) return kAllEqual;
  return x.rank == 2 && x.extent(0) == 1 ? kSkewed : kUniform;
}

// Bin of element i as the spread has it.
int64_t bin_of(Spread spread, int64_t bins, uint64_t seed, int64_t i) {
  const bool is_random =
      spread == kUniform || (spread == kSkewed && random_uniform(seed + 1, at(i)) >= 0.9);
  const auto often = static_cast<int64_t>(seed % static_cast<uint64_t>(bins));
  return is_random ? static_cast<int64_t>(random_bits(seed, at(i)) % static_cast<uint64_t>(bins))
                   : often;
}

void fill_values(const Problem& problem, uint64_t seed) {
  const Tensor& x = problem.tensor(0);
  int64_t bins = problem.integer("bins");
  if (x.dtype == DType::kU8) bins = std::min<int64_t>(bins, 256);
  const Spread spread = spread_of(x);
  fill_with(x, [=](int64_t i) { return static_cast<double>(bin_of(spread, bins, seed, i)); });
}

// Rare numbers that no bin has: NaN, infinities, numbers below and above. None among equals.
bool is_outsider(Spread spread, uint64_t seed, int64_t i) {
  return spread != kAllEqual && random_bits(seed + 2, at(i)) % 64 == 0;
}
double outsider(double below, double above, uint64_t seed, int64_t i) {
  switch (random_bits(seed + 3, at(i)) % 5) {
    case 0: return NAN;
    case 1: return INFINITY;
    case 2: return -INFINITY;
    case 3: return below;
    default: return above;
  }
}

// Edge i of `bins` bins: uneven steps, and now and then a bin that has no width. A function of i
// alone, so that elements may lie on edges.
double edge_of(int64_t i, int64_t bins) {
  if (i % 17 == 3) --i;
  const double jitter = i == 0 || i == bins ? 0 : 0.8 * random_uniform(7, at(i)) - 0.4;
  return static_cast<double>(
      static_cast<float>(-2 + 4 * (static_cast<double>(i) + jitter) / static_cast<double>(bins)));
}

// ---- Cases ------------------------------------------------------------------------------------

constexpr int64_t kM = int64_t{1} << 20;

// Elements, bins, spread and step; then as Case has them.
struct Shape {
  int64_t elements;
  int64_t bins;
  Spread spread = kUniform;
  int64_t step = 0;
  int offset = 0;
  int64_t padding = 0;
};
// Around the widths of accesses, tiles and blocks; copies that become fewer; strides.
constexpr Shape kSmoke[] = {
    {1003, 13},
    {4096, 256, kSkewed},
    {520, 100, kAllEqual, 0, 1},
    {300, 40, kUniform, 3},
    {320, 70, kUniform, 0, 0, 5},
};
constexpr Shape kVerify[] = {
    {0, 256},
    {1, 1},
    {1, 256, kUniform, 0, 1},
    {2, 3},
    {15, 7, kUniform, 0, 3},
    {300, 100},
    {5000, 100},
    {1000, 2},
    {4099, 31, kUniform, 0, 1},
    {4096, 256},
    {20000, 256},
    {20000, 256, kSkewed, 0, 5},
    {20000, 256, kAllEqual},
    {70000, 256},
    {17000, 255, kUniform, 0, 2},
    {5000, 300},
    {9000, 575},
    {9000, 1000, kSkewed},
    {9000, 5000},
    {17000, 257, kAllEqual},
    {9000, 18000},
    {9000, 40001},
    {140000, 65536, kAllEqual},
    {5000, 65536, kSkewed, 0, 1},
    {3000, 120000},
    {5000, 256, kUniform, 2},
    {6400, 256, kUniform, 0, 1, 3},
};
constexpr Shape kBench[] = {
    {64 * 1024, 256},
    {kM, 256},
    {16 * kM, 256},
    {256 * kM, 256},
    {256 * kM, 256, kSkewed},
    {256 * kM, 256, kAllEqual},
    {256 * kM, 2048},
    {256 * kM, 65536},
    {256 * kM, 65536, kSkewed},
    {256 * kM, 65536, kAllEqual},
};
// Of two arrays that are read: half as long.
constexpr Shape kSumBench[] = {
    {kM, 256},
    {16 * kM, 256},
    {128 * kM, 256},
    {128 * kM, 256, kSkewed},
    {128 * kM, 256, kAllEqual},
    {128 * kM, 65536},
};

constexpr int64_t kFewBins = 20000;

// With the bins as the first attribute, or, of edges, as the second extent.
struct Lists {
  // Only count_bins has rungs that differ above `most_bins` in what is verified.
  explicit Lists(bool of_edges, int64_t most_bins, std::span<const Shape> bench_shapes = kBench) {
    append(smoke, kSmoke, of_edges, most_bins);
    append(verify, kVerify, of_edges, most_bins);
    append(bench, bench_shapes, of_edges, kMostBins);
  }
  Cases cases() const { return {smoke, verify, bench}; }

  static void append(std::vector<Case>& cases, std::span<const Shape> shapes, bool of_edges,
                     int64_t most_bins) {
    for (const Shape& shape : shapes) {
      if (shape.bins > most_bins) continue;
      Case one{.offset = shape.offset, .padding = shape.padding};
      if (of_edges) {
        one.extents = {shape.elements, shape.bins, shape.spread, shape.step};
      } else {
        one.extents = {shape.elements, shape.spread, shape.step};
        one.attributes[0] = shape.bins;
      }
      cases.push_back(one);
    }
  }

  std::vector<Case> smoke;
  std::vector<Case> verify;
  std::vector<Case> bench;
};

// `first`: the place of the spread among the extents.
void make_input(const Case& chosen, DType dtype, Problem& problem, size_t first = 1) {
  const int64_t elements = chosen.extents[0];
  const int64_t spread = chosen.extents[first];
  const int64_t step = std::max<int64_t>(chosen.extents[first + 1], 1);
  Tensor& x = problem.tensor(0);
  if (chosen.padding > 0 && spread == kUniform) {  // rows with gaps between them
    x = Tensor::dense(dtype, {elements / 16, 16});
    x.strides = {16 + chosen.padding, 1};
  } else if (spread == kAllEqual) {
    x = Tensor::dense(dtype, {1, 1, elements});
    x.strides[2] = step;
  } else if (spread == kSkewed) {
    x = Tensor::dense(dtype, {1, elements});
    x.strides[1] = step;
  } else {
    x = Tensor::dense(dtype, {elements});
    x.strides[0] = step;
  }
}

Tensor weights_like(const Tensor& x, const Case& chosen) {
  Tensor weights = Tensor::like(x, DType::kF32);
  if (chosen.padding > 0 && x.rank == 2) weights.strides[0] += 1;  // gaps of its own
  return weights;
}

// Of weights of size 1: n of them in one bin, added one by one in f32, are off like a random walk
// of steps that grow.
Tolerance tolerance_of_sums(const Problem& problem) {
  const double size = std::sqrt(static_cast<double>(problem.tensor(0).elements()) + 1);
  return {.worst = 1e-5 + 0x1p-22 * size, .floor = size};
}

// add(bin, i, totals) for each element i of x that lies between edges.
template <class Add>
void add_between(const Problem& problem, double* expected, const Add& add) {
  const Tensor& x = problem.tensor(0);
  const Tensor& edges = problem.tensor(1);
  std::vector<double> sorted(static_cast<size_t>(edges.extent(0)));
  for (size_t i = 0; i < sorted.size(); ++i) sorted[i] = element(edges, static_cast<int64_t>(i));
  const int64_t bins = edges.extent(0) - 1;
  add_up(x.elements(), bins, expected, [&](int64_t i, double* totals) {
    const double value = element(x, i);
    if (!(value >= sorted.front() && value <= sorted.back())) return;
    const auto above = std::ranges::upper_bound(sorted, value) - sorted.begin();
    add(std::min<int64_t>(above, bins) - 1, i, totals);
  });
}

}  // namespace

Cases Counting::cases() {
  static const Lists kLists(false, kMostBins);
  return kLists.cases();
}
Cost Counting::cost(const Problem& problem) {
  return {.bytes = least_traffic(problem),
          .flops = static_cast<double>(problem.tensor(0).elements())};
}
// Every element may concern every bin: an output is one item.
int64_t Counting::items(const Problem& /*problem*/, const Parameter& /*output*/) { return 1; }

// ---- count_bins -------------------------------------------------------------------------------

void CountBins::make(const Case& chosen, DType dtype, Problem& problem) {
  make_input(chosen, dtype, problem);
}
Tolerance CountBins::tolerance(const Problem& /*problem*/, const Parameter& /*output*/) {
  return {};
}
void CountBins::fill(const Problem& problem, int /*index*/, uint64_t seed) {
  fill_values(problem, seed);
}
void CountBins::reference(const Problem& problem, Slice /*slice*/,
                          std::span<double* const> expected) {
  const Tensor& x = problem.tensor(0);
  const int64_t bins = problem.integer("bins");
  add_up(x.elements(), bins, expected[1], [&](int64_t i, double* totals) {
    const double value = element(x, i);
    if (is_bin(value, bins)) totals[static_cast<int64_t>(value)] += 1;
  });
}

// ---- sum_bins ---------------------------------------------------------------------------------

void SumBins::make(const Case& chosen, DType dtype, Problem& problem) {
  make_input(chosen, dtype, problem);
  problem.tensor(1) = weights_like(problem.tensor(0), chosen);
}
Cases SumBins::cases() {
  static const Lists kLists(false, kFewBins, kSumBench);
  return kLists.cases();
}
Tolerance SumBins::tolerance(const Problem& problem, const Parameter& /*output*/) {
  return tolerance_of_sums(problem);
}
void SumBins::fill(const Problem& problem, int index, uint64_t seed) {
  if (index == 1) return fill_normal(problem.tensor(1), seed);
  fill_values(problem, seed);
}
void SumBins::reference(const Problem& problem, Slice /*slice*/,
                        std::span<double* const> expected) {
  const Tensor& x = problem.tensor(0);
  const int64_t bins = problem.integer("bins");
  add_up(x.elements(), bins, expected[2], [&](int64_t i, double* totals) {
    const double value = element(x, i);
    if (is_bin(value, bins)) totals[static_cast<int64_t>(value)] += element(problem.tensor(1), i);
  });
}

// ---- histc ------------------------------------------------------------------------------------

Cases Histc::cases() {
  static const Lists kLists = [] {
    Lists lists(false, kFewBins);
    const auto add = [](std::vector<Case>& cases, int64_t elements, double min, double max) {
      Case one{.extents = {elements}};
      one.attributes = {int64_t{77}, min, max};
      cases.push_back(one);
    };
    add(lists.smoke, 900, -3.5, 2.25);
    add(lists.verify, 5000, -3.5, 2.25);
    add(lists.verify, 5000, 1000, 1001);
    add(lists.verify, 5000, -3e30, 4e30);  // further than a reciprocal takes
    add(lists.verify, 5000, 0, 1e-20);
    return lists;
  }();
  return kLists.cases();
}
void Histc::make(const Case& chosen, DType dtype, Problem& problem) {
  make_input(chosen, dtype, problem);
}
// Counts are exact, and f32 holds those up to 2^24.
Tolerance Histc::tolerance(const Problem& /*problem*/, const Parameter& /*output*/) {
  return {.worst = 1e-7, .floor = 1e-30};
}
void Histc::fill(const Problem& problem, int index, uint64_t seed) {
  const Tensor& x = problem.tensor(index);
  const double min = problem.number("min");
  const double width = problem.number("max") - min;
  const int64_t bins = problem.integer("bins");
  const Spread spread = spread_of(x);
  fill_with(x, [=](int64_t i) {
    if (is_outsider(spread, seed, i)) return outsider(min - width, min + 2 * width, seed, i);
    const bool is_edge = i % 8 == 0 && spread != kAllEqual;
    const double part = is_edge ? 0 : spread == kAllEqual ? 0.5 : random_uniform(seed + 4, at(i));
    const auto bin = static_cast<double>(bin_of(spread, bins + (is_edge ? 1 : 0), seed, i));
    return min + width * (bin + part) / static_cast<double>(bins);
  });
}
// The bin of a number that lies near an edge is what f32 arithmetic makes of it: torch's, step by
// step.
void Histc::reference(const Problem& problem, Slice /*slice*/, std::span<double* const> expected) {
  const Tensor& x = problem.tensor(0);
  const auto min = static_cast<float>(problem.number("min"));
  const auto max = static_cast<float>(problem.number("max"));
  const int64_t bins = problem.integer("bins");
  add_up(x.elements(), bins, expected[1], [&](int64_t i, double* totals) {
    const auto value = static_cast<float>(element(x, i));
    if (!(value >= min && value <= max)) return;
    const float place = (value - min) * static_cast<float>(bins) / (max - min);
    totals[std::min(static_cast<int64_t>(place), bins - 1)] += 1;
  });
}

// ---- count_between ----------------------------------------------------------------------------

Cases CountBetween::cases() {
  static const Lists kLists(true, kFewBins);
  return kLists.cases();
}
void CountBetween::make(const Case& chosen, DType dtype, Problem& problem) {
  make_input(chosen, dtype, problem, 2);
  const int64_t bins = std::max<int64_t>(chosen.extents[1], 1);
  problem.tensor(1) = Tensor::dense(DType::kF32, {bins + 1});
  problem.tensor(1).strides[0] = std::max<int64_t>(chosen.extents[3], 1);
}
Tolerance CountBetween::tolerance(const Problem& /*problem*/, const Parameter& /*output*/) {
  return {};
}
void CountBetween::fill(const Problem& problem, int index, uint64_t seed) {
  const Tensor& edges = problem.tensor(1);
  const int64_t bins = edges.extent(0) - 1;
  if (index == 1) return fill_with(edges, [=](int64_t i) { return edge_of(i, bins); });
  const Tensor& x = problem.tensor(0);
  const Spread spread = spread_of(x);
  fill_with(x, [=](int64_t i) {
    if (is_outsider(spread, seed, i)) return outsider(-3, 3, seed, i);
    const bool is_edge = i % 8 == 0 && spread != kAllEqual;
    const int64_t bin = bin_of(spread, bins + (is_edge ? 1 : 0), seed, i);
    if (is_edge) return edge_of(bin, bins);
    const double part = spread == kAllEqual ? 0.5 : random_uniform(seed + 4, at(i));
    return edge_of(bin, bins) + part * (edge_of(bin + 1, bins) - edge_of(bin, bins));
  });
}
void CountBetween::reference(const Problem& problem, Slice /*slice*/,
                             std::span<double* const> expected) {
  add_between(problem, expected[2],
              [](int64_t bin, int64_t /*i*/, double* totals) { totals[bin] += 1; });
}

// ---- sum_between ------------------------------------------------------------------------------

Cases SumBetween::cases() {
  static const Lists kLists(true, kFewBins, kSumBench);
  return kLists.cases();
}
void SumBetween::make(const Case& chosen, DType dtype, Problem& problem) {
  CountBetween::make(chosen, dtype, problem);
  problem.tensor(2) = weights_like(problem.tensor(0), chosen);
}
Tolerance SumBetween::tolerance(const Problem& problem, const Parameter& /*output*/) {
  return tolerance_of_sums(problem);
}
void SumBetween::fill(const Problem& problem, int index, uint64_t seed) {
  if (index == 2) return fill_normal(problem.tensor(2), seed);
  CountBetween::fill(problem, index, seed);
}
void SumBetween::reference(const Problem& problem, Slice /*slice*/,
                           std::span<double* const> expected) {
  add_between(problem, expected[3], [&](int64_t bin, int64_t i, double* totals) {
    totals[bin] += element(problem.tensor(2), i);
  });
}

}  // namespace ws::histogram
