// The peer "cub": CCCL's device-wide scans of a vector, part of the toolkit.
// Build: only nvcc reads CUB.
#include "kernels/scan/operations.hpp"

#ifndef __CUDACC__  // the emulated build

namespace ws::scan {
std::span<const Peer> Cumsum::peers() { return {}; }
std::span<const Peer> ScanMax::peers() { return {}; }
}  // namespace ws::scan

#else

#include "catalogue/peers/cub.hpp"

#include <cub/device/device_scan.cuh>

namespace ws::scan {
namespace {

// In f32, as the rungs: what the operator gives is what CUB accumulates in.
struct Plus {
  template <class A, class B>
  using Sum = std::conditional_t<std::is_integral_v<A> && std::is_integral_v<B>, A, float>;

  template <class A, class B>
  __host__ __device__ __forceinline__ Sum<A, B> operator()(A a, B b) const {
    return static_cast<Sum<A, B>>(a) + static_cast<Sum<A, B>>(b);
  }
};
struct Largest {
  template <class T>
  __host__ __device__ __forceinline__ T operator()(T a, T b) const {
    return a < b ? b : a;
  }
};

struct Sums {
  static constexpr DTypes kTaken = kFloats | kWhole;
  template <class T>
  static cudaError_t run(const Scan& call, void* memory, size_t& bytes, Stream stream) {
    const auto* x = static_cast<const T*>(call.input);
    auto* y = static_cast<T*>(call.output);
    return cub::DeviceScan::InclusiveScan(memory, bytes, x, y, Plus{}, call.count, stream);
  }
};
struct Maxima {
  static constexpr DTypes kTaken = kF32 | kWhole;
  template <class T>
  static cudaError_t run(const Scan& call, void* memory, size_t& bytes, Stream stream) {
    const auto* x = static_cast<const T*>(call.input);
    auto* y = static_cast<T*>(call.output);
    return cub::DeviceScan::InclusiveScan(memory, bytes, x, y, Largest{}, call.count, stream);
  }
};

template <class Op, class Way>
Reason supports(const Problem& problem) {
  const Scan call = Op::call(problem);
  const bool takes = call.has_rows() && call.lines == 1 && !call.exclusive && !call.reverse &&
                     Way::kTaken.has(call.dtype) && call.output_dtype == call.dtype;
  return takes
             ? Reason{}
             : concatenate("takes vectors of ", to_string(Way::kTaken), ", scanned from the front");
}

template <class Op, class Way>
constexpr Peer peer() {
  return cub_peer::peer<Op, Way>("cub", supports<Op, Way>);
}

}  // namespace

std::span<const Peer> Cumsum::peers() {
  static constexpr Peer kPeers[] = {peer<Cumsum, Sums>()};
  return kPeers;
}
std::span<const Peer> ScanMax::peers() {
  static constexpr Peer kPeers[] = {peer<ScanMax, Maxima>()};
  return kPeers;
}

}  // namespace ws::scan
#endif
