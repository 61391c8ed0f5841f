// PrivateCounts: a block's own counters in shared memory, in one or several copies, and how they
// become an operation's output.
//
// Behind the last bin is one more, for what is counted nowhere: an addition there costs less than a
// branch around it. Counter c of bin b lies at word b * copies + c. With 32 copies, one a lane,
// each lane has a bank of its own: whatever 32 values a warp adds, no two lanes meet.
#pragma once

#include "catalogue/parts.hpp"
#include "kernels/histogram/operations.hpp"
#include "warpsmith/ptx/atomic_shared.hpp"

#if WS_DEVICE_CODE
namespace ws::histogram {

// Counters in the workspace, zero before and after a call: 64 bits a bin, then one for the blocks
// that have come.
struct Totals {
  uint64_t* of_bin = nullptr;
  uint32_t* arrived = nullptr;

  Totals() = default;
  Totals(void* workspace, int64_t bins)
      : of_bin(static_cast<uint64_t*>(workspace)),
        arrived(reinterpret_cast<uint32_t*>(of_bin + bins)) {}
  static Workspace workspace(int64_t bins) {
    const size_t bytes = round_up(static_cast<size_t>(bins + 1) * sizeof(uint64_t), size_t{256});
    return {.bytes = bytes, .zeroed = bytes};
  }
};

// i64, or f32 of histc and of sums.
struct CountOutput {
  void* data = nullptr;
  int64_t stride = 1;
  DType dtype = DType::kI64;

  CountOutput() = default;
  explicit CountOutput(const Counted& call)
      : data(call.output), stride(call.output_stride), dtype(call.output_dtype) {}

  template <class Total>
  __device__ __forceinline__ void store(int64_t bin, Total count) const {
    if (dtype == DType::kI64) {
      thread::store(static_cast<int64_t*>(data) + bin * stride, static_cast<int64_t>(count));
    } else {
      thread::store(static_cast<float*>(data) + bin * stride, static_cast<float>(count));
    }
  }
};

// A launch that gives totals out and sets them back to zero.
template <class Total>
struct FinishKernel {
  static constexpr int kThreads = 256;
  struct Arguments {
    Total* totals;
    int64_t bins;
    CountOutput output;
  };
  struct SharedStorage {};

  __device__ void operator()(SharedStorage& /*shared*/, const Arguments& a) const {
    const int64_t bin = block_index() * kThreads + thread_index();
    if (bin >= a.bins) return;
    a.output.store(bin, thread::load(a.totals + bin));
    thread::store(a.totals + bin, Total{0});
  }

  static void run(Total* totals, const Counted& call, Stream stream) {
    launch<FinishKernel>({.blocks = divide_up(call.bins, kThreads), .threads = kThreads}, stream,
                         {totals, call.bins, CountOutput(call)});
  }
};

// Leaves a block's counts, of(bin), in the totals; the block that comes last gives them out and
// sets them back to zero.
template <int kThreads, class Of>
__device__ __forceinline__ void hand_over(const Totals& totals, const CountOutput& output,
                                          int64_t bins, SharedArray<uint32_t, 1>& order,
                                          const Of& of) {
  ptx::barrier_sync();
  for (int64_t bin = thread_index(); bin < bins; bin += kThreads) {
    const uint32_t sum = of(bin);
    if (sum != 0) ptx::red_global_add(totals.of_bin + bin, sum);
  }
  Parts<uint64_t> blocks;
  blocks.parts = static_cast<int>(grid_blocks());
  blocks.arrived = totals.arrived;
  if (!blocks.came_last(0, order)) return;
  for (int64_t bin = thread_index(); bin < bins; bin += kThreads) {
    output.store(bin, thread::load(totals.of_bin + bin));
    thread::store(totals.of_bin + bin, uint64_t{0});
  }
}

template <int kThreads>
class PrivateCounts {
 public:
  // `copies` is a power of two; all threads go through a barrier before they count.
  __device__ __forceinline__ PrivateCounts(const SharedSpan<uint32_t>& words, uint32_t bins,
                                           uint32_t copies)
      : words_(words), mine_(words.pointer() + (lane_index() & (copies - 1))), copies_(copies) {
    const int64_t count = words_of(bins, copies);
    for (int64_t i = thread_index() * 4; i < count; i += kThreads * 4) {
      words_.template store<4>(i, Vec<uint32_t, 4>{});
    }
  }
  static __host__ __device__ constexpr int64_t words_of(int64_t bins, int64_t copies) {
    return round_up((bins + 1) * copies, int64_t{4});
  }

  __device__ __forceinline__ void add(uint32_t bin) const {
    ptx::red_shared_increment(mine_ + bin * copies_);
  }
  // The same by where the bin's counters begin, in bytes.
  __device__ __forceinline__ void add_at(uint32_t bytes) const {
    ptx::red_shared_increment(
        reinterpret_cast<uint32_t*>(reinterpret_cast<std::byte*>(mine_) + bytes));
  }

  // Of all copies; each lane begins in another bank.
  __device__ __forceinline__ uint32_t of(uint32_t bin) const {
    uint32_t sum = 0;
    for (uint32_t c = 0; c < copies_; ++c) {
      sum += words_[bin * copies_ + ((c + thread_index()) & (copies_ - 1))];
    }
    return sum;
  }

  __device__ __forceinline__ void hand_over(const Totals& totals, const CountOutput& output,
                                            int64_t bins, SharedArray<uint32_t, 1>& order) const {
    ws::histogram::hand_over<kThreads>(totals, output, bins, order,
                                       [&](int64_t bin) { return of(static_cast<uint32_t>(bin)); });
  }

 private:
  SharedSpan<uint32_t> words_;
  uint32_t* mine_;
  uint32_t copies_;
};

}  // namespace ws::histogram
#endif
