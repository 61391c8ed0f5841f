// Idea: the columns of a wide head are shared by the blocks of a cluster. Each keeps the sums over
//   up to 256 columns of the values, 128 registers a thread, and the queries whole, in shared
//   memory. In a step each block computes the scores of 64 keys, and they trade the weights.
// From any: wgmma and the copy engine, a ring of stages of 8 KB for slices of keys and of values
//   alike. The scores of the next step are multiplied before the values of this one.
// Traffic: of two blocks each reads half of k and half of v for 128 queries: 32 bytes a clock of an
//   SM at the tensor cores' rate. Of four a quarter for 64, which is twice that.
// Limits: sm_90a, f16 and bf16; scores as they are, seen whole or causally; rows of q, k and v are
//   dense and begin at multiples of 16 bytes.
#pragma once

#include "kernels/attention/cluster_softmax.hpp"
#include "kernels/attention/head_tile.hpp"
#include "kernels/attention/online_softmax.hpp"
#include "kernels/attention/plain.hpp"
#include "kernels/attention/seen.hpp"
#include "warpsmith/launch.hpp"
#include "warpsmith/ptx/setmaxnreg.hpp"
#include "warpsmith/ptx/shuffle.hpp"
#include "warpsmith/ptx/wgmma.hpp"
#include "warpsmith/tile/pipeline.hpp"

namespace ws::attention {

// What can be chosen. More products in flight cover more of the softmax, fewer leave more stages to
// load the next slices into. H200 2026-11-22: of 0 to 4 in flight the fastest.
struct WideShape {
  int head_dim;  // at most
  int columns;   // of the values, of a block
  int stages;
  int in_flight;   // slices
  int groups = 2;  // warpgroups that multiply, 64 queries each
  int blocks = 2;  // of a cluster
};
inline constexpr WideShape kWide320 = {
    .head_dim = 320, .columns = 160, .stages = 12, .in_flight = 4};
inline constexpr WideShape kWide512 = {
    .head_dim = 512, .columns = 256, .stages = 6, .in_flight = 1};
inline constexpr WideShape kWide576 = {
    .head_dim = 576, .columns = 256, .stages = 4, .in_flight = 1};
// 128 queries of 1024 would be all of an SM's shared memory.
inline constexpr WideShape kWide1024 = {
    .head_dim = 1024, .columns = 256, .stages = 5, .in_flight = 1, .groups = 1, .blocks = 4};

// A warpgroup's place in the ring: it multiplies slices in order, and gives their stages back when
// `in_flight` slices have followed.
template <int kStages>
struct RingUser {
  using Position = tile::PipelinePosition<kStages>;
  tile::Pipeline<kStages>& ring;
  Position next{};
  Position oldest{};
  int held = 0;

  // The products with the slice at `next` have been issued.
  __device__ __forceinline__ void issued() {
    ptx::wgmma_commit_group();
    next.advance();
    ++held;
  }
  // Waits until at most so many slices are in flight; there was one more at most.
  template <int kPending>
  __device__ __forceinline__ void retire() {
    ptx::wgmma_wait_group<kPending>();
    if (held > kPending) give_back();
  }
  // No slice is in flight.
  __device__ __forceinline__ void give_all_back() {
#pragma unroll 1
    while (held > 0) give_back();
  }

 private:
  __device__ __forceinline__ void give_back() {
    if (thread_index() % 128 == 0) ring.release(oldest.stage);
    oldest.advance();
    --held;
  }
};

// Long: the two roles and their protocol belong on one page, beside the storage they share.
template <class T, WideShape kShape>
struct WideHeadsKernel {
  static constexpr int kGroups = kShape.groups;
  static constexpr int kQueries = kGroups * kGroupQueries;
  static constexpr int kThreads = 128 * (1 + kGroups);
  static constexpr int kMinBlocks = 1;
  static constexpr Arch kArch = Arch::kSm90a;
  static constexpr int kCluster = kShape.blocks;
  static constexpr int kStepKeys = kCluster * kBlockKeys;
  static constexpr int kColumns = kShape.columns;
  static constexpr int kStages = kShape.stages;
  static constexpr int kInFlight = kShape.in_flight;
  static_assert(kInFlight <= kBlockKeys / 16, "own weights are in registers until they are used");
  static_assert(kInFlight < kStages);

