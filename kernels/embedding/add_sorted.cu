// The kernels of add_sorted().
#include "kernels/embedding/add_sorted.hpp"

#include "kernels/embedding/sorted_indices.hpp"
#include "warpsmith/launch.hpp"
#include "warpsmith/ptx/grid.hpp"
#include "warpsmith/thread/math.hpp"
#include "warpsmith/thread/tile.hpp"

namespace ws::embedding {
namespace {

// ---- Kernels ----------------------------------------------------------------------------------

// The vectors of rows, of which a thread takes up to kMost, as many threads away from each other as
// a row has.
template <class T, int kVector, int kMost>
struct Vectors {
  static constexpr int kWidth = kVector;
  static constexpr int kOfThread = kMost;
  using Element = T;
  using Vector = Vec<T, kWidth>;
  using Values = thread::Tile<Vector, kOfThread>;
  using Sum = Vec<float, kWidth>;

  T* data[kTargets];
  uint32_t of_row;
  thread::Divider row;      // by of_row
  thread::Divider threads;  // of a row
  thread::Divider inner;    // vectors of a stretch
  int64_t row_strides[kTargets];
  int64_t outer_strides[kTargets];
  int64_t inner_strides[kTargets];

  explicit Vectors(const AddSorted& call)
      : of_row(static_cast<uint32_t>(call.outer * call.inner / kWidth)),
        row(of_row),
        threads(divide_up(of_row, uint32_t{kOfThread})),
        inner(call.inner / kWidth) {
    for (size_t k = 0; k < kTargets; ++k) {
      data[k] = static_cast<T*>(call.data[k]);
      row_strides[k] = call.row_strides[k];
      outer_strides[k] = call.outer_strides[k];
      inner_strides[k] = call.inner_strides[k];
    }
  }
  Vectors() = default;

  // Vector `lane` of a row of a tensor.
  __device__ __forceinline__ T* at(Target k, int64_t of, uint32_t lane) const {
    const uint32_t stretch = inner.quotient(lane);
    const int64_t i = int64_t{lane - stretch * inner.divisor()} * kWidth;
    return data[k] + of * row_strides[k] + stretch * outer_strides[k] +
           (kWidth == 1 ? i * inner_strides[k] : i);
  }

  // A thread's lanes. Behind the row's last it reads its first again, which nobody else writes.
  struct Lanes {
    uint32_t lane[kOfThread];
    uint32_t mine;  // how many there are
  };
  // What the nth of all threads has of its row, or its place.
  __device__ __forceinline__ Lanes lanes(uint32_t thread, uint32_t& of) const {
    of = threads.quotient(thread);
    const uint32_t first = thread - of * threads.divisor();
    Lanes lanes{{}, 0};
#pragma unroll
    for (int v = 0; v < kOfThread; ++v) {
      const uint32_t lane = first + static_cast<uint32_t>(v) * threads.divisor();
      lanes.mine += lane < of_row ? 1 : 0;
      lanes.lane[v] = lane < of_row ? lane : first;
    }
    return lanes;
  }

  __device__ __forceinline__ Vector load(Target k, int64_t of, uint32_t lane) const {
    return thread::load<kWidth>(at(k, of, lane));
  }
  __device__ __forceinline__ Values load(Target k, int64_t of, const Lanes& lanes) const {
    Values values;
#pragma unroll
    for (int v = 0; v < kOfThread; ++v) values[v] = load(k, of, lanes.lane[v]);
    return values;
  }
  __device__ __forceinline__ bool has_x() const { return data[kX] != nullptr; }
  // y = x and the sum, scaled.
  __device__ __forceinline__ void add(int64_t of, uint32_t lane, const Vector& x, const Sum& sum,
                                      float scale) const {
    Vec<float, kWidth> y;
#pragma unroll
    for (int i = 0; i < kWidth; ++i) y[i] = thread::fma(scale, sum[i], to_float(x[i]));
    thread::store(at(kY, of, lane), thread::convert<T>(y));
  }
};

// Of the sum of a piece that is not all of its row.
__device__ __forceinline__ int64_t slot_of(int64_t at, bool is_first) {
  return 2 * (at / kPiece) + (is_first ? 1 : 0);
}

// A thread some vectors of a place where a piece may begin: adds up what does, its vectors
// together, of several sources at once. kMostlyOne: rows mostly have one source, of which all
// vectors come at once, and of x; of other rows one vector after the other is added up, which
// leaves registers for more of a thread's.
template <class Of, bool kMostlyOne>
struct AddPiecesKernel {
  static constexpr int kThreads = 128;
  static constexpr int kMinBlocks = kMostlyOne ? 6 : 5;
  static constexpr int kTogether = kMostlyOne ? 1 : Of::kOfThread;
  static constexpr int kAtOnce = kMostlyOne ? 3 : 8 / Of::kOfThread;  // 4 spill on sm_80
  struct Arguments {
    Of vectors;
    SortedIndices sorted;
    uint32_t count;     // of threads of all places
    bool has_few_rows;  // AddSorted's: which places these are
    float scale;
    bool by_count;
    float* sums;  // of pieces
  };
  struct SharedStorage {};

