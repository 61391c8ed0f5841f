// Idea: as many threads as the row asks for, 8 to 512, with 2 vectors each while that will do;
// short rows share a block, and blocks are many and small, launched in the order of addresses.
// From warp_registers: no thread idles, no row is read twice, each exponential is computed once,
// and the loads of some blocks cover the reductions and stores of others.
// Traffic: one read, one write. Limits: rows of up to 32 KiB, 64 KiB in f32; of 16-bit gradients,
// which hold two rows, 16 KiB.
#pragma once

#include <algorithm>

#include "kernels/softmax/row_tile.hpp"
#include "warpsmith/block/reduce.hpp"

#if defined(WS_EMULATED) || defined(__CUDACC__)
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

// The policy: two vectors a thread, then more threads, until registers for 16-bit elements in f32,
// or the barrier of a wide block, cost more than they give. candidates.cuh has what else was tried.
template <class... Longer>
using FromAWarp = Shapes<Shape<8, 1>, Shape<8, 2>, Shape<16, 2>, Shape<32, 2>, Shape<64, 2>,
                         Shape<128, 2>, Longer...>;
template <class T, class Op>
consteval auto registers_policy() {
  constexpr bool kGradient = Op::kInputs == 2;  // holds two rows
  if constexpr (sizeof(T) == 2) {
    if constexpr (kGradient) {
      // H200 2026-11-21, % of copy: 102 to 104 up to 16 KiB.
      return FromAWarp<Shape<256, 2>, Shape<512, 2>>{};
    } else {
      // H200 2026-11-20, bf16, % of copy: N = 4096 99.2 (256 x 2: 96.8), N = 16384 98.4.
      return FromAWarp<Shape<128, 4>, Shape<256, 4>, Shape<512, 4>>{};
    }
  } else if constexpr (kGradient) {
    return FromAWarp<Shape<256, 2>, Shape<512, 2>, Shape<512, 4>, Shape<512, 8>>{};
  } else if constexpr (Op::kMasked) {
    // H200 2026-11-21, N = 16384: 1024 x 4 95 % of copy, 512 x 8 75 %.
    return FromAWarp<Shape<256, 2>, Shape<512, 2>, Shape<512, 4>, Shape<1024, 4>>{};
  } else {
    // H200 2026-11-20, % of copy: N = 4096 97.7 (1024 x 1: 79), N = 16384 96.6.
    return FromAWarp<Shape<256, 2>, Shape<512, 2>, Shape<512, 4>, Shape<256, 16>>{};
  }
}
template <class T, class Op>
using RegistersPolicy = decltype(registers_policy<T, Op>());

struct RowInRegisters {
  template <class Call>
  static bool supports(const Call& call, Why& why) {
    using Op = typename Call::RowOperation;
    const int64_t most = size_of(call.dtype) == 2 ? RegistersPolicy<half, Op>::kMostBytes
                                                  : RegistersPolicy<float, Op>::kMostBytes;
    const int64_t bytes = call.rows.row_bytes();
    return why.unless(bytes <= most, "a block's registers hold rows of up to ", most,
                      " bytes, not ", bytes) &&
           rows_supported(call, widest(call), why);
  }
  template <class Call>
  static void run(const Call& call, const Context& context) {
    with_type<kFloats>(call.dtype, [&]<class T>() {
      using Op = typename Call::RowOperation;
      const Rows<T, Op> rows = rows_of<T>(call);
      const auto with = [&]<Fit kFit>() {
        RegistersPolicy<T, Op>::first_that_holds(
            call.rows.row_bytes(), [&]<int kLanes, int kVectors>() {
              RowInRegistersKernel<T, Op, kLanes, kVectors, kFit>::launch_on(rows, context.stream);
            });
      };
      if (rows_aligned(call.rows, kWidest<T>)) {
        with.template operator()<Fit::kAligned>();
      } else {
        with.template operator()<Fit::kAnywhere>();
      }
    });
  }
};

}  // namespace ws::softmax
#endif
