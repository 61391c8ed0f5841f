// Idea: two passes, for rows that are too long for a cluster to hold their columns' sums: first the
// totals of each row, by a cluster; then a thread owns 16 bytes of columns and goes down a chunk of
// rows, its sums in registers.
// From backward_cluster: rows may have any length, and few of them, too, keep the whole GPU busy.
// Traffic: four reads, one write, and 8 bytes a column and chunk.
// Limits: rows of whole vectors. Statistics that are not given cost another read of x.
// Long: the two kernels, and how rows and columns are shared out.
#include <algorithm>
#include <bit>

#include "kernels/norm/gradient_rows.hpp"
#include "warpsmith/cluster/reduce.hpp"
#include "warpsmith/device_facts.hpp"

namespace ws::norm {
namespace {

// What the second pass wants to know of a row.
struct alignas(16) RowSlope {
  float mean;
  float rstd;
  float slope;
  float shift;
};

template <class T, class W, bool kCentred>
struct RowSlopesKernel {
  static constexpr int kThreads = 512;
  static constexpr Arch kArch = Arch::kSm90;
  static constexpr int kWidth = row::kWidest<T>;
  using Packed = row::Packed<T, kWidth>;
  using Parameter = row::Packed<W, kWidth>;
  using Total = GradientTotals<kCentred>;
  using Merge = AddGradientTotals<kCentred>;
  using Reduce = cluster::AllReduce<Total, kThreads>;
  struct Arguments {
    GradientRows<T> rows;
    RowSlope* slopes;
  };
  struct SharedStorage {
    typename Reduce::Storage total;
  };

  __device__ void operator()(SharedStorage& shared, const Arguments& a) const {
    Reduce all_reduce(shared.total);
    const int64_t r = block_index() / cluster_size();
    const T* grad = a.rows.grad + r * a.rows.grad_stride;
    const T* x = a.rows.x + r * a.rows.x_stride;
    const GivenStatistics<kCentred> row(a.rows, r);
    Total mine{};
#pragma unroll 4
    for (int64_t v = int64_t{cluster_rank()} * kThreads + thread_index(); v < a.rows.vectors;
         v += int64_t{cluster_size()} * kThreads) {
      auto weight = Parameter::filled(1.0F);
      if (a.rows.weight != nullptr) {
        weight = Parameter::template load<Cache::kReadOnly>(static_cast<const W*>(a.rows.weight) +
                                                            v * kWidth);
      }
      add_to_totals(mine, Packed::load(grad + v * kWidth), Packed::load(x + v * kWidth), weight,
                    row);
    }
    const GradientSlope<kCentred> slope(a.rows, row, all_reduce(mine, Total{}, Merge{}));
    if (cluster_rank() == 0 && thread_index() == 0) {
      thread::store(a.slopes + r, RowSlope{row.mean, row.rstd, slope.slope, slope.shift});
    }
    all_reduce.finish();
  }
};

template <class T, class W, bool kCentred>
struct GoDownKernel {
  static constexpr int kThreads = 256;
  static constexpr int kRows = 4;  // under way
  static constexpr Arch kArch = Arch::kSm90;
  static constexpr int kWidth = row::kWidest<T>;
  using Packed = row::Packed<T, kWidth>;
  using Parameter = row::Packed<W, kWidth>;
  struct Arguments {
    GradientRows<T> rows;
    const RowSlope* slopes;
    int64_t stripes;  // of a row, kThreads vectors each
    int64_t share;    // rows of a chunk
  };
  struct SharedStorage {};

