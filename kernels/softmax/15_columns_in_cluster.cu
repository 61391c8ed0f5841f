// Idea: a cluster keeps a stripe of columns in the shared memory of its blocks, a box of rows each
// warp, which a tensor copy brings. Four blocks an SM load, add up and write in turns.
// From columns: nobody waits for loads of its own; a column's total is merged inside the block,
// then sent to the cluster's other blocks, which never meet again after they have begun.
// Traffic: one read, one write; a total of each column from each block to each of its cluster.
// Limits: no mask; whole vectors of 16 bytes, rows and matrices at positive strides, columns of
// which a cluster of 16 holds 64 bytes side by side: some 50000 elements of f32, of gradients half.
// Long: how stripes are chosen stands with the kernel.
#include <algorithm>
#include <bit>
#include <cstring>
#include <optional>
#include <span>

#include "kernels/softmax/columns_layout.hpp"
#include "kernels/softmax/rows.hpp"
#include "warpsmith/cluster/reduce.hpp"
#include "warpsmith/device_facts.hpp"
#include "warpsmith/ptx/barrier.hpp"
#include "warpsmith/ptx/tensor.hpp"
#include "warpsmith/shared.hpp"
#include "warpsmith/thread/divide.hpp"
#include "warpsmith/warp/shuffle.hpp"

namespace ws::softmax {
namespace {

// How the columns of a call are cut into stripes, and who holds one.
struct StripePlan {
  // Of all plans for a call.
  struct Sizes {
    int64_t rows;     // elements of a column
    int64_t vectors;  // of 16 bytes, of a matrix's row
    int64_t matrices;
    int width;  // elements of a vector
    int inputs;
    int total_bytes;   // of a column
    int finish_bytes;  // of what makes its outputs
  };

  int across = 0;            // lanes side by side, a power of two
  int threads = 0;           // of a block, 128, 256 or 512
  int holders = 0;           // blocks that hold a stripe
  int64_t share = 0;         // rows of a warp, as many for each lane
  int64_t stripes = 0;       // of a matrix
  int64_t shared_bytes = 0;  // of a block: boxes, and what there is of each column

  StripePlan(const Sizes& sizes, int across, int threads, int holders)
      : across(across), threads(threads), holders(holders) {
    const int warps = threads / kWarpSize;
    share = round_up(divide_up(sizes.rows, int64_t{holders} * warps), int64_t{kWarpSize / across});
    stripes = divide_up(sizes.vectors, int64_t{across});
    const int64_t of_column =
        (warps + (holders > 1 ? holders : 0)) * sizes.total_bytes + sizes.finish_bytes;
    shared_bytes = across * (warps * sizes.inputs * share * 16 + sizes.width * of_column);
  }
  int64_t blocks(const Sizes& sizes) const { return sizes.matrices * stripes * holders; }
  bool fits(int blocks_an_sm) const {
    constexpr int kReserved = 1024;  // of each block, by the driver
    constexpr int kBarriers = 256;   // and what else is static
    constexpr int kMostBoxRows = 256;
    const int room = (device_facts().shared_bytes + kReserved) / blocks_an_sm - kReserved;
    return share <= kMostBoxRows && shared_bytes + kBarriers <= room;
  }

