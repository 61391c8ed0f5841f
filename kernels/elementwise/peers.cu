// The peer "cub": cub::DeviceTransform (CCCL, part of the toolkit) with the same functors, so the
// difference is how memory is moved. Only the CUDA build has it.
#include "kernels/elementwise/operations.hpp"

#ifndef __CUDACC__  // the emulated build

namespace ws::elementwise {
std::span<const Peer> peers_at(size_t /*index*/) { return {}; }
}  // namespace ws::elementwise

#else

#include <cub/device/device_transform.cuh>

#include "kernels/elementwise/dispatch.hpp"

namespace ws::elementwise {
namespace {

template <class T, class Functor>
struct Transform {
  Functor f;
  __device__ __forceinline__ T operator()(T x) const {
    const T inputs[1] = {x};
    return apply(f, inputs);
  }
  __device__ __forceinline__ T operator()(T a, T b) const {
    const T inputs[2] = {a, b};
    return apply(f, inputs);
  }
};

template <class Op>
Reason cub_supports(const Problem& problem) {
  Reason reason;
  Why why(&reason);
  needs_flat(Op::call(problem), why);
  return reason;
}

template <class Op>
void cub_run(const Problem& problem, const Context& context) {
  dispatch(Op::call(problem), [&]<class T, class Functor>(const Functor& f) {
    const Pointers<T, Functor::kInputs> at(Op::call(problem));
    const int64_t elements = problem.tensor(Functor::kInputs).elements();
    cudaError_t status = cudaSuccess;
    if constexpr (Functor::kInputs == 1) {
      status = cub::DeviceTransform::Transform(at.inputs[0], at.outputs[0], elements,
                                               Transform<T, Functor>{f}, context.stream);
    } else {
      status = cub::DeviceTransform::Transform(cuda::std::make_tuple(at.inputs[0], at.inputs[1]),
                                               at.outputs[0], elements, Transform<T, Functor>{f},
                                               context.stream);
    }
    detail::check_cuda(status, "cub::DeviceTransform::Transform");
  });
}

template <class... Ops>
constexpr std::array<Peer, sizeof...(Ops)> cub_peers(OperationList<Ops...> /*all*/) {
  return {Peer{.name = "cub", .supports = cub_supports<Ops>, .run = cub_run<Ops>}...};
}
constexpr auto kCub = cub_peers(Operations{});

}  // namespace

std::span<const Peer> peers_at(size_t index) { return {&kCub[index], 1}; }

}  // namespace ws::elementwise

#endif
