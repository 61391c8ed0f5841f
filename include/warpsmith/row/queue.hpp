// Queue: rows that come to a cluster by themselves, drawn from a counter and fetched ahead.
#pragma once

#include <type_traits>

#include "warpsmith/ptx/atomic.hpp"
#include "warpsmith/ptx/barrier.hpp"
#include "warpsmith/ptx/bulk.hpp"
#include "warpsmith/ptx/cluster.hpp"
#include "warpsmith/shared.hpp"
#include "warpsmith/thread/memory.hpp"
#include "warpsmith/tile/pipeline.hpp"
#include "warpsmith/warp/shuffle.hpp"

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
//
// kEdges: rows may start and end between two multiples of 16 bytes. What lies before the first and
// after the last, which no bulk copy can bring, the other lanes of the producer's warp fetch.
// Extra: what else belongs to a row, which one of them fetches; void: nothing.
template <class T, class Shape, int kInputs = 1, bool kEdges = false, class Extra = void>
struct Queue {
  static constexpr bool kHasExtra = !std::is_void_v<Extra>;
  static constexpr bool kByWarp = kEdges || kHasExtra;
  struct Nothing {};
  using Pipeline = tile::Pipeline<Shape::kStages>;
  using Position = typename Pipeline::Position;
  // Two numbers more than stages: when the first block draws a row, before it waits for the row's
  // stage, it is only the row before the last that stood in the stage before that one that all
  // blocks are known to have read the number of.
  static constexpr int kDraws = Shape::kStages + 2;
  using Draw = tile::PipelinePosition<kDraws>;
  static constexpr int kPart = static_cast<int>(Shape::kBytes / sizeof(T));
  static constexpr int kMostEdges = 2 * (static_cast<int>(16 / sizeof(T)) - 1);
  // Who says that a stage is full, and that it is free: one of all whose copies are done by an
  // instruction, and each lane that reads or writes by itself. Lanes that met before one of them
  // spoke for all would do, but compute-sanitizer's racecheck does not follow that.
  static constexpr int kFillers = kByWarp ? 1 + kWarpSize : 1;
  static constexpr int kUsers = Shape::kConsumers / kWarpSize + (kEdges ? kWarpSize - 1 : 0);
  static_assert(kMostEdges <= kWarpSize);  // the first warp reads them

  // A block's part of a row: where it lies in each input, and its length.
  struct Part {
    const T* inputs[kInputs];
    uint32_t bytes;
    // Where it has edges: how many elements, of which `head` lie before `inputs`, and the others
    // `body` elements after.
    int edges = 0;
    int head = 0;
    int64_t body = 0;
  };
  // Where `parts` has that of an input.
  static __device__ __forceinline__ int place(int stage, int input) {
    return (stage * kInputs + input) * kPart;
  }
  // Where `edges` has the i-th of them.
  static __device__ __forceinline__ int edge(int stage, int input, int i) {
    return (stage * kInputs + input) * kMostEdges + i;
  }

  struct Storage {
    SharedArray<T, Shape::kStages * kInputs * kPart, 128> parts;
    SharedArray<T, kEdges ? Shape::kStages * kInputs * kMostEdges : 1> edges;
    SharedArray<std::conditional_t<kHasExtra, Extra, char>, kHasExtra ? Shape::kStages : 1> extra;
    SharedArray<uint64_t, kDraws> drawn;        // as the first block sends it
    SharedArray<uint64_t, Shape::kStages> row;  // as this block's consumers read it
    ptx::Mbarrier sent[kDraws];
    Pipeline pipeline;
  };

  // By one thread, before the cluster meets.
  static __device__ __forceinline__ void init(Storage& shared) {
    shared.pipeline.init(kUsers, kFillers);
#pragma unroll
    for (ptx::Mbarrier& sent : shared.sent) ptx::mbarrier_init(sent, 1);
    ptx::fence_mbarrier_init();
  }