  struct Shape {
    int blocks_an_sm;
    int threads;
    int across;
    int most_holders;
  };
  // In their order: what an H200 preferred of columns of 512 to 16384 elements (JOURNAL.md), and
  // what holds shorter and longer ones. Blocks of a third of an SM and less; of few threads where
  // an element takes many instructions, as an exponential of 16 bits does; wide where much is read.
  static std::span<const Shape> shapes_of(const Sizes& sizes) {
    static constexpr Shape kOf16Bits[] = {
        {4, 128, 32, 1}, {4, 128, 16, 1}, {6, 128, 8, 2},  {6, 128, 4, 8},  {3, 256, 8, 16},
        {3, 256, 4, 16}, {2, 512, 4, 16}, {2, 512, 2, 16}, {1, 512, 4, 16},
    };
    static constexpr Shape kOfFloats[] = {
        {4, 128, 32, 1}, {4, 128, 16, 1}, {3, 256, 16, 2}, {6, 128, 8, 8},  {3, 256, 8, 16},
        {3, 256, 4, 16}, {2, 512, 4, 16}, {2, 512, 2, 16}, {1, 512, 4, 16},
    };
    static constexpr Shape kOfGradients[] = {
        {4, 128, 32, 1}, {4, 128, 16, 1}, {3, 256, 16, 4}, {6, 128, 8, 16}, {3, 256, 8, 16},
        {3, 256, 4, 16}, {2, 512, 4, 16}, {2, 512, 2, 16}, {1, 512, 4, 16},
    };
    if (sizes.inputs == 2) return kOfGradients;
    if (sizes.width == 8) return kOf16Bits;
    return kOfFloats;
  }
  // The first shape that holds a column; none where none does. Clusters of powers of two fit the
  // SMs best, though fewer blocks would do; of 512 threads they are as few as hold it. Few stripes
  // are cut further, as long as all of their blocks are on the chip at once.
  static std::optional<StripePlan> of(const Sizes& sizes) {
    constexpr int kLeastAcross = 4;  // 64 bytes
    const auto most_across = static_cast<int>(
        std::min<uint64_t>(std::bit_ceil(static_cast<uint64_t>(sizes.vectors)), kWarpSize));
    for (const Shape& shape : shapes_of(sizes)) {
      const int across = std::min(shape.across, most_across);
      const auto more = [&](int holders) {
        return shape.threads < 512 ? 2 * holders : holders + 1;
      };
      for (int holders = 1; holders <= shape.most_holders; holders = more(holders)) {
        StripePlan plan(sizes, across, shape.threads, holders);
        if (!plan.fits(shape.blocks_an_sm)) continue;
        const int64_t most = int64_t{shape.blocks_an_sm} * device_facts().multiprocessors;
        while (2 * plan.blocks(sizes) <= most) {
          if (plan.across > kLeastAcross) {
            plan = {sizes, plan.across / 2, plan.threads, plan.holders};
          } else if (2 * plan.holders <= cluster::kMaxBlocks &&
                     plan.share >= 4 * kWarpSize / plan.across) {
            plan = {sizes, plan.across, plan.threads, 2 * plan.holders};
          } else {
            break;
          }
        }
        return plan;
      }
    }
    return {};
  }
};

#if WS_DEVICE_CODE

template <class T, class Op>
struct ColumnsInClusterKernel {
  static constexpr int kThreads = 512;
  static constexpr int kMinBlocks = 2;  // 64 registers, for smaller blocks too
  static constexpr Arch kArch = Arch::kSm90;
  static constexpr int kInputs = Op::kInputs;
  static constexpr int kWidth = kWidest<T>;
  using Total = typename Op::Total;
  using Packed = row::Packed<T, kWidth>;
  using Totals = Tile<Total, kWidth>;
  using Finish = typename Op::Finish;
  using FinishWords = Vec<float, sizeof(Finish) / sizeof(float)>;
  struct Arguments {
    ptx::TensorMap inputs[kInputs];  // boxes of share x across vectors
    T* output;
    int64_t pitch;   // of the output, from row to row
    int64_t matrix;  // from matrix to matrix
    int64_t vectors;
    thread::Divider of_stripe;  // a cluster's blocks
    thread::Divider of_matrix;  // stripes
    int rows;
    int share;
    int log_across;
    int log_mergers;  // neighbouring threads that merge a column's totals
  };
  struct SharedStorage {
    alignas(128) ptx::Mbarrier arrived[kThreads / kWarpSize];  // the warps' boxes
    ptx::Mbarrier totals;                                      // of the cluster's blocks
  };

