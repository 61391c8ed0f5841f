#include "tests/harness/wrong_kernels/wrong_kernels.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>

#include "catalogue/row.hpp"
#include "warpsmith/ptx/barrier.hpp"
#include "warpsmith/shared.hpp"
#include "warpsmith/thread/divide.hpp"
#include "warpsmith/thread/math.hpp"
#include "warpsmith/thread/memory.hpp"

namespace ws::wrong {
namespace {

using Role = Parameter::Role;

// What the three operations share: a matrix, whose rows are the items.
struct MatrixOperation {
  static constexpr std::string_view kSource = "this test";
  static constexpr std::string_view kExtentNames[] = {"rows", "columns"};
  static constexpr DTypes kDTypes = kFloats;

  static Cases cases() {
    static constexpr Case kCases[] = {{.extents = {4, 1027}}};
    return {kCases, kCases, kCases};
  }
  static Cost cost(const Problem& problem) {
    const auto elements = static_cast<double>(problem.tensor(0).elements());
    return {2 * elements * static_cast<double>(size_of(problem.dtype())), 2 * elements};
  }
  static Tolerance tolerance(const Problem& problem, const Parameter& output) {
    if (output.name == "largest") return {};
    if (output.name == "lse") return {1e-5, 1e-4, 1};
    if (output.name == "sums") return {1e-5, 1e-4, 100};
    switch (problem.dtype()) {
      case DType::kF32: return {1e-4, 1e-3, 1};
      case DType::kF16: return {2e-3, 4e-3, 1};
      default: return {8e-3, 2e-2, 1};
    }
  }
  static int64_t items(const Problem& problem, const Parameter& output) {
    return problem.tensor(0).extent(output.name == "sums" ? 1 : 0);
  }
  // Padding lies between the rows of every matrix.
  static Tensor matrix(const Case& chosen, DType dtype) {
    Tensor tensor = Tensor::dense(dtype, {chosen.extents[0], chosen.extents[1]});
    tensor.strides[0] += chosen.padding;
    return tensor;
  }
  static double mean(const Tensor& x, int64_t row) {
    double sum = 0;
    for (int64_t c = 0; c < x.extent(1); ++c) sum += element(x, row * x.extent(1) + c);
    return sum / static_cast<double>(x.extent(1));
  }
};

// ---- center -----------------------------------------------------------------------------------

struct CenterOperation : MatrixOperation {
  static constexpr std::string_view kName = "center";
  static constexpr std::string_view kSummary = "rows minus their mean";
  static constexpr std::string_view kFormula = "y[r, c] = x[r, c] - mean(x[r, :])";
  static constexpr std::string_view kTorch = "x - x.mean(-1, keepdim=True)";
  static constexpr Parameter kParameters[] = {
      {.name = "x", .doc = "[rows, columns], f32, f16 or bf16"},
      {.name = "y", .role = Role::kOut, .doc = "shape and dtype of x"},
  };
  static constexpr bool kInPlace = true;

  // The mean of some dozens of numbers around 100, whose sum is rounded to 11 bits each time.
  static Tolerance tolerance_in(const Problem& /*problem*/, const Parameter& /*output*/,
                                DType /*accumulate*/) {
    return {.relative = 0.3, .worst = 0.5, .floor = 1};
  }

  struct Call {
    DType dtype;
    Tensor x;
    Tensor y;
  };
  static Call call(const Problem& problem) { return {problem.dtype(), problem["x"], problem["y"]}; }
  static void infer(Problem& problem) {
    const Tensor& x = problem["x"];
    require(x.rank == 2, "center takes a matrix, got ", x);
    problem["y"] = Tensor::like(x);
  }
  static void make(const Case& chosen, DType dtype, Problem& problem) {
    problem["x"] = problem["y"] = matrix(chosen, dtype);
  }
  static void reference(const Problem& problem, Slice slice, std::span<double* const> expected) {
    const Tensor& x = problem["x"];
    const int64_t columns = x.extent(1);
    for (int64_t row = slice.first; row < slice.last; ++row) {
      const double center = mean(x, row);
      for (int64_t c = 0; c < columns; ++c) {
        expected[1][(row - slice.first) * columns + c] = element(x, row * columns + c) - center;
      }
    }
  }
  // Far from zero, so that sums of a thousand do not fit in f16.
  static void fill(const Problem& problem, int index, uint64_t seed) {
    fill_with(problem.tensor(index),
              [seed](int64_t i) { return 100 + random_normal(seed, static_cast<uint64_t>(i)); });
  }
};

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
  kVeryDifferent,      // every launch adds more than the tolerance
  kReadsAgain,         // reads the first element after it may have been overwritten
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
    const float first = to_float(thread::load(x));

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
      if (kFlaw == Flaw::kVeryDifferent) result += static_cast<float>(a.launch % 2);
      if (kFlaw == Flaw::kReadsAgain) result += to_float(thread::load(x)) - first;
      thread::store(y + c, from_float<T>(result));
    }
    if (kFlaw == Flaw::kModifiesInput && thread_index() == 0) {
      thread::store(x + a.columns / 2, from_float<T>(mean));
    }
  }
};

