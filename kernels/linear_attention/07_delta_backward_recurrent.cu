// Idea: the gradient of the delta rule is four recurrences, and none needs another's states. There,
//   columns of the state leave what each step corrects; back, columns of its gradient leave what
//   that is worth. Given both, rows walk there for dq and a part of dk, and back for dk.
// From recurrent: as many lines of a state in registers, rows too; of up to 1024 numbers.
// Traffic: q and v twice, k four times, dout three times; in f32 8 M + 4 D bytes a step written and
//   24 M + 4 D read, those of a walk for every 64 of its lines. No state.
// Limits: those of recurrent, four times: S dependent steps in B * H * M / 64 blocks.
// Long: four walks by one kernel.
#include "kernels/linear_attention/delta_backward.hpp"
#include "warpsmith/ptx/barrier.hpp"
#include "warpsmith/shared.hpp"
#include "warpsmith/warp/reduce.hpp"

namespace ws::linear_attention {
namespace {

#if WS_DEVICE_CODE
struct DeltaBackwardArguments {
  DeltaBackwardCall call;
  DeltaBackwardParts parts;
};

enum class Way {
  kErrors,   // there, by columns: errors, and the state after the last step
  kAdded,    // back, by columns: dadded, dv and dinitial_state
  kQueries,  // there, by rows: dq, and what dk has of states before steps
  kKeys,     // back, by rows: dk
};

// A line of the state: one of its columns, or of its rows, of up to kLength numbers.
template <class T, int kLength, Way kWay>
struct DeltaBackwardKernel {
  static constexpr int kThreads = 256;
  static constexpr int kMinBlocks = 2;
  static constexpr bool kOfColumns = kWay == Way::kErrors || kWay == Way::kAdded;
  static constexpr bool kBack = kWay == Way::kAdded || kWay == Way::kKeys;
  static constexpr bool kWide = kLength > 128;
  static constexpr int kParts = kWide ? kWarpSize : 4;  // lanes of a line
  static constexpr int kLines = kThreads / kParts;
  static constexpr int kFours = kLength / (4 * kParts);
  static constexpr int kSteps = kWide ? 4 : 16;
  // Of a step: rows that are as long as lines are, and numbers of each line.
  static constexpr int kRows = kWay == Way::kErrors ? 1 : kOfColumns ? 2 : 3;
  static constexpr int kNumbers = kOfColumns ? 1 : kBack ? 3 : 1;
  using Arguments = DeltaBackwardArguments;
  struct SharedStorage {
    SharedArray<float, kRows * kSteps * kLength> rows;
    SharedArray<float, kNumbers * kSteps * kLines> numbers;
    SharedArray<float, kSteps> decay;
    SharedArray<float, kSteps> beta;
  };

  __device__ void operator()(SharedStorage& shared, const Arguments& a) const {
    const DeltaBackwardCall& call = a.call;
    const Place at(call, block_index());
    const int64_t own = at.line + thread_index() / kParts;
    const bool exists = own < at.lines;

    Line line = {};
    const States& begins = kBack ? call.dfinal : call.initial;
    if (begins.data != nullptr) {
      for_each(at, exists, line, [&](int64_t i, float& number) {
        number = thread::load(kOfColumns ? begins.at(at.batch, at.head, i, own)
                                         : begins.at(at.batch, at.head, own, i));
      });
    }
    for (int64_t first = 0; first < call.steps; first += kSteps) {
      fill(shared, a, at, first);
      ptx::barrier_sync();
      const int steps = static_cast<int>(first + kSteps < call.steps ? kSteps : call.steps - first);
#pragma unroll 1
      for (int i = 0; i < steps; ++i) {
        const Results results = step(Step{shared, i}, line, call.scale);
        if (exists && thread_index() % kParts == 0) {
          write(a, at, own, time_of(call, first + i), results);
        }
      }
      ptx::barrier_sync();  // all have read these steps
    }
    if (kWay == Way::kErrors && a.parts.final != nullptr) {
      float* const to = a.parts.final + (at.matrix * call.value_dim + own) * call.dim;
      for_each(at, exists, line, [&](int64_t i, float& number) { thread::store(to + i, number); });
    }
    if (kWay == Way::kAdded && call.dinitial.data != nullptr) {
      const float decay =
          call.steps > 0 ? thread::exp2(log2_decay(call.log_decay, at.batch, at.head, 0)) : 1.0F;
      for_each(at, exists, line, [&](int64_t i, float& number) {
        thread::store(call.dinitial.at(at.batch, at.head, i, own), decay * number);
      });
    }
  }

 private:
  using Line = Vec<float, 4>[kFours];

