// The online softmax of 64 queries whose keys are shared by the blocks of a cluster: each has the
// scores of 64 keys of a step, and all want the weights of all of them.
//
// A warpgroup's peers are the warpgroups of its number in the other blocks. They trade the maxima
// of their rows (st.async), then the weights in 16 bits, which the copy engine takes across; each
// may go on with its own while its peers' are on their way. Two sets of slots serve in turn, with
// no signal that one is free: who has sent the maxima of step i + 1 has received the weights of
// step i, and has waited for the products that read those of step i - 1.
#pragma once

#include "warpsmith/ptx/bulk.hpp"
#include "warpsmith/shared.hpp"
#include "warpsmith/thread/max_sum.hpp"
#include "warpsmith/tile/warp_store.hpp"
#include "warpsmith/warp/reduce.hpp"

namespace ws::attention {

inline constexpr int kGroupQueries = 64;  // of a warpgroup: the rows of a wgmma
inline constexpr int kBlockKeys = 64;     // of a block in a step

// Of kGroups warpgroups in each of kBlocks blocks. What comes from the block whose rank is d higher
// (or kBlocks - d lower) lies in place d - 1.
template <class T, int kGroups, int kBlocks>
struct ClusterSoftmaxStorage {
  static constexpr int kPeers = kBlocks - 1;
  static constexpr int kTile = kGroupQueries * kBlockKeys;  // weights: rows of 128 bytes, swizzled
  SharedArray<T, 2 * kPeers * kGroups * kTile, 1024> from_peers;
  SharedArray<T, kGroups * kTile, 1024> own;  // 16 rows a warp, on their way
  SharedArray<float, 2 * kPeers * kGroups * kGroupQueries> numbers;
  ptx::Mbarrier numbers_full[kGroups][2];
  ptx::Mbarrier weights_full[kGroups][2];

  // By one thread, before the fence of mbarriers and a barrier of the cluster.
  __device__ __forceinline__ void init() {
#pragma unroll
    for (int group = 0; group < kGroups; ++group) {
#pragma unroll
      for (int slot = 0; slot < 2; ++slot) {
        ptx::mbarrier_init(numbers_full[group][slot], 1);
        ptx::mbarrier_init(weights_full[group][slot], 1);
      }
    }
  }
};

// A thread has two of the rows, 8 apart, as wgmma's accumulators have; of both, every fourth pair
// of columns.
template <class T, int kGroups, int kBlocks>
struct ClusterSoftmax {
  using Storage = ClusterSoftmaxStorage<T, kGroups, kBlocks>;
  static constexpr int kPeers = Storage::kPeers;

  Storage& storage;
  int group;  // warpgroup
  int rank;   // of this block
  float max[2] = {-thread::kInfinity, -thread::kInfinity};
  float sum[2] = {};      // of the weights of this thread's keys
  float rescale[2] = {};  // what the steps before the last must be multiplied by
  float highest[2] = {};  // of the scores of a step

  __device__ __forceinline__ int first_row() const {
    return group * kGroupQueries + warp_index() % 4 * 16 + lane_index() / 4;
  }

  // Scores, in powers of two: the maxima of this block's keys, which go to the peers. By then their
  // weights of the step before have been received, and the products that read those before them
  // are done.
  __device__ __forceinline__ void propose(const float (&scores)[kBlockKeys / 2], int step) {
    highest[0] = scores[0];
    highest[1] = scores[2];
#pragma unroll
    for (int i = 0; i < kBlockKeys / 2; ++i) {
      highest[i / 2 % 2] = fmaxf(highest[i / 2 % 2], scores[i]);
    }
#pragma unroll
    for (float& value : highest) {
      value = warp::all_reduce<4>(value, [](float a, float b) { return fmaxf(a, b); });
    }
    offer(highest, step);
  }

  // The scores become weights: of this block's keys in `weights`, as wgmma takes A from registers,
  // and on their way to the peers.
  __device__ __forceinline__ void weigh(float (&scores)[kBlockKeys / 2], int step,
                                        uint32_t (&weights)[kBlockKeys / 16][4]) {
    take(highest, step, [](float a, float b) { return fmaxf(a, b); });
    float shift[2];
#pragma unroll
    for (int row = 0; row < 2; ++row) {
      highest[row] = fmaxf(max[row], highest[row]);
      shift[row] = thread::finite_or_zero(highest[row]);
      rescale[row] = thread::exp2(max[row] - shift[row]);
      sum[row] *= rescale[row];
      max[row] = highest[row];
    }
#pragma unroll
    for (int i = 0; i < kBlockKeys / 2; ++i) {
      scores[i] = thread::exp2(scores[i] - shift[i / 2 % 2]);
      sum[i / 2 % 2] += scores[i];
    }
#pragma unroll
    for (int i = 0; i < kBlockKeys / 4; ++i) {
      weights[i / 4][i % 4] = tile::pack<T>(scores[i * 2], scores[i * 2 + 1]);
    }
    send(weights, step);
  }

