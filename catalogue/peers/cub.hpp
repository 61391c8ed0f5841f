// What peers of CUB have in common: CCCL's device-wide algorithms are called twice, first without
// memory, to say how many bytes of it there must be. Only nvcc reads CUB.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "catalogue/catalogue.hpp"

namespace ws::cub_peer {

// CUDA's own types, which CUB loads 16 bytes at a time.
template <class T>
struct CudaType {
  using Type = T;
};
template <>
struct CudaType<half> {
  using Type = __half;
};
template <>
struct CudaType<bf16> {
  using Type = __nv_bfloat16;
};

// Op's call by Way: kTaken, and run<T>(call, memory, bytes, stream).
template <class Op, class Way>
cudaError_t call(const Problem& problem, void* memory, size_t& bytes, Stream stream) {
  const typename Op::Call typed = Op::call(problem);
  return with_type<Way::kTaken>(typed.dtype, [&]<class T>() {
    return Way::template run<typename CudaType<T>::Type>(typed, memory, bytes, stream);
  });
}
template <class Op, class Way>
size_t workspace(const Problem& problem) {
  size_t bytes = 0;
  detail::check_cuda(call<Op, Way>(problem, nullptr, bytes, nullptr), "cub, bytes it needs");
  return bytes;
}
template <class Op, class Way>
void run(const Problem& problem, const Context& context) {
  size_t bytes = workspace<Op, Way>(problem);
  detail::check_cuda(call<Op, Way>(problem, context.workspace, bytes, context.stream), "cub");
}

template <class Op, class Way>
constexpr Peer peer(std::string_view name, Reason (*supports)(const Problem&)) {
  return {name, supports, workspace<Op, Way>, run<Op, Way>};
}

}  // namespace ws::cub_peer
