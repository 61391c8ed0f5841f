// Idea: what is broadcast or a part of something larger still has rows, whose elements lie side by
//   side or repeat: a thread takes 16 bytes of a row, and one index a vector.
// From strided: an eighth of the index arithmetic (f32 a quarter), and of the accesses. An input of
//   which a row has one element is loaded once for the vector.
// Traffic: every byte once, and of what is broadcast what L1 and L2 do not have.
// Limits: the inner loop's stride is 1, or 0 of an input, and it is whole vectors, as are all other
//   strides; pointers at multiples of 16 bytes. Up to 2^31 vectors.
#include "kernels/elementwise/dispatch.hpp"
#include "kernels/elementwise/strided_walk.hpp"
#include "warpsmith/launch.hpp"

namespace ws::elementwise {
namespace {

template <class T, class Functor>
struct StridedVectorsKernel {
  static constexpr int kThreads = 256;
  static constexpr int kLoads = 2;  // of a thread and input, under way together
  static constexpr int kWidth = 16 / static_cast<int>(sizeof(T));
  static constexpr int kInputs = Functor::kInputs;
  static constexpr int kOperands = kInputs + 1;

  struct Arguments {
    Pointers<T, kInputs> at;
    Functor f;
    uint32_t vectors;
    bool repeats[kInputs];  // one element for all of a vector
    StridedWalk<kOperands> walk;
  };
  struct SharedStorage {};

  __device__ void operator()(SharedStorage&, const Arguments& a) const {
    const auto first = static_cast<uint32_t>(block_index() * (kThreads * kLoads) + thread_index());
    int64_t offsets[kLoads][kOperands] = {};
    Vec<T, kWidth> x[kLoads][kInputs];
#pragma unroll
    for (int j = 0; j < kLoads; ++j) {
      const uint32_t vector = first + j * kThreads;
      if (vector >= a.vectors) break;
      a.walk.add(vector, offsets[j]);
#pragma unroll
      for (int k = 0; k < kInputs; ++k) {
        const T* const from = a.at.inputs[k] + offsets[j][k];
        if (a.repeats[k]) {
          const T one = thread::load(from);
#pragma unroll
          for (int i = 0; i < kWidth; ++i) x[j][k][i] = one;
        } else {
          x[j][k] = thread::load<kWidth>(from);
        }
      }
    }
#pragma unroll
    for (int j = 0; j < kLoads; ++j) {
      if (first + j * kThreads >= a.vectors) break;
      thread::store(a.at.outputs[0] + offsets[j][kInputs], apply(a.f, x[j]));
    }
  }
};

struct StridedVectors {
  static constexpr int64_t kMostVectors = (int64_t{1} << 31) - 1;

  template <class Call>
  static bool supports(const Call& call, Why& why) {
    const Layout& layout = call.layout;
    const auto width = static_cast<int64_t>(16 / size_of(call.dtype));
    const auto inner = static_cast<size_t>(layout.rank) - 1;
    if (!why.unless(layout.rank > 0 && layout.extents[inner] % width == 0,
                    "needs rows of whole vectors of ", width, " elements, got ", layout) ||
        !why.unless(layout.elements / width <= kMostVectors, "takes up to ", kMostVectors,
                    " vectors")) {
      return false;
    }
    for (int k = 0; k < layout.operands; ++k) {
      const auto at = static_cast<size_t>(k);
      const auto& strides = layout.strides[at];
      const bool repeats = strides[inner] == 0 && k < layout.operands - 1;
      bool is_aligned =
          repeats || (strides[inner] == 1 && reinterpret_cast<uintptr_t>(call.data[at]) % 16 == 0);
      for (size_t loop = 0; loop < inner && !repeats; ++loop) {
        is_aligned = is_aligned && strides[loop] % width == 0;
      }
      if (!why.unless(is_aligned, "needs rows that lie side by side and start at multiples of ",
                      width, " elements, got ", layout)) {
        return false;
      }
    }
    return true;
  }

  template <class Call>
  static void run(const Call& call, const Context& context) {
    dispatch(call, [&]<class T, class Functor>(const Functor& f) {
      using Kernel = StridedVectorsKernel<T, Functor>;
      const Layout& layout = call.layout;
      typename Kernel::Arguments arguments{};
      arguments.at = Pointers<T, Functor::kInputs>(call);
      arguments.f = f;
      arguments.vectors = static_cast<uint32_t>(layout.elements / Kernel::kWidth);
      arguments.walk = StridedWalk<Kernel::kOperands>(layout, Kernel::kWidth);
      for (size_t k = 0; k < Kernel::kInputs; ++k) {
        arguments.repeats[k] = arguments.walk.strides[k][0] == 0;
      }
      launch<Kernel>({.blocks = divide_up(int64_t{arguments.vectors},
                                          int64_t{Kernel::kThreads} * Kernel::kLoads),
                      .threads = Kernel::kThreads},
                     context.stream, arguments);
    });
  }
};

}  // namespace

extern const Rung kStridedVectors;
const Rung kStridedVectors = Operations::rung<StridedVectors>({
    .name = "strided_vectors",
    .from = "strided",
    .idea = "16 bytes of a row, one index a vector: broadcasting, and parts of larger tensors",
});

}  // namespace ws::elementwise