  // What a block walks: a head's steps, and its lines from `line` on.
  struct Place {
    int64_t lines, length, matrix, batch, head, line;

    __device__ __forceinline__ Place(const DeltaBackwardCall& call, int64_t index)
        : lines(kOfColumns ? call.value_dim : call.dim),
          length(kOfColumns ? call.dim : call.value_dim) {
      const int64_t blocks = divide_up(lines, kLines);
      matrix = index / blocks;
      batch = matrix / call.heads;
      head = matrix % call.heads;
      line = index % blocks * kLines;
    }
  };

  // Where this lane's numbers of a line stand in it.
  __device__ __forceinline__ static int index_of(int four) {
    return four * 4 * kParts + thread_index() % kParts * 4;
  }
  template <class F>
  __device__ __forceinline__ static void for_each(const Place& at, bool exists, Line& line, F&& f) {
#pragma unroll
    for (int i = 0; i < kFours; ++i) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        if (exists && index_of(i) + e < at.length) f(int64_t{index_of(i)} + e, line[i][e]);
      }
    }
  }

  // The step that is the i-th of the way.
  __device__ __forceinline__ static int64_t time_of(const DeltaBackwardCall& call, int64_t i) {
    return kBack ? call.steps - 1 - i : i;
  }

  // kSteps rows of which `columns` columns are there, in f32; zeros beyond.
  template <int kWidth, class From>
  __device__ __forceinline__ static void fill_rows(SharedSpan<float> to, const Rows& from,
                                                   const DeltaBackwardCall& call, const Place& at,
                                                   int64_t first_column, int64_t columns,
                                                   int64_t first) {
    for (int i = thread_index(); i < kSteps * kWidth; i += kThreads) {
      const int64_t step = first + i / kWidth;
      const int64_t column = i % kWidth;
      const bool is_there = step < call.steps && column < columns;
      to[i] =
          is_there
              ? to_float(thread::load(from.at<const From>(at.batch, at.head, time_of(call, step)) +
                                      (first_column + column) * from.column))
              : 0.0F;
    }
  }
  __device__ __forceinline__ static void fill(SharedStorage& shared, const Arguments& a,
                                              const Place& at, int64_t first) {
    const DeltaBackwardCall& call = a.call;
    const auto rows = [&]<class From>(int which, const Rows& from) {
      fill_rows<kLength, From>({shared.rows.pointer(which * kSteps * kLength), kSteps * kLength},
                               from, call, at, 0, at.length, first);
    };
    const auto numbers = [&]<class From>(int which, const Rows& from) {
      fill_rows<kLines, From>({shared.numbers.pointer(which * kSteps * kLines), kSteps * kLines},
                              from, call, at, at.line, at.lines - at.line, first);
    };
    if constexpr (kOfColumns) {
      rows.template operator()<T>(0, call.k);
      if constexpr (kBack) rows.template operator()<T>(1, call.q);
      numbers.template operator()<T>(0, kBack ? call.dout : call.v);
    } else {
      rows.template operator()<T>(0, call.dout);
      rows.template operator()<float>(1, a.parts.errors);
      rows.template operator()<float>(2, a.parts.dadded);
      numbers.template operator()<T>(0, call.k);
      if constexpr (kBack) {
        numbers.template operator()<T>(1, call.q);
        numbers.template operator()<float>(2, a.parts.before);
      }
    }
    const int64_t step = first + thread_index();
    if (thread_index() >= kSteps || step >= call.steps) return;
    // Back, a step's gradient is that of the one after it, times what that one's decay is.
    const int64_t t = time_of(call, step);
    shared.decay[thread_index()] =
        kBack && step == 0
            ? 1.0F
            : thread::exp2(log2_decay(call.log_decay, at.batch, at.head, t + (kBack ? 1 : 0)));
    shared.beta[thread_index()] = thread::load(call.beta.at(at.batch, at.head, t));
  }

  // A step in shared memory, and what a lane does to its part of a line.
  struct Step {
    SharedStorage& shared;
    int i;

    __device__ __forceinline__ Vec<float, 4> four(int which, int f) const {
      return shared.rows.template load<4>((which * kSteps + i) * kLength + index_of(f));
    }
    __device__ __forceinline__ float number(int which) const {
      return shared.numbers[(which * kSteps + i) * kLines + thread_index() / kParts];
    }
    __device__ __forceinline__ float dot(int which, const Line& line) const {
      float sum = 0;
#pragma unroll
      for (int f = 0; f < kFours; ++f) {
        const auto row = four(which, f);
#pragma unroll
        for (int e = 0; e < 4; ++e) sum = thread::fma(row[e], line[f][e], sum);
      }
      return warp::all_reduce<kParts>(sum, [](float x, float y) { return x + y; });
    }
    // line = decay * line + factor * row
    __device__ __forceinline__ void add(Line& line, float decay, int which, float factor) const {
#pragma unroll
      for (int f = 0; f < kFours; ++f) {
        const auto row = four(which, f);
#pragma unroll
        for (int e = 0; e < 4; ++e) line[f][e] = thread::fma(factor, row[e], decay * line[f][e]);
      }
    }
  };

