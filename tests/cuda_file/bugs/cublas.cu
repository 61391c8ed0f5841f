// expect: not supported at 3: cuBLAS
#include <cuda_runtime.h>
#include <cublas_v2.h>
int main() { cublasHandle_t h; return 0; }