template <Flaw kFlaw>
struct CenterRung {
  static void run(const CenterOperation::Call& call, const Context& context) {
    if (kFlaw == Flaw::kThrows) throw Error("this rung always throws");
    static std::atomic<int> launches{0};
    with_type<kFloats>(call.dtype, [&]<class T>() {
      using Kernel = Center<T, kFlaw>;
      launch<Kernel>({.blocks = call.x.extent(0), .threads = Kernel::kThreads}, context.stream,
                     {call.x.as<T>(), call.y.as<T>(), call.x.extent(0), call.x.extent(1),
                      call.x.stride(0), call.y.stride(0), launches++});
    });
  }
};

template <Flaw kFlaw>
constexpr Rung centering(std::string_view name, bool deterministic = true,
                         DType accumulate = DType::kF32) {
  return rung_of<CenterRung<kFlaw>, CenterOperation>({.name = name,
                                                      .idea = "for the test",
                                                      .deterministic = deterministic,
                                                      .accumulate = accumulate});
}

// Counts its blocks in the workspace's zeroes; kDirty: forgets to put them back.
template <bool kDirty>
struct CountingRung {
  static Workspace workspace(const CenterOperation::Call& /*call*/) {
    return {.bytes = 64, .zeroed = 8};
  }
  static void run(const CenterOperation::Call& call, const Context& context) {
    CenterRung<Flaw::kNone>::run(call, context);
    auto* counter = static_cast<uint64_t*>(context.workspace);
    require(*counter == 0, "the workspace's counter is ", *counter, ", not 0");
    *counter = kDirty ? 7 : 0;
  }
};

// ---- summary ----------------------------------------------------------------------------------

struct SummaryOperation : MatrixOperation {
  static constexpr std::string_view kName = "summary";
  static constexpr std::string_view kSummary = "several outputs of a matrix";
  static constexpr std::string_view kFormula = "see wrong_kernels.hpp";
  static constexpr std::string_view kTorch =
      "(x - x.mean(-1, keepdim=True), x.float().logsumexp(-1), x.argmax(-1), x.float().sum(0))";
  static constexpr Parameter kParameters[] = {
      {.name = "x", .doc = "[rows, columns]"},
      {.name = "y", .role = Role::kOut, .doc = "shape and dtype of x"},
      {.name = "lse", .role = Role::kOut, .doc = "[rows], f32", .shape = "x.shape[:1]"},
      {.name = "largest", .role = Role::kOut, .doc = "[rows], i64", .shape = "x.shape[:1]"},
      {.name = "sums", .role = Role::kOut, .doc = "[columns], f32", .shape = "x.shape[1:]"},
  };

  struct Call {
    DType dtype;
    const void* x;
    void* y;
    float* lse;
    int64_t* largest;
    float* sums;
    int64_t rows;
    int64_t columns;
  };
  static Call call(const Problem& p) {
    return {p.dtype(),
            p["x"].data,
            p["y"].data,
            p["lse"].as<float>(),
            p["largest"].as<int64_t>(),
            p["sums"].as<float>(),
            p["x"].extent(0),
            p["x"].extent(1)};
  }
  static void infer(Problem& problem) {
    const Tensor& x = problem["x"];
    require(x.rank == 2, "summary takes a matrix, got ", x);
    problem["y"] = Tensor::like(x);
    problem["lse"] = Tensor::dense(DType::kF32, {x.extent(0)});
    problem["largest"] = Tensor::dense(DType::kI64, {x.extent(0)});
    problem["sums"] = Tensor::dense(DType::kF32, {x.extent(1)});
  }
  static void make(const Case& chosen, DType dtype, Problem& problem) {
    problem["x"] = matrix(chosen, dtype);
  }
  static void reference(const Problem& problem, Slice slice, std::span<double* const> expected) {
    const Tensor& x = problem["x"];
    const int64_t rows = x.extent(0);
    const int64_t columns = x.extent(1);
    if (expected[1] != nullptr) CenterOperation::reference(problem, slice, expected);
    for (int64_t i = slice.first; i < slice.last; ++i) {
      const auto at = static_cast<size_t>(i - slice.first);
      if (expected[2] != nullptr) {
        double sum = 0;
        for (int64_t c = 0; c < columns; ++c) sum += std::exp(element(x, i * columns + c));
        expected[2][at] = std::log(sum);
      }
      if (expected[3] != nullptr) {
        int64_t best = 0;
        for (int64_t c = 1; c < columns; ++c) {
          if (element(x, i * columns + c) > element(x, i * columns + best)) best = c;
        }
        expected[3][at] = static_cast<double>(best);
      }
      if (expected[4] != nullptr) {
        double sum = 0;
        for (int64_t r = 0; r < rows; ++r) sum += element(x, r * columns + i);
        expected[4][at] = sum;
      }
    }
  }
};

