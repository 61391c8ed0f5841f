// The peer "cub": CCCL's device-wide reductions, part of the toolkit.
// Build: only nvcc reads CUB.
#include "kernels/reduce/operations.hpp"

#ifndef __CUDACC__  // the emulated build

namespace ws::reduce {
std::span<const Peer> Sum::peers() { return {}; }
std::span<const Peer> Amax::peers() { return {}; }
std::span<const Peer> Argmax::peers() { return {}; }
}  // namespace ws::reduce

#else

#include "catalogue/peers/cub.hpp"

#include <thrust/iterator/counting_iterator.h>
#include <thrust/iterator/transform_iterator.h>
#include <cub/device/device_reduce.cuh>
#include <cub/device/device_segmented_reduce.cuh>

namespace ws::reduce {
namespace {

struct ToFloat {
  template <class T>
  __device__ __forceinline__ float operator()(T x) const {
    return static_cast<float>(x);
  }
};
struct Plus {
  __device__ __forceinline__ float operator()(float a, float b) const { return a + b; }
};

// Each calls CUB; without `memory` it says how many bytes of it there must be.
struct SumAll {
  static constexpr DTypes kTaken = kFloats;
  template <class T>
  static cudaError_t run(const Sum::Call& call, void* memory, size_t& bytes, Stream stream) {
    const auto* x = static_cast<const T*>(call.inputs[0]);
    auto* y = static_cast<T*>(call.output);
    if constexpr (std::is_same_v<T, float>) {
      return cub::DeviceReduce::Sum(memory, bytes, x, y, call.count, stream);
    } else {  // in f32, as the rungs
      return cub::DeviceReduce::TransformReduce(memory, bytes, x, y, call.count, Plus{}, ToFloat{},
                                                0.0F, stream);
    }
  }
};
struct SumRows {
  static constexpr DTypes kTaken = kF32;
  struct Start {
    int64_t pitch;
    __device__ __forceinline__ int64_t operator()(int64_t row) const { return row * pitch; }
  };
  template <class T>
  static cudaError_t run(const Sum::Call& call, void* memory, size_t& bytes, Stream stream) {
    const auto* x = static_cast<const float*>(call.inputs[0]);
    auto* y = static_cast<float*>(call.output);
    const thrust::counting_iterator<int64_t> rows(0);
    const auto starts = thrust::make_transform_iterator(rows, Start{call.count});
    return cub::DeviceSegmentedReduce::Sum(memory, bytes, x, y, call.outputs, starts, starts + 1,
                                           stream);
  }
};
struct MaxAll {
  static constexpr DTypes kTaken = kF32;
  template <class T>
  static cudaError_t run(const Amax::Call& call, void* memory, size_t& bytes, Stream stream) {
    return cub::DeviceReduce::Max(memory, bytes, static_cast<const T*>(call.inputs[0]),
                                  static_cast<T*>(call.output), call.count, stream);
  }
};
struct ArgmaxAll {
  static constexpr DTypes kTaken = kF32 | kBf16;
  // Where the largest value goes, which nobody asked for: 16 bytes before CUB's own memory.
  template <class T>
  static cudaError_t run(const Argmax::Call& call, void* memory, size_t& bytes, Stream stream) {
    constexpr size_t kBefore = 256;
    void* own = memory == nullptr ? nullptr : static_cast<std::byte*>(memory) + kBefore;
    bytes -= std::min(bytes, kBefore);
    const cudaError_t status = cub::DeviceReduce::ArgMax(
        own, bytes, static_cast<const T*>(call.inputs[0]), static_cast<T*>(memory),
        static_cast<int64_t*>(call.output), call.count, stream);
    bytes += kBefore;
    return status;
  }
};

Reason refuse(bool takes, const Reason& what) { return takes ? Reason{} : what; }

template <class Op, class Way>
Reason supports_all(const Problem& problem) {
  const typename Op::Call call = Op::call(problem);
  return refuse(call.has_rows() && call.outputs == 1 && Way::kTaken.has(call.dtype) &&
                    (call.output_dtype == call.dtype || call.output_dtype == DType::kI64),
                concatenate("takes all elements of a dense tensor of ", to_string(Way::kTaken)));
}
Reason supports_rows(const Problem& problem) {
  const Sum::Call call = Sum::call(problem);
  return refuse(call.has_rows() && call.outputs > 1 && call.dtype == DType::kF32 &&
                    call.output_dtype == DType::kF32 && call.kept[0].strides[0] == call.count &&
                    call.kept[0].strides[1] == 1,
                "takes rows of f32 without gaps");
}

template <class Op, class Way>
constexpr Peer whole() {
  return cub_peer::peer<Op, Way>("cub", supports_all<Op, Way>);
}

}  // namespace

std::span<const Peer> Sum::peers() {
  static constexpr Peer kPeers[] = {whole<Sum, SumAll>(),
                                    cub_peer::peer<Sum, SumRows>("cub_segmented", supports_rows)};
  return kPeers;
}
std::span<const Peer> Amax::peers() {
  static constexpr Peer kPeers[] = {whole<Amax, MaxAll>()};
  return kPeers;
}
std::span<const Peer> Argmax::peers() {
  static constexpr Peer kPeers[] = {whole<Argmax, ArgmaxAll>()};
  return kPeers;
}

}  // namespace ws::reduce
#endif