  __device__ void operator()(SharedStorage& /*shared*/, const Arguments& a) const {
    ptx::griddepcontrol_wait();
    const auto thread = static_cast<uint32_t>(block_index() * kThreads + thread_index());
    if (thread >= a.count) return;
    uint32_t nth = 0;
    const auto lanes = a.vectors.lanes(thread, nth);
    const int64_t at = a.has_few_rows ? a.sorted.few_start(nth) : nth;
    if (at < 0) return;
    // One wait for keys, then one for vectors.
    const int64_t end = a.sorted.piece_end(at);
    const auto sources = a.sorted.template sources_at<2>(at, end);
    const SortedIndices::Piece piece = a.sorted.piece_at(at, sources[0].row);
    if (piece.row == kNoRow) return;
    if constexpr (kMostlyOne) {
      const bool is_one = at + 1 >= end || sources[1].row != piece.row;
      if (is_one && piece.is_alone) return add_one(a, piece.row, sources[0].position, lanes);
#pragma unroll 1
      for (uint32_t v = 0; v < lanes.mine; ++v) add_up(a, piece, at, end, lanes, v);
    } else {
      add_up(a, piece, at, end, lanes, 0);
    }
  }

 private:
  using Vector = typename Of::Vector;
  using Sum = typename Of::Sum;

  static __device__ __forceinline__ Sum plus(const Sum& sum, const Vector& value) {
    Sum result;
#pragma unroll
    for (int i = 0; i < Of::kWidth; ++i) result[i] = sum[i] + to_float(value[i]);
    return result;
  }
  static __device__ __forceinline__ void add_one(const Arguments& a, int64_t row, int64_t position,
                                                 const typename Of::Lanes& lanes) {
    typename Of::Values x{};
    if (a.vectors.has_x()) x = a.vectors.load(kX, row, lanes);
    const auto values = a.vectors.load(kSource, position, lanes);
#pragma unroll
    for (int v = 0; v < Of::kOfThread; ++v) {
      if (static_cast<uint32_t>(v) >= lanes.mine) break;
      a.vectors.add(row, lanes.lane[v], x[v], plus({}, values[v]), a.scale);
    }
  }
  // The v-th vector of a thread, or all of them.
  static __device__ __forceinline__ void add_up(const Arguments& a,
                                                const SortedIndices::Piece& piece, int64_t at,
                                                int64_t end, const typename Of::Lanes& lanes,
                                                uint32_t v) {
    uint32_t lane[kTogether];
    Vector x[kTogether]{};
    Sum sums[kTogether]{};
#pragma unroll
    for (uint32_t b = 0; b < kTogether; ++b) {
      lane[b] = kMostlyOne ? lanes.lane[0] + v * a.vectors.threads.divisor() : lanes.lane[b];
      if (piece.is_alone && a.vectors.has_x()) x[b] = a.vectors.load(kX, piece.row, lane[b]);
    }
    auto sources = a.sorted.template sources_at<kAtOnce>(at, end);
    int found = 0;
    bool goes_on = true;
    for (int64_t p = at; goes_on; p += kAtOnce) {
      Vector values[kAtOnce][kTogether];
      bool known[kAtOnce];
#pragma unroll
      for (int j = 0; j < kAtOnce; ++j) {
        known[j] = p + j < end && sources[j].row == piece.row;
#pragma unroll
        for (int b = 0; b < kTogether; ++b) {
          if (known[j]) values[j][b] = a.vectors.load(kSource, sources[j].position, lane[b]);
        }
      }
      // The next keys come while these vectors do.
      goes_on = known[kAtOnce - 1] && p + kAtOnce < end;
      if (goes_on) sources = a.sorted.template sources_at<kAtOnce>(p + kAtOnce, end);
#pragma unroll
      for (int j = 0; j < kAtOnce; ++j) {
        if (!known[j]) break;
        ++found;
#pragma unroll
        for (int b = 0; b < kTogether; ++b) sums[b] = plus(sums[b], values[j][b]);
      }
    }
    const float scale = a.by_count ? a.scale / static_cast<float>(found) : a.scale;
    float* const slot = a.sums + slot_of(at, piece.is_first) * a.vectors.of_row * Of::kWidth;
#pragma unroll
    for (uint32_t b = 0; b < kTogether; ++b) {
      if (v + b >= lanes.mine) break;
      if (piece.is_alone) {
        a.vectors.add(piece.row, lane[b], x[b], sums[b], scale);
      } else {
        thread::store(slot + int64_t{lane[b]} * Of::kWidth, sums[b]);
      }
    }
  }
};

// A thread a vector and kPiece places: adds up the pieces of the row whose first begins there, four
// of them under way.
template <class Of>
struct JoinPiecesKernel {
  static constexpr int kThreads = 128;
  static constexpr int kAtOnce = 4;
  static_assert(Of::kOfThread == 1);
  struct Arguments {
    Of vectors;
    SortedIndices sorted;
    uint32_t count;
    float scale;
    bool by_count;
    const float* sums;
  };
  struct SharedStorage {};

