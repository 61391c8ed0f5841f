// Operands of f32 as wgmma reads them: rows that follow K, at multiples of 16 bytes, and beside
// them what TF32 leaves of their numbers.
#pragma once

#include "kernels/gemm/batched.hpp"
#include "kernels/gemm/plan.hpp"
#include "kernels/gemm/run_lanes.hpp"
#include "warpsmith/launch.hpp"
#include "warpsmith/ptx/barrier.hpp"
#include "warpsmith/shared.hpp"
#include "warpsmith/thread/tf32.hpp"

namespace ws::gemm {

// What is copied: `runs` runs of `length` elements of each of `matrices`.
struct KMajorCopies {
  const float* from = nullptr;
  float* to = nullptr;   // null: it stays where it is
  float* low = nullptr;  // null: nobody asks for low parts
  int64_t runs = 0;
  int64_t length = 0;
  int64_t from_leading = 0;
  int64_t to_leading = 0;  // of both
  int64_t matrices = 1;
  int64_t from_batch = 0;
  int64_t to_batch = 0;  // of both
};

// Of runs along K: they stay runs.
template <bool kAligned>
struct CopyRunsKernel {
  static constexpr int kThreads = 256;
  static constexpr int kWidth = 4;
  static constexpr int kUnroll = 4;
  using Lanes = RunLanes<kThreads, kWidth * kUnroll, 8>;
  struct Arguments {
    KMajorCopies of;
    Lanes lanes;
  };
  struct SharedStorage {};

  __device__ void operator()(SharedStorage& /*shared*/, const Arguments& a) const {
    const KMajorCopies& of = a.of;
    const auto [matrix, run, first] = a.lanes.at(block_index(), thread_index(), kWidth);
    if (run >= of.runs) return;
    const int step = a.lanes.step(kWidth);
    const float* const from = of.from + matrix * of.from_batch + run * of.from_leading;
    Vec<float, kWidth> x[kUnroll];
#pragma unroll
    for (int i = 0; i < kUnroll; ++i) {
      const int64_t at = first + i * step;
      if (kAligned && at + kWidth <= of.length) {
        x[i] = thread::load<kWidth>(from + at);
      } else {
#pragma unroll
        for (int e = 0; e < kWidth; ++e) {
          x[i][e] = at + e < of.length ? thread::load(from + at + e) : 0;
        }
      }
    }
    // Rows have room for whole vectors.
#pragma unroll
    for (int i = 0; i < kUnroll; ++i) {
      const int64_t at = first + i * step;
      if (at >= of.length) continue;
      const int64_t to = matrix * of.to_batch + run * of.to_leading + at;
      if (of.to != nullptr) thread::store(of.to + to, x[i]);
      if (of.low == nullptr) continue;
      Vec<float, kWidth> low;
#pragma unroll
      for (int e = 0; e < kWidth; ++e) low[e] = thread::low_part(x[i][e]);
      thread::store(of.low + to, low);
    }
  }
};

// Of runs across K: to[j, i] = from[i, j], in tiles through shared memory, so that both sides are
// walked along their rows.
struct TransposeKernel {
  static constexpr int kThreads = 256;
  static constexpr int kRuns = 64;
  static constexpr int kColumns = 32;
  static constexpr int kPitch = kColumns + 1;  // a column of the tile is in 32 banks
  struct Arguments {
    KMajorCopies of;
    int64_t across;  // tiles of a run
    int64_t down;    // and of all runs of a matrix
  };
  struct SharedStorage {
    SharedArray<float, kRuns * kPitch> tile;
  };

  __device__ void operator()(SharedStorage& shared, const Arguments& a) const {
    const KMajorCopies& of = a.of;
    const int64_t matrix = block_index() / a.across / a.down;
    const int64_t run = block_index() / a.across % a.down * kRuns;
    const int64_t column = block_index() % a.across * kColumns;
    const float* const from = of.from + matrix * of.from_batch;
    constexpr int kLoads = kRuns * kColumns / kThreads;
    const int from_column = thread_index() % kColumns;
    float x[kLoads];
#pragma unroll
    for (int j = 0; j < kLoads; ++j) {
      const int i = thread_index() / kColumns + j * (kThreads / kColumns);
      const bool is_there = run + i < of.runs && column + from_column < of.length;
      x[j] = is_there ? thread::load(from + (run + i) * of.from_leading + column + from_column) : 0;
    }
#pragma unroll
    for (int j = 0; j < kLoads; ++j) {
      const int i = thread_index() / kColumns + j * (kThreads / kColumns);
      shared.tile[i * kPitch + from_column] = x[j];
    }
    ptx::barrier_sync();
    const int from_run = thread_index() % kRuns;
    if (run + from_run >= of.runs) return;
#pragma unroll
    for (int j = 0; j < kLoads; ++j) {
      const int i = thread_index() / kRuns + j * (kThreads / kRuns);
      if (column + i >= of.length) break;
      const float value = shared.tile[from_run * kPitch + i];
      const int64_t at = matrix * of.to_batch + (column + i) * of.to_leading + run + from_run;
      thread::store(of.to + at, value);
      if (of.low != nullptr) thread::store(of.low + at, thread::low_part(value));
    }
  }
};

// An operand, or a batch of them, as the copy engine may read it along K: itself where it lies so,
// else a copy; and, where asked for, its low parts.
class KMajor {
 public:
  const float* data = nullptr;  // both after make()
  const float* low = nullptr;
  int64_t leading = 0;

