// Idea: any strides, any dimensions: threads find their elements by dividing their number. Some of
// a block's threads stand side by side over outputs, the rest over the elements behind each; how
// many, the strides say, so that neighbours read neighbours. Few outputs are shared by many blocks.
// From block_per_row: every valid problem.
// Traffic: every element once, one element a thread and load, four in flight.
// Limits: none. A division by multiplication for each element and dimension; strided_vectors has
//   one for 16 bytes, of elements that are side by side so far.
// Long: what makes a plan of any strides belongs to the idea.
#include "catalogue/parts.hpp"
#include "catalogue/row.hpp"
#include "kernels/reduce/reducers.hpp"
#include "kernels/reduce/walk.hpp"
#include "warpsmith/device_facts.hpp"

namespace ws::reduce {
namespace {

constexpr int kBlockThreads = 256;
constexpr int kUnroll = 4;

// How the work is laid out: tiles of `across` outputs, elements behind them in `parts`.
struct Plan {
  int across = 1;
  int64_t share = 0;  // elements of a part
  PartsPlan parts;

  explicit Plan(const Reduction& call, size_t partial_bytes) {
    const auto step = [](const std::array<Loop, kMaxRank>& loops, int count) {
      return count == 0 ? std::numeric_limits<int64_t>::max()
                        : std::abs(loops[static_cast<size_t>(count - 1)].strides[0]);
    };
    const bool outputs_are_closer =
        step(call.kept, call.kept_loops) < step(call.reduced, call.reduced_loops);
    const auto power = [](int64_t n) {  // the least that is not smaller, up to the block
      int p = 1;
      while (p < n && p < kBlockThreads) p *= 2;
      return p;
    };
    across = std::max(outputs_are_closer ? kWarpSize : 1, kBlockThreads / power(call.count));
    across = std::min(across, power(call.outputs));
    parts.groups = divide_up(std::max<int64_t>(call.outputs, 1), int64_t{across});
    const int64_t rows = kBlockThreads / across;
    const int64_t most = divide_up(call.count, rows * kUnroll * 4);
    const int64_t blocks = int64_t{4} * device_facts().multiprocessors;
    const int64_t wanted = std::clamp<int64_t>(blocks / parts.groups, 1, 1024);
    share = divide_up(call.count, std::max<int64_t>(1, std::min(most, wanted)));
    parts.parts = share == 0 ? 1 : static_cast<int>(divide_up(call.count, share));
    parts.partials = across;
    parts.partial_bytes = partial_bytes;
  }
};

// as(T{}) of the elements that are read as a wide one. `any` wants bits.
template <class Value, class F>
__device__ __forceinline__ void with_stored(DType dtype, const F& as) {
  if constexpr (std::is_same_v<Value, double>) {
    as(double{});
  } else if constexpr (std::is_same_v<Value, float>) {
    switch (dtype) {
      case DType::kF32: return as(float{});
      case DType::kF16: return as(half{});
      case DType::kBf16: return as(bf16{});
      case DType::kE4m3: return as(e4m3{});
      default: return as(e5m2{});
    }
  } else if constexpr (std::is_same_v<Value, int64_t>) {
    switch (dtype) {
      case DType::kI64: return as(int64_t{});
      case DType::kI32: return as(int32_t{});
      case DType::kI8: return as(int8_t{});
      default: return as(uint8_t{});
    }
  } else {
    switch (dtype) {
      case DType::kF64:
      case DType::kI64: return as(uint64_t{});
      case DType::kF32:
      case DType::kI32: return as(uint32_t{});
      case DType::kF16:
      case DType::kBf16: return as(uint16_t{});
      default: return as(uint8_t{});
    }
  }
}

// All loads before the first conversion.
template <class Value, int N>
__device__ __forceinline__ void load_widened(Value (&values)[N], DType dtype, const void* data,
                                             const int64_t (&at)[N]) {
  with_stored<Value>(dtype, [&]<class T>(T /*type*/) {
    T loaded[N];
#pragma unroll
    for (int i = 0; i < N; ++i) loaded[i] = thread::load(static_cast<const T*>(data) + at[i]);
#pragma unroll
    for (int i = 0; i < N; ++i) values[i] = widen<Value>(loaded[i]);
  });
}

// The elements behind an output in vectors of 16 bytes, which are side by side: what counts and
// strides then count.
bool as_vectors(const Reduction& call, Reduction& vectors, Why& why) {
  vectors = call;
  const auto width = static_cast<int64_t>(16 / size_of(call.dtype));
  const int inner = call.reduced_loops - 1;
  bool whole = inner >= 0 && reinterpret_cast<uintptr_t>(call.inputs[0]) % 16 == 0;
  const auto in_vectors = [&](std::array<Loop, kMaxRank>& loops, int count) {
    for (int i = 0; i < count; ++i) {
      int64_t& stride = loops[static_cast<size_t>(i)].strides[0];
      whole = whole && stride % width == 0;
      stride /= width;
    }
  };
  if (whole) {
    Loop& loop = vectors.reduced[static_cast<size_t>(inner)];
    whole = loop.strides[0] == 1 && loop.extent % width == 0;
    loop.extent /= width;
    in_vectors(vectors.reduced, inner);
    in_vectors(vectors.kept, call.kept_loops);
    vectors.count /= width;
  }
  return why.unless(whole, "takes elements side by side, whole vectors of ", width,
                    " that start at multiples of 16 bytes");
}

template <class Reducer, bool kVectors>
struct StridedKernel {
  static_assert(!kVectors || Reducer::kInputs == 1);
  static constexpr int kThreads = kBlockThreads;
  static constexpr int kInputs = Reducer::kInputs;
  using Value = typename Reducer::Element;
  using Accumulator = typename Reducer::Accumulator;
  struct Arguments {
    Reducer reducer;
    const void* inputs[kInputs];
    DType dtype;
    void* output;
    DType output_dtype;
    int across;
    int64_t outputs;
    int64_t count;
    int64_t share;
    Walk kept;     // strides of the input and of the output
    Walk reduced;  // strides of each input
    Parts<Accumulator> parts;
  };
  struct SharedStorage {
    SharedArray<Accumulator, kThreads> totals;
    SharedArray<uint32_t, 1> order;
  };