  static constexpr int kRow = 64;        // elements of a swizzle row
  static constexpr int kSliceKeys = 16;  // of values in a stage
  static constexpr int kPanels = divide_up(kColumns, kRow);
  static constexpr int kStageElements = kBlockKeys * kRow;  // a slice of keys: 64 of D
  static constexpr int kPanelElements = kSliceKeys * kRow;  // of values
  static_assert(kPanels * kPanelElements <= kStageElements);
  static constexpr int kQueryPanel = kQueries * kRow;
  static constexpr int kStoreColumns = kColumns % 64 == 0 ? 64 : 32;
  using Store = tile::WarpStore<T, 1, kStoreColumns>;
  using Softmax = ClusterSoftmax<T, kGroups, kCluster>;
  using User = RingUser<kStages>;

  struct Arguments {
    ptx::TensorMap q, k, v;
    Heads out, lse;
    int queries, keys;
    int heads, group;
    int tiles;   // of queries
    int slices;  // of D
    int value_dim;
    float scale;  // log2(e) in it
    bool causal;
  };
  struct SharedStorage {
    SharedArray<T, divide_up(kShape.head_dim, kRow) * kQueryPanel, 1024> queries;
    SharedArray<T, kStages * kStageElements, 1024> stages;
    typename Softmax::Storage softmax;
    tile::Pipeline<kStages> ring;
    ptx::Mbarrier queries_full;
  };
  static_assert(sizeof(SharedStorage) <= 227 * 1024, "shared memory of a block");

  // What a cluster computes, and this block of it.
  struct Work {
    int rank;
    int row;  // first query
    int head, batch;
    int steps;  // of kStepKeys keys

    __device__ __forceinline__ explicit Work(const Arguments& a) : rank(cluster_rank()) {
      const auto cluster = static_cast<int>(block_index()) / kCluster;
      const int tile = cluster % a.tiles;
      // The longest tiles of a causal head begin first.
      row = (a.causal ? a.tiles - 1 - tile : tile) * kQueries;
      head = cluster / a.tiles % a.heads;
      batch = cluster / a.tiles / a.heads;
      steps = (seen(a, row + kQueries - 1) + kStepKeys - 1) / kStepKeys;
    }
  };
  // Keys that a query sees: the first so many.
  __device__ __forceinline__ static int seen(const Arguments& a, int row) {
    return Seen<int>{a.keys - a.queries, a.keys, -1, a.causal ? 0 : -1}.end(row);
  }

  // One thread: the queries, then slices in the order in which they are multiplied.
  __device__ __forceinline__ static void produce(SharedStorage& shared, const Arguments& a,
                                                 const Work& work) {
    if (work.steps == 0) return;
    ptx::mbarrier_arrive_expect_tx(shared.queries_full,
                                   static_cast<uint32_t>(a.slices * kQueryPanel * sizeof(T)));
    for (int slice = 0; slice < a.slices; ++slice) {
      ptx::tensor_load_4d(shared.queries.pointer(slice * kQueryPanel), a.q, shared.queries_full,
                          slice * kRow, work.row, work.head, work.batch);
    }
    const int head = work.head / a.group;
    typename User::Position at;
    const auto load_keys = [&](int step) {
      const int key = step * kStepKeys + work.rank * kBlockKeys;
      for (int slice = 0; slice < a.slices; ++slice) {
        ptx::Mbarrier& full = shared.ring.acquire(at, kStageElements * sizeof(T));
        ptx::tensor_load_4d(shared.stages.pointer(at.stage * kStageElements), a.k, full,
                            slice * kRow, key, head, work.batch);
        at.advance();
      }
    };
    // This block's keys first, then those of the blocks after it: their weights are still to come.
    const auto load_values = [&](int step) {
      for (int slice = 0; slice < kStepKeys / kSliceKeys; ++slice) {
        const int key =
            step * kStepKeys + (work.rank * kBlockKeys + slice * kSliceKeys) % kStepKeys;
        ptx::Mbarrier& full = shared.ring.acquire(at, kPanels * kPanelElements * sizeof(T));
#pragma unroll
        for (int panel = 0; panel < kPanels; ++panel) {
          ptx::tensor_load_4d(
              shared.stages.pointer(at.stage * kStageElements + panel * kPanelElements), a.v, full,
              work.rank * kColumns + panel * kRow, key, head, work.batch);
        }
        at.advance();
      }
    };
    load_keys(0);
    for (int step = 0; step < work.steps; ++step) {
      if (step + 1 < work.steps) load_keys(step + 1);
      load_values(step);
    }
  }

  // ---- A warpgroup's part ----------------------------------------------------------------------

