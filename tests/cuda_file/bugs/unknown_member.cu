// expect: not supported at 5: cudaDeviceProp::hostNativeAtomicSupported, unless it is misspelled
#include <cstdio>
int main() {
  cudaDeviceProp p; cudaGetDeviceProperties(&p, 0);
  printf("%d\n", p.hostNativeAtomicSupported);
}
