// What kernels of an element a thread share: where elements lie, what their indices are, and where
// f32 sums of 16-bit tensors go.
#pragma once

#include <initializer_list>

#include "kernels/embedding/indices.hpp"
#include "kernels/index_add/operations.hpp"
#include "warpsmith/launch.hpp"
#include "warpsmith/ptx/atomic.hpp"
#include "warpsmith/thread/divide.hpp"

#if WS_DEVICE_CODE
namespace ws::index_add {

using embedding::Indices;
using embedding::with_word;

// A nest of fewer than 2^31 elements, whose divisions the host prepares.
template <int kTensors>
struct QuickNest {
  static constexpr int64_t kMost = (int64_t{1} << 31) - 4096;
  int loops = 0;
  int64_t count = 0;
  thread::Divider extents[kMaxRank];
  int64_t strides[kTensors][kMaxRank];

  QuickNest() = default;
  template <size_t kMostLoops>
  explicit QuickNest(const Nest<kTensors, kMostLoops>& nest)
      : loops(nest.loops), count(nest.count) {
    for (int loop = 0; loop < loops && count > 0; ++loop) {
      const auto at = static_cast<size_t>(loop);
      extents[loop] = thread::Divider(nest.extents[at]);
      for (size_t k = 0; k < kTensors; ++k) strides[k][loop] = nest.strides[k][at];
    }
  }

  __device__ __forceinline__ void find(int64_t element, int64_t (&at)[kTensors]) const {
    auto i = static_cast<uint32_t>(element);
#pragma unroll
    for (int k = 0; k < kTensors; ++k) at[k] = 0;
#pragma unroll
    for (int loop = kMaxRank - 1; loop >= 0; --loop) {
      if (loop >= loops) continue;
      const uint32_t outer = loop > 0 ? extents[loop].quotient(i) : 0;
      const uint32_t step = i - outer * extents[loop].divisor();
#pragma unroll
      for (int k = 0; k < kTensors; ++k) at[k] += step * strides[k][loop];
      i = outer;
    }
  }
};

// Makes `width` elements that lie side by side an element of the nest, at strides that count such;
// false where some tensor of these has none. Of the others the strides stay.
template <int kTensors>
bool widen(Nest<kTensors>& nest, int64_t width, std::initializer_list<int> tensors) {
  if (nest.loops == 0) return false;
  const auto inner = static_cast<size_t>(nest.loops - 1);
  bool fits = nest.extents[inner] % width == 0;
  for (const int tensor : tensors) {
    auto& strides = nest.strides[static_cast<size_t>(tensor)];
    fits = fits && strides[inner] == 1;
    for (size_t loop = 0; loop < inner; ++loop) {
      fits = fits && strides[loop] % width == 0;
      strides[loop] /= width;
    }
  }
  nest.extents[inner] /= width;
  nest.count /= width;
  return fits;
}
inline bool starts_a_vector(const void* data) {
  return reinterpret_cast<uintptr_t>(data) % 16 == 0;
}

// A call with a vector of 16 bytes as its element; false where what lies side by side under one
// index is not made of such. A vector's number is then that of its row's first index.
inline bool as_vectors(const Indexed& call, Indexed& vectors) {
  vectors = call;
  const auto width = static_cast<int64_t>(16 / size_of(call.dtype));
  Nest<kOperands>& nest = vectors.nest;
  const bool fits = widen(nest, width, {kEach, kTable}) && call.table_stride % width == 0 &&
                    starts_a_vector(call.each) && starts_a_vector(call.table);
  if (!fits) return false;
  vectors.table_stride /= width;
  const auto inner = static_cast<size_t>(nest.loops - 1);
  nest.strides[kPosition][inner] = 0;
  return nest.strides[kIndex][inner] == 0;
}
inline constexpr const char* kNeedsVectors =
    "takes rows of whole vectors of 16 bytes, which lie behind one index";

// Elements of a line along the dimension: the innermost loop.
inline int64_t line_length(const Indexed& call) {
  return call.nest.extents[static_cast<size_t>(call.nest.loops - 1)];
}
// Whether such lines lie side by side in the table, among the elements and in the index, in whole
// vectors of it and of the table.
inline bool has_lines(const Indexed& call) {
  const Nest<kOperands>& nest = call.nest;
  if (nest.loops == 0) return false;
  const auto inner = static_cast<size_t>(nest.loops - 1);
  const auto size = static_cast<int64_t>(size_of(call.dtype));
  const int64_t width = 16 / size;
  const int64_t step = call.wide_index ? 2 : 4;  // indices of a vector
  return call.table_stride == 1 && nest.strides[kTable][inner] == 0 &&
         nest.strides[kEach][inner] == 1 && nest.strides[kIndex][inner] == 1 &&
         nest.strides[kPosition][inner] == 1 && line_length(call) % step == 0 &&
         call.rows % width == 0 && lines_start_at(nest, kIndex, call.index, step, 16 / step) &&
         lines_start_at(nest, kTable, call.table, width, size) &&
         lines_start_at(nest, kEach, call.each, std::min(step, width), size);
}

inline Indices indices_of(const Indexed& call, const char* rung) {
  return {call.index, call.wide_index, 1, rung, call.rows};
}

// Blocks for so many elements, each of which walks on where there are more of them.
inline int64_t walking_blocks(int64_t elements, int of_block) {
  return std::min(divide_up(elements, int64_t{of_block}), int64_t{1} << 20);
}

// ---- Reading ----------------------------------------------------------------------------------

// A thread several elements: each[i] = table[index[i]]. Places: a nest of either kind.
template <class Word, class Places>
struct TakeKernel {
  static constexpr int kThreads = 128;
  static constexpr int kLoads = 4;
  static constexpr int kTile = kThreads * kLoads;
  struct Arguments {
    Indices index;
    Places places;
    const Word* table;
    Word* each;
    int64_t stride;
  };
  struct SharedStorage {};