  __device__ void operator()(SharedStorage& shared, const Arguments& a) const {
    const int warps = block_threads() / kWarpSize;
    const int across = 1 << a.log_across;
    const int columns = across * kWidth;
    const int part = a.share * columns;  // of a warp and an input
    const uint32_t number = a.of_stripe.quotient(static_cast<uint32_t>(block_index()));
    const uint32_t matrix = a.of_matrix.quotient(number);
    const uint32_t stripe = number - matrix * a.of_matrix.divisor();
    const int first = (cluster_rank() * warps + warp_index()) * a.share;
    const int rows = first >= a.rows ? 0 : a.rows - first < a.share ? a.rows - first : a.share;

    const int elements = warps * kInputs * part;
    const auto boxes = dynamic_shared<T>(shared, elements);
    T* const box = boxes.pointer(warp_index() * kInputs * part);
    // A set of a total for each column: of each warp, and of each block of the cluster.
    auto* const behind = reinterpret_cast<Total*>(boxes.pointer(0) + elements);
    const SharedSpan<Total> of_warps(behind, warps * columns);
    const bool alone = a.of_stripe.divisor() == 1;
    const int holders = alone ? 0 : static_cast<int>(a.of_stripe.divisor());
    const SharedSpan<Total> of_blocks(of_warps.pointer(0) + warps * columns, holders * columns);
    const SharedSpan<FinishWords> finishes(
        reinterpret_cast<FinishWords*>(of_blocks.pointer(0) + holders * columns), columns);

    ptx::Mbarrier& arrived = shared.arrived[warp_index()];
    if (lane_index() == 0) {
      ptx::mbarrier_init(arrived, 1);
      if (warp_index() == 0) ptx::mbarrier_init(shared.totals, 1);
      ptx::fence_mbarrier_init();
      if (rows > 0) {
        ptx::mbarrier_arrive_expect_tx(arrived, static_cast<uint32_t>(kInputs * part * sizeof(T)));
#pragma unroll
        for (int k = 0; k < kInputs; ++k) {
          ptx::tensor_load_3d(box + k * part, a.inputs[k], arrived,
                              static_cast<int>(stripe) * columns, first, static_cast<int>(matrix));
        }
      }
      if (warp_index() == 0) {
        ptx::mbarrier_arrive_expect_tx(shared.totals,
                                       static_cast<uint32_t>(holders * columns * sizeof(Total)));
      }
    }
    ptx::syncwarp();
    if (!alone) ptx::cluster_arrive_relaxed();
    if (rows > 0) ptx::mbarrier_wait_parity(arrived, 0);

    // A lane's vectors are `lane + 32 i` of the box, all of the same columns.
    const SharedSpan<T> mine(box, kInputs * part);
    const int end = rows * across;
    const auto load = [&](int k, int v) {
      return std::bit_cast<Packed>(mine.template load<kWidth>(k * part + v * kWidth));
    };
    const Totals totals = total(end, across, load);
    const int column = lane_index() & (across - 1);
    if (lane_index() < across) {
#pragma unroll
      for (int e = 0; e < kWidth; ++e) {
        of_warps[warp_index() * columns + e * across + column] = totals[e];
      }
    }
    ptx::syncwarp();
    if (!alone) ptx::cluster_wait();  // all blocks have begun
    ptx::barrier_sync();

    const auto finish_column = [&](int c, int merger, const Total& of_column) {
      const Finish finish(of_column);
      FinishWords words;
      memcpy(&words, &finish, sizeof(finish));
      if (merger == 0) finishes[c] = words;
    };
    // Each block waits for all that others send to it, so that it may be gone then.
    const auto send = [&](int c, int merger, const Total& of_column) {
      for (int to = merger; to < holders; to += 1 << a.log_mergers) {
        ptx::st_async(ptx::map_shared_rank(of_blocks.pointer(cluster_rank() * columns + c), to),
                      of_column, ptx::map_shared_rank(&shared.totals, to));
      }
    };
    if (alone) {
      merge(a.log_mergers, of_warps, warps, columns, finish_column);
    } else {
      merge(a.log_mergers, of_warps, warps, columns, send);
      ptx::mbarrier_wait_parity<ptx::Scope::kCluster>(shared.totals, 0);
      merge(a.log_mergers, of_blocks, holders, columns, finish_column);
    }
    ptx::barrier_sync();

    const int64_t vector = int64_t{stripe} * across + column;
    if (vector >= a.vectors) return;
    const auto output = thread::tile_of<kWidth>([&](int e) {
      const FinishWords words = finishes[e * across + column];
      Finish finish(Op::none());  // it has no empty state
      memcpy(static_cast<void*>(&finish), &words, sizeof(finish));
      return finish;
    });
    T* to = a.output + matrix * a.matrix + (first + (lane_index() >> a.log_across)) * a.pitch +
            vector * kWidth;
    const int64_t step = (kWarpSize >> a.log_across) * a.pitch;
#pragma unroll 4
    for (int v = lane_index(); v < end; v += kWarpSize) {
      const auto x = elements_of(v, load);
      Vec<float, kWidth> out;
#pragma unroll
      for (int e = 0; e < kWidth; ++e) out[e] = output[e](x[e]);
      thread::store(to, thread::convert<T>(out));
      to += step;
    }
  }

