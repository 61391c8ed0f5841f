// output: PASS
// Attention with an online softmax over tiles of keys, one query a thread; several arrays in one
// dynamic allocation.
#include <cmath>
#include <cstdio>
#include <random>
#include <vector>

__global__ void forward(const float* Q, const float* K, const float* V, float* O, const int N,
                        const int d, const int Tc, const int Bc, const float scale) {
  const int tx = threadIdx.x;
  const int head = blockIdx.x * N * d;
  extern __shared__ float sram[];
  float* Kj = sram;
  float* Vj = &sram[Bc * d];
  float* S = &sram[2 * Bc * d];
  const int row = blockIdx.y * blockDim.x + tx;
  float m = -INFINITY, l = 0;
  for (int x = 0; x < d; x++) O[head + row * d + x] = 0;
  for (int j = 0; j < Tc; j++) {
    for (int x = tx; x < Bc * d; x += blockDim.x) {
      Kj[x] = K[head + j * Bc * d + x];
      Vj[x] = V[head + j * Bc * d + x];
    }
    __syncthreads();
    float row_m = m;
    for (int y = 0; y < Bc; y++) {
      float sum = 0;
      for (int x = 0; x < d; x++) sum += Q[head + row * d + x] * Kj[y * d + x];
      S[tx * Bc + y] = sum * scale;
      row_m = fmaxf(row_m, S[tx * Bc + y]);
    }
    const float correct = __expf(m - row_m);
    float row_l = 0;
    for (int y = 0; y < Bc; y++) {
      S[tx * Bc + y] = __expf(S[tx * Bc + y] - row_m);
      row_l += S[tx * Bc + y];
    }
    for (int x = 0; x < d; x++) {
      float pv = 0;
      for (int y = 0; y < Bc; y++) pv += S[tx * Bc + y] * Vj[y * d + x];
      O[head + row * d + x] = O[head + row * d + x] * correct + pv;
    }
    l = l * correct + row_l;
    m = row_m;
    __syncthreads();
  }
  for (int x = 0; x < d; x++) O[head + row * d + x] /= l;
}

int main() {
  const int heads = 2, N = 64, d = 16, Bc = 16, Br = 32;
  const int count = heads * N * d;
  std::mt19937 random(7);
  std::normal_distribution<float> normal;
  std::vector<float> q(count), k(count), v(count), o(count);
  for (auto* matrix : {&q, &k, &v})
    for (float& value : *matrix) value = normal(random);
  float* device[4];
  for (auto& pointer : device) cudaMalloc(&pointer, count * sizeof(float));
  cudaMemcpy(device[0], q.data(), count * sizeof(float), cudaMemcpyHostToDevice);
  cudaMemcpy(device[1], k.data(), count * sizeof(float), cudaMemcpyHostToDevice);
  cudaMemcpy(device[2], v.data(), count * sizeof(float), cudaMemcpyHostToDevice);
  const size_t sram_size = (2 * Bc * d + Br * Bc) * sizeof(float);
  forward<<<dim3(heads, N / Br), dim3(Br), sram_size>>>(device[0], device[1], device[2], device[3],
                                                        N, d, N / Bc, Bc, 1.0 / sqrt(d));
  cudaMemcpy(o.data(), device[3], count * sizeof(float), cudaMemcpyDeviceToHost);
  double worst = 0;
  for (int h = 0; h < heads; ++h)
    for (int i = 0; i < N; ++i) {
      std::vector<double> p(N);
      double sum = 0;
      for (int j = 0; j < N; ++j) {
        double s = 0;
        for (int x = 0; x < d; ++x) s += q[(h * N + i) * d + x] * k[(h * N + j) * d + x];
        sum += p[j] = std::exp(s / std::sqrt(d));
      }
      for (int x = 0; x < d; ++x) {
        double expected = 0;
        for (int j = 0; j < N; ++j) expected += p[j] / sum * v[(h * N + j) * d + x];
        worst = std::fmax(worst, std::fabs(expected - o[(h * N + i) * d + x]));
      }
    }
  std::printf("%s\n", worst < 1e-4 ? "PASS" : "FAIL");
  return worst < 1e-4 ? 0 : 1;
}