  __device__ void operator()(SharedStorage& /*shared*/, const Arguments& a) const {
    for (int64_t tile = block_index() * kTile; tile < a.places.count;
         tile += grid_blocks() * kTile) {
      const int64_t first = tile + thread_index();
      int64_t at[kLoads][kOperands];
      int64_t row[kLoads];
      Word values[kLoads];
      bool is_there[kLoads];
#pragma unroll
      for (int j = 0; j < kLoads; ++j) {
        is_there[j] = first + j * kThreads < a.places.count;
        if (!is_there[j]) continue;
        a.places.find(first + j * kThreads, at[j]);
        row[j] = a.index.at_offset(at[j][kIndex]);
      }
#pragma unroll
      for (int j = 0; j < kLoads; ++j) {
        is_there[j] = is_there[j] && a.index.is_right(row[j], at[j][kPosition]);
        if (is_there[j]) values[j] = thread::load(a.table + at[j][kTable] + row[j] * a.stride);
      }
#pragma unroll
      for (int j = 0; j < kLoads; ++j) {
        if (is_there[j]) thread::store(a.each + at[j][kEach], values[j]);
      }
    }
  }
};

template <class Word, class Places>
void take(const Indexed& call, const char* rung, const Context& context) {
  using Kernel = TakeKernel<Word, Places>;
  launch<Kernel>(
      {.blocks = walking_blocks(call.nest.count, Kernel::kTile), .threads = Kernel::kThreads},
      context.stream,
      {indices_of(call, rung), Places(call.nest), static_cast<const Word*>(call.table),
       static_cast<Word*>(call.each), call.table_stride});
}

// ---- Adding -----------------------------------------------------------------------------------

// f32 sums that atomics add to: y itself, or of 16 bits a dense tensor in the workspace, zero
// before and after.
struct Sums {
  float* data;
  int64_t stride;   // along the dimension
  Operand operand;  // where an element's line starts