enum class SummaryFlaw {
  kNone,
  kLastColumnSum,     // the last element of the fourth output is wrong
  kLseOff,            // by 0.1 %, which y's tolerance would allow
  kLargestUnwritten,  // the third output keeps what it held
};

// A thread a row, and a thread a column.
template <class T, SummaryFlaw kFlaw>
struct Summary {
  static constexpr int kThreads = 64;
  using Arguments = SummaryOperation::Call;
  struct SharedStorage {};

  __device__ void operator()(SharedStorage&, const Arguments& a) const {
    const auto* x = static_cast<const T*>(a.x);
    auto* y = static_cast<T*>(a.y);
    const int64_t i = block_index() * kThreads + thread_index();
    if (i < a.rows) {
      float sum = 0;
      float exponentials = 0;
      float most = 0;
      int64_t largest = 0;
      for (int64_t c = 0; c < a.columns; ++c) {
        const float value = to_float(thread::load(x + i * a.columns + c));
        sum += value;
        exponentials += thread::exp(value);
        if (c == 0 || value > most) {
          most = value;
          largest = c;
        }
      }
      const float mean = sum / static_cast<float>(a.columns);
      for (int64_t c = 0; c < a.columns; ++c) {
        const float value = to_float(thread::load(x + i * a.columns + c));
        thread::store(y + i * a.columns + c, from_float<T>(value - mean));
      }
      const float lse = thread::log(exponentials);
      thread::store(a.lse + i, kFlaw == SummaryFlaw::kLseOff ? 1.001f * lse : lse);
      if (kFlaw != SummaryFlaw::kLargestUnwritten) thread::store(a.largest + i, largest);
    }
    if (i < a.columns) {
      float sum = 0;
      for (int64_t r = 0; r < a.rows; ++r) sum += to_float(thread::load(x + r * a.columns + i));
      const bool wrong = kFlaw == SummaryFlaw::kLastColumnSum && i + 1 == a.columns;
      thread::store(a.sums + i, wrong ? sum + 100 : sum);
    }
  }
};

template <SummaryFlaw kFlaw>
struct SummaryRung {
  static void run(const SummaryOperation::Call& call, const Context& context) {
    with_type<kFloats>(call.dtype, [&]<class T>() {
      using Kernel = Summary<T, kFlaw>;
      launch<Kernel>({.blocks = divide_up(std::max(call.rows, call.columns), Kernel::kThreads),
                      .threads = Kernel::kThreads},
                     context.stream, call);
    });
  }
};
template <SummaryFlaw kFlaw>
constexpr Rung summarizing(std::string_view name) {
  return rung_of<SummaryRung<kFlaw>, SummaryOperation>({.name = name, .idea = "for the test"});
}

// ---- accumulate -------------------------------------------------------------------------------

struct AccumulateOperation : MatrixOperation {
  static constexpr std::string_view kName = "accumulate";
  static constexpr std::string_view kSummary = "adds to the caller's memory";
  static constexpr std::string_view kFormula = "sum[r, c] += x[r, c]";
  static constexpr std::string_view kTorch = "sum + x";
  static constexpr Parameter kParameters[] = {
      {.name = "sum", .role = Role::kInOut, .doc = "[rows, columns]"},
      {.name = "x", .doc = "shape and dtype of sum"},
  };

  struct Call {
    DType dtype;
    Tensor sum;
    Tensor x;
  };
  static Call call(const Problem& problem) {
    return {problem.dtype(), problem["sum"], problem["x"]};
  }
  static void infer(Problem& problem) {
    require(problem["sum"].same_shape(problem["x"]), "accumulate: shapes differ");
  }
  static void make(const Case& chosen, DType dtype, Problem& problem) {
    problem["sum"] = problem["x"] = matrix(chosen, dtype);
  }
  static void reference(const Problem& problem, Slice slice, std::span<double* const> expected) {
    const int64_t columns = problem["x"].extent(1);
    for (int64_t i = slice.first * columns; i < slice.last * columns; ++i) {
      expected[0][i - slice.first * columns] =
          element(problem["sum"], i) + element(problem["x"], i);
    }
  }
};

