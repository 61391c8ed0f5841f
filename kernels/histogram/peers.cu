// The peer "cub": CCCL's device-wide histogram, part of the toolkit. It counts in 32 bits, which is
// its best, and then widens. Of numbers in ranges it leaves out the end of the last bin, which
// torch counts, so that it is no peer of histc and count_between. Build: only nvcc reads CUB.
#include "kernels/histogram/operations.hpp"

#ifndef __CUDACC__  // the emulated build

namespace ws::histogram {
std::span<const Peer> CountBins::peers() { return {}; }
}  // namespace ws::histogram

#else

#include "catalogue/peers/cub.hpp"
#include "warpsmith/thread/divide.hpp"

#include <cub/device/device_histogram.cuh>
#include <cub/device/device_transform.cuh>

namespace ws::histogram {
namespace {

struct Widen {
  __device__ __forceinline__ int64_t operator()(int32_t count) const { return count; }
};

// Counts of 32 bits lie before CUB's own memory.
struct Even {
  static constexpr DTypes kTaken = {DType::kI32, DType::kU8};
  template <class T>
  static cudaError_t run(const CountBins::Call& call, void* memory, size_t& bytes, Stream stream) {
    const size_t before = round_up(static_cast<size_t>(call.bins) * sizeof(int32_t), size_t{256});
    auto* counts = static_cast<int32_t*>(memory);
    void* own = memory == nullptr ? nullptr : static_cast<std::byte*>(memory) + before;
    bytes -= std::min(bytes, before);
    const cudaError_t status = cub::DeviceHistogram::HistogramEven(
        own, bytes, static_cast<const T*>(call.x), counts, static_cast<int>(call.bins + 1), 0,
        static_cast<int>(call.bins), static_cast<int>(call.count), stream);
    bytes += before;
    if (status != cudaSuccess || memory == nullptr) return status;
    return cub::DeviceTransform::Transform(counts, static_cast<int64_t*>(call.output),
                                           static_cast<int>(call.bins), Widen{}, stream);
  }
};

Reason supports(const Problem& problem) {
  const CountBins::Call call = CountBins::call(problem);
  const bool takes = Even::kTaken.has(call.dtype) && call.is_dense() && call.output_stride == 1;
  if (takes && call.count > 0 && call.count < int64_t{1} << 31) return {};
  return concatenate("takes elements of a dense tensor of ", to_string(Even::kTaken));
}

}  // namespace

std::span<const Peer> CountBins::peers() {
  static constexpr Peer kPeers[] = {cub_peer::peer<CountBins, Even>("cub", supports)};
  return kPeers;
}

}  // namespace ws::histogram
#endif