 private:
  using Element = typename Op::Element;

  template <class Load>
  __device__ __forceinline__ static Tile<Element, kWidth> elements_of(int v, const Load& load) {
    Tile<Element, kWidth> elements;
#pragma unroll
    for (int k = 0; k < kInputs; ++k) {
      const Packed x = load(k, v);
#pragma unroll
      for (int e = 0; e < kWidth; ++e) elements[e][k] = x[e];
    }
    return elements;
  }

  // Of the columns of the lane, of all rows of the warp. The maximum first: then no sum moves.
  template <class Load>
  __device__ __forceinline__ static Totals total(int end, int across, const Load& load) {
    Tile<float, kWidth> sums{};
    if constexpr (std::is_same_v<Total, MaxSum>) {
      Packed largest = Packed::filled(Op::kPadding);
      const auto add = [&](const Packed& more) {
        const Packed both[] = {largest, more};
        largest = row::largest_of_each(both);
      };
#pragma unroll 4
      for (int v = lane_index(); v < end; v += kWarpSize) add(load(0, v));
      for (int distance = across; distance < kWarpSize; distance *= 2) {
        add(warp::shuffle_xor(largest, distance));
      }
      const auto exp = thread::tile_of<kWidth>(
          [&](int e) { return typename Op::Exp(thread::finite_or_zero(largest[e])); });
#pragma unroll 2
      for (int v = lane_index(); v < end; v += kWarpSize) {
        const Packed x = load(0, v);
#pragma unroll
        for (int e = 0; e < kWidth; ++e) sums[e] += exp[e](x[e]);
      }
      add_lanes(sums, across);
      return thread::tile_of<kWidth>(
          [&](int e) { return Total{largest[e], sums[e] * exp[e].factor()}; });
    } else {
#pragma unroll 2
      for (int v = lane_index(); v < end; v += kWarpSize) {
        const auto x = elements_of(v, load);
#pragma unroll
        for (int e = 0; e < kWidth; ++e) sums[e] = Op::add(sums[e], x[e]);
      }
      add_lanes(sums, across);
      return sums;
    }
  }
  __device__ __forceinline__ static void add_lanes(Tile<float, kWidth>& sums, int across) {
    for (int distance = across; distance < kWarpSize; distance *= 2) {
#pragma unroll
      for (int e = 0; e < kWidth; ++e) sums[e] += warp::shuffle_xor(sums[e], distance);
    }
  }

  // f(c, i, total of column c of all sets), by the i-th of the threads that merge it.
  template <class F>
  __device__ __forceinline__ static void merge(int log_mergers, const SharedSpan<Total>& totals,
                                               int sets, int columns, const F& f) {
    const int mergers = 1 << log_mergers;
#pragma unroll 1
    for (int t = thread_index(); t < columns << log_mergers; t += block_threads()) {
      const int c = t >> log_mergers;
      const int merger = t & (mergers - 1);
      Total total = Op::none();
#pragma unroll 1
      for (int set = merger; set < sets; set += mergers) {
        const Total other = totals[set * columns + c];
        total = Op::merge(total, other);
      }
#pragma unroll 1
      for (int distance = 1; distance < mergers; distance *= 2) {
        total = Op::merge(total, warp::shuffle_xor(total, distance));
      }
      f(c, merger, total);
    }
  }
};

struct ColumnsInCluster {
  template <class Call>
  static bool supports(const Call& call, Why& why) {
    const RowLayout<3>& rows = call.rows;
    const ColumnsLayout layout = ColumnsLayout::of(rows);
    constexpr int64_t kMost = (int64_t{1} << 31) - 1;
    constexpr int64_t kMostStride = int64_t{1} << 36;  // elements: a tensor map takes 2^40 bytes
    bool strides = true;
    for (size_t k = 0; static_cast<int>(k) < rows.operands; ++k) {
      const int64_t of_matrix = layout.matrices > 1 ? layout.matrix_strides[k] : 1;
      strides = strides && rows.inner[k] > 0 && rows.inner[k] < kMostStride && of_matrix > 0 &&
                of_matrix < kMostStride;
    }
    if (!why.unless(layout.valid, "takes columns that lie side by side, of a matrix or several") ||
        !why.unless(rows.columns > 1, "takes columns of two elements and more") ||
        !why.unless(layout.aligned(rows, widest(call)), "takes rows that begin at multiples of 16 ",
                    "bytes and are whole vectors of ", widest(call), " columns") ||
        !why.unless(strides, "takes rows and matrices at positive strides below ", kMostStride) ||
        !why.unless(layout.columns <= kMost && layout.matrices <= kMost, "takes up to ", kMost,
                    " columns of a matrix, and matrices")) {
      return false;
    }
    const StripePlan::Sizes sizes = sizes_of(call, layout);
    const std::optional<StripePlan> plan = StripePlan::of(sizes);
    const int64_t blocks = plan ? plan->blocks(sizes) : 0;
    return why.unless(plan.has_value(), "takes columns that a cluster of ", cluster::kMaxBlocks,
                      " blocks holds, 64 bytes of a row, not of ", rows.columns, " elements") &&
           why.unless(blocks <= kMostBlocks, "takes up to ", kMostBlocks, " blocks");
  }
  template <class Call>
  static void run(const Call& call, const Context& context) {
    const ColumnsLayout layout = ColumnsLayout::of(call.rows);
    if (const auto plan = StripePlan::of(sizes_of(call, layout))) {
      launch_on(call, layout, *plan, context);
    }
  }

