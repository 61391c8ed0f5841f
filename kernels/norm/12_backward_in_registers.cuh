// Idea: the columns' sums stay in registers while rows go by: a lane of a warp owns the same
// columns of every row that its lanes take. Rows to come are on their way to shared memory; each
// thread fetches the bytes that it will read itself, so that nobody waits for anybody.
// From backward_any_layout: grad and x are read once. Blocks stay; each leaves one sum a column,
// and a second kernel adds these up in their order, so two runs give the same bits.
// Traffic: two reads, one write, and 8 bytes a column and block.
// Limits: rows of whole vectors of up to 2 KiB. Statistics that are not given cost another
// read of x.
// Long: the kernel and what merges its groups' sums.
#pragma once

#include <algorithm>
#include <bit>

#include "kernels/norm/gradient_rows.hpp"
#include "warpsmith/device_facts.hpp"
#include "warpsmith/ptx/cp_async.hpp"
#include "warpsmith/ptx/grid.hpp"

namespace ws::norm {

// kLanes of a warp share a row, kVectors vectors each; kStages rows of theirs are under way. An SM
// holds kMinBlocks blocks: the launch counts on it.
template <int kLanes_, int kVectors_, int kStages_, int kMinBlocks_>
struct LanesShape {
  static constexpr int kLanes = kLanes_;
  static constexpr int kVectors = kVectors_;
  static constexpr int kStages = kStages_;
  static constexpr int kMinBlocks = kMinBlocks_;
  static constexpr int64_t kBytes = int64_t{16} * kLanes * kVectors;
};

// T: of the rows; W: of the weight.
template <class T, class W, bool kCentred, class Shape>
struct BackwardInRegistersKernel {
  using Element = T;
  static constexpr int kLanes = Shape::kLanes;
  static constexpr int kVectors = Shape::kVectors;
  static constexpr int kStages = Shape::kStages;
  static constexpr int kThreads = 128;
  static constexpr int kGroups = kThreads / kLanes;
  static constexpr int kMinBlocks = Shape::kMinBlocks;
  static constexpr int kWidth = row::kWidest<T>;
  static constexpr int kCapacity = kLanes * kVectors * kWidth;  // columns
  using Packed = row::Packed<T, kWidth>;
  using Parameter = row::Packed<W, kWidth>;
  using Sums = Vec<float, kWidth>;
  using Given = GivenStatistics<kCentred>;
  using Totals = GradientTotals<kCentred>;
  using Arguments = GradientRows<T>;
  struct SharedStorage {
    SharedArray<W, kCapacity> weight;
    SharedArray<T, 2 * kStages * kVectors * kThreads * kWidth> ring;  // at the end the groups' sums
  };

  __device__ void operator()(SharedStorage& shared, const Arguments& a) const {
    const int lane = thread_index() % kLanes;
    const auto holds = [&](int v) { return lane + v * kLanes < a.vectors; };
    const int64_t step = grid_blocks() * kGroups;
    int64_t r = block_index() * kGroups + thread_index() / kLanes;
#pragma unroll
    for (int s = 0; s < kStages; ++s) fetch(shared, a, r + s * step, lane, s);

    fill_weight(shared, a);
    Sums dweight[kVectors]{};
    Sums dbias[kVectors]{};
    Given row(a, r);
    int stage = 0;
    // All warps go round alike, as far as the block's first row does; beyond the last row all is 0.
    for (int64_t first = block_index() * kGroups; first < a.count; first += step, r += step) {
      const Given next(a, r + step);
      ptx::cp_async_wait_group<kStages - 1>();
      Totals totals{};
#pragma unroll
      for (int v = 0; v < kVectors; ++v) {
        add_to_totals(totals, load(shared, stage, kGrad, v), load(shared, stage, kInput, v),
                      weight(shared, lane, v), row);
      }
      totals = warp::all_reduce<kLanes>(totals, AddGradientTotals<kCentred>{});
      ptx::syncwarp();  // all is read again, not kept: registers are for the sums
      const GradientSlope<kCentred> slope(a, row, totals);
      T* dx = a.dx + r * a.dx_stride + lane * kWidth;
#pragma unroll
      for (int v = 0; v < kVectors; ++v) {
        const auto out = gradient_of(load(shared, stage, kGrad, v), load(shared, stage, kInput, v),
                                     weight(shared, lane, v), row, slope, dweight[v], dbias[v]);
        if (r < a.count && holds(v)) {
          thread::store(dx + v * kLanes * kWidth, thread::convert<T>(out));
        }
      }
      fetch(shared, a, r + kStages * step, lane, stage);
      stage = stage == kStages - 1 ? 0 : stage + 1;
      row = next;
    }
    ptx::griddepcontrol_launch_dependents();  // the parts' sum may get ready
    ptx::cp_async_wait_group<0>();
    merge(shared, a, dweight, a.dweight);
    if constexpr (kCentred) merge(shared, a, dbias, a.dbias);
  }

 private:
  __device__ __forceinline__ static void fill_weight(SharedStorage& shared, const Arguments& a) {
    for (int at = thread_index(); at < kCapacity / kWidth; at += kThreads) {
      auto weight = Parameter::filled(1.0F);
      if (a.weight != nullptr && at < a.vectors) {
        weight = Parameter::template load<Cache::kReadOnly>(static_cast<const W*>(a.weight) +
                                                            at * kWidth);
      }
      shared.weight.template store<kWidth>(at * kWidth, std::bit_cast<Vec<W, kWidth>>(weight));
    }
    ptx::barrier_sync();
  }
  __device__ __forceinline__ static Parameter weight(SharedStorage& shared, int lane, int v) {
    return std::bit_cast<Parameter>(
        shared.weight.template load<kWidth>((lane + v * kLanes) * kWidth));
  }