  // The producer's thread, its warp where there are edges or an Extra: draws rows and fetches this
  // block's part of each until none is left. part_of(row) -> Part, extra_of(row) -> Extra. `next`
  // is 0 before and after the launch: each cluster draws one number past the last row, and the one
  // that draws the last of these sets it back.
  template <class PartOf, class ExtraOf = Nothing>
  static __device__ __forceinline__ void produce(Storage& shared, uint64_t* next, uint64_t rows,
                                                 const PartOf& part_of,
                                                 const ExtraOf& extra_of = {}) {
    const bool leads = !kByWarp || lane_index() == 0;
    Draw drawing;
    Fetched fetched;
    for (Position at;; at.advance(), drawing.advance()) {
      uint64_t row = 0;
      if (leads) row = draw(shared, drawing, next);
      // What was asked for after the last draw has come during this one.
      if constexpr (kByWarp) {
        row = warp::shuffle(row, 0);
        fetched.put(shared);
      }
      ptx::Mbarrier& full = shared.pipeline.full[at.stage];
      shared.pipeline.wait_free(at);
      if (leads) shared.row[at.stage] = row;
      if (row >= rows) {
        if constexpr (kByWarp) ptx::mbarrier_arrive(full);
        if (!leads) return;
        const uint64_t draws = (row - rows + 1) * static_cast<uint64_t>(cluster_size());
        const bool last = draws == static_cast<uint64_t>(grid_blocks());
        if (last && cluster_rank() == 0) ptx::atom_global_exch(next, 0);
        return ptx::mbarrier_arrive(full);
      }
      const Part part = part_of(row);
      if (leads) {
        ptx::mbarrier_arrive_expect_tx(full, kInputs * part.bytes);
#pragma unroll
        for (int k = 0; k < kInputs && part.bytes > 0; ++k) {
          ptx::bulk_load(shared.parts.pointer(place(at.stage, k)), part.inputs[k], part.bytes,
                         full);
        }
      }
      if constexpr (kByWarp) fetched.ask(part, at.stage);
      if constexpr (kHasExtra) {
        if (lane_index() == kExtraLane) fetched.extra = extra_of(row);
      }
    }
  }

  // By all consumers: waits for the row that comes next; its number, which Number holds.
  template <class Number = uint64_t>
  static __device__ __forceinline__ Number wait(Storage& shared, const Position& at) {
    shared.pipeline.wait(at);
    // The lane that lets go of the stage is the one that reads the number.
    Number row = 0;
    if (lane_index() == 0) row = static_cast<Number>(shared.row[at.stage]);
    return warp::shuffle(row, 0);
  }
  // What else belongs to it; Extra is not void.
  static __device__ __forceinline__ auto extra(Storage& shared, const Position& at) {
    Extra extra{};
    if (lane_index() == 0) extra = shared.extra[at.stage];
    return warp::shuffle(extra, 0);
  }
  // When its part, number and edges have been read.
  static __device__ __forceinline__ void release(Storage& shared, const Position& at) {
    ptx::syncwarp();
    if (lane_index() == 0 || (kEdges && warp_index() == 0)) shared.pipeline.release(at.stage);
  }

 private:
  static constexpr int kExtraLane = kWarpSize - 1;
  static_assert(kMostEdges <= kExtraLane);

  // On its way to a stage: of edges an element of each input a lane.
  struct Fetched {
    int stage = -1;
    int edges = 0;
    T elements[kInputs] = {};
    std::conditional_t<kHasExtra, Extra, Nothing> extra{};

    __device__ __forceinline__ void ask(const Part& part, int to) {
      stage = to;
      edges = kEdges ? part.edges : 0;
      const int lane = lane_index();
      if (lane >= edges) return;
      int64_t at = lane - part.head;
      if (at >= 0) at += part.body;
#pragma unroll
      for (int k = 0; k < kInputs; ++k) {
        elements[k] = thread::load(part.inputs[k] + at);
      }
    }
    __device__ __forceinline__ void put(Storage& shared) {
      if (stage < 0) return;
      const int lane = lane_index();
      if (lane < edges) {
#pragma unroll
        for (int k = 0; k < kInputs; ++k) shared.edges[edge(stage, k, lane)] = elements[k];
      }
      if constexpr (kHasExtra) {
        if (lane == kExtraLane) shared.extra[stage] = extra;
      }
      ptx::mbarrier_arrive(shared.pipeline.full[stage]);
    }
  };

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
