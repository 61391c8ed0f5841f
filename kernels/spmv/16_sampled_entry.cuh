// Idea: a thread an entry of A: it looks for its row, by halves, and multiplies that row of a with
// the row of b that its column says.
// Traffic: two rows of N elements an entry, from the caches, an element an access.
// Limits: none.
#pragma once

#include "kernels/spmv/csr.hpp"

namespace ws::spmv {

#if WS_DEVICE_CODE
// Of a thread of a grid that goes by entries: rows whose ends are wrong are reported.
template <class T, class I>
__device__ __forceinline__ void report_rows(const Csr<T, I>& pattern, int64_t thread,
                                            int64_t threads) {
  for (int64_t row = thread; row < pattern.rows; row += threads) pattern.entries_of(row);
}

template <class T, class I>
struct SampledEntryKernel {
  static constexpr int kThreads = 256;
  struct Arguments {
    Csr<T, I> pattern;
    SampledCall call;
    int64_t threads;
  };
  struct SharedStorage {};

  __device__ void operator()(SharedStorage& /*shared*/, const Arguments& arguments) const {
    const auto& [pattern, call, threads] = arguments;
    const int64_t j = block_index() * kThreads + thread_index();
    report_rows(pattern, j, threads);
    if (j >= pattern.entries) return;
    const int64_t row = pattern.row_of(j);
    Sum<T> sum = 0;
    if (row < pattern.rows) {
      const int64_t column = thread::load(pattern.col + j * pattern.col_step);
      if (pattern.columns(column, j)) {
        const T* left = static_cast<const T*>(call.left) + row * call.left_row;
        const T* right = static_cast<const T*>(call.right) + column * call.right_row;
        for (int64_t n = 0; n < call.width; ++n) {
          sum += widen(thread::load(left + n * call.left_column)) *
                 widen(thread::load(right + n * call.right_column));
        }
      }
    }
    thread::store(static_cast<T*>(call.result) + j * call.value_step, narrow<T>(sum));
  }
};
#endif

struct SampledEntry {
  static bool supports(const SampledCall& call, Why& why) {
    constexpr int64_t kMost = int64_t{1} << 38;
    return why.unless(call.entries <= kMost, "takes up to ", kMost, " entries, not ", call.entries);
  }
  static void run(const SampledCall& call, const Context& context) {
    with_types(call, [&]<class T, class I>() {
      using Kernel = SampledEntryKernel<T, I>;
      const int64_t blocks = divide_up(call.entries, Kernel::kThreads);
      launch<Kernel>({.blocks = blocks, .threads = Kernel::kThreads}, context.stream,
                     {Csr<T, I>(call, "sddmm_csr/sampled_entry"), call, blocks * Kernel::kThreads});
    });
  }
};

inline constexpr Rung kSampledEntry = rung_of<SampledEntry, SddmmCsr>({
    .name = "sampled_entry",
    .idea = "a thread an entry looks for its row and multiplies two rows",
});

}  // namespace ws::spmv