  // Of this thread's vector of grad or x, in elements: neighbours lie side by side.
  __device__ __forceinline__ static int place(int stage, int which, int v) {
    return (((2 * stage + which) * kVectors + v) * kThreads + thread_index()) * kWidth;
  }
  __device__ __forceinline__ static Packed load(SharedStorage& shared, int stage, int which,
                                                int v) {
    return std::bit_cast<Packed>(shared.ring.template load<kWidth>(place(stage, which, v)));
  }
  // One group of copies. Beyond the last row they are of no bytes, from where there are some.
  __device__ __forceinline__ static void fetch(SharedStorage& shared, const Arguments& a, int64_t r,
                                               int lane, int stage) {
    const bool is_row = r < a.count;
    const T* grad = a.grad + (is_row ? r : 0) * a.grad_stride;
    const T* x = a.x + (is_row ? r : 0) * a.x_stride;
    const auto vectors = static_cast<int>(a.vectors);
#pragma unroll
    for (int v = 0; v < kVectors; ++v) {
      const int at = lane + v * kLanes;
      const int from = (at < vectors ? at : 0) * kWidth;
      const int bytes = is_row && at < vectors ? 16 : 0;
      ptx::cp_async<16>(shared.ring.pointer(place(stage, kGrad, v)), grad + from, bytes);
      ptx::cp_async<16>(shared.ring.pointer(place(stage, kInput, v)), x + from, bytes);
    }
    ptx::cp_async_commit_group();
  }

  // The block's sums of its columns: those of its groups, in their order.
  __device__ __forceinline__ static void merge(SharedStorage& shared, const Arguments& a,
                                               const Sums (&sums)[kVectors], float* parts) {
    if (parts == nullptr) return;
    const SharedSpan<float> all(reinterpret_cast<float*>(shared.ring.pointer()),
                                kGroups * kCapacity);
    static_assert(sizeof(float) * kGroups * kCapacity <= sizeof(shared.ring));
    const int group = thread_index() / kLanes;
    ptx::barrier_sync();
#pragma unroll
    for (int v = 0; v < kVectors; ++v) {
      const int column = (thread_index() % kLanes + v * kLanes) * kWidth;
#pragma unroll
      for (int i = 0; i < kWidth; i += 4) {
        all.template store<4>(
            group * kCapacity + column + i,
            Vec<float, 4>{{sums[v][i], sums[v][i + 1], sums[v][i + 2], sums[v][i + 3]}});
      }
    }
    ptx::barrier_sync();
    const int64_t columns = a.vectors * kWidth;
    for (int column = thread_index(); column < columns; column += kThreads) {
      float sum = 0;
      for (int g = 0; g < kGroups; ++g) {
        const float other = all[g * kCapacity + column];
        sum += other;
      }
      thread::store(parts + block_index() * columns + column, sum);
    }
  }
};

// `Policy::with_shape(bytes, f)` calls f.operator()<Shape>() with the shape for rows of `bytes`, up
// to Policy::kMostBytes.
template <class Policy>
struct BackwardInRegisters {
  static constexpr int64_t kRowsOfBlock = 16;  // at least, so that the sums are worth their bytes

  template <class Call>
  static bool supports(const Call& call, Why& why) {
    return why.unless(call.rows.row_bytes() <= Policy::kMostBytes,
                      "a warp's registers hold rows of up to ", Policy::kMostBytes, " bytes, not ",
                      call.rows.row_bytes()) &&
           aligned_gradient_rows(call, why);
  }
  template <class Call>
  static Workspace workspace(const Call& call) {
    int64_t blocks = 0;
    with_kernel(call, [&]<class Kernel>() { blocks = blocks_of<Kernel>(call); });
    return gradient_workspace(call, blocks);
  }
  template <class Call>
  static void run(const Call& call, const Context& context) {
    with_kernel(call, [&]<class Kernel>() {
      const int64_t blocks = blocks_of<Kernel>(call);
      auto rows = gradient_rows_of<typename Kernel::Element>(call);
      prepare(rows, call, blocks, context);
      launch<Kernel>({.blocks = blocks, .threads = Kernel::kThreads}, context.stream, rows);
      SumPartsKernel::launch_on(call, rows.dweight, rows.dbias, blocks, context.stream);
    });
  }

 private:
  template <class Kernel, class Call>
  static int64_t blocks_of(const Call& call) {
    const int64_t resident = int64_t{Kernel::kMinBlocks} * device_facts().multiprocessors;
    return std::clamp<int64_t>(divide_up(call.rows.rows, kRowsOfBlock), 1, resident);
  }
  // f.operator()<Kernel>() with the kernel of the call.
  template <class Call, class F>
  static void with_kernel(const Call& call, const F& f) {
    with_types(call, [&]<class T, class W>() {
      Policy::with_shape(call.rows.row_bytes(), [&]<class Shape>() {
        f.template operator()<BackwardInRegistersKernel<T, W, Call::kCentred, Shape>>();
      });
    });
  }
};

}  // namespace ws::norm
