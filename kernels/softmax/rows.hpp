// The rows of a call as kernels see them, and the way from a Problem to a kernel's template
// arguments.
#pragma once

#include <bit>
#include <type_traits>

#include "kernels/softmax/operations.hpp"
#include "kernels/softmax/problem.hpp"
#include "warpsmith/thread/memory.hpp"

namespace ws::softmax {

template <class N>
__host__ __device__ __forceinline__ N smaller(N a, N b) {
  return a < b ? a : b;
}

// ---- Rows of any strides ----------------------------------------------------------------------

template <class T, int kInputs>
struct StridedRows {
  Layout layout;
  const T* inputs[kInputs];
  T* output;

  // Elements from the start of operand k to the start of a row in it.
  __device__ __forceinline__ int64_t offset(int operand, int64_t row) const {
    int64_t offset = 0;
    for (int d = layout.outer - 1; d >= 0; --d) {
      offset += row % layout.extents[d] * layout.strides[operand][d];
      row /= layout.extents[d];
    }
    return offset;
  }
};

// One of them.
template <class T, int kInputs>
struct StridedRow {
  const T* inputs[kInputs];
  T* output;
  int64_t strides[kInputs + 1];
  int64_t columns;

  __device__ __forceinline__ StridedRow(const StridedRows<T, kInputs>& rows, int64_t row)
      : output(rows.output + rows.offset(kInputs, row)), columns(rows.layout.columns) {
#pragma unroll
    for (int k = 0; k < kInputs; ++k) {
      inputs[k] = rows.inputs[k] + rows.offset(k, row);
      strides[k] = rows.layout.inner[k];
    }
    strides[kInputs] = rows.layout.inner[kInputs];
  }
  __device__ __forceinline__ Values<kInputs> operator[](int64_t i) const {
    Values<kInputs> values;
#pragma unroll
    for (int k = 0; k < kInputs; ++k) {
      values[k] = to_float(thread::load(inputs[k] + i * strides[k]));
    }
    return values;
  }
  __device__ __forceinline__ void set(int64_t i, float value) const {
    thread::store(output + i * strides[kInputs], from_float<T>(value));
  }
};

// ---- Packed elements --------------------------------------------------------------------------

// N elements as the words that hold them. Kernels that pad a row choose between loaded and padding
// words; on the elements themselves, two of which share a register, it would take twice the work.
template <class T, int N>
struct Packed {
  using Word = std::conditional_t<(N * sizeof(T) >= 4), uint32_t, uint16_t>;
  static constexpr int kWords = static_cast<int>(N * sizeof(T) / sizeof(Word));
  static constexpr int kPerWord = N / kWords;

  Vec<Word, kWords> words;

  // N times the same.
  __device__ __forceinline__ static Packed filled(float value) {
    Word word;
    if constexpr (sizeof(T) == 4) {
      word = std::bit_cast<Word>(value);
    } else {
      word = from_float<T>(value).bits;
      if constexpr (kPerWord == 2) word |= word << 16;
    }
    Packed packed;
#pragma unroll
    for (int w = 0; w < kWords; ++w) packed.words[w] = word;
    return packed;
  }
  template <Cache kCache = Cache::kDefault>
  __device__ __forceinline__ static Packed load(const T* pointer) {
    return {thread::load<kWords, kCache>(reinterpret_cast<const Word*>(pointer))};
  }
  __device__ __forceinline__ float operator[](int i) const {
    if constexpr (sizeof(T) == 4) {
      return std::bit_cast<float>(words[i]);
    } else {
      T element;
      element.bits = static_cast<uint16_t>(words[i / kPerWord] >> (16 * (i % kPerWord)));
      return to_float(element);
    }
  }
};

// ---- Rows whose elements lie side by side -----------------------------------------------------

template <class T, int kInputs>
struct Rows {
  const T* inputs[kInputs];
  T* output;
  int64_t input_strides[kInputs];
  int64_t output_stride;
  int64_t count;
  int64_t columns;
};

// One of them, cut for accesses of kWidth elements: up to kWidth - 1 elements before the first
// aligned vector, whole vectors, up to kWidth - 1 elements after the last. `edges` counts both
// ends. All operands are cut alike: rows_supported() asks that they be aligned alike.
// kAligned promises that all operands start at a multiple of the vector and that the row is a whole
// number of them: no edges, and no instructions for them.
template <class T, int kInputs, int kWidth, bool kAligned = false>
struct Row {
  const T* inputs[kInputs];
  T* output;
  int head;
  int edges;
  int64_t vectors;
  int64_t body;  // elements between the edges