  __device__ void operator()(SharedStorage& shared, const Arguments& a) const {
    const int64_t tile = block_index() / a.parts.parts;
    const auto part = static_cast<int>(block_index() - tile * a.parts.parts);
    const int column = thread_index() % a.across;
    const int row = thread_index() / a.across;
    const int rows = kThreads / a.across;
    const int64_t output = tile * a.across + column;
    const bool mine = output < a.outputs;
    const Walk::Place place = a.kept(mine ? output : 0);

    Accumulator total = Reducer::none();
    if (mine) {
      const int64_t first = part * a.share;
      const int64_t last = first + a.share < a.count ? first + a.share : a.count;
      int64_t i = first + row;
      for (; i + (kUnroll - 1) * rows < last; i += kUnroll * rows) {
        add<kUnroll>(a, total, place.at[0], i, rows);
      }
      for (; i < last; i += rows) add<1>(a, total, place.at[0], i, rows);
    }
    total = merge_rows(shared, total, a.across);

    if (a.parts.parts > 1) {
      const int64_t base = tile * a.parts.parts;
      if (row == 0) a.parts.leave((base + part) * a.across + column, total);
      if (!a.parts.came_last(tile, shared.order)) return;
      total = Reducer::none();
      for (int p = row; p < a.parts.parts; p += rows) {
        total = Reducer::merge(total, a.parts.take((base + p) * a.across + column));
      }
      total = merge_rows(shared, total, a.across);
    }
    if (row == 0 && mine) {
      store_as(a.output_dtype, a.output, place.at[1], a.reducer.finish(total));
    }
  }

