// cuBLAS, two ways: its matrix-vector products, and its matrix product with one column.
#include "catalogue/peers/cublas.hpp"
#include "kernels/gemv/operations.hpp"

namespace ws::gemv {
namespace {

#ifdef WS_HAS_CUBLAS
cudaDataType_t type_of(DType dtype) {
  return dtype == DType::kF32 ? CUDA_R_32F : dtype == DType::kF16 ? CUDA_R_16F : CUDA_R_16BF;
}

// A as BLAS has it, which counts in columns: contiguous runs of `length` elements, `leading` apart.
struct Matrix {
  cublasOperation_t operation;
  int64_t length, runs, leading;

  explicit Matrix(const Call& call) {
    const bool by_rows = call.has_rows();
    operation = by_rows ? CUBLAS_OP_T : CUBLAS_OP_N;
    length = by_rows ? call.k : call.m;
    runs = by_rows ? call.m : call.k;
    leading = runs <= 1 ? length : by_rows ? call.row : call.column;
  }
};

Reason supports(const Problem& problem) {
  if (Reason reason = peers::cublas_missing(); !reason.empty()) return reason;
  const Call call = Gemv::call(problem);
  if (call.m == 0 || call.k == 0) return "takes no empty matrix";
  if (!call.has_rows() && !call.has_columns()) return "takes an a with a stride of 1";
  if (const Matrix a(call); a.leading < a.length) return "takes no runs that overlap";
  if (call.x_step < 1 || call.y_step < 1) return "takes strides from 1 on";
  return {};
}
Reason product_supports(const Problem& problem) {
  if (Reason reason = supports(problem); !reason.empty()) return reason;
  const Call call = Gemv::call(problem);
  return call.x_step == 1 && call.y_step == 1 ? "" : "takes an x and a y without gaps";
}

size_t workspace(const Problem& /*problem*/) { return peers::kCublasWorkspace; }

constexpr float kOne = 1;
constexpr float kZero = 0;

void run(const Problem& problem, const Context& context) {
  const Call call = Gemv::call(problem);
  const Matrix a(call);
  const auto handle = peers::cublas_handle(context, CUBLAS_POINTER_MODE_HOST);
  if (call.dtype == DType::kF32) {
    static const auto multiply =
        peers::cublas_function<decltype(cublasSgemv_v2_64)>("cublasSgemv_v2_64");
    peers::check_cublas(
        multiply(handle, a.operation, a.length, a.runs, &kOne, static_cast<const float*>(call.a),
                 a.leading, static_cast<const float*>(call.x), call.x_step, &kZero,
                 static_cast<float*>(call.y), call.y_step),
        "cublasSgemv");
    return;
  }
  // 16 bits in and out, f32 between: batched only, here a batch of one.
  const auto batch_of_one = [&]<class T>(auto* multiply, T* /*element*/) {
    peers::check_cublas(
        multiply(handle, a.operation, a.length, a.runs, &kOne, static_cast<const T*>(call.a),
                 a.leading, 0, static_cast<const T*>(call.x), call.x_step, 0, &kZero,
                 static_cast<T*>(call.y), call.y_step, 0, 1),
        "cublasHSHgemvStridedBatched, cublasTSTgemvStridedBatched");
  };
  if (call.dtype == DType::kF16) {
    static const auto multiply = peers::cublas_function<decltype(cublasHSHgemvStridedBatched_64)>(
        "cublasHSHgemvStridedBatched_64");
    batch_of_one(multiply, static_cast<__half*>(nullptr));
  } else {
    static const auto multiply = peers::cublas_function<decltype(cublasTSTgemvStridedBatched_64)>(
        "cublasTSTgemvStridedBatched_64");
    batch_of_one(multiply, static_cast<__nv_bfloat16*>(nullptr));
  }
}

void product(const Problem& problem, const Context& context) {
  static const auto multiply = peers::cublas_function<decltype(cublasGemmEx_64)>("cublasGemmEx_64");
  const Call call = Gemv::call(problem);
  const Matrix a(call);
  const cudaDataType_t type = type_of(call.dtype);
  peers::check_cublas(
      multiply(peers::cublas_handle(context, CUBLAS_POINTER_MODE_HOST), a.operation, CUBLAS_OP_N,
               call.m, 1, call.k, &kOne, call.a, type, a.leading, call.x, type, call.k, &kZero,
               call.y, type, call.m, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT),
      "cublasGemmEx");
}

constexpr Peer kPeers[] = {{"cublas", supports, workspace, run},
                           {"cublas_gemm", product_supports, workspace, product}};
#else
// Listed all the same, so that it is said why there are no figures.
constexpr Peer kPeers[] = {
    {"cublas", [](const Problem& /*problem*/) { return peers::cublas_missing(); }, nullptr,
     [](const Problem& /*problem*/, const Context& /*context*/) {
       throw Error(peers::cublas_missing());
     }}};
#endif

}  // namespace

std::span<const Peer> Gemv::peers() { return kPeers; }

}  // namespace ws::gemv
