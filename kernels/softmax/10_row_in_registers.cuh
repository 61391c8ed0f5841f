// Idea: as many threads as the row asks for, 1 to 512, with 2 vectors each while that will do;
// short rows share a block, and blocks are many and small, launched in the order of addresses.
// From warp_registers: no thread idles, no row is read twice, each exponential is computed once,
// and the loads of some blocks cover the reductions and stores of others.
// Traffic: one read, one write.
// Limits: rows of up to 32 KiB, 64 KiB in f32; of 16-bit gradients, which hold two rows, 16 KiB.
#pragma once

#include "kernels/softmax/policies.hpp"
#include "kernels/softmax/row_tile.hpp"
#include "warpsmith/block/reduce.hpp"

#if WS_DEVICE_CODE
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
      total = all_reduce.of_warps(mine, typename Op::Merge{});
    }
    tile.store(row, elements, Op::end(mine, total));
  }

  static void launch_on(const Arguments& rows, Stream stream) {
    launch<RowInRegistersKernel>({.blocks = divide_up(rows.count, kRows), .threads = kThreads},
                                 stream, rows);
  }
};

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
  static void run(const Call& call, const Context& context);
};

template <class Call>
void RowInRegisters::run(const Call& call, const Context& context) {
  with_type<kFloats>(call.dtype, [&]<class T>() {
    using Op = typename Call::RowOperation;
    const Rows<T, Op> rows = rows_of<T>(call);
    const auto with = [&]<Fit kFit>() {
      RegistersPolicy<T, Op, kFit>::first_that_holds(
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

// row_in_registers_masked.cu
extern template void RowInRegisters::run(const ScaleMaskSoftmax::Call&, const Context&);
extern template void RowInRegisters::run(const ScaleMaskSoftmaxBackward::Call&, const Context&);

}  // namespace ws::softmax
#endif
