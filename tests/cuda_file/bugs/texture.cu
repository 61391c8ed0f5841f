// expect: not supported at 3: textures
#include <cuda_runtime.h>
texture<float, 2> tex;
__global__ void k(float* out) { out[0] = tex2D(tex, 0.5f, 0.5f); }
int main() { return 0; }
