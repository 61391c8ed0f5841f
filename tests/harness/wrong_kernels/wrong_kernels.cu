#include "tests/harness/wrong_kernels/wrong_kernels.hpp"

#include <algorithm>
#include <atomic>

#include "catalogue/fill.hpp"
#include "warpsmith/ptx/barrier.hpp"
#include "warpsmith/shared.hpp"
#include "warpsmith/thread/memory.hpp"

namespace ws::wrong {
namespace {

enum class Flaw {
  kNone,
  kDroppedTail,        // vectors of four only
  kOffByOneRow,        // row r reads row r + 1
  kMissingBarrier,     // sums are read before they are there
  kOverflow,           // f16 where f32 is needed
  kStaleOutput,        // the last row keeps what it held
  kWritesPastTheEnd,   // one element too many
  kWritesBetweenRows,  // the same, where rows have gaps
  kThreeValues,        // right for the first three columns only
  kModifiesInput,      // uses it as scratch
  kNondeterministic,   // every launch adds a bit
  kThrows,
};

// A block a row.
template <class T, Flaw kFlaw>
struct Center {
  static constexpr int kThreads = 64;
  struct Arguments {
    T* x;
    T* y;
    int64_t rows;
    int64_t columns;
    int64_t x_stride;
    int64_t y_stride;
    int launch;
  };
  struct SharedStorage {
    SharedArray<float, kThreads> sums;
  };