  __device__ void operator()(SharedStorage& /*shared*/, const Arguments& a) const {
    ptx::griddepcontrol_wait();
    const auto thread = static_cast<uint32_t>(block_index() * kThreads + thread_index());
    if (thread >= a.count) return;
    uint32_t block = 0;
    const uint32_t lane = a.vectors.lanes(thread, block).lane[0];
    const int64_t start = a.sorted.start_of_pieces(block);
    if (start < 0) return;
    const int64_t row = a.sorted.row_at(start);
    typename Of::Vector x{};
    if (a.vectors.has_x()) x = a.vectors.load(kX, row, lane);
    typename Of::Sum sum{};
    bool goes_on = true;
    for (int64_t p = start; goes_on;) {
      typename Of::Sum pieces[kAtOnce];
      bool known[kAtOnce];
#pragma unroll
      for (int j = 0; j < kAtOnce; ++j) {
        known[j] = a.sorted.is_of(row, p);
        if (known[j]) {
          const int64_t slot = slot_of(p, p == start) * a.vectors.of_row;
          pieces[j] = thread::load<Of::kWidth>(a.sums + (slot + lane) * Of::kWidth);
        }
        p = SortedIndices::next_piece(p);
      }
#pragma unroll
      for (int j = 0; j < kAtOnce; ++j) {
        if (!known[j]) break;
#pragma unroll
        for (int i = 0; i < Of::kWidth; ++i) sum[i] += pieces[j][i];
      }
      goes_on = known[kAtOnce - 1];
    }
    float scale = a.scale;
    if (a.by_count) scale /= static_cast<float>(a.sorted.start_of(row + 1) - start);
    a.vectors.add(row, lane, x, sum, scale);
  }
};

// A thread some vectors of y, of rows that get nothing. Blocks before those merge the indices that
// say so to others: a hundred blocks that wait for each key in turn, while these move most of what
// there is to move.
template <class Of, bool kHasX>
struct KeepRowsKernel {
  static constexpr int kWidth = Of::kWidth;
  using T = typename Of::Element;
  static constexpr int kThreads = MergeRuns::kThreads;
  // H200 2026-11-30, us of index_add f16 and f32 into 128256 rows by 2, 3, 4, 8: 575, 561, 571, 571
  // and 1119, 1091, 1110, 1109; of zeros three take up to 4 % more than eight.
  static constexpr int kLoads = kHasX ? 3 : 8;
  static constexpr int kTile = kThreads * kLoads;
  struct Arguments {
    MergeRuns merge;
    Of vectors;
    uint32_t count;
    const Touched* touched;
  };
  struct SharedStorage {};