  Sums(const Adding& call, const Context& context)
      : data(static_cast<float*>(call.dtype == DType::kF32 ? call.table : context.workspace)),
        stride(call.dtype == DType::kF32 ? call.table_stride : call.sums_stride),
        operand(call.dtype == DType::kF32 ? kTable : kSums) {}
  static Workspace workspace(const Adding& call) {
    if (call.dtype == DType::kF32) return {};
    const size_t bytes = static_cast<size_t>(call.whole.count) * sizeof(float);
    return {.bytes = bytes, .zeroed = bytes};
  }
};

// A thread four vectors, all under way at once: y = x, or x and its sum, which is zero then.
// Places: a nest of vectors, of either kind.
template <class T, int kWidth, class Places>
struct GiveKernel {
  static constexpr int kThreads = 128;
  static constexpr int kLoads = 4;
  static constexpr int kTile = kThreads * kLoads;
  struct Arguments {
    Places places;
    const T* x;
    T* y;
    float* sums;  // null: none
  };
  struct SharedStorage {};

  __device__ void operator()(SharedStorage& /*shared*/, const Arguments& a) const {
    for (int64_t tile = block_index() * kTile; tile < a.places.count;
         tile += grid_blocks() * kTile) {
      const int64_t first = tile + thread_index();
      if (first >= a.places.count) return;
      bool is_there[kLoads];
      int64_t at[kLoads][kWholeOperands];
      Vec<T, kWidth> values[kLoads];
#pragma unroll
      for (int j = 0; j < kLoads; ++j) {
        const int64_t i = first + j * kThreads;
        is_there[j] = i < a.places.count;
        // Behind the last one a thread's first again: a load without a branch.
        a.places.find(is_there[j] ? i : first, at[j]);
      }
#pragma unroll
      for (int j = 0; j < kLoads; ++j) values[j] = thread::load<kWidth>(a.x + at[j][kX] * kWidth);
      if (a.sums != nullptr) add_sums(a.sums, at, is_there, values);
#pragma unroll
      for (int j = 0; j < kLoads; ++j) {
        if (is_there[j]) thread::store(a.y + at[j][kY] * kWidth, values[j]);
      }
    }
  }

 private:
  __device__ __forceinline__ static void add_sums(float* all,
                                                  const int64_t (&at)[kLoads][kWholeOperands],
                                                  const bool (&is_there)[kLoads],
                                                  Vec<T, kWidth> (&values)[kLoads]) {
    Vec<float, kWidth> sums[kLoads];
#pragma unroll
    for (int j = 0; j < kLoads; ++j) sums[j] = thread::load<kWidth>(all + at[j][kDense] * kWidth);
#pragma unroll
    for (int j = 0; j < kLoads; ++j) {
#pragma unroll
      for (int i = 0; i < kWidth; ++i) sums[j][i] += to_float(values[j][i]);
      values[j] = thread::convert<T>(sums[j]);
      if (is_there[j]) thread::store(all + at[j][kDense] * kWidth, Vec<float, kWidth>{});
    }
  }
};

template <class T>
void give(const Adding& call, float* sums, const Context& context) {
  const auto start = [&]<int kWidth, class Places>(const Nest<kWholeOperands>& places) {
    using Kernel = GiveKernel<T, kWidth, Places>;
    launch<Kernel>(
        {.blocks = walking_blocks(places.count, Kernel::kTile), .threads = Kernel::kThreads},
        context.stream,
        {Places(places), static_cast<const T*>(call.x), static_cast<T*>(call.table), sums});
  };
  using Quick = QuickNest<kWholeOperands>;
  constexpr int kWidth = 16 / sizeof(T);
  Nest<kWholeOperands> vectors = call.whole;
  if (starts_a_vector(call.x) && starts_a_vector(call.table) &&
      widen(vectors, kWidth, {kY, kX, kDense}) && vectors.count < Quick::kMost) {
    start.template operator()<kWidth, Quick>(vectors);
  } else if (call.whole.count < Quick::kMost) {
    start.template operator()<1, Quick>(call.whole);
  } else {
    start.template operator()<1, Nest<kWholeOperands>>(call.whole);
  }
}

// y = x, then `add` with the sums, which it adds to; then what they make of y.
template <class T, class Add>
void add_up(const Adding& call, const Context& context, const Add& add) {
  const Sums sums(call, context);
  constexpr bool kDirect = std::is_same_v<T, float>;
  if (kDirect && !call.is_in_place()) give<T>(call, nullptr, context);
  if (call.nest.count > 0) add(sums);
  if (!kDirect) give<T>(call, sums.data, context);
}

// What is added to lines of y, in steps of kElements of a stretch, of which the last may be
// shorter.
template <class T, int kElements>
struct LineSteps {
  const T* source;
  T* y;
  thread::Divider row;    // steps of a row
  thread::Divider inner;  // of a stretch of it
  int64_t rows[2];        // strides of source and y, in each direction
  int64_t outers[2];