  __device__ __forceinline__ static uint64_t keys_at(SharedStorage& shared, int stage) {
    return ptx::wgmma_descriptor(shared.stages.pointer(stage * kStageElements), 0, 1024,
                                 ptx::Swizzle::k128);
  }
  __device__ __forceinline__ static uint64_t values_at(SharedStorage& shared, int stage) {
    return ptx::wgmma_descriptor(shared.stages.pointer(stage * kStageElements),
                                 kPanelElements * sizeof(T), 1024, ptx::Swizzle::k128);
  }

  // scores += queries times keys, over 64 of D; the first slice overwrites what was there.
  __device__ __forceinline__ static void score(float (&scores)[kBlockKeys / 2],
                                               SharedStorage& shared, User& user, int group,
                                               int slice) {
    const uint64_t q = ptx::wgmma_descriptor(
        shared.queries.pointer(slice * kQueryPanel + group * kGroupQueries * kRow), 0, 1024,
        ptx::Swizzle::k128);
    const uint64_t k = keys_at(shared, user.next.stage);
    user.ring.wait(user.next);
    ptx::wgmma_fence();
#pragma unroll
    for (uint32_t byte = 0; byte < kRow * sizeof(T); byte += 32) {
      ptx::wgmma_m64k16<kBlockKeys, T>(scores, ptx::wgmma_advance(q, byte),
                                       ptx::wgmma_advance(k, byte), slice > 0 || byte > 0);
    }
    user.issued();
  }

  // out += weights times values: of this block's keys, of its peers'.
  __device__ __forceinline__ static void gather_own(float (&out)[kColumns / 2],
                                                    uint32_t (&weights)[kBlockKeys / 16][4],
                                                    SharedStorage& shared, User& user) {
    ptx::wgmma_fence(out, weights[0], weights[1], weights[2], weights[3]);
#pragma unroll
    for (const uint32_t (&own)[4] : weights) {
      user.ring.wait(user.next);
      ptx::wgmma_fence();
      ptx::wgmma_m64k16<kColumns, T, ptx::Major::kMN>(out, own, values_at(shared, user.next.stage),
                                                      true);
      user.issued();
      user.template retire<kInFlight>();
    }
  }
  __device__ __forceinline__ static void gather_peers(float (&out)[kColumns / 2],
                                                      const Softmax& softmax, int step,
                                                      SharedStorage& shared, User& user) {
#pragma unroll
    for (int distance = 1; distance < kCluster; ++distance) {
      const uint64_t weights =
          ptx::wgmma_descriptor(softmax.weights_of(step, distance), 0, 1024, ptx::Swizzle::k128);
#pragma unroll
      for (uint32_t i = 0; i < kBlockKeys / 16; ++i) {
        user.ring.wait(user.next);
        ptx::wgmma_fence();
        ptx::wgmma_m64k16<kColumns, T, ptx::Major::kK, ptx::Major::kMN>(
            out, ptx::wgmma_advance(weights, i * 32), values_at(shared, user.next.stage), true);
        user.issued();
        user.template retire<kInFlight>();
      }
    }
  }

  // Scales, and hides the keys that a query does not see.
  __device__ __forceinline__ static void mask(float (&scores)[kBlockKeys / 2], const Arguments& a,
                                              const Work& work, const Softmax& softmax, int step) {
#pragma unroll
    for (float& score : scores) score *= a.scale;
    const int first = step * kStepKeys + work.rank * kBlockKeys;
    if (first + kBlockKeys <= seen(a, work.row + softmax.group * kGroupQueries)) return;
    const int row = work.row + softmax.first_row();
    const int limits[2] = {seen(a, row) - first, seen(a, row + 8) - first};
#pragma unroll
    for (int i = 0; i < kBlockKeys / 2; ++i) {
      const int key = i / 4 * 8 + lane_index() % 4 * 2 + i % 2;
      if (key >= limits[i / 2 % 2]) scores[i] = -thread::kInfinity;
    }
  }

