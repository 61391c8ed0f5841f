// Idea: the columns' sums stay in registers while rows go by: a lane of a warp owns the same
// columns of every row that its warp takes, and the next row is fetched before this one is reduced.
// From backward_any_layout: grad and x are read once. Blocks stay; each leaves one sum a column,
// and a second kernel adds these up in their order, so two runs give the same bits.
// Traffic: two reads, one write, and 8 bytes a column and block.
// Limits: rows of whole vectors of up to 1 KiB. Statistics that are not given cost another
// read of x.
// Long: the kernel and what merges its groups' sums.
#include <algorithm>

#include "kernels/norm/gradient_rows.hpp"
#include "warpsmith/device_facts.hpp"

namespace ws::norm {
namespace {

// T: of the rows; W: of the weight. kLanes of a warp share a row.
template <class T, class W, bool kCentred, int kLanes, int kVectors>
struct BackwardInRegistersKernel {
  using Element = T;
  static constexpr int kThreads = 256;
  static constexpr int kGroups = kThreads / kLanes;
  static constexpr int kWidth = row::kWidest<T>;
  // An SM holds: the launch counts on it. More leave too few registers for two rows and the sums.
  static constexpr int kMinBlocks = kVectors * kWidth > 8 ? 2 : (kVectors * kWidth > 4 ? 3 : 4);
  static constexpr int kCapacity = kLanes * kVectors * kWidth;  // columns
  using Packed = row::Packed<T, kWidth>;
  using Parameter = row::Packed<W, kWidth>;
  using Sums = Vec<float, kWidth>;
  using Arguments = GradientRows<T>;
  struct SharedStorage {
    SharedArray<float, kGroups * kCapacity> sums;
  };

  // A row's share of a lane; beyond the last row all is 0.
  struct Loaded {
    Packed grad[kVectors];
    Packed x[kVectors];
    float mean = 0;
    float rstd = 0;

    __device__ __forceinline__ Loaded(const Arguments& a, int64_t r, int lane) {
      const bool is_row = r < a.count;
#pragma unroll
      for (int v = 0; v < kVectors; ++v) {
        const int64_t at = lane + v * kLanes;
        const bool holds = is_row && at < a.vectors;
        grad[v] = Packed::filled(0.0F);
        x[v] = Packed::filled(0.0F);
        if (holds) grad[v] = Packed::load(a.grad + r * a.grad_stride + at * kWidth);
        if (holds) x[v] = Packed::load(a.x + r * a.x_stride + at * kWidth);
      }
      if (kCentred && is_row) mean = thread::load(a.mean + r);
      if (is_row) rstd = thread::load(a.rstd + r);
    }
  };

  __device__ void operator()(SharedStorage& shared, const Arguments& a) const {
    const int lane = thread_index() % kLanes;
    Parameter weight[kVectors];
    Sums dweight[kVectors];
    Sums dbias[kVectors];
#pragma unroll
    for (int v = 0; v < kVectors; ++v) {
      const int64_t at = lane + v * kLanes;
      weight[v] = Parameter::filled(1.0F);
      if (a.weight != nullptr && at < a.vectors) {
        weight[v] = Parameter::template load<Cache::kReadOnly>(static_cast<const W*>(a.weight) +
                                                               at * kWidth);
      }
      dweight[v] = dbias[v] = Sums{};
    }
    const int64_t step = grid_blocks() * kGroups;
    int64_t r = block_index() * kGroups + thread_index() / kLanes;
    Loaded now(a, r, lane);
    // All warps go round alike, as far as the block's first row does.
    for (int64_t first = block_index() * kGroups; first < a.count; first += step, r += step) {
      const Loaded next(a, r + step, lane);
      GradientTotals<kCentred> totals{};
#pragma unroll
      for (int v = 0; v < kVectors; ++v) {
        add_to_totals<kCentred>(totals, now.grad[v], now.x[v], weight[v], now.mean, now.rstd);
      }
      totals = warp::all_reduce<kLanes>(totals, AddGradientTotals<kCentred>{});
      const float slope = totals.product * a.inverse_columns;
      float shift = 0;
      if constexpr (kCentred) shift = totals.sum * a.inverse_columns;
#pragma unroll
      for (int v = 0; v < kVectors; ++v) {
        const auto dx = gradient_of<kCentred>(now.grad[v], now.x[v], weight[v], now.mean, now.rstd,
                                              slope, shift, dweight[v], dbias[v]);
        const int64_t at = lane + v * kLanes;
        if (r < a.count && at < a.vectors) {
          thread::store(a.dx + r * a.dx_stride + at * kWidth, thread::convert<T>(dx));
        }
      }
      now = next;
    }
    merge(shared, a, dweight, a.dweight);
    if constexpr (kCentred) merge(shared, a, dbias, a.dbias);
  }