  struct Results {
    float first = 0, second = 0;
  };
  __device__ __forceinline__ static Results step(const Step& at, Line& line, float scale) {
    const float decay = at.shared.decay[at.i];
    const float beta = at.shared.beta[at.i];
    if constexpr (kWay == Way::kErrors) {
      const float error = at.number(0) - decay * at.dot(0, line);
      at.add(line, decay, 0, beta * error);
      return {error};
    } else if constexpr (kWay == Way::kAdded) {
      at.add(line, decay, 1, scale * at.number(0));
      const float dadded = at.dot(0, line);
      at.add(line, 1, 0, -beta * dadded);
      return {dadded, beta * dadded};
    } else if constexpr (kWay == Way::kQueries) {
      const float before = beta * decay * at.dot(2, line);
      at.add(line, decay, 1, beta * at.number(0));
      return {before, scale * at.dot(0, line)};
    } else {
      at.add(line, decay, 0, scale * at.number(1));
      const float dk = beta * at.dot(1, line) - at.number(2);
      at.add(line, 1, 2, -beta * at.number(0));
      return {dk};
    }
  }

  __device__ __forceinline__ static void write(const Arguments& a, const Place& at, int64_t own,
                                               int64_t t, const Results& results) {
    const auto to = [&]<class To>(const Rows& rows, float value) {
      thread::store(rows.at<To>(at.batch, at.head, t) + own * rows.column, from_float<To>(value));
    };
    if constexpr (kWay == Way::kErrors) {
      to.template operator()<float>(a.parts.errors, results.first);
    } else if constexpr (kWay == Way::kAdded) {
      to.template operator()<float>(a.parts.dadded, results.first);
      to.template operator()<T>(a.call.dv, results.second);
    } else if constexpr (kWay == Way::kQueries) {
      to.template operator()<float>(a.parts.before, results.first);
      if (a.parts.dq.data != nullptr) {
        to.template operator()<float>(a.parts.dq, results.second);
      } else {
        to.template operator()<T>(a.call.dq, results.second);
      }
    } else {
      to.template operator()<T>(a.call.dk, results.first);
    }
  }
};
#endif

struct DeltaBackwardRecurrent {
  static Workspace workspace(const DeltaBackwardCall& call) {
    return {.bytes = DeltaBackwardParts(call, nullptr).bytes};
  }

  template <class T, Way kWay>
  static void walk(const DeltaBackwardArguments& a, Stream stream) {
    const auto run = [&]<int kLength>() {
      using Kernel = DeltaBackwardKernel<T, kLength, kWay>;
      const int64_t lines = Kernel::kOfColumns ? a.call.value_dim : a.call.dim;
      launch<Kernel>({.blocks = a.call.matrices() * divide_up(lines, Kernel::kLines),
                      .threads = Kernel::kThreads},
                     stream, a);
    };
    const bool of_columns = kWay == Way::kErrors || kWay == Way::kAdded;
    const int64_t length = of_columns ? a.call.dim : a.call.value_dim;
    if (length <= 64) return run.template operator()<64>();
    if (length <= 128) return run.template operator()<128>();
    run.template operator()<1024>();
  }
  static void run(const DeltaBackwardCall& call, const Context& context) {
    if (call.matrices() == 0) return;
    const DeltaBackwardArguments a{call, DeltaBackwardParts(call, context.workspace)};
    with_type<kFloats>(call.dtype, [&]<class T>() {
      walk<T, Way::kErrors>(a, context.stream);
      walk<T, Way::kAdded>(a, context.stream);
      walk<T, Way::kQueries>(a, context.stream);
      walk<T, Way::kKeys>(a, context.stream);
    });
    finish_delta_backward(call, a.parts, context.stream);
  }
};

}  // namespace

extern const Rung kDeltaBackwardRecurrent;
constinit const Rung kDeltaBackwardRecurrent = rung_of<DeltaBackwardRecurrent, DeltaRuleBackward>({
    .name = "delta_backward_recurrent",
    .from = "recurrent",
    .idea = "four walks by lines of the state in registers: columns there and back, rows likewise",
});

}  // namespace ws::linear_attention
