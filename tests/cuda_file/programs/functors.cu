// Functors, lambdas, classes with members for both sides, templates over operations.
#include <algorithm>
#include <cstdio>
#include <functional>
#include <numeric>
#include <vector>

template <typename T>
struct Multiply {
  T factor;
  __host__ __device__ explicit Multiply(T f) : factor(f) {}
  __host__ __device__ T operator()(T x) const { return factor * x; }
};
class Complex {
 public:
  __host__ __device__ Complex(float r = 0, float i = 0) : re_(r), im_(i) {}
  __host__ __device__ Complex operator*(const Complex& o) const {
    return Complex(re_ * o.re_ - im_ * o.im_, re_ * o.im_ + im_ * o.re_);
  }
  __host__ __device__ Complex& operator+=(const Complex& o) { re_ += o.re_; im_ += o.im_; return *this; }
  __host__ __device__ float norm() const { return re_ * re_ + im_ * im_; }
 private:
  float re_, im_;
};
template <class In, class Out, class F>
__global__ void transform(const In* in, Out* out, int n, F f) {
  for (int i = threadIdx.x + blockIdx.x * blockDim.x; i < n; i += blockDim.x * gridDim.x) out[i] = f(in[i]);
}
template <class F>
__global__ void for_each(int n, F f) {
  const int i = threadIdx.x + blockIdx.x * blockDim.x;
  if (i < n) f(i);
}
__global__ void mandelbrot(int* out, int width, int height) {
  auto x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x >= width || y >= height) return;
  Complex c(-2.0f + 3.0f * x / width, -1.0f + 2.0f * y / height), z;
  int i = 0;
  for (; i < 20 && z.norm() < 4.0f; ++i) { Complex s = z * z; s += c; z = s; }
  out[y * width + x] = i;
}
int main() {
  constexpr int n = 100;
  std::vector<float> h(n), r(n);
  std::iota(h.begin(), h.end(), 0.f);
  float *in, *out;
  cudaMalloc(&in, n * sizeof(float));
  cudaMalloc(&out, n * sizeof(float));
  cudaMemcpy(in, h.data(), n * sizeof(float), cudaMemcpyHostToDevice);
  transform<<<2, 32>>>(in, out, n, Multiply<float>{3.0f});
  float shift = 7.0f;
  for_each<<<4, 32>>>(n, [=] __device__ (int i) { out[i] += shift; });
  cudaMemcpy(r.data(), out, n * sizeof(float), cudaMemcpyDeviceToHost);
  for (int i = 0; i < n; ++i) if (r[i] != 3 * i + 7) return 1;
  int* m;
  cudaMalloc(&m, 24 * 20 * sizeof(int));
  mandelbrot<<<{2, 2}, dim3(16, 16)>>>(m, 24, 20);
  std::vector<int> image(24 * 20);
  cudaMemcpy(image.data(), m, image.size() * sizeof(int), cudaMemcpyDeviceToHost);
  return *std::max_element(image.begin(), image.end()) == 20 ? 0 : 2;
}