  explicit LineSteps(const IndexAdd::Call& call)
      : source(static_cast<const T*>(call.each)),
        y(static_cast<T*>(call.table)),
        row(of_row(call)),
        inner(of_stretch(call)),
        rows{call.lines.row_strides[embedding::kSource], call.lines.row_strides[embedding::kY]},
        outers{call.lines.outer_strides[embedding::kSource],
               call.lines.outer_strides[embedding::kY]} {}
  static int64_t count(const IndexAdd::Call& call) { return call.lines.count * of_row(call); }

  struct Place {
    uint32_t i;  // of the index
    uint32_t outer;
    int64_t first;  // element of the stretch
  };
  __device__ __forceinline__ Place find(uint32_t step) const {
    const uint32_t i = row.quotient(step);
    const uint32_t lane = step - i * row.divisor();
    const uint32_t outer = inner.quotient(lane);
    return {i, outer, int64_t{lane - outer * inner.divisor()} * kElements};
  }
  __device__ __forceinline__ const T* source_at(const Place& at) const {
    return source + at.i * rows[0] + at.outer * outers[0] + at.first;
  }
  __device__ __forceinline__ T* y_at(int64_t of, const Place& at) const {
    return y + of * rows[1] + at.outer * outers[1] + at.first;
  }

 private:
  static int64_t of_stretch(const IndexAdd::Call& call) {
    return divide_up(call.lines.inner, int64_t{kElements});
  }
  static int64_t of_row(const IndexAdd::Call& call) { return call.lines.outer * of_stretch(call); }
};
inline Indices line_indices_of(const IndexAdd::Call& call, const char* rung) {
  return {call.index, call.wide_index, call.index_stride, rung, call.rows};
}

// A thread an element: sums[index[i]] += alpha * each[i].
template <class T, class Places>
struct AddKernel {
  static constexpr int kThreads = 256;
  struct Arguments {
    Indices index;
    Places places;
    const T* each;
    Sums sums;
    float alpha;
  };
  struct SharedStorage {};

  __device__ void operator()(SharedStorage& /*shared*/, const Arguments& a) const {
    const int64_t step = grid_blocks() * kThreads;
    for (int64_t i = block_index() * kThreads + thread_index(); i < a.places.count; i += step) {
      int64_t at[kOperands];
      a.places.find(i, at);
      const int64_t row = a.index.at_offset(at[kIndex]);
      if (!a.index.is_right(row, at[kPosition])) continue;
      const int64_t line = a.sums.operand == kTable ? at[kTable] : at[kSums];
      ptx::red_global_add(a.sums.data + line + row * a.sums.stride,
                          a.alpha * to_float(thread::load(a.each + at[kEach])));
    }
  }
};

template <class Places>
void add_elements(const Adding& call, const char* rung, const Context& context) {
  with_type<kFloats>(call.dtype, [&]<class T>() {
    add_up<T>(call, context, [&](const Sums& sums) {
      using Kernel = AddKernel<T, Places>;
      launch<Kernel>({.blocks = walking_blocks(call.nest.count, Kernel::kThreads),
                      .threads = Kernel::kThreads},
                     context.stream,
                     {indices_of(call, rung), Places(call.nest), static_cast<const T*>(call.each),
                      sums, call.alpha});
    });
  });
}

inline bool is_quick(const Indexed& call, Why& why) {
  return why.unless(call.nest.count < QuickNest<kOperands>::kMost,
                    "takes fewer than 2^31 elements, not ", call.nest.count);
}

}  // namespace ws::index_add
#endif
