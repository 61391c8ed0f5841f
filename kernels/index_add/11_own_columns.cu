// Idea: a thread has columns of the sums to itself, in shared memory, and walks along the source:
// an addition is a load and a store there.
// From sorted: nothing is sorted, and there are no atomics either. Blocks take parts of the source;
// each leaves its sums in the workspace, and a second launch adds those up in their order.
// Traffic: source, indices, x and y once; 8 bytes for an element of y and part.
// Limits: up to 192 rows, an index for each column. Columns that do not lie side by side are read
// by sectors for single elements.
// Long: two kernels, for the parts and for what they leave.
#include "kernels/index_add/elements.hpp"
#include "warpsmith/device_facts.hpp"
#include "warpsmith/ptx/grid.hpp"
#include "warpsmith/shared.hpp"
#include "warpsmith/thread/math.hpp"

namespace ws::index_add {
namespace {

constexpr int64_t kMostOwnRows = 192;
constexpr size_t kMostOwnBytes = size_t{96} * 1024;  // of a block, so that an SM has two
constexpr int kOwnThreads = 128;
constexpr int kOwnThreadsOfSm = 384;

// What a sum begins with: added to -0 and to anything else it changes nothing.
constexpr float kNothing = -0.0F;

// y = x + sum, of kWidth columns at `at`.
template <class T, int kWidth>
struct OwnTarget {
  const T* x;
  T* y;
  int64_t steps[2];  // of y and x, along a column

  __device__ __forceinline__ Vec<T, kWidth> before(const int64_t (&at)[kColumnOperands],
                                                   int64_t row) const {
    return thread::load<kWidth>(x + at[kColumnX] + row * steps[kColumnX]);
  }
  __device__ __forceinline__ void add(const int64_t (&at)[kColumnOperands], int64_t row,
                                      const Vec<T, kWidth>& before,
                                      const Vec<float, kWidth>& sum) const {
    Vec<float, kWidth> after;
#pragma unroll
    for (int k = 0; k < kWidth; ++k) after[k] = to_float(before[k]) + sum[k];
    thread::store(y + at[kColumnY] + row * steps[kColumnY], thread::convert<T>(after));
  }
};

// kWidth columns a thread, a part of their indices a block; kSame: all columns have the same.
template <class T, int kWidth, bool kSame>
struct OwnColumnsKernel {
  static constexpr int kThreads = kOwnThreads;
  static constexpr int kMinBlocks = kOwnThreadsOfSm / kOwnThreads;
  static constexpr int kAtOnce = kSame ? 16 : 8;  // rows on their way
  // Columns of an index, and indices of a row of the thread's columns.
  static constexpr int kOfIndex = kSame ? kWidth : 1;
  static constexpr int kIndices = kWidth / kOfIndex;
  struct Arguments {
    Indices index;
    QuickNest<kColumnOperands> columns;
    OwnTarget<T, kWidth> target;
    const T* source;
    int64_t source_step;  // along a column
    int64_t index_step;
    int64_t position_step;
    int64_t indices;  // of a column
    int64_t share;    // of a part
    float* sums;      // [part][row][column]; null: there is one part
    uint32_t tiles;   // of columns
    int rows;
    float alpha;
  };
  struct SharedStorage {};

  __device__ void operator()(SharedStorage& shared, const Arguments& a) const {
    const auto block = static_cast<uint32_t>(block_index());
    const uint32_t part = block / a.tiles;
    const int64_t column =
        int64_t{(block - part * a.tiles) * block_threads() + thread_index()} * kWidth;
    if (column >= a.columns.count) return;
    const auto sums = dynamic_shared<float>(shared, int64_t{a.rows} * kWidth * block_threads());
    for (int row = 0; row < a.rows; ++row) {
#pragma unroll
      for (int q = 0; q < kIndices; ++q) {
        Sum sum;
#pragma unroll
        for (int k = 0; k < kOfIndex; ++k) sum[k] = kNothing;
        sums.template store<kOfIndex>(place_of(row, q), sum);
      }
    }
    int64_t at[kColumnOperands];
    a.columns.find(column, at);
    const int64_t first = part * a.share;
    const int64_t last = first + a.share < a.indices ? first + a.share : a.indices;
#pragma unroll 1
    for (int64_t i = first; i < last; i += kAtOnce) {
      if (!add_rows(a, sums, at, i, last)) tell(a, column, i, last);
    }
    if (a.sums == nullptr) return add_to_target(a, sums, at);
#pragma unroll 4
    for (int row = 0; row < a.rows; ++row) {
      const int64_t line = int64_t{part} * a.rows + row;
      thread::store(a.sums + line * a.columns.count + column, sum_of(sums, row));
    }
  }

 private:
  using Sum = Vec<float, kOfIndex>;

  // Threads stand side by side, whichever rows they are at: each has its banks.
  __device__ __forceinline__ static int place_of(int row, int q) {
    return ((row * kIndices + q) * block_threads() + thread_index()) * kOfIndex;
  }

