// expect: assertion at 4: n < 16
#include <cassert>
__global__ void k(int n) {
  assert(n < 16);
}
int main() {
  k<<<1, 32>>>(100);
  return cudaDeviceSynchronize();
}
