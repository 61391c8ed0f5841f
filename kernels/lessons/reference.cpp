// What the lessons are checked against; their shapes, inputs, cost, and the problems to verify and
// to time.
#include <limits>

#include "catalogue/fill.hpp"
#include "kernels/lessons/operations.hpp"

namespace ws::lessons {
namespace {

constexpr int kX = 0;
constexpr int kY = 1;

bool is_dense(const Tensor& tensor) { return tensor.contiguous() || tensor.elements() == 0; }

Call call_of(const Problem& problem, int64_t rounds) {
  const Tensor& x = problem.tensor(kX);
  const Tensor& y = problem.tensor(kY);  // maybe the caller's own, which infer() has not seen
  require(is_dense(y), problem.operation->name, " writes a contiguous tensor, not ", y);
  return {x.as<const float>(), y.as<float>(), x.elements(), static_cast<int>(rounds)};
}

// Between -0.9 and 0.9: no power of them is large.
void fill_small(const Problem& problem, int index, uint64_t seed) {
  fill_with(problem.tensor(index),
            [&](int64_t i) { return 1.8 * random_uniform(seed, static_cast<uint64_t>(i)) - 0.9; });
}

// Writes value(i) for the elements i of the slice.
template <class Value>
void write(const Problem& problem, Slice slice, std::span<double* const> expected, Value value) {
  const Tensor& x = problem.tensor(kX);
  parallel_for(slice.last - slice.first, 64, [&](int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i) expected[kY][i] = value(x, slice.first + i);
  });
}

// Sums that cancel: of powers as large as 10, near zero. Of a few elements all may.
Tolerance of_sums(const Problem& problem) {
  const bool are_few = problem.tensor(kX).elements() < 32;
  return {.relative = are_few ? 1e-3 : 1e-5, .worst = 1e-4, .floor = 1};
}

constexpr int64_t kMostRounds = std::numeric_limits<int>::max();

}  // namespace

// ---- What they share ----------------------------------------------------------------------------

Call Lesson::call(const Problem& problem) { return call_of(problem, 0); }

void Lesson::infer(Problem& problem) {
  const Tensor& x = problem.tensor(kX);
  require(x.dtype == DType::kF32 && is_dense(x), problem.operation->name,
          " takes a contiguous tensor of f32, not ", x);
  problem.tensor(kY) = Tensor::like(x);
}

void Lesson::make(const Case& chosen, DType dtype, Problem& problem) {
  problem.tensor(kX) = Tensor::dense(dtype, {chosen.extents[0]});
}

Cost Lesson::cost(const Problem& problem) { return {.bytes = least_traffic(problem)}; }

Tolerance Lesson::tolerance(const Problem& /*problem*/, const Parameter& /*output*/) { return {}; }

int64_t Lesson::items(const Problem& problem, const Parameter& /*output*/) {
  return problem.tensor(kX).elements();
}

// ---- Copies -------------------------------------------------------------------------------------

void Copy::reference(const Problem& problem, Slice slice, std::span<double* const> expected) {
  write(problem, slice, expected, element);
}

// Around a warp, a block, the 32 columns of `strided`, the stretch of `occupancy`; pointers that
// are not aligned.
Cases Copy::cases() {
  static const Case kSmoke[] = {{.extents = {1000}}};
  static const Case kVerify[] = {
      {.extents = {0}},    {.extents = {1}},    {.extents = {31}, .offset = 1},
      {.extents = {32}},   {.extents = {33}},   {.extents = {256}},
      {.extents = {1027}}, {.extents = {8192}}, {.extents = {16384 + 2049}, .offset = 3},
  };
  static const Case kBench[] = {{.extents = {int64_t{1} << 26}}};
  return {kSmoke, kVerify, kBench};
}

// ---- Bank conflicts -----------------------------------------------------------------------------

Call BankConflicts::call(const Problem& problem) {
  return call_of(problem, problem.integer("rounds"));
}

void BankConflicts::infer(Problem& problem) {
  const Tensor& x = problem.tensor(kX);
  require(x.rank == 3 && x.extent(1) == kTile && x.extent(2) == kTile,
          "bank_conflicts takes [tiles, 32, 32], not ", x);
  const int64_t rounds = problem.integer("rounds");
  require(rounds >= 0 && rounds <= kMostRounds, "bank_conflicts takes 0 to ", kMostRounds,
          " rounds, not ", rounds);
  Lesson::infer(problem);
}

void BankConflicts::make(const Case& chosen, DType dtype, Problem& problem) {
  problem.tensor(kX) = Tensor::dense(dtype, {chosen.extents[0], kTile, kTile});
}

void BankConflicts::reference(const Problem& problem, Slice slice,
                              std::span<double* const> expected) {
  const bool is_turned = problem.integer("rounds") % 2 != 0;
  write(problem, slice, expected, [&](const Tensor& x, int64_t i) {
    const int64_t row = i / kTile % kTile;
    const int64_t column = i % kTile;
    const int64_t other = i - i % (kTile * kTile) + column * kTile + row;
    return element(x, is_turned ? other : i);
  });
}