  template <class Call>
  static StripePlan::Sizes sizes_of(const Call& call, const ColumnsLayout& layout) {
    const int width = widest(call);
    return {.rows = call.rows.columns,
            .vectors = layout.columns / width,
            .matrices = layout.matrices,
            .width = width,
            .inputs = call.inputs(),
            .total_bytes = static_cast<int>(sizeof(typename Call::RowOperation::Total)),
            .finish_bytes = static_cast<int>(sizeof(typename Call::RowOperation::Finish))};
  }
  template <class Call>
  static void launch_on(const Call& call, const ColumnsLayout& layout, const StripePlan& plan,
                        const Context& context) {
    with_type<kFloats>(call.dtype, [&]<class T>() {
      using Kernel = ColumnsInClusterKernel<T, typename Call::RowOperation>;
      const StripePlan::Sizes sizes = sizes_of(call, layout);
      typename Kernel::Arguments arguments{};
      for (int k = 0; k < Kernel::kInputs; ++k) {
        const auto at = static_cast<size_t>(k);
        arguments.inputs[k] = ptx::make_tensor_map_3d(
            call.rows.template as<const T>(k),
            {.count = layout.matrices, .stride = layout.matrix_strides[at]}, sizes.rows,
            layout.columns, call.rows.inner[at], static_cast<int>(plan.share),
            plan.across * Kernel::kWidth, ptx::Swizzle::kNone);
      }
      arguments.output = call.rows.template as<T>(Kernel::kInputs);
      arguments.pitch = call.rows.inner[Kernel::kInputs];
      arguments.matrix = layout.matrix_strides[Kernel::kInputs];
      arguments.vectors = sizes.vectors;
      arguments.of_stripe = thread::Divider(plan.holders);
      arguments.of_matrix = thread::Divider(plan.stripes);
      arguments.rows = static_cast<int>(sizes.rows);
      arguments.share = static_cast<int>(plan.share);
      const auto log2 = [](int power) {
        int log = 0;
        while (1 << log < power) ++log;
        return log;
      };
      const int columns = plan.across * Kernel::kWidth;
      arguments.log_across = log2(plan.across);
      arguments.log_mergers = log2(std::clamp(plan.threads / columns, 1, kWarpSize));
      launch<Kernel>({.blocks = plan.blocks(sizes),
                      .threads = plan.threads,
                      .cluster = plan.holders,
                      .dynamic_shared = static_cast<size_t>(plan.shared_bytes)},
                     context.stream, arguments);
    });
  }
};
#endif

}  // namespace

extern const Rung kColumnsInCluster;
const Rung kColumnsInCluster =
    rung_of<ColumnsInCluster, Softmax, LogSoftmax, SoftmaxBackward, LogSoftmaxBackward>({
        .name = "columns_in_cluster",
        .from = "columns",
        .idea = "a cluster keeps a stripe of columns in shared memory, a box of rows each warp",
        .arch = Arch::kSm90,
    });

}  // namespace ws::softmax
