// expect: illegal address at 4: the host's memory
#include <vector>
__global__ void k(float* out) { 
  out[threadIdx.x] = 1;
}
int main() { std::vector<float> d(64); k<<<1, 64>>>(d.data()); cudaDeviceSynchronize(); }