  __device__ void operator()(SharedStorage& /*shared*/, const Arguments& a) const {
    ptx::griddepcontrol_wait();
    const int64_t block = block_index() - a.merge.blocks();
    if (block < 0) return a.merge(block_index());
    const auto first = static_cast<uint32_t>(block * kTile + thread_index());
    uint32_t row[kLoads];
    uint32_t lane[kLoads];
    Touched touched[kLoads];
#pragma unroll
    for (int j = 0; j < kLoads; ++j) {
      const uint32_t vector = first + static_cast<uint32_t>(j * kThreads);
      const uint32_t known = vector < a.count ? vector : a.count - 1;
      row[j] = a.vectors.row.quotient(known);
      lane[j] = known - row[j] * a.vectors.of_row;
      touched[j] = thread::load(a.touched + row[j]);
    }
    bool is_kept[kLoads];
    Vec<T, kWidth> values[kLoads] = {};
#pragma unroll
    for (int j = 0; j < kLoads; ++j) {
      is_kept[j] = touched[j] == 0 && first + static_cast<uint32_t>(j * kThreads) < a.count;
    }
    if constexpr (kHasX) {
#pragma unroll
      for (int j = 0; j < kLoads; ++j) {
        // In the place of what is not kept x's first vector: a load without a branch.
        const T* x = a.vectors.at(kX, row[j], lane[j]);
        values[j] = thread::load<kWidth>(is_kept[j] ? x : a.vectors.data[kX]);
      }
    }
#pragma unroll
    for (int j = 0; j < kLoads; ++j) {
      if (is_kept[j]) thread::store(a.vectors.at(kY, row[j], lane[j]), values[j]);
    }
  }
};

// ---- Launches ---------------------------------------------------------------------------------

template <class T, int kWidth>
void add_vectors(const AddSorted& call, IndexSource source, const Context& context) {
  using One = Vectors<T, kWidth, 1>;
  using Some = Vectors<T, kWidth, kWidth == 8 ? 2 : 4>;  // their sums are 16 registers at most
  using Four = Vectors<T, kWidth, 4>;
  Stream stream = context.stream;
  const One vectors(call);
  auto* const sums =
      reinterpret_cast<float*>(static_cast<std::byte*>(context.workspace) + sort_bytes(call.count));
  const uint64_t* keys = nullptr;
  if (call.keeps_rows()) {
    auto* touched = reinterpret_cast<Touched*>(sums + call.slots() * call.outer * call.inner);
    set_zero(touched, static_cast<size_t>(call.rows) * sizeof(Touched), stream);
    source.touched = touched;
    MergeRuns merge;
    if (call.count > kMostMerged) {
      keys = sort_indices(source, context.workspace, stream);
    } else if (call.count > 0) {
      merge = sort_runs(source, context.workspace, stream);
      keys = merge.sorted();
    }
    const int64_t count = call.rows * vectors.of_row;
    const auto keep = [&]<bool kHasX>() {
      using Keep = KeepRowsKernel<One, kHasX>;
      launch<Keep>({.blocks = merge.blocks() + divide_up(count, int64_t{Keep::kTile}),
                    .threads = Keep::kThreads,
                    .overlaps = call.count > 0},  // else what is before is no launch
                   stream, {merge, vectors, static_cast<uint32_t>(count), touched});
    };
    if (call.data[kX] != nullptr) {
      keep.template operator()<true>();
    } else {
      keep.template operator()<false>();
    }
  } else if (call.count > 0) {
    keys = sort_indices(source, context.workspace, stream);
  }
  const SortedIndices sorted(keys, call.count);
  const auto start = [&]<class Kernel>(int64_t places, auto arguments) {
    const int64_t threads = places * arguments.vectors.threads.divisor();
    arguments.count = static_cast<uint32_t>(threads);
    launch<Kernel>({.blocks = divide_up(threads, int64_t{Kernel::kThreads}),
                    .threads = Kernel::kThreads,
                    .overlaps = true},
                   stream, arguments);
  };
  const auto add = [&]<class Of, bool kMostlyOne>(int64_t places) {
    using Add = AddPiecesKernel<Of, kMostlyOne>;
    start.template operator()<Add>(
        places, typename Add::Arguments{Of(call), sorted, 0, call.has_few_rows(), call.scale,
                                        call.by_count, sums});
  };
  if (call.count > 0 && call.has_few_rows()) {
    // Every piece has many sources.
    add.template operator()<One, false>(call.few_starts());
  } else if (call.count > call.rows / 4) {
    add.template operator()<Some, false>(call.count);
  } else if (call.count > 0) {
    add.template operator()<Four, true>(call.count);
  }
  if (call.slots() > 0) {
    using Join = JoinPiecesKernel<One>;
    start.template operator()<Join>(
        call.slots() / 2,
        typename Join::Arguments{vectors, sorted, 0, call.scale, call.by_count, sums});
  }
}

}  // namespace

void add_sorted(const AddSorted& call, DType dtype, const Indices& index, int64_t ignored,
                const Context& context) {
  const IndexSource source{index, call.count, ignored};
  with_type<kFloats>(dtype, [&]<class T>() {
    if (call.width(dtype) > 1) {
      add_vectors<T, static_cast<int>(16 / sizeof(T))>(call, source, context);
    } else {
      add_vectors<T, 1>(call, source, context);
    }
  });
}

}  // namespace ws::embedding