  // Rows of copies start at multiples of 128 bytes.
  static int64_t leading_of(int64_t k) { return round_up(k, int64_t{32}); }

  KMajor(const Matrix& matrix, Contiguous along_k, int64_t k, bool has_low, int64_t matrices = 1)
      : data(matrix.as<const float>()),
        leading(matrix.leading),
        matrix_(matrix),
        along_(matrix.contiguous == along_k),
        k_(k),
        has_low_(has_low),
        matrices_(matrices) {
    Why nobody;
    stays_ = along_ && can_be_copied("", matrix, DType::kF32, nobody);
    if (!stays_) leading = leading_of(k);
  }

  // After make(): of what lies at data, and of the low parts.
  template <class Stage>
  ptx::TensorMap map() const {
    return map_of<Stage>(data, leading, stays_ ? matrix_.batch : elements_of_one());
  }
  template <class Stage>
  ptx::TensorMap low_map() const {
    return map_of<Stage>(low, leading_of(k_), elements_of_one());
  }

  // Of what make() writes.
  size_t bytes() const {
    return static_cast<size_t>(elements()) * sizeof(float) *
           ((stays_ ? 0 : 1) + (has_low_ ? 1 : 0));
  }
  // What it takes, in us.
  double time() const {
    constexpr double kLaunch = 2;
    constexpr double kAcross = 1.3;  // times as long a byte
    if (bytes() == 0) return 0;
    const double read = static_cast<double>(elements()) * sizeof(float);
    return kLaunch + (read + static_cast<double>(bytes())) / kMemory * (along_ ? 1 : kAcross);
  }

  void make(void* place, Stream stream) {
    if (bytes() == 0) return;
    auto* next = static_cast<float*>(place);
    KMajorCopies copies{.from = data,
                        .runs = matrix_.runs,
                        .length = matrix_.length,
                        .from_leading = matrix_.leading,
                        .to_leading = leading_of(k_),
                        .matrices = matrices_,
                        .from_batch = matrix_.batch,
                        .to_batch = elements_of_one()};
    if (!stays_) {
      data = copies.to = next;
      leading = copies.to_leading;
      next += elements();
    }
    if (has_low_) low = copies.low = next;
    if (!along_) {
      using Kernel = TransposeKernel;
      const int64_t across = divide_up(copies.length, int64_t{Kernel::kColumns});
      const int64_t down = divide_up(copies.runs, int64_t{Kernel::kRuns});
      launch<Kernel>({.blocks = copies.matrices * down * across, .threads = Kernel::kThreads},
                     stream, {copies, across, down});
    } else {
      stays_ ? copy_runs<true>(copies, stream) : copy_runs<false>(copies, stream);
    }
  }

 private:
  int64_t outer() const { return along_ ? matrix_.runs : matrix_.length; }
  int64_t elements_of_one() const { return outer() * leading_of(k_); }
  int64_t elements() const { return matrices_ * elements_of_one(); }
  template <class Stage>
  ptx::TensorMap map_of(const float* from, int64_t run, int64_t batch) const {
    if constexpr (Stage::kOfBatch) {
      return Stage::tensor_map(from, {.count = matrices_, .stride = batch}, outer(), k_, run);
    } else {
      return Stage::tensor_map(from, outer(), k_, run);
    }
  }
  template <bool kAligned>
  static void copy_runs(const KMajorCopies& copies, Stream stream) {
    using Kernel = CopyRunsKernel<kAligned>;
    const typename Kernel::Lanes lanes(copies.runs, copies.length);
    launch<Kernel>({.blocks = lanes.blocks(copies.matrices), .threads = Kernel::kThreads}, stream,
                   {copies, lanes});
  }

  Matrix matrix_;
  bool along_;
  bool stays_ = false;
  int64_t k_;
  bool has_low_;
  int64_t matrices_;
};

// The operands of a call, one or a batch, and their copies, one behind the other.
struct KMajorOperands {
  KMajor a;
  KMajor b;

  template <class C>
  KMajorOperands(const C& call, bool has_low)
      : a(call.a, Contiguous::kColumns, call.k, has_low, matrices_of_operand(call, call.a)),
        b(call.b, Contiguous::kRows, call.k, has_low, matrices_of_operand(call, call.b)) {}

  size_t bytes() const { return a.bytes() + b.bytes(); }
  double time() const {
    return static_cast<double>(bytes()) > kMostWorkspace ? kNever : a.time() + b.time();
  }
  void make(void* place, Stream stream) {
    a.make(place, stream);
    b.make(static_cast<std::byte*>(place) + a.bytes(), stream);
  }
};

}  // namespace ws::gemm
