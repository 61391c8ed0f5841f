// The peer "cub": cub::DeviceTransform (CCCL, part of the toolkit) with the same functors, so the
// difference is how memory is moved. Apart from elementwise.cu because its headers take long.
#include "kernels/elementwise/peers.hpp"

#ifndef WS_EMULATED
#include <cub/device/device_transform.cuh>

#include "kernels/elementwise/02_vector.cuh"

namespace ws::elementwise {
namespace {

template <class T, class Op>
struct Transform {
  Op op;
  __device__ __forceinline__ T operator()(T x) const {
    const T inputs[1] = {x};
    return apply(op, inputs);
  }
  __device__ __forceinline__ T operator()(T a, T b) const {
    const T inputs[2] = {a, b};
    return apply(op, inputs);
  }
};

}  // namespace

Reason supports_cub(const Problem& problem) { return needs_flat(problem); }

void run_cub(const Problem& problem, const Context& context) {
  dispatch(problem, [&]<class Op, class T>(const Op& op, T) {
    const Operands<T, Op::kInputs> operands(problem);
    const int64_t elements = problem.tensor(Op::kInputs).elements();
    cudaError_t status = cudaSuccess;
    if constexpr (Op::kInputs == 1) {
      status = cub::DeviceTransform::Transform(operands.inputs[0], operands.output, elements,
                                               Transform<T, Op>{op}, context.stream);
    } else {
      status = cub::DeviceTransform::Transform(
          cuda::std::make_tuple(operands.inputs[0], operands.inputs[1]), operands.output, elements,
          Transform<T, Op>{op}, context.stream);
    }
    detail::check_cuda(status, "cub::DeviceTransform::Transform");
  });
}

}  // namespace ws::elementwise
#endif