  __device__ __forceinline__ Row(const Rows<T, kInputs>& rows, int64_t row)
      : output(rows.output + row * rows.output_stride) {
#pragma unroll
    for (int k = 0; k < kInputs; ++k) inputs[k] = rows.inputs[k] + row * rows.input_strides[k];
    head = 0;
    if constexpr (!kAligned) {
      const auto misaligned =
          static_cast<int>(reinterpret_cast<uintptr_t>(output) / sizeof(T)) & (kWidth - 1);
      head = misaligned == 0 ? 0 : kWidth - misaligned;
      head = static_cast<int>(smaller<int64_t>(head, rows.columns));
    }
    vectors = (rows.columns - head) / kWidth;
    body = vectors * kWidth;
    edges = kAligned ? 0 : static_cast<int>(rows.columns - body);
  }

  // Keeps part `index` of `parts`: whole vectors, divided evenly; the edges go with part 0.
  __device__ __forceinline__ void keep_part(int index, int parts) {
    const int64_t share = (vectors + parts - 1) / parts;
    const int64_t first = smaller(share * index, vectors);
#pragma unroll
    for (int k = 0; k < kInputs; ++k) inputs[k] += first * kWidth;
    output += first * kWidth;
    vectors = smaller(share, vectors - first);
    if (index > 0) edges = 0;
  }

  // Keeps nothing.
  __device__ __forceinline__ void clear() {
    vectors = 0;
    edges = 0;
  }

  // Index of the i-th element that is in no vector.
  __device__ __forceinline__ int64_t edge(int i) const { return i < head ? i : i + body; }
  template <Cache kCache = Cache::kDefault>
  __device__ __forceinline__ Vec<T, kWidth> load(int input, int64_t vector) const {
    return thread::load<kWidth, kCache>(inputs[input] + head + vector * kWidth);
  }
  template <Cache kCache = Cache::kDefault>
  __device__ __forceinline__ void store(int64_t vector, const Vec<float, kWidth>& value) const {
    thread::store<kCache>(output + head + vector * kWidth, thread::convert<T>(value));
  }
  __device__ __forceinline__ T load_edge(int input, int i) const {
    return thread::load(inputs[input] + edge(i));
  }