  __device__ void operator()(SharedStorage& /*shared*/, const Arguments& a) const {
    const int64_t chunk = block_index() / a.stripes;
    const int64_t vector = block_index() % a.stripes * kThreads + thread_index();
    if (vector >= a.rows.vectors) return;
    auto weight = Parameter::filled(1.0F);
    if (a.rows.weight != nullptr) {
      weight = Parameter::template load<Cache::kReadOnly>(static_cast<const W*>(a.rows.weight) +
                                                          vector * kWidth);
    }
    Vec<float, kWidth> dweight{};
    Vec<float, kWidth> dbias{};
    const int64_t end = (chunk + 1) * a.share;
    const int64_t last = end < a.rows.count ? end : a.rows.count;
    for (int64_t first = chunk * a.share; first < last; first += kRows) {
      Packed grad[kRows];
      Packed x[kRows];
#pragma unroll
      for (int i = 0; i < kRows; ++i) {
        const int64_t r = first + i < last ? first + i : last - 1;
        grad[i] = Packed::load(a.rows.grad + r * a.rows.grad_stride + vector * kWidth);
        x[i] = Packed::load(a.rows.x + r * a.rows.x_stride + vector * kWidth);
      }
#pragma unroll
      for (int i = 0; i < kRows; ++i) {
        if (first + i >= last) break;
        const RowSlope row = thread::load(a.slopes + first + i);
        const auto dx =
            gradient_of(grad[i], x[i], weight, GivenStatistics<kCentred>(row.mean, row.rstd),
                        GradientSlope<kCentred>(row.slope, row.shift), dweight, dbias);
        thread::store(a.rows.dx + (first + i) * a.rows.dx_stride + vector * kWidth,
                      thread::convert<T>(dx));
      }
    }
    const int64_t place = (chunk * a.rows.vectors + vector) * kWidth;
    if (a.rows.dweight != nullptr) thread::store(a.rows.dweight + place, dweight);
    if (kCentred && a.rows.dbias != nullptr) thread::store(a.rows.dbias + place, dbias);
  }
};

struct BackwardTwoPass {
  template <class Call>
  static bool supports(const Call& call, Why& why) {
    return aligned_gradient_rows(call, why);
  }
  template <class Call>
  static Workspace workspace(const Call& call) {
    Workspace workspace = gradient_workspace(call, Plan(call).chunks);
    workspace.bytes += slope_bytes(call);
    return workspace;
  }
  template <class Call>
  static void run(const Call& call, const Context& context) {
    const Plan plan(call);
    with_types(call, [&]<class T, class W>() {
      using Slopes = RowSlopesKernel<T, W, Call::kCentred>;
      using GoDown = GoDownKernel<T, W, Call::kCentred>;
      auto* slopes = static_cast<RowSlope*>(context.workspace);
      Context rest = context;
      rest.workspace = static_cast<std::byte*>(context.workspace) + slope_bytes(call);
      auto rows = gradient_rows_of<T>(call);
      prepare(rows, call, plan.chunks, rest);
      if (rows.count > 0) {
        launch<Slopes>({.blocks = rows.count * plan.cluster,
                        .threads = Slopes::kThreads,
                        .cluster = plan.cluster},
                       context.stream, {rows, slopes});
      }
      launch<GoDown>({.blocks = plan.stripes * plan.chunks, .threads = GoDown::kThreads},
                     context.stream, {rows, slopes, plan.stripes, plan.share});
      SumPartsKernel::launch_on(call, rows.dweight, rows.dbias, plan.chunks, context.stream);
    });
  }

 private:
  // Two blocks an SM for the rows, eight for the columns, of sixteen rows at least.
  struct Plan {
    template <class Call>
    explicit Plan(const Call& call) {
      const int64_t sms = device_facts().multiprocessors;
      const int64_t rows = std::max<int64_t>(call.rows.rows, 1);
      const int64_t vectors = call.rows.row_bytes() / 16;
      stripes = divide_up(vectors, int64_t{256});
      const int64_t wanted =
          std::clamp<int64_t>(8 * sms / stripes, 1, divide_up(rows, int64_t{16}));
      share = divide_up(rows, wanted);
      chunks = divide_up(rows, share);
      const int64_t blocks = std::min(divide_up(2 * sms, rows), divide_up(vectors, int64_t{512}));
      cluster = static_cast<int>(
          std::bit_floor(static_cast<uint64_t>(std::min<int64_t>(blocks, cluster::kMaxBlocks))));
    }
    int64_t stripes;
    int64_t share;
    int64_t chunks;
    int cluster;
  };
  template <class Call>
  static size_t slope_bytes(const Call& call) {
    return sizeof(RowSlope) * static_cast<size_t>(call.rows.rows);
  }
};

}  // namespace

extern const Rung kBackwardTwoPass;
const Rung kBackwardTwoPass = rung_of<BackwardTwoPass, LayerNormBackward, RmsNormBackward>({
    .name = "backward_two_pass",
    .from = "backward_cluster",
    .idea = "totals of rows first, then threads go down columns: rows of any length",
    .arch = Arch::kSm90,
});

}  // namespace ws::norm