  __device__ void operator()(SharedStorage& shared, const Arguments& a) const {
    const int64_t row = block_index();
    if (kFlaw == Flaw::kStaleOutput && row + 1 == a.rows) return;
    const int64_t source = kFlaw == Flaw::kOffByOneRow && row + 1 < a.rows ? row + 1 : row;
    T* x = a.x + source * a.x_stride;
    T* y = a.y + row * a.y_stride;
    const int64_t columns = kFlaw == Flaw::kDroppedTail ? a.columns / 4 * 4 : a.columns;

    float sum = 0;
    for (int64_t c = thread_index(); c < columns; c += kThreads) {
      sum += to_float(thread::load(x + c));
      if (kFlaw == Flaw::kOverflow) sum = to_float(from_float<half>(sum));
    }
    shared.sums[thread_index()] = sum;
    if (kFlaw != Flaw::kMissingBarrier) ptx::barrier_sync();
    float total = 0;
    for (int t = 0; t < kThreads; ++t) {
      total += static_cast<float>(shared.sums[t]);
      if (kFlaw == Flaw::kOverflow) total = to_float(from_float<half>(total));
    }
    const float mean = total / static_cast<float>(a.columns);

    const bool last_row = row + 1 == a.rows;
    const bool one_more = (kFlaw == Flaw::kWritesBetweenRows && !last_row) ||
                          (kFlaw == Flaw::kWritesPastTheEnd && last_row);
    for (int64_t c = thread_index(); c < columns + (one_more ? 1 : 0); c += kThreads) {
      const float value = c < a.columns ? to_float(thread::load(x + c)) : 0.0f;
      float result = value - mean;
      if (kFlaw == Flaw::kThreeValues && c >= 3) result = value - 1.001f * mean;
      if (kFlaw == Flaw::kNondeterministic) result += 1e-5f * static_cast<float>(a.launch);
      thread::store(y + c, from_float<T>(result));
    }
    if (kFlaw == Flaw::kModifiesInput && thread_index() == 0) {
      thread::store(x + a.columns / 2, from_float<T>(mean));
    }
  }
};

template <class T, Flaw kFlaw>
void run_as(const Problem& problem, const Context& context) {
  static std::atomic<int> launches{0};
  const Tensor& x = problem.tensor(0);
  const Tensor& y = problem.tensor(1);
  launch<Center<T, kFlaw>>(
      {.blocks = x.shape[0], .threads = Center<T, kFlaw>::kThreads}, context.stream,
      {x.as<T>(), y.as<T>(), x.shape[0], x.shape[1], x.strides[0], y.strides[0], launches++});
}

template <Flaw kFlaw>
void run_center(const Problem& problem, const Context& context) {
  if (kFlaw == Flaw::kThrows) throw Error("this rung always throws");
  if (problem.tensor(0).dtype == DType::kF32) return run_as<float, kFlaw>(problem, context);
  run_as<half, kFlaw>(problem, context);
}

void infer(Problem& problem) {
  const Tensor& x = problem.tensor(0);
  require(x.rank == 2, "center takes a matrix, got ", x.describe());
  problem.tensor(1) = Tensor::dense(x.dtype, {x.shape[0], x.shape[1]});
}

// Padding lies between the rows of both tensors.
Problem make(const Operation&, const Case& chosen, DType dtype) {
  Problem problem;
  problem.tensor_count = 2;
  for (int i = 0; i < 2; ++i) {
    problem.tensor(i) = Tensor::dense(dtype, {chosen.extents[0], chosen.extents[1]});
    problem.tensor(i).strides[0] += chosen.padding;
  }
  return problem;
}

Cost cost(const Problem& problem) {
  const auto elements = static_cast<double>(problem.tensor(0).elements());
  return {2 * elements * static_cast<double>(size_of(problem.tensor(0).dtype)), 2 * elements};
}

Tolerance tolerance(const Problem& problem) {
  return problem.tensor(0).dtype == DType::kF32 ? Tolerance{1e-4, 1e-3, 1}
                                                : Tolerance{2e-3, 4e-3, 1};
}

int64_t items(const Problem& problem) { return problem.tensor(0).shape[0]; }

void reference(const Problem& problem, Slice slice, std::span<double* const> expected) {
  const Tensor& x = problem.tensor(0);
  const int64_t columns = x.shape[1];
  for (int64_t row = slice.first; row < slice.last; ++row) {
    double sum = 0;
    for (int64_t c = 0; c < columns; ++c) sum += element(x, row * columns + c);
    for (int64_t c = 0; c < columns; ++c) {
      expected[0][(row - slice.first) * columns + c] =
          element(x, row * columns + c) - sum / static_cast<double>(columns);
    }
  }
}

// Far from zero, so that sums of a thousand do not fit in f16.
void fill(const Problem& problem, int index, uint64_t seed) {
  fill_with(problem.tensor(index),
            [seed](int64_t i) { return 100 + random_normal(seed, static_cast<uint64_t>(i)); });
}

constexpr Parameter kParameters[] = {
    {.name = "x", .doc = "[rows, columns], f32 or f16"},
    {.name = "y", .output = true, .doc = "shape and dtype of x"},
};
constexpr std::string_view kExtentNames[] = {"rows", "columns"};
constexpr Case kCases[] = {{.extents = {4, 1027}}};
constexpr DTypes kDTypes = {DType::kF32, DType::kF16};

constexpr Operation kOperations[] = {{
    .name = "center",
    .summary = "rows minus their mean",
    .source = "this test",
    .formula = "y[r, c] = x[r, c] - mean(x[r, :])",
    .parameters = kParameters,
    .extent_names = kExtentNames,
    .dtypes = kDTypes,
    .torch = "x - x.mean(-1, keepdim=True)",
    .infer = infer,
    .make = make,
    .cost = cost,
    .tolerance = tolerance,
    .items = items,
    .reference = reference,
    .fill = fill,
    .smoke = kCases,
    .verify = kCases,
    .bench = kCases,
}};
static_assert(well_formed(std::span<const Operation>(kOperations)));

template <Flaw kFlaw>
constexpr Rung row(std::string_view name) {
  return {.name = name, .idea = "for the test", .dtypes = kDTypes, .run = run_center<kFlaw>};
}

constexpr Rung kRungs[] = {
    row<Flaw::kNone>("right"),
    row<Flaw::kDroppedTail>("dropped_tail"),
    row<Flaw::kOffByOneRow>("off_by_one_row"),
    row<Flaw::kMissingBarrier>("missing_barrier"),
    row<Flaw::kOverflow>("overflow"),
    row<Flaw::kStaleOutput>("stale_output"),
    row<Flaw::kWritesPastTheEnd>("writes_past_the_end"),
    row<Flaw::kWritesBetweenRows>("writes_between_rows"),
    row<Flaw::kThreeValues>("three_values"),
    row<Flaw::kModifiesInput>("modifies_input"),
    row<Flaw::kNondeterministic>("nondeterministic"),
    row<Flaw::kThrows>("throws"),
};
static_assert(well_formed(std::span<const Rung>(kRungs)));

}  // namespace

const Family kFamily = {
    .name = "wrong", .summary = "for tests", .operations = kOperations, .rungs = kRungs};

const Operation& center() { return kOperations[0]; }

const Rung& rung(std::string_view name) {
  const auto* at = std::ranges::find(kRungs, name, &Rung::name);
  require(at != std::end(kRungs), "no wrong kernel is called ", name);
  return *at;
}

}  // namespace ws::wrong
