// Rows of channels that lie side by side, of which a block keeps what an SM has room for, in
// registers and in shared memory, and asks for the others twice.
//
// A thread has columns and rows of its own, and a place of its own for each vector that it copies
// to shared memory by cp.async: it waits for its own copies only, and nothing guards the places. In
// the first pass come the rows that registers keep, then those that shared memory keeps, then the
// others, which take the last places in turns: what is read last from memory is what is not kept,
// and most of it is in L2 still. The second pass goes from the end: it finds these places full, and
// as it empties them the rows before take them, up to those that are kept.
#pragma once

#include <bit>

#include "kernels/batch_norm/columns.hpp"
#include "warpsmith/ptx/cp_async.hpp"
#include "warpsmith/thread/forget.hpp"
#include "warpsmith/warp/shuffle.hpp"

namespace ws::batch_norm {

#if WS_DEVICE_CODE

// Of one block an SM. Of each input a thread keeps kHeld rows in registers; it takes the others
// kBatch at a time, of which kAhead batches are under way, 64 KiB. H200 2026-11-30, us, f32
// [100352, 256]: 112 KiB under way 70.1 for 68.0, 512 threads, which hold 11 rows each, 69.4; of
// the gradient batches of one row 112.3 for 112.2, f16 55.5 for 54.5.
template <class T, int kInputs, int kHeld>
class KeptRows {
  static constexpr int kBatch = 2;

 public:
  static constexpr int kThreads = 256;
  static constexpr int kAhead = 8 / kInputs;
  static constexpr size_t kBatchBytes = size_t{16} * kInputs * kBatch * kThreads;
  static constexpr int kBatchSize = static_cast<int>(kBatchBytes / sizeof(T));
  static constexpr int kWidth = row::kWidest<T>;
  using Packed = row::Packed<T, kWidth>;

  // Asks for the first rows of the place; `places` has room for batches.
  __device__ __forceinline__ KeptRows(const SharedSpan<T>& places, const ColumnsPlan& plan,
                                      const Place<T, kThreads>& place,
                                      const Rows<const T> (&inputs)[kInputs])
      : places_(places),
        turns_(static_cast<int>(places.size()) - kAhead * kBatchSize),
        own_(place.rows()),
        batches_(batches_of(place.last - place.part * plan.rows.share, place.step)),
        row_step_(place.step),
        row_(place.first),
        offset_(place.vector * kWidth) {
    const T* from[kInputs];
#pragma unroll
    for (int k = 0; k < kInputs; ++k) {
      step_[k] = place.step * inputs[k].pitch;
      from[k] = first_[k] = thread::forget(inputs[k].data + offset_ + row_ * inputs[k].pitch);
    }
#pragma unroll
    for (int v = 0; v < kHeld; ++v) {
#pragma unroll
      for (int k = 0; k < kInputs; ++k) {
        if (v < own_) held_[k][v] = Packed::load(from[k]);
        from[k] += step_[k];
      }
    }
#pragma unroll
    for (int b = 0; b < kAhead; ++b) {
      ask(own_place() + b * kBatchSize, own_ - kHeld - b * kBatch, from);
      advance(from, kBatch);
    }
  }

  // f(x), x of each input, for every row of this thread, from the first.
  template <class F>
  __device__ __forceinline__ void first_pass(const F& f) {
#pragma unroll
    for (int v = 0; v < kHeld; ++v) {
      if (v < own_) with_held(v, f);
    }
    stay_packed();
    int place = own_place();
    int rows = own_ - kHeld;
    const T* from[kInputs];
    start(from, kHeld + kRing);
#pragma unroll 1
    for (int b = 0; b < batches_; ++b) {
      Packed x[kBatch][kInputs];
      take(place, rows, x);
      ask(place < turns_ ? place + kAhead * kBatchSize : place, rows - kRing, from);
#pragma unroll
      for (int j = 0; j < kBatch; ++j) {
        if (j < rows) f(x[j]);
      }
      place += kBatchSize;
      if (place >= turns_ + kAhead * kBatchSize) place -= kAhead * kBatchSize;
      rows -= kBatch;
      advance(from, kBatch);
    }
  }

  // Of the places that are taken in turns the first, for kElements of others between the passes.
  // refill(), after a barrier, fetches again what was there.
  template <class Element, int kElements>
  __device__ __forceinline__ SharedSpan<Element> scratch() const {
    static_assert(batches_of<Element, kElements>() <= kAhead);
    return {reinterpret_cast<Element*>(places_.pointer(turns_)), kElements};
  }
  template <class Element, int kElements>
  __device__ __forceinline__ void refill() const {
    const int kept = turns_ / kBatchSize;
#pragma unroll 1
    for (int b = batches_ - 1; b >= batches_ - kAhead; --b) {
      const bool wanted = b >= kept && (b - kept) % kAhead < batches_of<Element, kElements>();
      const T* from[kInputs];
      start(from, kHeld + b * kBatch);
      ask(place_of(b), wanted ? own_ - kHeld - b * kBatch : 0, from);
    }
  }

