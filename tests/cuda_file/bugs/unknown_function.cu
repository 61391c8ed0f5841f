// expect: not supported at 4: cudaGetFuncBySymbol, unless it is misspelled
#include <cuda_runtime.h>
__global__ void k() {}
int main() { void* f; return cudaGetFuncBySymbol(&f, (const void*)k); }
