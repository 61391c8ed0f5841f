// Idea: every call: any strides, with statistics or without, weight of f32 or none. And the sums
// over rows are cut in chunks of rows, so that few columns, too, keep the whole GPU busy: first the
// chunks' sums, then the sums of these, always in the same order.
// From backward_recompute: addresses are worked out, and statistics are looked at where they are.
// Traffic: grad is read three times, x three or four, dx is written once; a chunk's sums in f32 are
// written and read.
// Long: two kernels, each for any layout.
#include <algorithm>

#include "kernels/norm/05_any_layout.cuh"
#include "kernels/norm/sum_parts.hpp"
#include "warpsmith/device_facts.hpp"

namespace ws::norm {
namespace {

// dx, and the statistics of the row where they are not given.
template <class T, bool kCentred>
struct AnyLayoutDxKernel {
  static constexpr int kThreads = 128;
  static constexpr int kWarps = kThreads / kWarpSize;
  struct Arguments {
    BackwardCall<kCentred> call;
    float* statistics;  // [2, rows]: mean and rstd for the kernel of the columns
  };
  struct SharedStorage {};

  __device__ void operator()(SharedStorage& /*shared*/, const Arguments& a) const {
    const auto& rows = a.call.rows;
    const int64_t row = block_index() * kWarps + warp_index();
    if (row >= rows.rows) return;
    const T* grad = static_cast<const T*>(rows.data[kGrad]) + rows.offset(kGrad, row);
    const T* x = static_cast<const T*>(rows.data[kInput]) + rows.offset(kInput, row);
    T* dx = static_cast<T*>(rows.data[kDx]) + rows.offset(kDx, row);
    const auto plus = [](float p, float q) { return p + q; };
    const auto columns = static_cast<float>(rows.columns);
    const auto input = [&](int64_t i) {
      return to_float(thread::load(x + i * rows.inner[kInput]));
    };

    float mean = 0;
    float rstd = 0;
    if (a.call.has_statistics) {
      const auto given = [&](int which) {
        return thread::load(static_cast<const float*>(a.call.statistics.data[which]) +
                            a.call.statistics.offset(which, row));
      };
      if constexpr (kCentred) mean = given(kMean);
      rstd = given(kRstd);
    } else {
      auto mine = thread::Moments::none();
      float squares = 0;
      for (int64_t i = lane_index(); i < rows.columns; i += kWarpSize) {
        if constexpr (kCentred) {
          mine = thread::add(mine, input(i));
        } else {
          squares += input(i) * input(i);
        }
      }
      if constexpr (kCentred) {
        const auto all = warp::all_reduce(mine, warp::MergeMoments{});
        mean = all.mean;
        squares = all.squares;
      } else {
        squares = warp::all_reduce(squares, plus);
      }
      rstd = thread::rsqrt(squares / columns + a.call.eps);
    }
    if (lane_index() == 0) {
      thread::store(a.statistics + row, mean);
      thread::store(a.statistics + rows.rows + row, rstd);
    }

    const auto u = [&](int64_t i) {
      return to_float(thread::load(grad + i * rows.inner[kGrad])) *
             column<T>(a.call.weight, a.call.parameter_dtype, i, 1.0F);
    };
    float sum = 0;
    float product = 0;
    for (int64_t i = lane_index(); i < rows.columns; i += kWarpSize) {
      const float v = u(i);
      sum += v;
      product += v * (input(i) - mean) * rstd;
    }
    const float slope = warp::all_reduce(product, plus) / columns;
    float shift = 0;
    if constexpr (kCentred) shift = warp::all_reduce(sum, plus) / columns;
    for (int64_t i = lane_index(); i < rows.columns; i += kWarpSize) {
      const float z = (input(i) - mean) * rstd;
      thread::store(dx + i * rows.inner[kDx], from_float<T>((u(i) - shift - z * slope) * rstd));
    }
  }
};

// A chunk's rows summed by column: a warp takes 32 columns, a block kWarps chunks of rows.
template <class T, bool kCentred>
struct AnyLayoutChunksKernel {
  static constexpr int kThreads = 128;
  static constexpr int kWarps = kThreads / kWarpSize;
  struct Arguments {
    BackwardCall<kCentred> call;
    const float* statistics;
    float* dweight;  // [chunks, columns]
    float* dbias;    // [chunks, columns]
    int64_t chunks;
    int64_t rows;  // of a chunk
  };
  struct SharedStorage {};

