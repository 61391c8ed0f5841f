// Idea: eight lanes an entry, 16 bytes each of both rows at a time, four entries at once; a group
// of lanes goes on to the next entries, whose row is the same or soon found.
// From sampled_entry: rows are read in whole accesses of 128 bytes; entries that follow each other
// find their row of a in the L1; one search by halves for 32 entries.
// Traffic: a row of b an entry from the L2; a, columns and results once.
// Limits: col without gaps; rows of a and b without gaps between elements, of whole and aligned
// vectors.
#include "kernels/spmv/16_sampled_entry.cuh"
#include "warpsmith/warp/reduce.hpp"

namespace ws::spmv {
namespace {

template <class T, class I>
struct SampledLanesKernel {
  static constexpr int kThreads = 128;
  static constexpr int kLanes = 8;     // of an entry
  static constexpr int kEach = 4;      // entries at once
  static constexpr int kEntries = 32;  // of a group of lanes
  static constexpr int kWidth = 16 / static_cast<int>(sizeof(T));
  struct Arguments {
    Csr<T, I> pattern;
    SampledCall call;
    int64_t threads;
  };
  struct SharedStorage {};

  __device__ void operator()(SharedStorage& /*shared*/, const Arguments& arguments) const {
    const auto& [pattern, call, threads] = arguments;
    const int64_t number = block_index() * kThreads + thread_index();
    report_rows(pattern, number, threads);
    const int lane = thread_index() % kLanes;
    const int64_t first = number / kLanes * kEntries;
    const T* const left = static_cast<const T*>(call.left) + lane * kWidth;
    const T* const right = static_cast<const T*>(call.right) + lane * kWidth;
    int64_t row = first < pattern.entries ? pattern.row_of(first) : pattern.rows;
    // All lanes stay for the sums.
#pragma unroll 1
    for (int64_t start = first; start < first + kEntries; start += kEach) {
      const T* a[kEach];
      const T* b[kEach];
      bool exists[kEach];
#pragma unroll
      for (int e = 0; e < kEach; ++e) {
        const int64_t j = start + e;
        a[e] = left;
        b[e] = right;
        exists[e] = false;
        if (j >= pattern.entries) continue;
        row = next_row(pattern, row, j);
        if (row >= pattern.rows) continue;
        const int64_t column = thread::load(pattern.col + j);
        exists[e] = pattern.columns(column, j);
        if (!exists[e]) continue;
        a[e] += row * call.left_row;
        b[e] += column * call.right_row;
      }
      Sum<T> sums[kEach]{};
      for (int64_t n = lane * kWidth; n < call.width; n += kLanes * kWidth) {
        Vec<T, kWidth> ours[kEach];
        Vec<T, kWidth> theirs[kEach];
#pragma unroll
        for (int e = 0; e < kEach; ++e) {
          if (exists[e]) {
            ours[e] = thread::load<kWidth>(a[e]);
            theirs[e] = thread::load<kWidth>(b[e]);
          }
          a[e] += kLanes * kWidth;
          b[e] += kLanes * kWidth;
        }
#pragma unroll
        for (int e = 0; e < kEach; ++e) {
          if (!exists[e]) continue;
#pragma unroll
          for (int k = 0; k < kWidth; ++k) sums[e] += widen(ours[e][k]) * widen(theirs[e][k]);
        }
      }
      Sum<T> mine = 0;
#pragma unroll
      for (int e = 0; e < kEach; ++e) {
        const Sum<T> sum =
            warp::all_reduce<kLanes>(sums[e], [](Sum<T> x, Sum<T> y) { return x + y; });
        if (lane == e) mine = sum;
      }
      if (lane < kEach && start + lane < pattern.entries) {
        thread::store(static_cast<T*>(call.result) + (start + lane) * call.value_step,
                      narrow<T>(mine));
      }
    }
  }

 private:
  // That of entry j, which lies in `row` or behind it.
  static __device__ __forceinline__ int64_t next_row(const Csr<T, I>& pattern, int64_t row,
                                                     int64_t j) {
    constexpr int kNear = 4;  // rows, before they are searched
#pragma unroll 1
    for (int k = 0; k < kNear; ++k, ++row) {
      if (row >= pattern.rows || thread::load(pattern.crow + (row + 1) * pattern.crow_step) > j) {
        return row;
      }
    }
    return pattern.row_of(j, row);
  }
};

struct SampledLanes {
  static bool supports(const SampledCall& call, Why& why) {
    return why.unless(call.col_step == 1, "takes col without gaps, not with a stride of ",
                      call.col_step) &&
           why.unless(has_vector_rows(call.dtype, call.width, call.left, call.left_row,
                                      call.left_column) &&
                          has_vector_rows(call.dtype, call.width, call.right, call.right_row,
                                          call.right_column),
                      "takes rows of a and b of whole aligned vectors of 16 bytes") &&
           SampledEntry::supports(call, why);
  }
  static void run(const SampledCall& call, const Context& context) {
    with_types(call, [&]<class T, class I>() {
      using Kernel = SampledLanesKernel<T, I>;
      constexpr int64_t kOfBlock = Kernel::kThreads / Kernel::kLanes * Kernel::kEntries;
      const int64_t blocks = divide_up(call.entries, kOfBlock);
      launch<Kernel>({.blocks = blocks, .threads = Kernel::kThreads}, context.stream,
                     {Csr<T, I>(call, "sddmm_csr/sampled_lanes"), call, blocks * Kernel::kThreads});
    });
  }
};

}  // namespace

extern const Rung kSampledLanes;
const Rung kSampledLanes = rung_of<SampledLanes, SddmmCsr>({
    .name = "sampled_lanes",
    .from = "sampled_entry",
    .idea = "eight lanes an entry, 16 bytes each, four entries at once",
});

}  // namespace ws::spmv