  __device__ __forceinline__ static Vec<float, kWidth> sum_of(const SharedSpan<float>& sums,
                                                              int row) {
    Vec<float, kWidth> sum;
#pragma unroll
    for (int q = 0; q < kIndices; ++q) {
      const Sum some = sums.template load<kOfIndex>(place_of(row, q));
#pragma unroll
      for (int k = 0; k < kOfIndex; ++k) sum[q * kOfIndex + k] = some[k];
    }
    return sum;
  }
  __device__ __forceinline__ static void add_to_target(const Arguments& a,
                                                       const SharedSpan<float>& sums,
                                                       const int64_t (&at)[kColumnOperands]) {
    constexpr int kLoads = 4;
#pragma unroll 1
    for (int first = 0; first < a.rows; first += kLoads) {
      Vec<T, kWidth> before[kLoads];
#pragma unroll
      for (int j = 0; j < kLoads; ++j) {
        if (first + j < a.rows) before[j] = a.target.before(at, first + j);
      }
#pragma unroll
      for (int j = 0; j < kLoads; ++j) {
        if (first + j < a.rows) a.target.add(at, first + j, before[j], sum_of(sums, first + j));
      }
    }
  }

  // Rows from i on; false where an index is none of the target's.
  __device__ __forceinline__ static bool add_rows(const Arguments& a, const SharedSpan<float>& sums,
                                                  const int64_t (&at)[kColumnOperands], int64_t i,
                                                  int64_t last) {
    // The last row stands for those behind it, which nobody adds.
    Vec<T, kWidth> values[kAtOnce];
    int64_t offsets[kAtOnce];
    Vec<int64_t, kIndices> rows[kAtOnce];
#pragma unroll
    for (int j = 0; j < kAtOnce; ++j) {
      const int64_t from = i + j < last ? i + j : last - 1;
      values[j] = thread::load<kWidth>(a.source + at[kColumnSource] + from * a.source_step);
      offsets[j] = at[kColumnIndex] + from * a.index_step;
    }
    a.index.read(offsets, rows);
    bool are_right = true;
#pragma unroll
    for (int j = 0; j < kAtOnce; ++j) {
      Sum sum[kIndices];
      bool adds[kIndices];
      // Their columns differ: all are read before the first is written.
#pragma unroll
      for (int q = 0; q < kIndices; ++q) {
        const bool exists = a.index.exists(rows[j][q]);
        are_right = are_right && exists;
        adds[q] = exists && i + j < last;
        if (!adds[q]) continue;
        sum[q] = sums.template load<kOfIndex>(place_of(static_cast<int>(rows[j][q]), q));
      }
#pragma unroll
      for (int q = 0; q < kIndices; ++q) {
        if (!adds[q]) continue;
#pragma unroll
        for (int k = 0; k < kOfIndex; ++k) {
          const float value = to_float(values[j][q * kOfIndex + k]);
          sum[q][k] = thread::fma(a.alpha, value, sum[q][k]);
        }
        sums.template store<kOfIndex>(place_of(static_cast<int>(rows[j][q]), q), sum[q]);
      }
    }
    return are_right;
  }
  // Which those are.
  __device__ static void tell(const Arguments& a, int64_t column, int64_t i, int64_t last) {
#pragma unroll 1
    for (int n = 0; n < kAtOnce * kIndices; ++n) {
      const int64_t row = i + n / kIndices;
      if (row >= last) return;
      int64_t at[kColumnOperands];
      a.columns.find(column + n % kIndices, at);
      a.index.is_right(a.index.at_offset(at[kColumnIndex] + row * a.index_step),
                       at[kColumnPosition] + row * a.position_step);
    }
  }
};

// A thread kWidth columns of a row: y is x and what the parts have left, in their order.
template <class T, int kWidth>
struct JoinColumnsKernel {
  static constexpr int kThreads = 128;
  struct Arguments {
    QuickNest<kColumnOperands> columns;
    OwnTarget<T, kWidth> target;
    thread::Divider of_row;  // threads
    const float* sums;
    int64_t parts;
    uint32_t rows;
  };
  struct SharedStorage {};

  __device__ void operator()(SharedStorage& /*shared*/, const Arguments& a) const {
    ptx::griddepcontrol_wait();
    const auto i = static_cast<uint32_t>(block_index() * kThreads + thread_index());
    const uint32_t row = a.of_row.quotient(i);
    if (row >= a.rows) return;
    const int64_t column = int64_t{i - row * a.of_row.divisor()} * kWidth;
    Vec<float, kWidth> sum;
#pragma unroll
    for (int k = 0; k < kWidth; ++k) sum[k] = kNothing;
#pragma unroll 8
    for (int64_t p = 0; p < a.parts; ++p) {
      const int64_t line = p * a.rows + row;
      const auto part = thread::load<kWidth>(a.sums + line * a.columns.count + column);
#pragma unroll
      for (int k = 0; k < kWidth; ++k) sum[k] += part[k];
    }
    int64_t at[kColumnOperands];
    a.columns.find(column, at);
    a.target.add(at, row, a.target.before(at, row), sum);
  }
};

// How blocks share the work: tiles of columns, and parts of their indices, so many of which fill
// the GPU once and are worth their sums.
struct OwnCut {
  int threads = kOwnThreads;
  size_t shared = 0;
  int64_t tiles = 1;
  int64_t parts = 1;
  int64_t share = 1;