  // Elements i, i + step, ... more.
  template <int N>
  __device__ __forceinline__ static void add(const Arguments& a, Accumulator& total, int64_t base,
                                             int64_t i, int step) {
    if constexpr (kVectors) {
      add_vectors<N>(a, total, base, i, step);
    } else {
      add_elements<N>(a, total, base, i, step);
    }
  }
  template <int N>
  __device__ __forceinline__ static void add_elements(const Arguments& a, Accumulator& total,
                                                      int64_t base, int64_t i, int step) {
    int64_t at[kInputs][N];
#pragma unroll
    for (int u = 0; u < N; ++u) {
      const Walk::Place place = a.reduced(i + u * step);
#pragma unroll
      for (int k = 0; k < kInputs; ++k) at[k][u] = base + place.at[k];
    }
    Value x[kInputs][N];
#pragma unroll
    for (int k = 0; k < kInputs; ++k) load_widened(x[k], a.dtype, a.inputs[k], at[k]);
#pragma unroll
    for (int u = 0; u < N; ++u) {
      if constexpr (kInputs == 1) {
        total = a.reducer.add(total, x[0][u], i + u * step);
      } else {
        total = a.reducer.add(total, x[0][u], x[1][u], i + u * step);
      }
    }
  }
  template <int N>
  __device__ __forceinline__ static void add_vectors(const Arguments& a, Accumulator& total,
                                                     int64_t base, int64_t i, int step) {
    with_stored<Value>(a.dtype, [&]<class T>(T /*type*/) {
      constexpr int kWidth = 16 / static_cast<int>(sizeof(T));
      Vec<T, kWidth> loaded[N];
#pragma unroll
      for (int u = 0; u < N; ++u) {
        const int64_t at = base + a.reduced(i + u * step).at[0];
        loaded[u] = thread::load<kWidth>(static_cast<const T*>(a.inputs[0]) + at * kWidth);
      }
#pragma unroll
      for (int u = 0; u < N; ++u) {
#pragma unroll
        for (int e = 0; e < kWidth; ++e) {
          total = a.reducer.add(total, widen<Value>(loaded[u][e]), (i + u * step) * kWidth + e);
        }
      }
    });
  }
  // Of the threads that stand over one output, given to the first.
  __device__ __forceinline__ static Accumulator merge_rows(SharedStorage& shared,
                                                           const Accumulator& total, int across) {
    const int t = thread_index();
    shared.totals[t] = total;
    ptx::barrier_sync();
    for (int half = kThreads / 2; half >= across; half /= 2) {
      if (t < half) {
        const Accumulator lower = shared.totals[t];
        const Accumulator upper = shared.totals[t + half];
        shared.totals[t] = Reducer::merge(lower, upper);
      }
      ptx::barrier_sync();
    }
    return shared.totals[t];
  }
};

template <bool kVectors>
struct StridedBy {
  template <class Call>
  static Workspace workspace(const Call& call) {
    Workspace workspace;
    with_reducer<Elements::kWidened>(call, [&]<class Reducer>(const Reducer& /*reducer*/) {
      workspace = Plan(counted(call), sizeof(typename Reducer::Accumulator)).parts.workspace();
    });
    return workspace;
  }
  template <class Call>
  static void run(const Call& given, const Context& context) {
    with_reducer<Elements::kWidened>(given, [&]<class Reducer>(const Reducer& reducer) {
      using Kernel = StridedKernel<Reducer, kVectors>;
      const Reduction call = counted(given);
      const Plan plan(call, sizeof(typename Reducer::Accumulator));
      typename Kernel::Arguments arguments{};
      arguments.reducer = reducer;
      for (int k = 0; k < Reducer::kInputs; ++k) {
        arguments.inputs[k] = call.inputs[static_cast<size_t>(k)];
      }
      arguments.dtype = call.dtype;
      arguments.output = call.output;
      arguments.output_dtype = call.output_dtype;
      arguments.across = plan.across;
      arguments.outputs = call.outputs;
      arguments.count = call.count;
      arguments.share = plan.share;
      arguments.kept = Walk(call.kept, call.kept_loops, call.outputs);
      arguments.reduced = Walk(call.reduced, call.reduced_loops, call.count);
      arguments.parts = {plan.parts, context.workspace};
      launch<Kernel>({.blocks = plan.parts.groups * plan.parts.parts, .threads = Kernel::kThreads},
                     context.stream, arguments);
    });
  }

 private:
  static Reduction counted(const Reduction& call) {
    Reduction vectors = call;
    Why nobody;
    if (kVectors) as_vectors(call, vectors, nobody);
    return vectors;
  }
};
using Strided = StridedBy</*kVectors=*/false>;

struct StridedVectors : StridedBy</*kVectors=*/true> {
  static bool supports(const Reduction& call, Why& why) {
    Reduction vectors;
    return as_vectors(call, vectors, why);
  }
};

}  // namespace

extern const Rung kStrided;
const Rung kStrided =
    rung_of<Strided, Sum, Mean, Prod, Amax, Amin, Argmax, Argmin, Any, All, VectorNorm, Dot>(
        {.name = "strided",
         .from = "block_per_row",
         .idea =
             "any strides and dimensions; few outputs shared by many blocks, merged by the last"});

extern const Rung kStridedVectors;
const Rung kStridedVectors =
    rung_of<StridedVectors, Sum, Mean, Prod, Amax, Amin, Argmax, Argmin, Any, All, VectorNorm>(
        {.name = "strided_vectors",
         .from = "strided",
         .idea = "16 bytes a load, one division a vector: sums through samples and pixels (NCHW)",
         .file = "14_strided.cu"});

}  // namespace ws::reduce
