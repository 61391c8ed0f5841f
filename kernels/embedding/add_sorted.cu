// The kernels of add_sorted().
#include "kernels/embedding/add_sorted.hpp"

#include "kernels/embedding/sorted_indices.hpp"
#include "warpsmith/launch.hpp"
#include "warpsmith/thread/math.hpp"
#include "warpsmith/thread/tile.hpp"

namespace ws::embedding {
namespace {

// ---- Kernels ----------------------------------------------------------------------------------

template <class T, int kWidth>
struct Vectors {
  T* data[kTargets];
  uint32_t of_row;
  thread::Divider row;    // by of_row
  thread::Divider inner;  // vectors of a stretch
  int64_t row_strides[kTargets];
  int64_t outer_strides[kTargets];
  int64_t inner_strides[kTargets];

  explicit Vectors(const AddSorted& call)
      : of_row(static_cast<uint32_t>(call.outer * call.inner / kWidth)),
        row(of_row),
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
  using Sum = thread::Tile<float, kWidth>;
  __device__ __forceinline__ Vec<T, kWidth> x(int64_t of, uint32_t lane) const {
    if (data[kX] == nullptr) return Vec<T, kWidth>{};
    return thread::load<kWidth>(at(kX, of, lane));
  }
  __device__ __forceinline__ void add(int64_t of, uint32_t lane, const Sum& sum,
                                      float scale) const {
    const Vec<T, kWidth> before = x(of, lane);
    Vec<float, kWidth> y;
#pragma unroll
    for (int i = 0; i < kWidth; ++i) y[i] = thread::fma(scale, sum[i], to_float(before[i]));
    thread::store(at(kY, of, lane), thread::convert<T>(y));
  }
};

// A thread a vector of a place where a piece may begin: adds up what does.
template <class T, int kWidth>
struct AddPiecesKernel {
  static constexpr int kThreads = 128;
  static constexpr int kAtOnce = 4;
  struct Arguments {
    Vectors<T, kWidth> vectors;
    SortedIndices sorted;
    uint32_t count;     // of vectors of all places
    bool has_few_rows;  // AddSorted's: which places these are
    float scale;
    bool by_count;
    float* sums;       // of pieces
    uint8_t* touched;  // by row; null: nobody asks
  };
  struct SharedStorage {};

  __device__ void operator()(SharedStorage& /*shared*/, const Arguments& a) const {
    const auto vector = static_cast<uint32_t>(block_index() * kThreads + thread_index());
    if (vector >= a.count) return;
    const uint32_t nth = a.vectors.row.quotient(vector);
    const uint32_t lane = vector - nth * a.vectors.of_row;
    const int64_t at = a.has_few_rows ? a.sorted.few_start(nth) : nth;
    if (at < 0) return;
    const SortedIndices::Piece piece = a.sorted.piece_at(at);
    if (piece.row == kNoRow) return;
    if (a.touched != nullptr && piece.is_first && lane == 0) {
      thread::store(a.touched + piece.row, uint8_t{1});
    }
    thread::Tile<float, kWidth> sum{};
    int found = 0;
    const int64_t end = a.sorted.piece_end(at);
    bool goes_on = true;
    for (int64_t p = at; goes_on && p < end; p += kAtOnce) {
      // Keys at once, then vectors at once: neither waits for one of its own.
      SortedIndices::Source sources[kAtOnce];
#pragma unroll
      for (int j = 0; j < kAtOnce; ++j) sources[j] = a.sorted.source_at(p + j < end ? p + j : p);
      Vec<T, kWidth> values[kAtOnce];
      bool known[kAtOnce];
#pragma unroll
      for (int j = 0; j < kAtOnce; ++j) {
        known[j] = p + j < end && sources[j].row == piece.row;
        if (!known[j]) continue;
        values[j] = thread::load<kWidth>(a.vectors.at(kSource, sources[j].position, lane));
      }
#pragma unroll
      for (int j = 0; j < kAtOnce; ++j) {
        if (!known[j]) break;
        ++found;
#pragma unroll
        for (int i = 0; i < kWidth; ++i) sum[i] += to_float(values[j][i]);
      }
      goes_on = known[kAtOnce - 1];
    }
    if (piece.is_alone) {
      const float scale = a.by_count ? a.scale / static_cast<float>(found) : a.scale;
      return a.vectors.add(piece.row, lane, sum, scale);
    }
    const int64_t slot = 2 * (at / kPiece) + (piece.is_first ? 1 : 0);
    Vec<float, kWidth> stored;
#pragma unroll
    for (int i = 0; i < kWidth; ++i) stored[i] = sum[i];
    thread::store(a.sums + (slot * a.vectors.of_row + lane) * kWidth, stored);
  }
};

// A thread a vector and kPiece places: adds up the pieces of the row whose first begins there.
template <class T, int kWidth>
struct JoinPiecesKernel {
  static constexpr int kThreads = 128;
  struct Arguments {
    Vectors<T, kWidth> vectors;
    SortedIndices sorted;
    uint32_t count;
    float scale;
    bool by_count;
    const float* sums;
  };
  struct SharedStorage {};