enum class AccumulateFlaw { kNone, kOverwrites, kWritesBetweenRows };

template <class T, AccumulateFlaw kFlaw>
struct Accumulate {
  static constexpr int kThreads = 64;
  using Arguments = AccumulateOperation::Call;
  struct SharedStorage {};

  __device__ void operator()(SharedStorage&, const Arguments& a) const {
    const int64_t columns = a.x.shape[1];
    T* sum = a.sum.as<T>() + block_index() * a.sum.strides[0];
    const T* x = a.x.as<const T>() + block_index() * a.x.strides[0];
    for (int64_t c = thread_index(); c < columns; c += kThreads) {
      const float old = kFlaw == AccumulateFlaw::kOverwrites ? 0 : to_float(thread::load(sum + c));
      thread::store(sum + c, from_float<T>(old + to_float(thread::load(x + c))));
    }
    if (kFlaw == AccumulateFlaw::kWritesBetweenRows && thread_index() == 0 && block_index() == 0) {
      thread::store(sum + columns, from_float<T>(0));
    }
  }
};

template <AccumulateFlaw kFlaw>
struct AccumulateRung {
  static void run(const AccumulateOperation::Call& call, const Context& context) {
    with_type<kFloats>(call.dtype, [&]<class T>() {
      using Kernel = Accumulate<T, kFlaw>;
      launch<Kernel>({.blocks = call.x.extent(0), .threads = Kernel::kThreads}, context.stream,
                     call);
    });
  }
};
template <AccumulateFlaw kFlaw>
constexpr Rung accumulating(std::string_view name) {
  return rung_of<AccumulateRung<kFlaw>, AccumulateOperation>(
      {.name = name, .idea = "for the test"});
}

// ---- The tables -------------------------------------------------------------------------------

constexpr Operation kOperations[] = {operation_of<CenterOperation>(),
                                     operation_of<SummaryOperation>(),
                                     operation_of<AccumulateOperation>()};

constexpr Rung kRows[] = {
    centering<Flaw::kNone>("right"),
    centering<Flaw::kDroppedTail>("dropped_tail"),
    centering<Flaw::kOffByOneRow>("off_by_one_row"),
    centering<Flaw::kMissingBarrier>("missing_barrier"),
    centering<Flaw::kOverflow>("overflow"),
    centering<Flaw::kStaleOutput>("stale_output"),
    centering<Flaw::kWritesPastTheEnd>("writes_past_the_end"),
    centering<Flaw::kWritesBetweenRows>("writes_between_rows"),
    centering<Flaw::kThreeValues>("three_values"),
    centering<Flaw::kModifiesInput>("modifies_input"),
    centering<Flaw::kNondeterministic>("nondeterministic"),
    centering<Flaw::kNondeterministic>("nondeterministic_as_said", false),
    centering<Flaw::kVeryDifferent>("very_different_as_said", false),
    centering<Flaw::kReadsAgain>("reads_again"),
    centering<Flaw::kOverflow>("acc_f16", true, DType::kF16),
    centering<Flaw::kOffByOneRow>("acc_f16_off_by_one_row", true, DType::kF16),
    centering<Flaw::kThrows>("throws"),
    rung_of<CountingRung<false>, CenterOperation>({.name = "counts", .idea = "for the test"}),
    rung_of<CountingRung<true>, CenterOperation>({.name = "counts_dirty", .idea = "for the test"}),
    summarizing<SummaryFlaw::kNone>("right_summary"),
    summarizing<SummaryFlaw::kLastColumnSum>("last_column_sum"),
    summarizing<SummaryFlaw::kLseOff>("lse_off"),
    summarizing<SummaryFlaw::kLargestUnwritten>("largest_unwritten"),
    accumulating<AccumulateFlaw::kNone>("right_accumulate"),
    accumulating<AccumulateFlaw::kOverwrites>("overwrites"),
    accumulating<AccumulateFlaw::kWritesBetweenRows>("accumulates_between_rows"),
};

constexpr auto kRungs = [] {
  std::array<const Rung*, std::size(kRows)> pointers{};
  for (size_t i = 0; i < pointers.size(); ++i) pointers[i] = &kRows[i];
  return pointers;
}();

}  // namespace

const Family kFamily = {
    .name = "wrong", .summary = "for tests", .operations = kOperations, .rungs = kRungs};

const Operation& center() { return kOperations[0]; }
const Operation& summary() { return kOperations[1]; }
const Operation& accumulate() { return kOperations[2]; }

const Rung& rung(std::string_view name) {
  const auto* at = std::ranges::find(kRows, name, &Rung::name);
  require(at != std::end(kRows), "no wrong kernel is called ", name);
  return *at;
}

}  // namespace ws::wrong
