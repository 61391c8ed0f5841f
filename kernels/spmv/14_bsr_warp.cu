// Idea: a warp has a row of blocks, or as many rows of it as it has lanes for: lanes lie over the
//   blocks as these lie in memory, several small ones at a time, and each stays at its place.
// From bsr_thread: an access of a warp is whole blocks, four values a lane, and four elements of x;
//   a column for each block, of which four are under way.
// Traffic: each value once; a column once for each warp of a block row; x once for each block and
//   warp, in sectors that are used whole where c is at least eight f32.
// Limits: fewer than 2^31 warps. Vectors of four where c and the strides are multiples of it.
// Long: how lanes lie over blocks of any size, and two launches.
#include <algorithm>

#include "kernels/spmv/csr.hpp"
#include "warpsmith/ptx/barrier.hpp"
#include "warpsmith/shared.hpp"

namespace ws::spmv {
namespace {

// How a warp lies over blocks: it has `teams` rows of blocks, `groups` blocks of each at a time,
// `rows` rows of a block, `lanes` to a row.
struct Layout {
  static constexpr int kBatch = 4;  // blocks of a lane under way
  int64_t block_rows;
  int64_t vectors;  // of a row of a block
  int64_t warps;    // of a row of blocks, where it is more than one
  int lanes;
  int rows;
  int log_groups = 0;
  int teams;

  Layout(const BsrCall& call, int width)
      : block_rows(call.block_rows), vectors(call.block_columns / width) {
    lanes = static_cast<int>(std::min<int64_t>(vectors, kWarpSize));
    rows = static_cast<int>(std::min<int64_t>(block_rows, kWarpSize / lanes));
    warps = divide_up(block_rows, rows);
    const int blocks = kWarpSize / (lanes * rows);
    while (2 * groups() <= blocks && kBatch * groups() < call.mean_length()) ++log_groups;
    teams = blocks >> log_groups;
  }
  __host__ __device__ int groups() const { return 1 << log_groups; }
  int64_t all_warps(int64_t rows_of_blocks) const {
    return divide_up(rows_of_blocks, teams) * warps;
  }
};

template <class T, class I, int kWidth>
struct BsrWarpKernel {
  static constexpr int kThreads = 128;
  static constexpr int kMinBlocks = sizeof(T) == 8 ? 4 : sizeof(I) == 8 ? 7 : 9;
  static constexpr int kWarps = kThreads / kWarpSize;
  static constexpr int kBatch = Layout::kBatch;
  struct Arguments {
    Csr<T, I> a;
    Layout layout;
    thread::Divider warps;  // of a row of blocks
    thread::Divider block;  // lanes over a block
    thread::Divider lanes;  // over a row of it
    thread::Divider rows;   // of a block
    int64_t value_row;
    int64_t value_column;
    Strided<const T> x;
    int64_t x_block;  // from block to block
    Result<T> result;
  };
  struct SharedStorage {
    SharedArray<Sum<T>, kThreads> sums;
  };

  __device__ void operator()(SharedStorage& shared, const Arguments& arguments) const {
    const auto& a = arguments.a;
    const Layout& layout = arguments.layout;
    const auto warp = static_cast<uint32_t>(block_index() * kWarps + warp_index());
    const int64_t team_of_warps = arguments.warps.quotient(warp);
    const int64_t first_of_blocks = team_of_warps * layout.teams;
    if (first_of_blocks >= a.rows) return;
    const int64_t first_row = (warp - team_of_warps * layout.warps) * layout.rows;
    const auto lane = static_cast<uint32_t>(lane_index());
    const auto block = static_cast<int>(arguments.block.quotient(lane));
    const auto row_of_lanes = static_cast<int>(arguments.lanes.quotient(lane));  // of all blocks
    const int64_t row = first_row + row_of_lanes - block * layout.rows;
    const int64_t vector = lane_index() - row_of_lanes * layout.lanes;
    const int group = block & (layout.groups() - 1);
    const int64_t row_of_blocks = first_of_blocks + (block >> layout.log_groups);
    Sum<T> sum = 0;
    if (block < layout.teams * layout.groups() && row_of_blocks < a.rows &&
        row < layout.block_rows) {
      const auto [first, end] = a.entries_of(row_of_blocks);
      for (int64_t v = vector; v < layout.vectors; v += layout.lanes) {
        for (int64_t j = first + group; j < end; j += kBatch * layout.groups()) {
          sum += products(arguments, j, end, row, v);
        }
      }
    }
    shared.sums[thread_index()] = sum;
    ptx::syncwarp();
    // A lane for each row: what the others have of it, in the order of blocks and columns.
    const auto team = static_cast<int>(arguments.rows.quotient(lane));
    const int row_of_team = lane_index() - team * layout.rows;
    if (team >= layout.teams || first_of_blocks + team >= a.rows ||
        first_row + row_of_team >= layout.block_rows) {
      return;
    }
    Sum<T> total = 0;
    for (int g = team * layout.groups(); g < (team + 1) * layout.groups(); ++g) {
      const int at = warp_index() * kWarpSize + (g * layout.rows + row_of_team) * layout.lanes;
      for (int of_row = 0; of_row < layout.lanes; ++of_row) total += shared.sums[at + of_row];
    }
    arguments.result.store((first_of_blocks + team) * layout.block_rows + first_row + row_of_team,
                           total);
  }