  __device__ void operator()(SharedStorage& /*shared*/, const Arguments& a) const {
    const auto& rows = a.call.rows;
    const int64_t stripes = divide_up(rows.columns, int64_t{kWarpSize});
    const int64_t item = block_index() * kWarps + warp_index();
    const int64_t chunk = item / stripes;
    const int64_t i = item % stripes * kWarpSize + lane_index();
    if (chunk >= a.chunks || i >= rows.columns) return;
    const int64_t last = rows.rows < (chunk + 1) * a.rows ? rows.rows : (chunk + 1) * a.rows;
    float dweight = 0;
    float dbias = 0;
    for (int64_t row = chunk * a.rows; row < last; ++row) {
      const float grad = to_float(thread::load(static_cast<const T*>(rows.data[kGrad]) +
                                               rows.offset(kGrad, row) + i * rows.inner[kGrad]));
      const float x = to_float(thread::load(static_cast<const T*>(rows.data[kInput]) +
                                            rows.offset(kInput, row) + i * rows.inner[kInput]));
      const float mean = thread::load(a.statistics + row);
      const float rstd = thread::load(a.statistics + rows.rows + row);
      dweight += grad * (x - mean) * rstd;
      dbias += grad;
    }
    thread::store(a.dweight + chunk * rows.columns + i, dweight);
    thread::store(a.dbias + chunk * rows.columns + i, dbias);
  }
};

struct BackwardAnyLayout {
  // So many that each SM has eight warps for the columns' sums, of at least 16 rows.
  template <class Call>
  static int64_t chunks_of(const Call& call) {
    const int64_t stripes = divide_up(call.rows.columns, int64_t{kWarpSize});
    const int64_t wanted =
        divide_up(int64_t{8} * device_facts().multiprocessors, std::max<int64_t>(stripes, 1));
    return std::clamp<int64_t>(call.rows.rows / 16, 1, wanted);
  }
  // Of the parts of the workspace, in floats.
  static int64_t statistics_of(int64_t rows) { return round_up(2 * rows, int64_t{64}); }

  template <class Call>
  static Workspace workspace(const Call& call) {
    const int64_t floats = statistics_of(call.rows.rows) + 2 * chunks_of(call) * call.rows.columns;
    return {.bytes = sizeof(float) * static_cast<size_t>(floats)};
  }
  template <class Call>
  static void run(const Call& call, const Context& context) {
    with_type<kFloats>(call.dtype, [&]<class T>() {
      using Dx = AnyLayoutDxKernel<T, Call::kCentred>;
      using Chunks = AnyLayoutChunksKernel<T, Call::kCentred>;
      const int64_t rows = call.rows.rows;
      const int64_t columns = call.rows.columns;
      float* statistics = static_cast<float*>(context.workspace);
      if (rows > 0) {
        launch<Dx>({.blocks = divide_up(rows, int64_t{Dx::kWarps}), .threads = Dx::kThreads},
                   context.stream, {call, statistics});
      }
      if ((!call.dweight.exists && !call.dbias.exists) || columns == 0) return;
      const int64_t chunks = chunks_of(call);
      float* dweight = statistics + statistics_of(rows);
      float* dbias = dweight + chunks * columns;
      const int64_t items = chunks * divide_up(columns, int64_t{kWarpSize});
      launch<Chunks>(
          {.blocks = divide_up(items, int64_t{Chunks::kWarps}), .threads = Chunks::kThreads},
          context.stream, {call, statistics, dweight, dbias, chunks, divide_up(rows, chunks)});
      SumPartsKernel::launch_on(call, dweight, dbias, chunks, context.stream);
    });
  }
};

}  // namespace

extern const Rung kBackwardAnyLayout;
const Rung kBackwardAnyLayout = rung_of<BackwardAnyLayout, LayerNormBackward, RmsNormBackward>({
    .name = "backward_any_layout",
    .from = "backward_recompute",
    .idea = "any call; sums over rows in chunks, so that few columns keep the GPU busy",
});

}  // namespace ws::norm
