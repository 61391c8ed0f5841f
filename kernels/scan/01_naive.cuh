// Idea: a thread a row walks it and adds up, as a loop on a CPU would.
// Traffic: one read, one write; neighbouring threads are a row apart, so that each 32-byte sector
// that is fetched serves one element.
// Limits: cumsum of rows without gaps; a vector is one thread's.
#pragma once

#include "kernels/scan/plain.hpp"
#include "warpsmith/thread/memory.hpp"

#if WS_DEVICE_CODE
namespace ws::scan {

template <class T>
struct NaiveKernel {
  static constexpr int kThreads = 128;
  static constexpr int kRowsOfBlock = kThreads;
  using Arguments = PlainRows<T>;
  struct SharedStorage {};

  __device__ void operator()(SharedStorage& /*shared*/, const Arguments& a) const {
    const int64_t row = block_index() * kThreads + thread_index();
    if (row >= a.rows) return;
    const T* x = a.x + row * a.columns;
    T* y = a.y + row * a.columns;
    float sum = 0;
    for (int64_t i = 0; i < a.columns; ++i) {
      sum += to_float(thread::load(x + i));
      thread::store(y + i, from_float<T>(sum));
    }
  }
};

inline constexpr Rung kNaive = rung_of<Plain<NaiveKernel>, kFloats, Cumsum>(
    {.name = "naive", .idea = "a thread a row walks it and adds up"});

}  // namespace ws::scan
#endif