  __device__ void operator()(SharedStorage& /*shared*/, const Arguments& a) const {
    const auto vector = static_cast<uint32_t>(block_index() * kThreads + thread_index());
    if (vector >= a.count) return;
    const uint32_t block = a.vectors.row.quotient(vector);
    const uint32_t lane = vector - block * a.vectors.of_row;
    const int64_t start = a.sorted.start_of_pieces(block);
    if (start < 0) return;
    const int64_t row = a.sorted.row_at(start);
    thread::Tile<float, kWidth> sum{};
    for (int64_t p = start; a.sorted.is_of(row, p); p = SortedIndices::next_piece(p)) {
      const int64_t slot = 2 * (p / kPiece) + (p == start ? 1 : 0);
      const auto piece = thread::load<kWidth>(a.sums + (slot * a.vectors.of_row + lane) * kWidth);
#pragma unroll
      for (int i = 0; i < kWidth; ++i) sum[i] += piece[i];
    }
    float scale = a.scale;
    if (a.by_count) scale /= static_cast<float>(a.sorted.start_of(row + 1) - start);
    a.vectors.add(row, lane, sum, scale);
  }
};

// A thread four vectors of y, of rows that got nothing.
template <class T, int kWidth>
struct KeepRowsKernel {
  static constexpr int kThreads = 128;
  static constexpr int kLoads = 4;
  struct Arguments {
    Vectors<T, kWidth> vectors;
    uint32_t count;
    const uint8_t* touched;
  };
  struct SharedStorage {};

  __device__ void operator()(SharedStorage& /*shared*/, const Arguments& a) const {
    const auto first = static_cast<uint32_t>(block_index() * kThreads * kLoads + thread_index());
    uint32_t row[kLoads];
    uint32_t lane[kLoads];
    bool is_kept[kLoads];
    Vec<T, kWidth> values[kLoads];
#pragma unroll
    for (int j = 0; j < kLoads; ++j) {
      const uint32_t vector = first + static_cast<uint32_t>(j * kThreads);
      row[j] = a.vectors.row.quotient(vector);
      lane[j] = vector - row[j] * a.vectors.of_row;
      is_kept[j] = vector < a.count && thread::load(a.touched + row[j]) == 0;
    }
#pragma unroll
    for (int j = 0; j < kLoads; ++j) {
      if (is_kept[j]) values[j] = a.vectors.x(row[j], lane[j]);
    }
#pragma unroll
    for (int j = 0; j < kLoads; ++j) {
      if (is_kept[j]) thread::store(a.vectors.at(kY, row[j], lane[j]), values[j]);
    }
  }
};

// ---- Launches ---------------------------------------------------------------------------------

template <class T, int kWidth>
void add_vectors(const AddSorted& call, const uint64_t* keys, std::byte* memory, Stream stream) {
  using Add = AddPiecesKernel<T, kWidth>;
  using Join = JoinPiecesKernel<T, kWidth>;
  using Keep = KeepRowsKernel<T, kWidth>;
  const Vectors<T, kWidth> vectors(call);
  const SortedIndices sorted(keys, call.count);
  auto* sums = reinterpret_cast<float*>(memory);
  auto* touched = reinterpret_cast<uint8_t*>(sums + call.slots() * call.outer * call.inner);
  if (!call.keeps_rows()) touched = nullptr;
  const auto start = [&]<class Kernel>(int64_t rows, int64_t of_block, auto arguments) {
    const int64_t count = rows * vectors.of_row;
    arguments.count = static_cast<uint32_t>(count);
    launch<Kernel>({.blocks = divide_up(count, of_block), .threads = Kernel::kThreads}, stream,
                   arguments);
  };
  if (touched != nullptr) set_zero(touched, static_cast<size_t>(call.rows), stream);
  if (call.count > 0) {
    start.template operator()<Add>(
        call.has_few_rows() ? call.few_starts() : call.count, Add::kThreads,
        typename Add::Arguments{vectors, sorted, 0, call.has_few_rows(), call.scale, call.by_count,
                                sums, touched});
  }
  if (call.slots() > 0) {
    start.template operator()<Join>(
        call.slots() / 2, Join::kThreads,
        typename Join::Arguments{vectors, sorted, 0, call.scale, call.by_count, sums});
  }
  if (touched != nullptr) {
    start.template operator()<Keep>(call.rows, Keep::kThreads * Keep::kLoads,
                                    typename Keep::Arguments{vectors, 0, touched});
  }
}

}  // namespace

void add_sorted(const AddSorted& call, DType dtype, const Indices& index, int64_t ignored,
                const Context& context) {
  const uint64_t* keys = nullptr;
  if (call.count > 0) {
    keys = sort_indices(index, call.count, ignored, context.workspace, context.stream);
  }
  std::byte* rest = static_cast<std::byte*>(context.workspace) + sort_bytes(call.count);
  with_type<kFloats>(dtype, [&]<class T>() {
    if (call.width(dtype) > 1) {
      add_vectors<T, static_cast<int>(16 / sizeof(T))>(call, keys, rest, context.stream);
    } else {
      add_vectors<T, 1>(call, keys, rest, context.stream);
    }
  });
}

}  // namespace ws::embedding
