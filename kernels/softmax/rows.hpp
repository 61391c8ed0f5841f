// The rows of a call as kernels see them, and the way from a Problem to a kernel's template
// arguments.
#pragma once

#include <bit>
#include <type_traits>

#include "kernels/softmax/operations.hpp"
#include "kernels/softmax/problem.hpp"
#include "warpsmith/thread/divide.hpp"
#include "warpsmith/thread/memory.hpp"

namespace ws::softmax {

template <class N>
__host__ __device__ __forceinline__ N smaller(N a, N b) {
  return a < b ? a : b;
}

inline int64_t divide_up(int64_t a, int64_t b) { return (a + b - 1) / b; }

// ---- Masks ------------------------------------------------------------------------------------

// Where the mask of a row starts, of up to kMaxMaskOuter dimensions before the last: batch, heads
// that share it, queries. Without a loop, whose end the loads behind it would wait for.
//
// Heads that share a mask too large to stay in the L2 beside their own streams are walked through
// first: all of them for one query, so that the mask is read from memory once, not once a head.
// Measured on an H200 (results/JOURNAL.md): masks of 1 MiB stay, of 16 MiB do not.
inline constexpr int kMaxMaskOuter = 3;
inline constexpr int64_t kMaskThatStays = int64_t{4} << 20;

class MaskRows {
 public:
  MaskRows() = default;
  explicit MaskRows(const Problem& problem) {
    const Layout layout = mask_layout_of(problem);
    data_ = problem.tensor(mask_index(problem)).as<const uint8_t>();
    for (int d = 0; d < layout.outer; ++d) {  // innermost first
      const auto from = static_cast<size_t>(layout.outer - 1 - d);
      extents_[d] = thread::Divider(layout.extents[from]);
      strides_[d] = layout.strides[0][from];
    }
    if (strides_[1] == 0 && extents_[0].divisor() * layout.columns > kMaskThatStays) {
      heads_ = extents_[1];
      queries_ = extents_[0];
    }
  }
  // The row to be done at place i.
  __device__ __forceinline__ int64_t nth(int64_t i) const {
    const auto place = static_cast<uint32_t>(i);
    const uint32_t rest = heads_.quotient(place);
    const uint32_t head = place - rest * heads_.divisor();
    const uint32_t batch = queries_.quotient(rest);
    const uint32_t query = rest - batch * queries_.divisor();
    return (batch * heads_.divisor() + head) * int64_t{queries_.divisor()} + query;
  }
  __device__ __forceinline__ const uint8_t* operator[](int64_t row) const {
    const auto inner = static_cast<uint32_t>(row);
    const uint32_t middle = extents_[0].quotient(inner);
    const uint32_t outer = extents_[1].quotient(middle);
    return data_ + (inner - middle * extents_[0].divisor()) * strides_[0] +
           (middle - outer * extents_[1].divisor()) * strides_[1] + outer * strides_[2];
  }

 private:
  const uint8_t* data_ = nullptr;
  thread::Divider extents_[kMaxMaskOuter];
  int64_t strides_[kMaxMaskOuter] = {};
  thread::Divider heads_;  // both 1 where rows are done as they lie
  thread::Divider queries_;
};

// The mask of N neighbouring elements, as the words that hold it: a byte is looked at where it is.
template <int N>
struct PackedMask {
  using Word = std::conditional_t<(N >= 4), uint32_t, uint8_t>;
  static constexpr int kPerWord = static_cast<int>(sizeof(Word));
  Vec<Word, N / kPerWord> words;

  __device__ __forceinline__ static PackedMask load(const uint8_t* pointer) {
    return {thread::load<N / kPerWord>(reinterpret_cast<const Word*>(pointer))};
  }
  __device__ __forceinline__ bool operator[](int i) const {
    return (words[i / kPerWord] & (Word{0xFF} << (8 * (i % kPerWord)))) != 0;
  }
};

struct NoMask {};

// ---- Rows of any strides ----------------------------------------------------------------------

// Operands: the inputs, the mask where there is one, the output.
template <class T, class Op>
struct StridedRows {
  static constexpr int kInputs = Op::kInputs;
  static constexpr int kOutput = Op::kInputs + (Op::kMasked ? 1 : 0);

  Layout layout;
  const T* inputs[kInputs];
  const uint8_t* mask;
  T* output;
  Op op;

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
template <class T, class Op>
struct StridedRow {
  static constexpr int kInputs = Op::kInputs;
  static constexpr int kOutput = StridedRows<T, Op>::kOutput;