 private:
  // Of vector v of a row of every groups-th block from j on, kBatch of them. Values are asked for
  // beside columns, and not behind them.
  __device__ __forceinline__ static Sum<T> products(const Arguments& arguments, int64_t j,
                                                    int64_t end, int64_t row, int64_t v) {
    const auto& a = arguments.a;
    const int64_t step = arguments.layout.groups();
    const int64_t value_step = step * a.value_step;
    const T* const values = a.values + j * a.value_step + row * arguments.value_row +
                            v * kWidth * arguments.value_column;
    const T* const x = arguments.x.at(v * kWidth);
    bool known[kBatch];
#pragma unroll
    for (int b = 0; b < kBatch; ++b) known[b] = j + b * step < end;
    const auto at = load_known<kBatch>(a.col + j * a.col_step, step * a.col_step, false, known);
    Vec<T, kWidth> of[kBatch]{};
#pragma unroll
    for (int b = 0; b < kBatch; ++b) {
      if (known[b]) of[b] = thread::load<kWidth>(values + b * value_step);
    }
    const auto found = a.columns.find(at, known);
    Vec<T, kWidth> factors[kBatch]{};
#pragma unroll
    for (int b = 0; b < kBatch; ++b) {
      if (found.good[b]) factors[b] = thread::load<kWidth>(x + at[b] * arguments.x_block);
    }
    Sum<T> sum = 0;
#pragma unroll
    for (int i = 0; i < kBatch * kWidth; ++i) {
      const int b = i / kWidth;
      if (found.good[b]) sum += widen(of[b][i % kWidth]) * widen(factors[b][i % kWidth]);
    }
    a.columns.report(found, [&](int b) { return j + b * step; });
    return sum;
  }
};

struct BsrWarp {
  static constexpr int kVector = 4;

  static bool has_vectors(const BsrCall& call) {
    const auto is_whole = [](int64_t step) { return step % kVector == 0; };
    const auto begins = [&](const void* data) {
      const size_t bytes = std::min(kVector * size_of(call.dtype), size_t{16});
      return reinterpret_cast<uintptr_t>(data) % bytes == 0;
    };
    return is_whole(call.block_columns) && is_whole(call.value_step) && is_whole(call.value_row) &&
           call.value_column == 1 && call.x_step == 1 && begins(call.values) && begins(call.x);
  }
  static bool supports(const BsrCall& call, Why& why) {
    constexpr int64_t kMost = (int64_t{1} << 31) - 1;
    const Layout layout(call, has_vectors(call) ? kVector : 1);
    return why.unless(divide_up(call.rows, layout.teams) <= kMost / layout.warps, "takes up to ",
                      kMost, " warps, not ", call.rows, " x ", layout.warps, " / ", layout.teams);
  }
  static void run(const BsrCall& call, const Context& context) {
    with_types(call, [&]<class T, class I>() {
      if (has_vectors(call)) {
        run_by<T, I, kVector>(call, context.stream);
      } else {
        run_by<T, I, 1>(call, context.stream);
      }
    });
  }

 private:
  template <class T, class I, int kWidth>
  static void run_by(const BsrCall& call, Stream stream) {
    using Kernel = BsrWarpKernel<T, I, kWidth>;
    const Layout layout(call, kWidth);
    launch<Kernel>({.blocks = divide_up(layout.all_warps(call.rows), Kernel::kWarps),
                    .threads = Kernel::kThreads},
                   stream,
                   {Csr<T, I>(call, "spmv_bsr/bsr_warp"), layout, thread::Divider(layout.warps),
                    thread::Divider(layout.lanes * layout.rows), thread::Divider(layout.lanes),
                    thread::Divider(layout.rows), call.value_row, call.value_column,
                    vector_of<T>(call), call.block_columns * call.x_step, Result<T>(call)});
  }
};

}  // namespace

extern const Rung kBsrWarp;
const Rung kBsrWarp = rung_of<BsrWarp, SpmvBsr>({
    .name = "bsr_warp",
    .from = "bsr_thread",
    .idea = "a warp a row of blocks: lanes lie over blocks as these lie in memory",
});

}  // namespace ws::spmv
