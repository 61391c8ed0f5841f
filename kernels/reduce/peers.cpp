// cuBLAS as the peer of dot. CUB, which only nvcc reads, is in peers.cu.
#include "catalogue/peers/cublas.hpp"
#include "kernels/reduce/operations.hpp"

namespace ws::reduce {
namespace {

#ifdef WS_HAS_CUBLAS
Reason supports(const Problem& problem) {
  if (Reason reason = peers::cublas_missing(); !reason.empty()) return reason;
  for (int i = 0; i < 2; ++i) {
    const Tensor& tensor = problem.tensor(i);
    if (tensor.elements() == 0) return "takes no empty vector";
    // BLAS starts from the other end where a stride is negative.
    if (tensor.stride(0) < 1) return concatenate("takes strides from 1 on, not ", tensor);
  }
  return {};
}

size_t workspace(const Problem& /*problem*/) { return peers::kCublasWorkspace; }

void run(const Problem& problem, const Context& context) {
  static const auto dot = peers::cublas_function<decltype(cublasDotEx_64)>("cublasDotEx_64");
  const Tensor& a = problem.tensor(0);
  const Tensor& b = problem.tensor(1);
  const cudaDataType_t type = a.dtype == DType::kF64   ? CUDA_R_64F
                              : a.dtype == DType::kF32 ? CUDA_R_32F
                              : a.dtype == DType::kF16 ? CUDA_R_16F
                                                       : CUDA_R_16BF;
  const cudaDataType_t computed = a.dtype == DType::kF64 ? CUDA_R_64F : CUDA_R_32F;
  peers::check_cublas(dot(peers::cublas_handle(context), a.elements(), a.data, type, a.stride(0),
                          b.data, type, b.stride(0), problem.tensor(2).data, type, computed),
                      "cublasDotEx");
}

constexpr Peer kDot[] = {{"cublas", supports, workspace, run}};
#else
// Listed all the same, so that it is said why there are no figures.
constexpr Peer kDot[] = {
    {"cublas", [](const Problem& /*problem*/) { return peers::cublas_missing(); }, nullptr,
     [](const Problem& /*problem*/, const Context& /*context*/) {
       throw Error(peers::cublas_missing());
     }}};
#endif

}  // namespace

std::span<const Peer> Dot::peers() { return kDot; }

}  // namespace ws::reduce
