// Tensor cores on bytes: signed and unsigned, all three shapes, sums that no float could hold, saturation.
#include <cuda_runtime.h>
#include <mma.h>
#include <climits>
#include <cstdint>
#include <cstdio>
#include <vector>
using namespace nvcuda;

template <class T, int M, int N, int K>
__global__ void product(const T* a, const T* b, const int* c, int* d, int depth, bool saturate) {
  wmma::fragment<wmma::matrix_a, M, N, K, T, wmma::row_major> fa;
  wmma::fragment<wmma::matrix_b, M, N, K, T, wmma::col_major> fb;
  wmma::fragment<wmma::accumulator, M, N, K, int> sum;
  wmma::load_matrix_sync(sum, c, N, wmma::mem_row_major);
  for (int k = 0; k < depth; k += K) {
    wmma::load_matrix_sync(fa, a + k, depth);
    wmma::load_matrix_sync(fb, b + k, depth);
    if (saturate) wmma::mma_sync(sum, fa, fb, sum, true);
    else wmma::mma_sync(sum, fa, fb, sum);
  }
  for (int i = 0; i < sum.num_elements; ++i) sum.x[i] = saturate ? sum.x[i] : -sum.x[i];
  wmma::store_matrix_sync(d, sum, N, wmma::mem_row_major);
}

template <class T, int M, int N>
bool check(int low, int high, int beginning, bool saturate = false) {
  const int K = 32;
  std::vector<T> a(M * K), b(K * N);
  std::vector<int> c(M * N, beginning), d(M * N);
  for (int i = 0; i < M * K; ++i) a[i] = low + (i * 37) % (high - low + 1);
  for (int i = 0; i < K * N; ++i) b[i] = high - (i * 11) % 3;
  T *da, *db; int *dc, *dd;
  cudaMalloc(&da, a.size()); cudaMalloc(&db, b.size()); cudaMalloc(&dc, 4 * c.size()); cudaMalloc(&dd, 4 * d.size());
  cudaMemcpy(da, a.data(), a.size(), cudaMemcpyHostToDevice);
  cudaMemcpy(db, b.data(), b.size(), cudaMemcpyHostToDevice);
  cudaMemcpy(dc, c.data(), 4 * c.size(), cudaMemcpyHostToDevice);
  product<T, M, N, 16><<<1, 32>>>(da, db, dc, dd, K, saturate);
  cudaMemcpy(d.data(), dd, 4 * d.size(), cudaMemcpyDeviceToHost);
  for (int i = 0; i < M; ++i)
    for (int j = 0; j < N; ++j) {
      long long want = beginning;
      for (int k = 0; k < K; ++k) {
        want += int(a[i * K + k]) * int(b[j * K + k]);
        if (saturate && k % 16 == 15) want = want > INT_MAX ? INT_MAX : want;
      }
      if (!saturate) want = -want;
      if (d[i * N + j] != want) return printf("%dx%d: %d, not %lld\n", M, N, d[i * N + j], want), false;
    }
  return true;
}
int main() {
  // 2^24 and more: a float would lose the units.
  const bool ok = check<int8_t, 16, 16>(-128, 127, 1 << 26) && check<int8_t, 32, 8>(-128, 127, (1 << 26) + 1) &&
                  check<signed char, 8, 32>(-5, 127, -(1 << 30) - 1) && check<unsigned char, 16, 16>(0, 255, 16777217) &&
                  check<uint8_t, 8, 32>(3, 255, 3) && check<uint8_t, 32, 8>(200, 255, INT_MAX - 7, true);
  puts(ok ? "bytes: exact" : "wrong");
  return !ok;
}
