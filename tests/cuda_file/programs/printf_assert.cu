// printf and assert on the device, built-ins through variable arguments, strings.
// output: thread 3 of block 1: 7 of 8 threads, half way 3.5
#include <cassert>
#include <cstdio>
struct Item { int key; const char *name; };
__global__ void hello(Item item) {
  assert(item.key == 42 && "the answer");
  int id = threadIdx.x + blockIdx.x * blockDim.x;
  if (id == 7) printf("thread %d of block %u: %d of %d threads, half way %.1f\n", threadIdx.x, blockIdx.x, id, blockDim.x * gridDim.x, id / 2.0);
  if (id == 0) printf("%s %d\n", item.name, warpSize);
}
int main() {
  hello<<<2, 4>>>({42, "item"});
  return cudaDeviceSynchronize();
}