  OwnCut(const Adding& call, int width) {
    const int64_t vectors = std::max<int64_t>(call.columns.nest.count / width, 1);
    const auto bytes = static_cast<size_t>(call.rows * width) * sizeof(float);
    const auto narrower = [&] { return threads > kWarpSize && threads / 2 >= vectors; };
    while (bytes * static_cast<size_t>(threads) > kMostOwnBytes || narrower()) threads /= 2;
    shared = bytes * static_cast<size_t>(threads);
    tiles = divide_up(vectors, int64_t{threads});
    const auto room = static_cast<size_t>(device_facts().shared_bytes);
    const auto fit = static_cast<int64_t>(room / (shared + 1024));
    const int64_t resident =
        std::clamp<int64_t>(fit, 1, kOwnThreadsOfSm / threads) * device_facts().multiprocessors;
    const int64_t least = std::max<int64_t>(64, 4 * call.rows);
    const int64_t indices = call.columns.indices;
    const int64_t most = std::max<int64_t>(indices / least, 1);
    share =
        std::max<int64_t>(divide_up(indices, std::clamp<int64_t>(resident / tiles, 1, most)), 1);
    parts = std::max<int64_t>(divide_up(indices, share), 1);
  }
};

struct OwnColumns {
  static bool supports(const Adding& call, Why& why) {
    const int64_t columns = call.columns.nest.count;
    return why.unless(call.rows <= kMostOwnRows, "keeps the sums of up to ", kMostOwnRows,
                      " rows, not ", call.rows) &&
           why.unless(columns > 0, "takes columns of at most two loops, each with indices") &&
           why.unless(columns * call.rows < QuickNest<kColumnOperands>::kMost,
                      "takes tensors of fewer than 2^31 elements");
  }
  static Workspace workspace(const Adding& call) {
    // The same wherever tensors lie, which says how wide accesses are.
    const int64_t parts = std::max(OwnCut(call, 1).parts, OwnCut(call, 4).parts);
    if (parts == 1) return {};
    const int64_t sums = parts * call.rows * call.columns.nest.count;
    return {.bytes = static_cast<size_t>(sums) * sizeof(float)};
  }
  static void run(const IndexAdd::Call& call, const Context& context) {
    add(call, "index_add/own_columns", context);
  }
  static void run(const ScatterAdd::Call& call, const Context& context) {
    add(call, "scatter_add/own_columns", context);
  }

 private:
  static void add(const Adding& call, const char* rung, const Context& context) {
    with_type<kFloats>(call.dtype, [&]<class T>() {
      const auto with_width = [&]<int kWidth>() {
        if (call.columns.have_same_indices()) {
          add_columns<T, kWidth, true>(call, rung, context);
        } else {
          add_columns<T, kWidth, false>(call, rung, context);
        }
      };
      if (call.columns.width(call, call.x) == 4) return with_width.template operator()<4>();
      with_width.template operator()<1>();
    });
  }

  template <class T, int kWidth, bool kSame>
  static void add_columns(const Adding& call, const char* rung, const Context& context) {
    using Kernel = OwnColumnsKernel<T, kWidth, kSame>;
    using Join = JoinColumnsKernel<T, kWidth>;
    const auto& steps = call.columns.steps;
    const OwnCut cut(call, kWidth);
    const QuickNest<kColumnOperands> columns(call.columns.nest);
    const OwnTarget<T, kWidth> target{static_cast<const T*>(call.x),
                                      static_cast<T*>(call.table),
                                      {steps[kColumnY], steps[kColumnX]}};
    auto* sums = cut.parts > 1 ? static_cast<float*>(context.workspace) : nullptr;
    launch<Kernel>(
        {.blocks = cut.tiles * cut.parts, .threads = cut.threads, .dynamic_shared = cut.shared},
        context.stream,
        {indices_of(call, rung), columns, target, static_cast<const T*>(call.each),
         steps[kColumnSource], steps[kColumnIndex], steps[kColumnPosition], call.columns.indices,
         cut.share, sums, static_cast<uint32_t>(cut.tiles), static_cast<int>(call.rows),
         call.alpha});
    if (sums == nullptr) return;
    const int64_t of_row = columns.count / kWidth;
    launch<Join>({.blocks = divide_up(call.rows * of_row, int64_t{Join::kThreads}),
                  .threads = Join::kThreads,
                  .overlaps = true},
                 context.stream,
                 {columns, target, thread::Divider(of_row), sums, cut.parts,
                  static_cast<uint32_t>(call.rows)});
  }
};

}  // namespace

extern const Rung kOwnColumns;
const Rung kOwnColumns = rung_of<OwnColumns, IndexAdd, ScatterAdd>(
    {.name = "own_columns",
     .from = "sorted",
     .idea = "columns of sums that are a thread's own: no atomics, and nothing to sort"});

}  // namespace ws::index_add
