// output: PASS
// 8 x 8 a thread, float4 loads, A transposed in shared memory; constants as template parameters.
#include <cstdio>
#include <vector>

#define OFFSET(row, col, ld) ((row) * (ld) + (col))
#define FETCH_FLOAT4(pointer) (reinterpret_cast<const float4*>(&(pointer))[0])

template <const int BM, const int BN, const int BK, const int TM, const int TN>
__global__ void __launch_bounds__((BM * BN) / (TM * TN), 1)
    sgemm(int M, int N, int K, float alpha, const float* A, const float* B, float beta, float* C) {
  __shared__ float As[BK * BM];
  __shared__ float Bs[BK * BN];
  const int threads = (BM * BN) / (TM * TN);
  const int tx = threadIdx.x % (BN / TN), ty = threadIdx.x / (BN / TN);
  A += blockIdx.y * BM * K;
  B += blockIdx.x * BN;
  C += blockIdx.y * BM * N + blockIdx.x * BN;
  float results[TM][TN] = {0.0f};
  float regM[TM], regN[TN];
  for (int k = 0; k < K; k += BK) {
    for (int i = threadIdx.x * 4; i < BM * BK; i += threads * 4) {
      const int row = i / BK, col = i % BK;
      const float4 tmp = FETCH_FLOAT4(A[OFFSET(row, col, K)]);
      As[OFFSET(col + 0, row, BM)] = tmp.x;
      As[OFFSET(col + 1, row, BM)] = tmp.y;
      As[OFFSET(col + 2, row, BM)] = tmp.z;
      As[OFFSET(col + 3, row, BM)] = tmp.w;
    }
    for (int i = threadIdx.x * 4; i < BK * BN; i += threads * 4) {
      reinterpret_cast<float4*>(&Bs[i])[0] = FETCH_FLOAT4(B[OFFSET(i / BN, i % BN, N)]);
    }
    __syncthreads();
    A += BK;
    B += BK * N;
    for (int dot = 0; dot < BK; ++dot) {
      for (int i = 0; i < TM; ++i) regM[i] = As[OFFSET(dot, ty * TM + i, BM)];
      for (int i = 0; i < TN; ++i) regN[i] = Bs[OFFSET(dot, tx * TN + i, BN)];
      for (int i = 0; i < TM; ++i)
        for (int j = 0; j < TN; ++j) results[i][j] += regM[i] * regN[j];
    }
    __syncthreads();
  }
  for (int i = 0; i < TM; ++i)
    for (int j = 0; j < TN; ++j) {
      float& c = C[OFFSET(ty * TM + i, tx * TN + j, N)];
      c = alpha * results[i][j] + beta * c;
    }
}

int main() {
  const int m = 128, n = 64, k = 24;
  std::vector<float> a(m * k), b(k * n), c(m * n, 1.0f);
  for (size_t i = 0; i < a.size(); ++i) a[i] = float(i % 5) - 2;
  for (size_t i = 0; i < b.size(); ++i) b[i] = float(i % 7) - 3;
  float *da, *db, *dc;
  cudaMalloc(&da, a.size() * 4);
  cudaMalloc(&db, b.size() * 4);
  cudaMalloc(&dc, c.size() * 4);
  cudaMemcpy(da, a.data(), a.size() * 4, cudaMemcpyHostToDevice);
  cudaMemcpy(db, b.data(), b.size() * 4, cudaMemcpyHostToDevice);
  cudaMemcpy(dc, c.data(), c.size() * 4, cudaMemcpyHostToDevice);
  constexpr int BM = 64, BN = 64, BK = 8;
  sgemm<BM, BN, BK, 8, 8><<<dim3(n / BN, m / BM), BM * BN / 64>>>(m, n, k, 2.0f, da, db, 3.0f, dc);
  std::vector<float> got(c.size());
  cudaMemcpy(got.data(), dc, c.size() * 4, cudaMemcpyDeviceToHost);
  int wrong = 0;
  for (int i = 0; i < m; ++i)
    for (int j = 0; j < n; ++j) {
      float sum = 0;
      for (int x = 0; x < k; ++x) sum += a[i * k + x] * b[x * n + j];
      wrong += got[i * n + j] != 2.0f * sum + 3.0f;
    }
  std::printf("%s\n", wrong ? "FAIL" : "PASS");
  return wrong;
}
