// Queue: rows that come to a cluster by themselves, drawn from a counter and fetched ahead.
#pragma once

#include "warpsmith/ptx/atomic.hpp"
#include "warpsmith/ptx/bulk.hpp"
#include "warpsmith/ptx/cluster.hpp"
#include "warpsmith/shared.hpp"
#include "warpsmith/tile/pipeline.hpp"

#if WS_DEVICE_CODE
namespace ws::row {

// kConsumers threads hold kVectors vectors of 16 bytes each; kStages parts of rows are under way.
template <int kConsumers_, int kVectors_, int kStages_, int kMinBlocks_>
struct QueueShape {
  static constexpr int kConsumers = kConsumers_;
  static constexpr int kVectors = kVectors_;
  static constexpr int kStages = kStages_;
  static constexpr int kMinBlocks = kMinBlocks_;                          // an SM holds
  static constexpr int64_t kBytes = int64_t{16} * kConsumers * kVectors;  // of a part
};

// Where a row waits for its block: a ring of parts of each input, and the row's number, which the
// first block of the cluster draws for all. A number past the last row ends the kernel.
template <class T, class Shape, int kInputs = 1>
struct Queue {
  using Pipeline = tile::Pipeline<Shape::kStages>;
  using Position = typename Pipeline::Position;
  // A number more than stages: when the first block draws for a stage again, it is only the row
  // before the stage's last that all blocks are known to have read the number of.
  static constexpr int kDraws = Shape::kStages + 1;
  using Draw = tile::PipelinePosition<kDraws>;
  static constexpr int kPart = static_cast<int>(Shape::kBytes / sizeof(T));

  // A block's part of a row: where it lies in each input, and its length.
  struct Part {
    const T* inputs[kInputs];
    uint32_t bytes;
  };
  // Where `parts` has that of an input.
  static __device__ __forceinline__ int place(int stage, int input) {
    return (stage * kInputs + input) * kPart;
  }

  struct Storage {
    SharedArray<T, Shape::kStages * kInputs * kPart, 128> parts;
    SharedArray<uint64_t, kDraws> drawn;        // as the first block sends it
    SharedArray<uint64_t, Shape::kStages> row;  // as this block's consumers read it
    ptx::Mbarrier sent[kDraws];
    Pipeline pipeline;
  };

  // By one thread, before the cluster meets.
  static __device__ __forceinline__ void init(Storage& shared) {
    shared.pipeline.init(Shape::kConsumers / kWarpSize);
#pragma unroll
    for (ptx::Mbarrier& sent : shared.sent) ptx::mbarrier_init(sent, 1);
    ptx::fence_mbarrier_init();
  }

  // The producer's thread: draws rows and fetches this block's part of each until none is left.
  // part_of(row) -> Part. `next` is 0 before and after the launch: each cluster draws
  // one number past the last row, and the one that draws the last of these sets it back.
  template <class PartOf>
  static __device__ __forceinline__ void produce(Storage& shared, uint64_t* next, uint64_t rows,
                                                 const PartOf& part_of) {
    Draw drawing;
    for (Position at;; at.advance(), drawing.advance()) {
      ptx::mbarrier_wait_parity(shared.pipeline.empty[at.stage], at.parity ^ 1);
      const uint64_t row = draw(shared, drawing, next);
      shared.row[at.stage] = row;
      ptx::Mbarrier& full = shared.pipeline.full[at.stage];
      if (row >= rows) {
        const uint64_t draws = (row - rows + 1) * static_cast<uint64_t>(cluster_size());
        const bool last = draws == static_cast<uint64_t>(grid_blocks());
        if (last && cluster_rank() == 0) ptx::atom_global_exch(next, 0);
        return ptx::mbarrier_arrive(full);
      }
      const Part part = part_of(row);
      ptx::mbarrier_arrive_expect_tx(full, kInputs * part.bytes);
      if (part.bytes == 0) continue;
#pragma unroll
      for (int k = 0; k < kInputs; ++k) {
        ptx::bulk_load(shared.parts.pointer(place(at.stage, k)), part.inputs[k], part.bytes, full);
      }
    }
  }

 private:
  static __device__ __forceinline__ uint64_t draw(Storage& shared, const Draw& at, uint64_t* next) {
    if (cluster_size() == 1) return ptx::atom_global_add(next, 1);
    ptx::mbarrier_arrive_expect_tx(shared.sent[at.stage], sizeof(uint64_t));
    if (cluster_rank() == 0) {
      const uint64_t row = ptx::atom_global_add(next, 1);
      for (int rank = 0; rank < cluster_size(); ++rank) {
        ptx::st_async(ptx::map_shared_rank(shared.drawn.pointer(at.stage), rank), row,
                      ptx::map_shared_rank(&shared.sent[at.stage], rank));
      }
    }
    ptx::mbarrier_wait_parity<ptx::Scope::kCluster>(shared.sent[at.stage], at.parity);
    return shared.drawn[at.stage];
  }
};

}  // namespace ws::row
#endif