  // out = weights times values, of all steps.
  __device__ __forceinline__ static void attend(float (&out)[kColumns / 2], SharedStorage& shared,
                                                const Arguments& a, const Work& work,
                                                Softmax& softmax) {
    float scores[kBlockKeys / 2] = {};
    uint32_t weights[kBlockKeys / 16][4] = {};
    User user{shared.ring};
    ptx::mbarrier_wait_parity(shared.queries_full, 0);
    ptx::wgmma_pin(scores);
    for (int slice = 0; slice < a.slices; ++slice) {
      score(scores, shared, user, softmax.group, slice);
      user.template retire<1>();
    }
    ptx::wgmma_wait_group<0>(scores);
    user.give_all_back();
    mask(scores, a, work, softmax, 0);
    softmax.propose(scores, 0);
    softmax.weigh(scores, 0, weights);
    for (int step = 1; step < work.steps; ++step) {
      ptx::wgmma_wait_group<0>(out);
      user.give_all_back();
      ptx::wgmma_pin(scores);
      score(scores, shared, user, softmax.group, 0);
      // What the steps before add up to is rescaled under the scores.
      scale_rows(out, softmax.rescale);
      for (int slice = 1; slice < a.slices; ++slice) {
        score(scores, shared, user, softmax.group, slice);
        user.template retire<kInFlight>();
      }
      gather_own(out, weights, shared, user);
      softmax.receive(step - 1);
      // All slices but the last few of the values are done: the scores are. Their maxima are under
      // way while the peers' values are multiplied.
      ptx::wgmma_wait_group<kInFlight>(scores);
      mask(scores, a, work, softmax, step);
      softmax.propose(scores, step);
      gather_peers(out, softmax, step - 1, shared, user);
      softmax.weigh(scores, step, weights);
    }
    ptx::wgmma_wait_group<0>(out);
    user.give_all_back();
    scale_rows(out, softmax.rescale);
    gather_own(out, weights, shared, user);
    softmax.receive(work.steps - 1);
    gather_peers(out, softmax, work.steps - 1, shared, user);
    ptx::wgmma_wait_group<0>(out);
    user.give_all_back();
  }

  __device__ __forceinline__ static void consume(SharedStorage& shared, const Arguments& a,
                                                 const Work& work, int group) {
    float out[kColumns / 2] = {};
    Softmax softmax{shared.softmax, group, work.rank};
    if (work.steps > 0) {
      attend(out, shared, a, work, softmax);
      softmax.finish(work.steps);
    }
    store(out, a, work, softmax);
  }

  __device__ __forceinline__ static void store(float (&out)[kColumns / 2], const Arguments& a,
                                               const Work& work, Softmax& softmax) {
    float inverse[2];
#pragma unroll
    for (int row = 0; row < 2; ++row) {
      inverse[row] = softmax.sum[row] > 0 ? 1 / softmax.sum[row] : 0.0F;
    }
    scale_rows(out, inverse);
    Store rows{softmax.own_rows()};
    const int row = work.row + softmax.group * kGroupQueries + warp_index() % 4 * Store::kRows;
    const int column = work.rank * kColumns;
    T* const to = a.out.template as<T>() + work.batch * a.out.batch + work.head * a.out.head +
                  row * a.out.row + column;
#pragma unroll
    for (int j = 0; j < kColumns; j += kStoreColumns) {
      rows.write(to + j, a.out.row, a.queries - row, a.value_dim - column - j, &out[j / 2]);
    }
    if (work.rank != 0 || lane_index() % 4 != 0) return;
    float* const lse =
        a.lse.template as<float>() + work.batch * a.lse.batch + work.head * a.lse.head;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int query = work.row + softmax.first_row() + i * 8;
      if (query < a.queries) thread::store(lse + query * a.lse.row, softmax.lse(i));
    }
  }

  // The other blocks' memory is in use: they must have begun, and must not be gone.
  __device__ __forceinline__ static void meet() {
    ptx::syncwarp();  // the arrival is one instruction for the warp
    ptx::cluster_arrive_relaxed();
    ptx::cluster_wait();
  }

  __device__ void operator()(SharedStorage& shared, const Arguments& a) const {
    // Broadcast, so that the compiler knows it to be the same in all lanes.
    const auto warp =
        static_cast<int>(ptx::shfl_sync_idx(kFullMask, static_cast<uint32_t>(warp_index()), 0));
    if (thread_index() == 0) {
      ptx::prefetch_tensor_map(a.q);
      ptx::prefetch_tensor_map(a.k);
      ptx::prefetch_tensor_map(a.v);
      shared.ring.init(kGroups);
      shared.softmax.init();
      ptx::mbarrier_init(shared.queries_full, 1);
      ptx::fence_mbarrier_init();
    }
    meet();
    const Work work(a);
    if (warp < 4) {
      if constexpr (kGroups > 1) ptx::setmaxnreg_dec<40>();
      if (warp == 0) {
        if (ptx::elect_sync()) produce(shared, a, work);
        ptx::syncwarp();
      }
    } else {
      if constexpr (kGroups > 1) ptx::setmaxnreg_inc<232>();
      consume(shared, a, work, warp / 4 - 1);
    }
    meet();
  }
};

struct WideHeads {
  static bool supports(const Call& call, Why& why);
  static void run(const Call& call, const Context& context);
};

}  // namespace ws::attention
