// From sums of dq to dq: what the last kernel of a gradient does whose blocks add to it.
#pragma once

#include "kernels/attention/dq_sums.hpp"
#include "kernels/attention/query_facts.hpp"
#include "warpsmith/ptx/grid.hpp"
#include "warpsmith/tile/warp_store.hpp"

#if WS_DEVICE_CODE
namespace ws::attention {

// Rounds what was added to dq. A block has 64 queries of a head, by 64 columns.
template <class T, int kDim, class AnyCall>
struct RoundDqKernel {
  static constexpr Arch kArch = Arch::kSm90a;
  static constexpr int kThreads = DqSums::kStepThreads;
  static constexpr int kSteps = DqSums::kColumns / DqSums::kStepColumns;
  using Store = tile::WarpStore<T, 1>;
  struct Arguments {
    Heads dq;
    const float* sums;
    int heads, rows;  // rows of sums of a head
    int queries, columns;
    float scale;
    SequencesOf<AnyCall> sequences;
  };
  struct SharedStorage {
    SharedArray<T, 4 * Store::kElements, 1024> rounded;
  };

  __device__ void operator()(SharedStorage& shared, const Arguments& a) const {
    ptx::griddepcontrol_wait();
    constexpr int kParts = kDim / DqSums::kColumns;
    const auto part = static_cast<int>(block_index());
    const int column = part % kParts * DqSums::kColumns;
    const int row_of_all = part / kParts * DqSums::kRows;
    const int of_head = row_of_all / a.rows;
    const int batch = of_head / a.heads;
    int64_t row = row_of_all - of_head * a.rows;
    int64_t end = a.queries;
    if constexpr (kIsPacked<AnyCall>) row = QueryFacts::row_of_all(a.sequences, row, end);
    row += warp_index() * Store::kRows;
    if (row >= end || column >= a.columns) return;

    const float* const from = a.sums + DqSums::at(row_of_all, kDim, column, thread_index());
    Vec<float, 4> fours[kSteps] = {};
#pragma unroll
    for (int i = 0; i < kSteps; ++i) {
      if (column + i * DqSums::kStepColumns < a.columns) {
        fours[i] = thread::load<4>(from + i * DqSums::kStep);
      }
    }
    float dq[4 * kSteps];
#pragma unroll
    for (int i = 0; i < 4 * kSteps; ++i) dq[i] = fours[i / 4][i % 4] * a.scale;
    const Store store{shared.rounded.pointer(warp_index() * Store::kElements)};
    store.write_chunks(a.dq.template at<T>(batch, of_head - batch * a.heads, row) + column,
                       a.dq.row, end - row, a.columns - column, dq);
  }
};

}  // namespace ws::attention
#endif
