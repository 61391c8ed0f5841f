// Idea: one thread, several neighbouring elements, in accesses of several elements each.
// From scalar: an access of 2, 4 or 8 times the bytes is still one instruction and one request, so
// the same number of requests in flight covers more memory. vector_x8 takes two accesses of 4,
// whose lanes leave gaps for each other; pack takes what 16 bytes hold, whatever the dtype.
// Traffic: every byte once.
// Limits: flat layouts, pointers aligned to the access. A tail shorter than a vector goes one by
// one.
#pragma once

#include "kernels/elementwise/dispatch.hpp"
#include "kernels/elementwise/layout.hpp"
#include "warpsmith/launch.hpp"

namespace ws::elementwise {

// kAccesses accesses of kWidth elements a thread.
template <class T, class Op, int kWidth, int kAccesses>
struct Vector {
  static_assert(kWidth * sizeof(T) <= 16, "one access moves at most 16 bytes");
  static constexpr int kThreads = 256;
  static constexpr int kItems = kWidth * kAccesses;

  struct Arguments {
    Operands<T, Op::kInputs> operands;
    Op op;
    int64_t elements;
  };
  struct SharedStorage {};

  __device__ void operator()(SharedStorage&, const Arguments& a) const {
    const int64_t first = (block_index() * kThreads + thread_index()) * kItems;
    if (first + kItems <= a.elements) {
      Vec<T, kWidth> x[kAccesses][Op::kInputs];
#pragma unroll
      for (int j = 0; j < kAccesses; ++j) {
#pragma unroll
        for (int k = 0; k < Op::kInputs; ++k) {
          x[j][k] = thread::load<kWidth>(a.operands.inputs[k] + first + j * kWidth);
        }
      }
#pragma unroll
      for (int j = 0; j < kAccesses; ++j) {
        thread::store(a.operands.output + first + j * kWidth, apply(a.op, x[j]));
      }
    } else {
      for (int64_t i = first; i < a.elements; ++i) {
        T x[Op::kInputs];
#pragma unroll
        for (int k = 0; k < Op::kInputs; ++k) x[k] = thread::load(a.operands.inputs[k] + i);
        thread::store(a.operands.output + i, apply(a.op, x));
      }
    }
  }
};

// Elements of an access, and accesses a thread, of the rows.
struct VectorX2 {
  template <class T>
  static constexpr int kWidth = 2;
  static constexpr int kAccesses = 1;
};
struct VectorX4 {
  template <class T>
  static constexpr int kWidth = 4;
  static constexpr int kAccesses = 1;
};
struct VectorX8 {
  template <class T>
  static constexpr int kWidth = 4;
  static constexpr int kAccesses = 2;
};
struct Pack {
  template <class T>
  static constexpr int kWidth = 16 / sizeof(T);
  static constexpr int kAccesses = 1;
};

// Why a rung of flat layouts does not take the problem.
inline Reason needs_flat(const Problem& problem) {
  if (layout_of(problem).is_flat(problem.tensor_count)) return {};
  std::string tensors;
  for (int k = 0; k < problem.tensor_count; ++k) {
    tensors.append(tensors.empty() ? "" : ", ").append(problem.tensor(k).describe());
  }
  return "needs dense tensors of one shape and order, got " + tensors;
}

template <class Row>
Reason supports_vector(const Problem& problem) {
  if (Reason reason = needs_flat(problem); !reason.empty()) return reason;
  const size_t size = size_of(problem.tensor(0).dtype);
  const size_t bytes = size * static_cast<size_t>(size == 4 ? Row::template kWidth<float>
                                                            : Row::template kWidth<half>);
  for (int k = 0; k < problem.tensor_count; ++k) {
    const auto address = reinterpret_cast<uintptr_t>(problem.tensor(k).data);
    if (address % bytes != 0) {
      return concatenate("needs pointers aligned to ", bytes, " bytes; '",
                         problem.operation->parameters[static_cast<size_t>(k)].name, "' is ",
                         address % bytes, " past");
    }
  }
  return {};
}

template <class Row>
void run_vector(const Problem& problem, const Context& context) {
  dispatch(problem, [&]<class Op, class T>(const Op& op, T) {
    using Kernel = Vector<T, Op, Row::template kWidth<T>, Row::kAccesses>;
    const int64_t elements = problem.tensor(Op::kInputs).elements();
    const int64_t per_block = Kernel::kThreads * Kernel::kItems;
    launch<Kernel>({.blocks = (elements + per_block - 1) / per_block, .threads = Kernel::kThreads},
                   context.stream, {Operands<T, Op::kInputs>(problem), op, elements});
  });
}

}  // namespace ws::elementwise
