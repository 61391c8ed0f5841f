// output: PASS
// All pairs of bodies, by tiles in dynamic shared memory; float4, float3, rsqrtf.
#include <cmath>
#include <cstdio>
#include <vector>

__device__ float3 interaction(float4 bi, float4 bj, float3 ai) {
  const float3 r = make_float3(bj.x - bi.x, bj.y - bi.y, bj.z - bi.z);
  const float distance2 = r.x * r.x + r.y * r.y + r.z * r.z + 1e-2f;
  const float inverse = rsqrtf(distance2);
  const float s = bj.w * inverse * inverse * inverse;
  ai.x += r.x * s;
  ai.y += r.y * s;
  ai.z += r.z * s;
  return ai;
}

__global__ void forces(const float4* positions, float3* accelerations, int n) {
  extern __shared__ float4 tile[];
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  const float4 mine = i < n ? positions[i] : make_float4(0, 0, 0, 0);
  float3 a = {0.0f, 0.0f, 0.0f};
  for (int first = 0; first < n; first += blockDim.x) {
    const int j = first + threadIdx.x;
    tile[threadIdx.x] = j < n ? positions[j] : make_float4(0, 0, 0, 0);
    __syncthreads();
    for (int k = 0; k < blockDim.x; ++k) a = interaction(mine, tile[k], a);
    __syncthreads();
  }
  if (i < n) accelerations[i] = a;
}

int main() {
  const int n = 150, threads = 64;
  std::vector<float4> positions(n);
  for (int i = 0; i < n; ++i) {
    positions[i] = make_float4(sinf(i), cosf(2.0f * i), sinf(3.0f * i), 1.0f + i % 3);
  }
  float4* p;
  float3* a;
  cudaMalloc(&p, n * sizeof(float4));
  cudaMalloc(&a, n * sizeof(float3));
  cudaMemcpy(p, positions.data(), n * sizeof(float4), cudaMemcpyHostToDevice);
  forces<<<(n + threads - 1) / threads, threads, threads * sizeof(float4)>>>(p, a, n);
  std::vector<float3> got(n);
  cudaMemcpy(got.data(), a, n * sizeof(float3), cudaMemcpyDeviceToHost);
  double worst = 0;
  for (int i = 0; i < n; ++i) {
    double x = 0;
    for (int j = 0; j < n; ++j) {
      const double dx = positions[j].x - positions[i].x, dy = positions[j].y - positions[i].y,
                   dz = positions[j].z - positions[i].z;
      x += positions[j].w * dx / std::pow(dx * dx + dy * dy + dz * dz + 1e-2, 1.5);
    }
    worst = std::fmax(worst, std::fabs(x - got[i].x) / (1 + std::fabs(x)));
  }
  std::printf("%s\n", worst < 1e-4 ? "PASS" : "FAIL");
  return worst < 1e-4 ? 0 : 1;
}