  const T* inputs[kInputs];
  const uint8_t* mask;
  T* output;
  int64_t strides[kOutput + 1];
  int64_t columns;
  Op op;

  __device__ __forceinline__ StridedRow(const StridedRows<T, Op>& rows, int64_t row)
      : mask(nullptr),
        output(rows.output + rows.offset(kOutput, row)),
        columns(rows.layout.columns),
        op(rows.op) {
#pragma unroll
    for (int k = 0; k < kInputs; ++k) inputs[k] = rows.inputs[k] + rows.offset(k, row);
    if constexpr (Op::kMasked) mask = rows.mask + rows.offset(kInputs, row);
#pragma unroll
    for (int k = 0; k <= kOutput; ++k) strides[k] = rows.layout.inner[k];
  }
  __device__ __forceinline__ typename Op::Element operator[](int64_t i) const {
    Values<kInputs> values;
#pragma unroll
    for (int k = 0; k < kInputs; ++k) {
      values[k] = to_float(thread::load(inputs[k] + i * strides[k]));
    }
    if constexpr (Op::kMasked) {
      return op.prepare(values, thread::load(mask + i * strides[kInputs]) != 0);
    } else {
      return values;
    }
  }
  __device__ __forceinline__ void set(int64_t i, float value) const {
    thread::store(output + i * strides[kOutput], from_float<T>(value));
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

template <class T, class Op>
struct Rows {
  const T* inputs[Op::kInputs];
  T* output;
  int64_t input_strides[Op::kInputs];
  int64_t output_stride;
  int64_t count;
  int64_t columns;
  Op op;
  std::conditional_t<Op::kMasked, MaskRows, NoMask> mask;
};

// What is known of a row while compiling.
enum class Fit {
  kAnywhere,
  kAligned,  // operands start at a multiple of the vector, rows are whole vectors
  kFull,     // and fills the threads that hold it
};

// One of them, cut for accesses of kWidth elements: up to kWidth - 1 elements before the first
// aligned vector, whole vectors, up to kWidth - 1 elements after the last. `edges` counts both
// ends. All operands are cut alike: rows_supported() asks that they be aligned alike.
// Only rows of Fit::kAnywhere have edges, and instructions for them.
template <class T, class Op, int kWidth, Fit kFit = Fit::kAnywhere>
struct Row {
  static constexpr int kInputs = Op::kInputs;
  using Element = typename Op::Element;
  using MaskVector = PackedMask<kWidth>;

  const T* inputs[kInputs];
  const uint8_t* mask;
  T* output;
  int head;
  int edges;
  int64_t vectors;
  int64_t body;  // elements between the edges
  Op op;

  // `place` is the row's number, of masked operations its place in the order of MaskRows.
  __device__ __forceinline__ Row(const Rows<T, Op>& rows, int64_t place)
      : mask(nullptr), op(rows.op) {
    int64_t row = place;
    if constexpr (Op::kMasked) row = rows.mask.nth(place);
    output = rows.output + row * rows.output_stride;
#pragma unroll
    for (int k = 0; k < kInputs; ++k) inputs[k] = rows.inputs[k] + row * rows.input_strides[k];
    if constexpr (Op::kMasked) mask = rows.mask[row];
    head = 0;
    if constexpr (kFit == Fit::kAnywhere) {
      const auto misaligned =
          static_cast<int>(reinterpret_cast<uintptr_t>(output) / sizeof(T)) & (kWidth - 1);
      head = misaligned == 0 ? 0 : kWidth - misaligned;
      head = static_cast<int>(smaller<int64_t>(head, rows.columns));
    }
    vectors = (rows.columns - head) / kWidth;
    body = vectors * kWidth;
    edges = kFit != Fit::kAnywhere ? 0 : static_cast<int>(rows.columns - body);
  }

  // Keeps part `index` of those of `share` vectors, see part_vectors(); the edges go with part 0.
  __device__ __forceinline__ void keep_part(int index, int64_t share) {
    const int64_t first = smaller(share * index, vectors);
#pragma unroll
    for (int k = 0; k < kInputs; ++k) inputs[k] += first * kWidth;
    if constexpr (Op::kMasked) mask += first * kWidth;
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

  __device__ __forceinline__ MaskVector load_mask(int64_t vector) const {
    return MaskVector::load(mask + head + vector * kWidth);
  }
  __device__ __forceinline__ bool load_mask_edge(int i) const {
    return thread::load(mask + edge(i)) != 0;
  }

  // The elements of a vector, and the one of an edge.
  __device__ __forceinline__ Tile<Element, kWidth> elements(int64_t vector) const {
    Tile<Values<kInputs>, kWidth> values;
#pragma unroll
    for (int k = 0; k < kInputs; ++k) {
      const Vec<T, kWidth> loaded = load(k, vector);
#pragma unroll
      for (int i = 0; i < kWidth; ++i) values[i][k] = to_float(loaded[i]);
    }
    if constexpr (Op::kMasked) {
      const MaskVector keep = load_mask(vector);
      Tile<Element, kWidth> elements;
#pragma unroll
      for (int i = 0; i < kWidth; ++i) elements[i] = op.prepare(values[i], keep[i]);
      return elements;
    } else {
      return values;
    }
  }
  __device__ __forceinline__ Element edge_element(int i) const {
    Values<kInputs> values;
#pragma unroll
    for (int k = 0; k < kInputs; ++k) values[k] = to_float(load_edge(k, i));
    if constexpr (Op::kMasked) {
      return op.prepare(values, load_mask_edge(i));
    } else {
      return values;
    }
  }
  __device__ __forceinline__ void store_edge(int i, float value) const {
    thread::store(output + edge(i), from_float<T>(value));
  }
};

// ---- From a problem to a kernel ---------------------------------------------------------------

template <class Op>
Op operation_of(const Problem& problem) {
  Op op{};
  if constexpr (Op::kMasked) op.scale = scale_of(problem);
  if constexpr (std::is_same_v<Op, ScaleMaskForward>) op.fill = fill_of(problem);
  return op;
}

template <class T, class Op>
StridedRows<T, Op> strided_rows_of(const Problem& problem) {
  StridedRows<T, Op> rows{};
  std::array<const Tensor*, kMaxOperands> tensors{};
  const auto count = static_cast<size_t>(problem.tensor_count);
  for (size_t k = 0; k < count; ++k) tensors[k] = &problem.tensors[k];
  rows.layout = layout_of(std::span<const Tensor* const>(tensors.data(), count));
  for (int k = 0; k < Op::kInputs; ++k) rows.inputs[k] = problem.tensor(k).as<const T>();
  if constexpr (Op::kMasked) {
    rows.mask = problem.tensor(mask_index(problem)).as<const uint8_t>();
  }
  rows.output = problem.tensor(rows.kOutput).template as<T>();
  rows.op = operation_of<Op>(problem);
  return rows;
}

// After rows_supported() said yes.
template <class T, class Op>
Rows<T, Op> rows_of(const Problem& problem) {
  constexpr size_t kInputs = Op::kInputs;
  const Layout layout = layout_of(problem);
  Rows<T, Op> rows{};
  for (size_t k = 0; k < kInputs; ++k) {
    rows.inputs[k] = problem.tensor(static_cast<int>(k)).as<const T>();
    rows.input_strides[k] = layout.strides[k][0];
  }
  rows.output = problem.tensor(problem.tensor_count - 1).template as<T>();
  rows.output_stride = layout.strides[kInputs][0];
  rows.count = layout.rows;
  rows.columns = layout.columns;
  rows.op = operation_of<Op>(problem);
  if constexpr (Op::kMasked) rows.mask = MaskRows(problem);
  return rows;
}

// Vectors of a part where rows are cut in `parts`: enough for any row, wherever it starts.
template <int kWidth, class T, class Op>
int64_t part_vectors(const Rows<T, Op>& rows, int parts) {
  return divide_up(rows.columns / kWidth, parts);
}

// Of a row of one operand.
inline int64_t row_bytes(const Problem& problem, const Layout& layout) {
  return layout.columns * static_cast<int64_t>(size_of(problem.tensor(0).dtype));
}

// Whether the rows are Fit::kAligned. The mask of rows that are supported is then aligned too.
template <int kWidth, class T, class Op>
bool rows_aligned(const Rows<T, Op>& rows) {
  const auto aligned = [](const T* data, int64_t stride) {
    return reinterpret_cast<uintptr_t>(data) % (kWidth * sizeof(T)) == 0 && stride % kWidth == 0;
  };
  bool all = rows.columns % kWidth == 0 && aligned(rows.output, rows.output_stride);
  for (int k = 0; k < Op::kInputs; ++k) {
    all = all && aligned(rows.inputs[k], rows.input_strides[k]);
  }
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
  const auto apart = [&](int k) {
    return concatenate("accesses ", width, " elements at a time, but rows of ",
                       problem.tensor(0).describe(), " and ", problem.tensor(k).describe(),
                       " start at different distances from a multiple of that");
  };
  const bool masked = is_masked(kind_of(problem));
  for (int k = 1; k < layout.operands; ++k) {
    const int tensor = k + 1 < layout.operands ? k : problem.tensor_count - 1;
    const int64_t stride = layout.strides[static_cast<size_t>(k)][0] - layout.strides[0][0];
    if ((address(tensor) - address(0)) % bytes != 0 || stride * size % bytes != 0) [[unlikely]] {
      return apart(tensor);
    }
  }
  if (!masked) return {};
  const int mask = mask_index(problem);
  const Layout mask_layout = mask_layout_of(problem);
  if (mask_layout.inner[0] != 1) {
    return concatenate("takes masks whose elements lie side by side, not ",
                       problem.tensor(mask).describe());
  }
  if (mask_layout.outer > kMaxMaskOuter) {
    return concatenate("takes masks of up to ", kMaxMaskOuter,
                       " dimensions that are walked through unevenly, not ",
                       problem.tensor(mask).describe());
  }
  bool alike = (address(mask) - address(0) / size) % width == 0;
  int64_t row_stride = layout.strides[0][0];  // of the first operand, from step to step of d
  for (int d = mask_layout.outer - 1; d >= 0; --d) {
    const auto outer = static_cast<size_t>(d);
    alike = alike && (mask_layout.strides[0][outer] - row_stride) % width == 0;
    row_stride *= mask_layout.extents[outer];
  }
  if (!alike) return apart(mask);
  return {};
}

// The most elements that one access of 16 bytes holds.
inline int widest(DType dtype) { return static_cast<int>(16 / size_of(dtype)); }
template <class T>
inline constexpr int kWidest = static_cast<int>(16 / sizeof(T));

inline Reason supports_widest(const Problem& problem) {
  return rows_supported(problem, layout_of(problem), widest(problem.tensor(0).dtype));
}

inline constexpr Kinds kForward = {Kind::kSoftmax, Kind::kLogSoftmax};
inline constexpr Kinds kForwardAndMasked = {Kind::kSoftmax, Kind::kLogSoftmax,
                                            Kind::kScaleMaskSoftmax};
inline constexpr Kinds kWithoutMask = {Kind::kSoftmax, Kind::kLogSoftmax, Kind::kSoftmaxBackward,
                                       Kind::kLogSoftmaxBackward};
inline constexpr Kinds kEvery = {
    Kind::kSoftmax,         Kind::kLogSoftmax,         Kind::kScaleMaskSoftmax,
    Kind::kSoftmaxBackward, Kind::kLogSoftmaxBackward, Kind::kScaleMaskSoftmaxBackward};

inline Reason one_of(Kinds kinds, const Problem& problem) {
  if (kinds.has(kind_of(problem))) [[likely]]
    return {};
  std::string names;
  for (const Operation& operation : kOperations) {
    if (!kinds.has(static_cast<Kind>(&operation - kOperations))) continue;
    names.append(names.empty() ? "" : ", ").append(operation.name);
  }
  return concatenate("computes ", names, ", not ", problem.operation->name);
}

// f.operator()<T, Op>() for the problem's dtype and operation, one of kKinds.
template <Kinds kKinds, class F>
void dispatch(const Problem& problem, const F& f) {
  const auto with = [&]<Kind kKind, class Op>() {
    if constexpr (kKinds.has(kKind)) {
      if (kind_of(problem) != kKind) return false;
      switch (problem.tensor(0).dtype) {
        case DType::kF32: f.template operator()<float, Op>(); return true;
        case DType::kF16: f.template operator()<half, Op>(); return true;
        case DType::kBf16: f.template operator()<bf16, Op>(); return true;
        default: return false;
      }
    }
    return false;
  };
  if (with.template operator()<Kind::kSoftmax, Forward<false>>() ||
      with.template operator()<Kind::kLogSoftmax, Forward<true>>() ||
      with.template operator()<Kind::kScaleMaskSoftmax, ScaleMaskForward>() ||
      with.template operator()<Kind::kSoftmaxBackward, Backward<false>>() ||
      with.template operator()<Kind::kLogSoftmaxBackward, Backward<true>>() ||
      with.template operator()<Kind::kScaleMaskSoftmaxBackward, ScaleMaskBackward>()) {
    return;
  }
  throw InvalidArgument(concatenate("no softmax of ", problem.describe()));
}

}  // namespace ws::softmax
