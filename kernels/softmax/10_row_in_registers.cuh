// Idea: as many threads as the row asks for, 8 to 512, with 2 vectors each while that will do;
// short rows share a block, and blocks are many and small, launched in the order of addresses.
// From the block rungs: no thread idles, no row is read twice, each exponential is computed once,
// and the loads of some blocks cover the reductions and stores of others.
// Traffic: one read, one write. Limits: rows of up to 32 KiB, 64 KiB in f32; of 16-bit gradients,
// which hold two rows, 16 KiB.
#pragma once

#include <algorithm>
#include <bit>

#include "kernels/softmax/row_tile.hpp"
#include "warpsmith/block/reduce.hpp"
#include "warpsmith/launch.hpp"

namespace ws::softmax {

// kLanes threads share a row and hold kVectors vectors of 16 bytes each.
template <class T, class Op, int kLanes, int kVectors, Fit kFit>
struct RowInRegistersKernel {
  static constexpr bool kSharesWarp = kLanes <= kWarpSize;
  static constexpr int kThreads = kSharesWarp ? 128 : kLanes;
  static constexpr int kRows = kThreads / kLanes;  // of a block
  using RowOfThreads = RowTile<T, Op, kWidest<T>, kLanes, kVectors, kFit>;
  using Total = typename Op::Total;
  using Arguments = Rows<T, Op>;
  struct SharedStorage {
    typename block::AllReduce<Total, kThreads>::Storage total;
  };

  __device__ void operator()(SharedStorage& shared, const Arguments& rows) const {
    const int64_t r = block_index() * kRows + thread_index() / kLanes;
    typename RowOfThreads::RowOf row(rows, r < rows.count ? r : 0);
    if (r >= rows.count) row.clear();  // its lanes still take part in the shuffles
    const RowOfThreads tile(row, thread_index() % kLanes);
    auto elements = tile.elements();
    const Total mine = Op::template begin<kSharesWarp ? kLanes : kWarpSize>(elements);
    Total total = mine;
    if constexpr (!kSharesWarp) {
      block::AllReduce<Total, kThreads> all_reduce(shared.total);
      total = all_reduce.of_warps(mine, Op::merge);
    }
    tile.store(row, elements, Op::end(mine, total));
  }

  static void launch_on(const Arguments& rows, Stream stream) {
    launch<RowInRegistersKernel>({.blocks = divide_up(rows.count, kRows), .threads = kThreads},
                                 stream, rows);
  }
};

// Configurations in the order of their capacity.
template <int kLanes, int kVectors>
struct Shape {
  static constexpr int64_t kBytes = int64_t{kLanes} * kVectors * 16;
};
template <class... All>
struct Shapes {
  static constexpr int64_t kMostBytes = std::max({All::kBytes...});

  // f.operator()<lanes, vectors>() for the first that holds a row of `bytes`.
  template <class F>
  static void first_that_holds(int64_t bytes, const F& f) {
    const auto take = [&]<int kLanes, int kVectors>(Shape<kLanes, kVectors>) {
      if (bytes > Shape<kLanes, kVectors>::kBytes) return false;
      f.template operator()<kLanes, kVectors>();
      return true;
    };
    (take(All{}) || ...);
  }
};
template <class... Longer>
using ShapesFromAWarp = Shapes<Shape<8, 1>, Shape<8, 2>, Shape<16, 2>, Shape<32, 2>, Shape<64, 2>,
                               Shape<128, 2>, Longer...>;

// Measured on an H200 (results/JOURNAL.md): two vectors a thread, then more threads, until
// registers for 16-bit elements in f32, or the barrier of a wide block, cost more than they give.
// Gradients hold two rows.
template <class T, class Op>
consteval auto register_shapes() {
  if constexpr (sizeof(T) == 2) {
    if constexpr (Op::kInputs == 2) {
      return ShapesFromAWarp<Shape<256, 2>, Shape<512, 2>>{};
    } else {
      return ShapesFromAWarp<Shape<128, 4>, Shape<256, 4>, Shape<512, 4>>{};
    }
  } else {
    using Longest =
        std::conditional_t<Op::kInputs == 2, Shape<512, 8>,
                           std::conditional_t<Op::kMasked, Shape<1024, 4>, Shape<256, 16>>>;
    return ShapesFromAWarp<Shape<256, 2>, Shape<512, 2>, Shape<512, 4>, Longest>{};
  }
}
template <class T, class Op>
using RegisterShapes = decltype(register_shapes<T, Op>());

struct RowInRegisters {
  static int64_t most_bytes(const Problem& problem) {
    int64_t most = 0;
    dispatch<kEvery>(problem,
                     [&]<class T, class Op>() { most = RegisterShapes<T, Op>::kMostBytes; });
    return most;
  }
  static Reason supports(const Problem& problem) {
    const Layout layout = layout_of(problem);
    const int64_t most = most_bytes(problem);
    if (const int64_t bytes = row_bytes(problem, layout); bytes > most) {
      return concatenate("a block's registers hold rows of up to ", most, " bytes, not ", bytes);
    }
    return rows_supported(problem, layout, widest(problem.tensor(0).dtype));
  }
  static void run(const Problem& problem, const Context& context) {
    const int64_t bytes = row_bytes(problem, layout_of(problem));
    dispatch<kEvery>(problem, [&]<class T, class Op>() {
      const auto rows = rows_of<T, Op>(problem);
      const auto with = [&]<Fit kFit>() {
        RegisterShapes<T, Op>::first_that_holds(bytes, [&]<int kLanes, int kVectors>() {
          RowInRegistersKernel<T, Op, kLanes, kVectors, kFit>::launch_on(rows, context.stream);
        });
      };
      if (rows_aligned<kWidest<T>>(rows)) {
        with.template operator()<Fit::kAligned>();
      } else {
        with.template operator()<Fit::kAnywhere>();
      }
    });
  }
};

}  // namespace ws::softmax
