// Tensor cores through wmma: f16 with f32 sums, bf16, tf32, other shapes.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <mma.h>
#include <cmath>
#include <cstdio>
#include <vector>
using namespace nvcuda;

template <class T, int WMMA_M, int WMMA_N, int WMMA_K>
__global__ void wmma_example(const T *a, const T *b, float *c, int M, int N, int K, float alpha, float beta) {
  int warpM = (blockIdx.x * blockDim.x + threadIdx.x) / warpSize;
  int warpN = (blockIdx.y * blockDim.y + threadIdx.y);
  wmma::fragment<wmma::matrix_a, WMMA_M, WMMA_N, WMMA_K, T, wmma::row_major> a_frag;
  wmma::fragment<wmma::matrix_b, WMMA_M, WMMA_N, WMMA_K, T, wmma::col_major> b_frag;
  wmma::fragment<wmma::accumulator, WMMA_M, WMMA_N, WMMA_K, float> acc_frag;
  wmma::fragment<wmma::accumulator, WMMA_M, WMMA_N, WMMA_K, float> c_frag;
  wmma::fill_fragment(acc_frag, 0.0f);
  for (int i = 0; i < K; i += WMMA_K) {
    wmma::load_matrix_sync(a_frag, a + warpM * WMMA_M * K + i, K);
    wmma::load_matrix_sync(b_frag, b + warpN * WMMA_N * K + i, K);
    wmma::mma_sync(acc_frag, a_frag, b_frag, acc_frag);
  }
  float *at = c + warpM * WMMA_M * N + warpN * WMMA_N;
  wmma::load_matrix_sync(c_frag, at, N, wmma::mem_row_major);
  for (int i = 0; i < c_frag.num_elements; i++) c_frag.x[i] = alpha * acc_frag.x[i] + beta * c_frag.x[i];
  wmma::store_matrix_sync(at, c_frag, N, wmma::mem_row_major);
}

__global__ void tf32_tile(const float *a, const float *b, float *c) {
  wmma::fragment<wmma::matrix_a, 16, 16, 8, wmma::precision::tf32, wmma::row_major> fa;
  wmma::fragment<wmma::matrix_b, 16, 16, 8, wmma::precision::tf32, wmma::row_major> fb;
  wmma::fragment<wmma::accumulator, 16, 16, 8, float> fc;
  wmma::fill_fragment(fc, 0.0f);
  wmma::load_matrix_sync(fa, a, 8);
  wmma::load_matrix_sync(fb, b, 16);
  for (int t = 0; t < fa.num_elements; t++) fa.x[t] = wmma::__float_to_tf32(fa.x[t]);
  wmma::mma_sync(fc, fa, fb, fc);
  wmma::store_matrix_sync(c, fc, 16, wmma::mem_row_major);
}

template <class T, int M_, int N_, int K_>
bool test() {
  const int M = 64, N = 32, K = 32;
  std::vector<T> a(M * K), b(N * K);
  std::vector<float> c(M * N, 2.0f), ref(M * N);
  for (int i = 0; i < M * K; ++i) a[i] = T(float(i % 5 - 2));
  for (int i = 0; i < N * K; ++i) b[i] = T(float(i % 7 - 3));
  for (int m = 0; m < M; ++m)
    for (int n = 0; n < N; ++n) {
      float sum = 0;
      for (int k = 0; k < K; ++k) sum += float(a[m * K + k]) * float(b[n * K + k]);
      ref[m * N + n] = 3 * sum + 0.5f * 2.0f;
    }
  T *da, *db;
  float *dc;
  cudaMalloc(&da, a.size() * sizeof(T));
  cudaMalloc(&db, b.size() * sizeof(T));
  cudaMalloc(&dc, c.size() * 4);
  cudaMemcpy(da, a.data(), a.size() * sizeof(T), cudaMemcpyHostToDevice);
  cudaMemcpy(db, b.data(), b.size() * sizeof(T), cudaMemcpyHostToDevice);
  cudaMemcpy(dc, c.data(), c.size() * 4, cudaMemcpyHostToDevice);
  dim3 block(64, 1), grid(M / M_ / 2 > 0 ? M / M_ / 2 : 1, N / N_);
  wmma_example<T, M_, N_, K_><<<grid, block>>>(da, db, dc, M, N, K, 3.0f, 0.5f);
  cudaMemcpy(c.data(), dc, c.size() * 4, cudaMemcpyDeviceToHost);
  return c == ref;
}

int main() {
  if (!test<half, 16, 16, 16>()) return 1;
  if (!test<__nv_bfloat16, 16, 16, 16>()) return 2;
  if (!test<half, 32, 8, 16>()) return 3;
  if (!test<half, 8, 32, 16>()) return 4;
  float a[128], b[128], c[256], *da, *db, *dc;
  for (int i = 0; i < 128; ++i) { a[i] = i % 3; b[i] = i % 4; }
  cudaMalloc(&da, sizeof a);
  cudaMalloc(&db, sizeof b);
  cudaMalloc(&dc, sizeof c);
  cudaMemcpy(da, a, sizeof a, cudaMemcpyHostToDevice);
  cudaMemcpy(db, b, sizeof b, cudaMemcpyHostToDevice);
  tf32_tile<<<1, 32>>>(da, db, dc);
  cudaMemcpy(c, dc, sizeof c, cudaMemcpyDeviceToHost);
  for (int i = 0; i < 16; ++i)
    for (int j = 0; j < 16; ++j) {
      float e = 0;
      for (int k = 0; k < 8; ++k) e += a[i * 8 + k] * b[k * 16 + j];
      if (e != c[i * 16 + j]) return 5;
    }
  return 0;
}