  // Waits until the peers' weights of a step have come.
  __device__ __forceinline__ void receive(int step) {
    ptx::Mbarrier& full = storage.weights_full[group][step % 2];
    if (thread_index() % 128 == 0) {
      ptx::mbarrier_arrive_expect_tx(full, kPeers * Storage::kTile * sizeof(T));
    }
    ptx::mbarrier_wait_parity(full, static_cast<uint32_t>(step / 2 & 1));
  }
  // Those of the block `distance` further on: a tile of K-major rows for wgmma.
  __device__ __forceinline__ T* weights_of(int step, int distance) const {
    const int place = (step % 2 * kPeers + distance - 1) * kGroups + group;
    return storage.from_peers.pointer(place * Storage::kTile);
  }

  // After the last of `steps`: the sums over all keys, and lse.
  __device__ __forceinline__ void finish(int steps) {
#pragma unroll
    for (float& value : sum) {
      value = warp::all_reduce<4>(value, [](float a, float b) { return a + b; });
    }
    offer(sum, steps);
    take(sum, steps, [](float a, float b) { return a + b; });
  }
  __device__ __forceinline__ float lse(int row) const {
    return sum[row] == 0 ? -thread::kInfinity : (max[row] + log2f(sum[row])) * thread::kLn2;
  }

  // 16 rows of 64 elements, which are the warp's own but between weigh() and the next take().
  __device__ __forceinline__ T* own_rows() const {
    return storage.own.pointer(group * Storage::kTile + warp_index() % 4 * 16 * kBlockKeys);
  }

 private:
  __device__ __forceinline__ int peer_at(int distance) const { return (rank + distance) % kBlocks; }
  // Of the first row's number from the block `distance` further on.
  __device__ __forceinline__ int number_at(int exchange, int distance) const {
    return (exchange % 2 * kPeers + distance - 1) * kGroups * kGroupQueries + first_row();
  }

  // A number for each row to the peers, and theirs. Exchanges are 0, 1, ...
  __device__ __forceinline__ void offer(const float (&numbers)[2], int exchange) {
    const int row = lane_index() % 4;
    if (row >= 2) return;
    const float number = row == 0 ? +numbers[0] : +numbers[1];  // of values: no address is taken
#pragma unroll
    for (int distance = 1; distance < kBlocks; ++distance) {
      const int to = peer_at(distance);  // from there it is the rest of the way round to here
      ptx::st_async(
          ptx::map_shared_rank(
              storage.numbers.pointer(number_at(exchange, kBlocks - distance) + row * 8), to),
          number, ptx::map_shared_rank(&storage.numbers_full[group][exchange % 2], to));
    }
  }
  // All blocks combine all numbers in the same order.
  template <class Combine>
  __device__ __forceinline__ void take(float (&numbers)[2], int exchange, const Combine& combine) {
    ptx::Mbarrier& full = storage.numbers_full[group][exchange % 2];
    if (thread_index() % 128 == 0) {
      ptx::mbarrier_arrive_expect_tx(full, kPeers * kGroupQueries * sizeof(float));
    }
    ptx::mbarrier_wait_parity<ptx::Scope::kCluster>(full, static_cast<uint32_t>(exchange / 2 & 1));
    const float own[2] = {numbers[0], numbers[1]};
#pragma unroll
    for (int from = 0; from < kBlocks; ++from) {
      float low = own[0];
      float high = own[1];
      if (from != rank) {
        const int at = number_at(exchange, (from - rank + kBlocks) % kBlocks);
        low = storage.numbers[at];
        high = storage.numbers[at + 8];
      }
      numbers[0] = from == 0 ? low : combine(numbers[0], low);
      numbers[1] = from == 0 ? high : combine(numbers[1], high);
    }
  }

  __device__ __forceinline__ void send(const uint32_t (&weights)[kBlockKeys / 16][4], int step) {
    const int lane = lane_index();
    T* const rows = own_rows();
#pragma unroll
    for (int i = 0; i < kBlockKeys / 16; ++i) {
      ptx::stmatrix_x4(
          reinterpret_cast<char*>(rows) +
              ptx::swizzled_chunk<ptx::Swizzle::k128>(static_cast<uint32_t>(lane % 16),
                                                      static_cast<uint32_t>(i * 2 + lane / 16)),
          weights[i]);
    }
    ptx::fence_proxy_async();
    ptx::syncwarp();
    if (lane == 0) {
#pragma unroll
      for (int distance = 1; distance < kBlocks; ++distance) {
        const int to = peer_at(distance);
        const T* const there =
            weights_of(step, kBlocks - distance) + warp_index() % 4 * 16 * kBlockKeys;
        ptx::bulk_copy_cluster(ptx::map_shared_rank(there, to), rows, 16 * kBlockKeys * sizeof(T),
                               ptx::map_shared_rank(&storage.weights_full[group][step % 2], to));
      }
    }
    ptx::syncwarp();
  }
};

}  // namespace ws::attention