  // The elements of a vector, and the one of an edge, of all inputs.
  __device__ __forceinline__ Tile<Values<kInputs>, kWidth> elements(int64_t vector) const {
    Tile<Values<kInputs>, kWidth> elements;
#pragma unroll
    for (int k = 0; k < kInputs; ++k) {
      const Vec<T, kWidth> loaded = load(k, vector);
#pragma unroll
      for (int i = 0; i < kWidth; ++i) elements[i][k] = to_float(loaded[i]);
    }
    return elements;
  }
  __device__ __forceinline__ Values<kInputs> edge_element(int i) const {
    Values<kInputs> element;
#pragma unroll
    for (int k = 0; k < kInputs; ++k) element[k] = to_float(load_edge(k, i));
    return element;
  }
  __device__ __forceinline__ void store_edge(int i, float value) const {
    thread::store(output + edge(i), from_float<T>(value));
  }
};

// ---- From a problem to a kernel ---------------------------------------------------------------

template <class T, int kInputs>
StridedRows<T, kInputs> strided_rows_of(const Problem& problem) {
  StridedRows<T, kInputs> rows{};
  rows.layout = layout_of(problem);
  for (int k = 0; k < kInputs; ++k) rows.inputs[k] = problem.tensor(k).as<const T>();
  rows.output = problem.tensor(kInputs).template as<T>();
  return rows;
}

// After rows_supported() said yes.
template <class T, int kInputs>
Rows<T, kInputs> rows_of(const Problem& problem) {
  const Layout layout = layout_of(problem);
  Rows<T, kInputs> rows{};
  for (size_t k = 0; k < kInputs; ++k) {
    rows.inputs[k] = problem.tensor(static_cast<int>(k)).as<const T>();
    rows.input_strides[k] = layout.strides[k][0];
  }
  rows.output = problem.tensor(kInputs).template as<T>();
  rows.output_stride = layout.strides[kInputs][0];
  rows.count = layout.rows;
  rows.columns = layout.columns;
  return rows;
}

// Of a row of one operand.
inline int64_t row_bytes(const Problem& problem, const Layout& layout) {
  return layout.columns * static_cast<int64_t>(size_of(problem.tensor(0).dtype));
}

// Whether the rows keep Row's promise kAligned.
template <int kWidth, class T, int kInputs>
bool rows_aligned(const Rows<T, kInputs>& rows) {
  const auto aligned = [](const T* data, int64_t stride) {
    return reinterpret_cast<uintptr_t>(data) % (kWidth * sizeof(T)) == 0 && stride % kWidth == 0;
  };
  bool all = rows.columns % kWidth == 0 && aligned(rows.output, rows.output_stride);
  for (int k = 0; k < kInputs; ++k) all = all && aligned(rows.inputs[k], rows.input_strides[k]);
  return all;
}

inline constexpr int64_t kMostBlocks = 0x7FFFFFFF;  // of a launch

// Whether a kernel that gives a block to each row can take the rows in accesses of `width`
// elements.
inline Reason rows_supported(const Problem& problem, const Layout& layout, int width) {
  if (layout.rows > kMostBlocks) [[unlikely]] {
    return concatenate("takes up to ", kMostBlocks, " rows, not ", layout.rows);
  }
  for (int k = 0; k < layout.operands; ++k) {
    const auto operand = static_cast<size_t>(k);
    if (layout.inner[operand] != 1 || layout.outer > 1) [[unlikely]] {
      return concatenate("takes elements side by side and rows at one stride, not ",
                         problem.tensor(k).describe());
    }
  }
  // All operands must reach a multiple of the vector after the same number of elements.
  const auto bytes = static_cast<int64_t>(width * size_of(problem.tensor(0).dtype));
  const auto size = static_cast<int64_t>(size_of(problem.tensor(0).dtype));
  const auto address = [&](int k) { return reinterpret_cast<int64_t>(problem.tensor(k).data); };
  for (int k = 1; k < layout.operands; ++k) {
    const int64_t stride = layout.strides[static_cast<size_t>(k)][0] - layout.strides[0][0];
    if ((address(k) - address(0)) % bytes != 0 || stride * size % bytes != 0) [[unlikely]] {
      return concatenate("accesses ", bytes, " bytes at a time, but rows of ",
                         problem.tensor(0).describe(), " and ", problem.tensor(k).describe(),
                         " start at different distances from a multiple of that");
    }
  }
  return {};
}

template <int kWidth>
Reason supports_width(const Problem& problem) {
  return rows_supported(problem, layout_of(problem), kWidth);
}

// The most elements that one access of 16 bytes holds.
inline int widest(DType dtype) { return static_cast<int>(16 / size_of(dtype)); }
template <class T>
inline constexpr int kWidest = static_cast<int>(16 / sizeof(T));

inline Reason supports_widest(const Problem& problem) {
  return rows_supported(problem, layout_of(problem), widest(problem.tensor(0).dtype));
}

inline Reason forward_only(const Problem& problem) {
  if (!is_backward(kind_of(problem))) return {};
  return concatenate("computes forward operations, not ", problem.operation->name);
}

inline int64_t divide_up(int64_t a, int64_t b) { return (a + b - 1) / b; }

enum class Directions { kForward, kBoth };

// f.operator()<T, Op>() for the problem's dtype and operation.
template <Directions kDirections, class F>
void dispatch(const Problem& problem, const F& f) {
  const auto with_dtype = [&]<class Op>() {
    switch (problem.tensor(0).dtype) {
      case DType::kF32: return f.template operator()<float, Op>();
      case DType::kF16: return f.template operator()<half, Op>();
      case DType::kBf16: return f.template operator()<bf16, Op>();
      default: throw InvalidArgument(concatenate("no softmax of ", problem.describe()));
    }
  };
  switch (kind_of(problem)) {
    case Kind::kSoftmax: return with_dtype.template operator()<Forward<false>>();
    case Kind::kLogSoftmax: return with_dtype.template operator()<Forward<true>>();
    default: break;
  }
  if constexpr (kDirections == Directions::kBoth) {
    if (kind_of(problem) == Kind::kSoftmaxBackward) {
      return with_dtype.template operator()<Backward<false>>();
    }
    return with_dtype.template operator()<Backward<true>>();
  } else {
    throw InvalidArgument(forward_only(problem));
  }
}

}  // namespace ws::softmax