 private:
  // The block's sums of its columns: those of its groups, in their order.
  __device__ __forceinline__ static void merge(SharedStorage& shared, const Arguments& a,
                                               const Sums (&sums)[kVectors], float* parts) {
    if (parts == nullptr) return;
    const int group = thread_index() / kLanes;
    ptx::barrier_sync();
#pragma unroll
    for (int v = 0; v < kVectors; ++v) {
      const int column = (thread_index() % kLanes + v * kLanes) * kWidth;
#pragma unroll
      for (int i = 0; i < kWidth; i += 4) {
        shared.sums.template store<4>(
            group * kCapacity + column + i,
            Vec<float, 4>{{sums[v][i], sums[v][i + 1], sums[v][i + 2], sums[v][i + 3]}});
      }
    }
    ptx::barrier_sync();
    const int64_t columns = a.vectors * kWidth;
    for (int column = thread_index(); column < columns; column += kThreads) {
      float sum = 0;
      for (int g = 0; g < kGroups; ++g) {
        const float other = shared.sums[g * kCapacity + column];
        sum += other;
      }
      thread::store(parts + block_index() * columns + column, sum);
    }
  }
};

struct BackwardInRegisters {
  static constexpr int64_t kMostBytes = 1024;
  static constexpr int64_t kRowsOfBlock = 16;  // at least, so that the sums are worth their bytes

  template <class Call>
  static bool supports(const Call& call, Why& why) {
    return why.unless(call.rows.row_bytes() <= kMostBytes, "a warp's registers hold rows of up to ",
                      kMostBytes, " bytes, not ", call.rows.row_bytes()) &&
           aligned_gradient_rows(call, why);
  }
  template <class Call>
  static Workspace workspace(const Call& call) {
    int64_t blocks = 0;
    with_kernel(call, [&]<class Kernel>() { blocks = blocks_of<Kernel>(call); });
    return gradient_workspace(call, blocks);
  }
  template <class Call>
  static void run(const Call& call, const Context& context) {
    with_kernel(call, [&]<class Kernel>() {
      const int64_t blocks = blocks_of<Kernel>(call);
      auto rows = gradient_rows_of<typename Kernel::Element>(call);
      prepare(rows, call, blocks, context);
      launch<Kernel>({.blocks = blocks, .threads = Kernel::kThreads}, context.stream, rows);
      if (rows.dweight != nullptr || rows.dbias != nullptr) {
        SumPartsKernel::launch_on(call, rows.dweight, rows.dbias, blocks, context.stream);
      }
    });
  }

 private:
  template <class Kernel, class Call>
  static int64_t blocks_of(const Call& call) {
    const int64_t resident = int64_t{Kernel::kMinBlocks} * device_facts().multiprocessors;
    return std::clamp<int64_t>(divide_up(call.rows.rows, kRowsOfBlock), 1, resident);
  }
  // f.operator()<Kernel>() with the kernel of the call.
  template <class Call, class F>
  static void with_kernel(const Call& call, const F& f) {
    with_type<kFloats>(call.dtype, [&]<class T>() {
      const auto with_weight = [&]<class W>() {
        const auto with = [&]<int kLanes, int kVectors>() {
          f.template
          operator()<BackwardInRegistersKernel<T, W, Call::kCentred, kLanes, kVectors>>();
        };
        const int64_t bytes = call.rows.row_bytes();
        if (bytes <= 128) return with.template operator()<8, 1>();
        if (bytes <= 256) return with.template operator()<16, 1>();
        if (bytes <= 512) return with.template operator()<32, 1>();
        with.template operator()<32, 2>();
      };
      if (call.parameter_dtype == call.dtype) {
        with_weight.template operator()<T>();
      } else if constexpr (!std::is_same_v<T, float>) {
        with_weight.template operator()<float>();
      }
    });
  }
};

}  // namespace

extern const Rung kBackwardInRegisters;
const Rung kBackwardInRegisters = rung_of<BackwardInRegisters, LayerNormBackward, RmsNormBackward>({
    .name = "backward_in_registers",
    .from = "backward_any_layout",
    .idea = "a warp a row, the columns' sums in registers while rows go by",
});

}  // namespace ws::norm