Cases BankConflicts::cases() {
  static const Case kSmoke[] = {{.extents = {2}, .attributes = {Value(3)}}};
  static const Case kVerify[] = {
      {.extents = {0}, .attributes = {Value(1)}},
      {.extents = {1}, .attributes = {Value(0)}},
      {.extents = {1}, .attributes = {Value(2)}},
      {.extents = {1}, .offset = 1, .attributes = {Value(1)}},
      {.extents = {3}, .attributes = {Value(1)}},
      {.extents = {2}, .attributes = {Value(31)}},
      {.extents = {5}, .attributes = {Value(4)}},
  };
  static const Case kBench[] = {{.extents = {16384}, .attributes = {Value(31)}}};
  return {kSmoke, kVerify, kBench};
}

// ---- Divergence ---------------------------------------------------------------------------------

Call WarpDivergence::call(const Problem& problem) {
  return call_of(problem, problem.integer("degree"));
}

void WarpDivergence::infer(Problem& problem) {
  const int64_t degree = problem.integer("degree");
  require(degree >= 0 && degree <= kMostRounds, "warp_divergence takes a degree of 0 to ",
          kMostRounds, ", not ", degree);
  Lesson::infer(problem);
}

// Of the one polynomial that an element needs.
Cost WarpDivergence::cost(const Problem& problem) {
  const auto elements = static_cast<double>(problem.tensor(kX).elements());
  return {.bytes = least_traffic(problem),
          .flops = elements * 2 * static_cast<double>(problem.integer("degree"))};
}

Tolerance WarpDivergence::tolerance(const Problem& problem, const Parameter& /*output*/) {
  return of_sums(problem);
}

void WarpDivergence::fill(const Problem& problem, int index, uint64_t seed) {
  fill_small(problem, index, seed);
}

void WarpDivergence::reference(const Problem& problem, Slice slice,
                               std::span<double* const> expected) {
  const int64_t degree = problem.integer("degree");
  write(problem, slice, expected, [&](const Tensor& x, int64_t i) {
    const double z = i % 2 == 0 ? element(x, i) : -element(x, i);
    double sum = 1;
    for (int64_t k = 0; k < degree; ++k) sum = sum * z + 1;
    return sum;
  });
}

Cases WarpDivergence::cases() {
  static const Case kSmoke[] = {{.extents = {300}, .attributes = {Value(5)}}};
  static const Case kVerify[] = {
      {.extents = {0}, .attributes = {Value(3)}},
      {.extents = {1}, .attributes = {Value(0)}},
      {.extents = {33}, .offset = 1, .attributes = {Value(1)}},
      {.extents = {32}, .attributes = {Value(2)}},
      {.extents = {64}, .attributes = {Value(8)}},
      {.extents = {256 + 63}, .attributes = {Value(256)}},
  };
  static const Case kBench[] = {{.extents = {int64_t{1} << 24}, .attributes = {Value(256)}}};
  return {kSmoke, kVerify, kBench};
}

// ---- Unrolling ----------------------------------------------------------------------------------

Call Unrolling::call(const Problem& problem) { return call_of(problem, problem.integer("terms")); }

void Unrolling::infer(Problem& problem) {
  const int64_t terms = problem.integer("terms");
  require(terms > 0 && terms % kPeriod == 0 && terms <= kMostRounds,
          "unrolling takes a multiple of ", kPeriod, " terms, from ", kPeriod, " on and below 2^31",
          ", not ", terms);
  Lesson::infer(problem);
}

Cost Unrolling::cost(const Problem& problem) {
  const auto elements = static_cast<double>(problem.tensor(kX).elements());
  return {.bytes = least_traffic(problem),
          .flops = elements * 2 * static_cast<double>(problem.integer("terms"))};
}

Tolerance Unrolling::tolerance(const Problem& problem, const Parameter& /*output*/) {
  return of_sums(problem);
}

void Unrolling::fill(const Problem& problem, int index, uint64_t seed) {
  fill_small(problem, index, seed);
}

void Unrolling::reference(const Problem& problem, Slice slice, std::span<double* const> expected) {
  const int64_t terms = problem.integer("terms");
  write(problem, slice, expected, [&](const Tensor& x, int64_t i) {
    const double z = element(x, i);
    double sum = 0;
    for (int64_t k = terms - 1; k >= 0; --k) sum = sum * z + static_cast<double>(1 + k % kPeriod);
    return sum;
  });
}

// One warp a scheduler of an H200's 132 SMs; and eight, which hide what a chain waits for.
Cases Unrolling::cases() {
  static const Case kSmoke[] = {{.extents = {200}, .attributes = {Value(40)}}};
  static const Case kVerify[] = {
      {.extents = {0}, .attributes = {Value(8)}},
      {.extents = {1}, .attributes = {Value(8)}},
      {.extents = {31}, .attributes = {Value(16)}},
      {.extents = {129}, .offset = 1, .attributes = {Value(24)}},
      {.extents = {130}, .attributes = {Value(64)}},
      {.extents = {128}, .attributes = {Value(1024)}},
  };
  static const Case kBench[] = {
      {.extents = {int64_t{132} * 128}, .attributes = {Value(65536)}},
      {.extents = {int64_t{132} * 128 * 8}, .attributes = {Value(65536)}},
  };
  return {kSmoke, kVerify, kBench};
}

}  // namespace ws::lessons
