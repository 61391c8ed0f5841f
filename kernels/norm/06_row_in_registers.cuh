// Idea: a row stays in registers between its statistics and its output: as many threads as the row
// asks for, 8 lanes of a warp up to 512 threads, with 1 to 8 vectors of 16 bytes each.
// From block_per_row: memory is read once, 16 bytes an access whatever the parameters' dtype, which
// come in meanwhile. Warps subtract a mean of their own and merge (count, mean, squares): one
// barrier a row, and nothing cancels. Blocks are many and small, launched in the order of
// addresses.
// Traffic: one read, one write; one more of each with a residual.
// Limits: rows of whole vectors, up to 32 KiB, 64 KiB in f32.
#pragma once

#include "kernels/norm/rows.hpp"
#include "warpsmith/block/reduce.hpp"
#include "warpsmith/launch.hpp"

namespace ws::norm {

// kLanes threads share a row, kVectors vectors each: lanes of a warp, or a block. kEarly:
// parameters are fetched with x. Registers are such that an SM holds kMinBlocks blocks, of 128
// threads or of a row.
template <int kLanes_, int kVectors_, bool kEarly_, int kMinBlocks_ = 1>
struct RowShape {
  static constexpr int kLanes = kLanes_;
  static constexpr int kVectors = kVectors_;
  static constexpr bool kEarly = kEarly_;
  static constexpr int kMinBlocks = kMinBlocks_;
  static constexpr int64_t kBytes = int64_t{16} * kVectors * kLanes;
};

template <class T, bool kCentred, bool kResidual, class Shape>
struct RowInRegistersKernel {
  static constexpr int kLanes = Shape::kLanes;
  static constexpr int kVectors = Shape::kVectors;
  static constexpr bool kBlock = kLanes > kWarpSize;
  static constexpr int kThreads = kBlock ? kLanes : 128;
  static constexpr int kMinBlocks = kResidual ? 1 : Shape::kMinBlocks;  // it takes registers too
  static constexpr int kRows = kThreads / kLanes;
  static constexpr int kWidth = row::kWidest<T>;
  using Totals = norm::Totals<kCentred>;
  using Total = typename Totals::Total;
  using Reduce = block::AllReduce<Total, kThreads>;
  using Arguments = Rows<T>;
  struct SharedOfBlock {
    typename Reduce::Storage total;
  };
  struct NoShared {};
  using SharedStorage = std::conditional_t<kBlock, SharedOfBlock, NoShared>;

  __device__ void operator()(SharedStorage& shared, const Arguments& rows) const {
    const int lane = kRows == 1 ? thread_index() : thread_index() % kLanes;
    int64_t r = block_index();
    auto vectors = static_cast<int>(rows.vectors);
    if constexpr (kRows > 1) {
      r = r * kRows + thread_index() / kLanes;
      if (r >= rows.count) r = 0, vectors = 0;  // its lanes still take part in the shuffles
    }
    const auto holds = [&](int v) { return lane + v * kLanes < vectors; };
    const auto at = [&](int v) { return lane + v * kLanes; };

    Input<T, kResidual, kVectors> input(rows, r, at, holds);
    const Parameters<T, kVectors, kCentred, Shape::kEarly> parameters(rows, at, holds);
    input.add(rows, r, at, holds);
    const Normal<kCentred> normal(rows, total_of_row(shared, rows, input.x, holds, vectors));
    if (lane == 0 && vectors > 0) normal.store_statistics(rows, r);
    store_row(rows, r, input.x, normal, parameters, at, holds);
  }

 private:
  template <class Packed, class Holds>
  __device__ __forceinline__ static Total total_of_row(SharedStorage& shared, const Rows<T>& rows,
                                                       const Packed (&x)[kVectors],
                                                       const Holds& holds, int vectors) {
    if constexpr (kBlock) {
      const auto vector = [&](int v) { return x[v]; };
      const auto counts = [&](int v) { return !kCentred || holds(v); };  // squares of 0 add nothing
      const float count = warp_count<kVectors, kWidth>(vectors, kThreads);
      const Total mine = total_of<kCentred, kWarpSize, kVectors>(vector, counts, count);
      const auto columns = static_cast<float>(vectors * kWidth);
      return Reduce(shared.total).of_warps(mine, typename Totals::MergeAll(columns));
    } else {
      return norm::total_of_row<kCentred, kLanes>(rows, x, holds);
    }
  }
};

// `Policy::with_shape<T, kCentred>(bytes, f)` calls f.operator()<Shape>() with the shape for rows
// of `bytes`, up to Policy::most_bytes(dtype).
template <class Policy>
struct RowInRegisters {
  template <class Call>
  static bool supports(const Call& call, Why& why) {
    const int64_t most = Policy::most_bytes(call.dtype);
    return why.unless(call.rows.row_bytes() <= most, "a block's registers hold rows of up to ",
                      most, " bytes, not ", call.rows.row_bytes()) &&
           why.unless(Policy::kAddsResidual || call.rows.size[kResidual] == 0,
                      "adds no residual") &&
           aligned_rows(call, why);
  }
  template <class Call>
  static void run(const Call& call, const Context& context) {
    with_type<kFloats>(call.dtype, [&]<class T>() {
      const Rows<T> rows = rows_of<T>(call);
      Policy::template with_shape<T, Call::kCentred>(rows.vectors * 16, [&]<class Shape>() {
        if (rows.residual == nullptr) {
          launch_on<RowInRegistersKernel<T, Call::kCentred, false, Shape>>(rows, context.stream);
        } else if constexpr (Policy::kAddsResidual) {
          launch_on<RowInRegistersKernel<T, Call::kCentred, true, Shape>>(rows, context.stream);
        }
      });
    });
  }

 private:
  template <class Kernel, class T>
  static void launch_on(const Rows<T>& rows, Stream stream) {
    launch<Kernel>(
        {.blocks = divide_up(rows.count, int64_t{Kernel::kRows}), .threads = Kernel::kThreads},
        stream, rows);
  }
};

}  // namespace ws::norm
