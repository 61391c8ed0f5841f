// __device__ lambdas and functors through templates, variadic kernels, a device class with operators, recursion.
#include <cstdio>
#include <cmath>
#include <type_traits>
template <class F, class... Args>
__global__ void for_each(int n, F f, Args... args) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) f(i, args...);
}
template <class F>
void parallel_for(int n, F&& f, cudaStream_t stream = 0) {
  if (n <= 0) return;
  for_each<<<(n + 127) / 128, 128, 0, stream>>>(n, f);
}
struct Complex {
  float re, im;
  __host__ __device__ Complex(float r = 0, float i = 0) : re(r), im(i) {}
  __host__ __device__ Complex operator*(const Complex& o) const { return {re * o.re - im * o.im, re * o.im + im * o.re}; }
  __host__ __device__ friend Complex operator+(Complex a, const Complex& b) { return a.re += b.re, a.im += b.im, a; }
  __device__ __forceinline__ float norm2() const { return fmaf(re, re, im * im); }
};
template <typename T> struct Saxpy {
  T a;
  __device__ void operator()(int i, const T* x, T* y) const { y[i] = a * x[i] + y[i]; }
};
__host__ __device__ constexpr int fib(int n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }
__device__ int ackermann(int m, int n) { return m == 0 ? n + 1 : n == 0 ? ackermann(m - 1, 1) : ackermann(m - 1, ackermann(m, n - 1)); }
enum class Op : unsigned char { Add, Mul };
template <Op op, typename T> __device__ T apply(T a, T b) {
  if constexpr (op == Op::Add) return a + b; else return a * b;
}
namespace detail { template <Op op, typename T, std::enable_if_t<std::is_arithmetic_v<T>, int> = 0>
__global__ void zip(const T* a, const T* b, T* c, int n) { int i = threadIdx.x; if (i < n) c[i] = apply<op>(a[i], b[i]); } }
typedef float (*unary)(float);
__device__ float square(float x) { return x * x; }
__device__ unary table[2] = {square, sqrtf};
__global__ void by_table(float* x, int n) { int i = threadIdx.x; if (i < n) x[i] = table[i & 1](x[i]); }
int main() {
  const int n = 300;
  float *x, *y; Complex *z; int *k;
  cudaMallocManaged(&x, n * sizeof(float)); cudaMallocManaged(&y, n * sizeof(float));
  cudaMallocManaged(&z, n * sizeof(Complex)); cudaMallocManaged(&k, n * sizeof(int));
  const float shift = 0.5f;
  parallel_for(n, [=] __device__(int i) { x[i] = i + shift; y[i] = 1; });
  for_each<<<2, 64>>>(n, Saxpy<float>{3}, (const float*)x, y);
  parallel_for(n, [=] __host__ __device__(int i) mutable { Complex c(i * 0.01f, 0.5f); z[i] = c * c + Complex(1); if (z[i].norm2() > 4) z[i] = {}; });
  parallel_for(n, [k] __device__(int i) { k[i] = i < 4 ? ackermann(2, i) : fib(i % 10); });
  cudaDeviceSynchronize();
  for (int i = 0; i < n; i++) if (y[i] != 3 * (i + 0.5f) + 1) return 1;
  for (int i = 0; i < n; i++) if (k[i] != (i < 4 ? 2 * i + 3 : fib(i % 10))) return 2;
  if (std::fabs(z[10].re - (0.01f - 0.25f + 1)) > 1e-5f) return 3;
  detail::zip<Op::Mul><<<1, 32>>>(x, y, y, 32);
  by_table<<<1, 32>>>(x, 32);
  cudaDeviceSynchronize();
  if (y[3] != 3.5f * 11.5f || x[2] != 6.25f || x[3] != sqrtf(3.5f)) return 4;
  static_assert(fib(10) == 55, "");
  printf("%s\n", cudaGetErrorName(cudaGetLastError()));
}