  // f(x), a vector of `out`, for every row of this thread, from the last.
  template <class F>
  __device__ __forceinline__ void second_pass(const Rows<T>& out, const F& f) {
    stay_packed();
    const int kept = turns_ / kBatchSize;
    const int64_t step = row_step_ * out.pitch;
    const int last = kHeld + (batches_ - 1) * kBatch;
    int place = place_of(batches_ - 1);
    int rows = own_ - last;
    const T* from[kInputs];
    start(from, last - kRing);
    T* const first = out.data + offset_ + row_ * out.pitch;
    T* to = thread::forget(first + last * step);
#pragma unroll 1
    for (int b = batches_ - 1; b >= 0; --b) {
      Packed x[kBatch][kInputs];
      take(place, rows, x);
      ask(place, b >= kept + kAhead ? rows + kRing : 0, from);
      T* at = to;
#pragma unroll
      for (int j = 0; j < kBatch; ++j, at += step) {
        if (j < rows) store(at, f(x[j]));
      }
      if (b > kept && place < turns_ + kBatchSize) place += kAhead * kBatchSize;
      place -= kBatchSize;
      rows += kBatch;
      advance(from, -kBatch);
      to -= kBatch * step;
    }
    stay_packed();
    to = thread::forget(first + (kHeld - 1) * step);
#pragma unroll
    for (int v = kHeld - 1; v >= 0; --v, to -= step) {
      if (v < own_) with_held(v, [&](const auto& x) { store(to, f(x)); });
    }
  }

 private:
  using From = const T* [kInputs];
  static constexpr int kRing = kAhead * kBatch;  // rows

  // That so many elements take.
  template <class Element, int kElements>
  static constexpr int batches_of() {
    return static_cast<int>((kElements * sizeof(Element) - 1) / kBatchBytes + 1);
  }
  // Of a block of `rows` rows.
  __device__ __forceinline__ static int batches_of(int64_t rows, int step) {
    const int64_t most = rows > 0 ? (rows + step - 1) / step : 0;
    return most > kHeld ? static_cast<int>((most - kHeld + kBatch - 1) / kBatch) : 0;
  }
  __device__ __forceinline__ static int own_place() { return thread_index() * kWidth; }
  __device__ __forceinline__ int place_of(int b) const {
    const int kept = turns_ / kBatchSize;
    return (b < kept ? b : kept + (b - kept) % kAhead) * kBatchSize + own_place();
  }
  // This thread's row `r`.
  __device__ __forceinline__ void start(From& from, int r) const {
#pragma unroll
    for (int k = 0; k < kInputs; ++k) from[k] = thread::forget(first_[k] + r * step_[k]);
  }
  __device__ __forceinline__ void advance(From& from, int rows) const {
#pragma unroll
    for (int k = 0; k < kInputs; ++k) from[k] += rows * step_[k];
  }
  // Of the j-th row of a batch from the first one's place.
  static constexpr int apart(int j, int k) { return (j * kInputs + k) * kThreads * kWidth; }

  // A group of copies, of up to kBatch rows.
  __device__ __forceinline__ void ask(int to, int rows, const From& from) const {
#pragma unroll
    for (int k = 0; k < kInputs; ++k) {
      const T* at = from[k];
#pragma unroll
      for (int j = 0; j < kBatch; ++j, at += step_[k]) {
        if (j < rows) ptx::cp_async<16>(places_.pointer(to + apart(j, k)), at);
      }
    }
    ptx::cp_async_commit_group();
  }
  // The oldest batch under way.
  __device__ __forceinline__ void take(int place, int rows, Packed (&x)[kBatch][kInputs]) const {
    ptx::cp_async_wait_group<kAhead - 1>();
#pragma unroll
    for (int j = 0; j < kBatch; ++j) {
#pragma unroll
      for (int k = 0; k < kInputs; ++k) {
        if (j < rows) {
          x[j][k] = std::bit_cast<Packed>(places_.template load<kWidth>(place + apart(j, k)));
        }
      }
    }
  }
  // What is written should leave L2 to what is read: up to 1.0 us, H200 2026-11-30.
  __device__ __forceinline__ static void store(T* at, const Vec<T, kWidth>& values) {
    thread::store<Cache::kStreaming>(at, values);
  }
  template <class F>
  __device__ __forceinline__ void with_held(int v, const F& f) const {
    Packed x[kInputs];
#pragma unroll
    for (int k = 0; k < kInputs; ++k) x[k] = held_[k][v];
    f(x);
  }
  __device__ __forceinline__ void stay_packed() {
#pragma unroll
    for (int k = 0; k < kInputs; ++k) row::stay_packed(held_[k]);
  }

  SharedSpan<T> places_;
  int turns_;       // where the places are that are taken in turns, in elements
  int own_;         // rows of this thread
  int batches_;     // of the block
  int row_step_;    // from row to row of the thread
  int64_t row_;     // its first
  int64_t offset_;  // of its columns in a row
  const T* first_[kInputs];
  int64_t step_[kInputs];
  Packed held_[kInputs][kHeld];
};

// Sums of the columns of all threads of a block, in a fixed order; the first row's threads have
// them.
template <class T, int kThreads>
struct AddUpRows {
  static constexpr int kWidth = row::kWidest<T>;
  static constexpr int kWarps = kThreads / kWarpSize;
  static constexpr int kMostColumns = ColumnsPlan::kAcross * kWidth;
  static constexpr int kScratch = kWarps * kMostColumns;
  struct Storage {
    SharedArray<Sums, kMostColumns> totals;
  };

  // `scratch` has kScratch of them, which nobody needs after this.
  __device__ __forceinline__ static void apply(Storage& shared, const SharedSpan<Sums>& scratch,
                                               thread::Tile<Sums, kWidth>& sums, int across) {
    const int t = thread_index();
    const int columns = across * kWidth;
    for (int distance = kWarpSize / 2; distance >= across; distance /= 2) {
#pragma unroll
      for (int i = 0; i < kWidth; ++i) {
        sums[i] = PlusSums{}(sums[i], warp::shuffle_xor(sums[i], distance));
      }
    }
    ptx::barrier_sync();
    if (lane_index() < across) {
#pragma unroll
      for (int i = 0; i < kWidth; ++i) {
        scratch[warp_index() * columns + i * across + lane_index()] = sums[i];
      }
    }
    ptx::barrier_sync();
    for (int c = t; c < columns; c += kThreads) {
      Sums total = Sums::none();
#pragma unroll
      for (int w = 0; w < kWarps; ++w) {
        const Sums of_warp = scratch[w * columns + c];
        total = PlusSums{}(total, of_warp);
      }
      shared.totals[c] = total;
    }
    ptx::barrier_sync();
    if (t >= across) return;
#pragma unroll
    for (int i = 0; i < kWidth; ++i) {
      const Sums total = shared.totals[i * across + t];
      sums[i] = total;
    }
  }
};

// The rung of a kernel: Kernel::arguments(call, plan, room, meeting) gives what is launched, with
// room for so many batches in shared memory.
template <class Call, template <class> class Kernel>
struct Kept {
  static ColumnsPlan plan(const Call& call) {
    return ColumnsPlan::of(call.layout, call.dtype, kThreads, 1, 1);
  }
  static bool supports(const Call& call, Why& why) {
    const int64_t most = device_facts().multiprocessors;
    return columns_supported(call.layout, call.dtype, why) &&
           why.unless(plan(call).stripes <= most, "takes up to ", most * ColumnsPlan::kAcross,
                      " vectors of channels") &&
           why.unless(room() >= kAhead, "needs ", kUsed + kAhead * kBatchBytes,
                      " bytes of shared memory for a block");
  }
  static Workspace workspace(const Call& call) {
    return Meeting::workspace_of(plan(call).rows, call.layout.sets);
  }
  static void run(const Call& call, const Context& context) {
    with_type<kFloats>(call.dtype, [&]<class T>() {
      using ThisKernel = Kernel<T>;
      static_assert(sizeof(typename ThisKernel::SharedStorage) <= kUsed);
      const ColumnsPlan cut = plan(call);
      launch<ThisKernel>(
          {.blocks = cut.blocks(),
           .threads = kThreads,
           .dynamic_shared = room() * kBatchBytes,
           .cooperative = true},
          context.stream,
          ThisKernel::arguments(call, cut, static_cast<int>(room()), Meeting(context.workspace)));
    });
  }

 private:
  using OfHalf = Kernel<half>;
  static constexpr int kThreads = OfHalf::kThreads;
  static constexpr size_t kAhead = OfHalf::Kept::kAhead;
  static constexpr size_t kBatchBytes = OfHalf::Kept::kBatchBytes;
  static constexpr size_t kUsed = sizeof(typename OfHalf::SharedStorage);
  // Batches that shared memory has places for.
  static size_t room() {
    const auto all = static_cast<size_t>(device_facts().shared_bytes);
    return all < kUsed ? 0 : (all - kUsed) / kBatchBytes;
  }
};

#endif

}  // namespace ws::batch_norm
