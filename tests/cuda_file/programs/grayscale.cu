// output: PASS
// Pixels of three bytes, constant weights in code, integer rounding.
#include <cstdio>
#include <vector>

__global__ void rgb_to_gray(const uchar3* const image, unsigned char* const gray, int rows,
                            int columns) {
  const int2 place = make_int2(blockIdx.x * blockDim.x + threadIdx.x,
                               blockIdx.y * blockDim.y + threadIdx.y);
  if (place.x >= columns || place.y >= rows) return;
  const int i = place.y * columns + place.x;
  const uchar3 rgb = image[i];
  gray[i] = static_cast<unsigned char>(.299f * rgb.x + .587f * rgb.y + .114f * rgb.z);
}

int main() {
  const int rows = 33, columns = 65;
  std::vector<uchar3> image(rows * columns);
  for (int i = 0; i < rows * columns; ++i) image[i] = make_uchar3(i % 256, i * 7 % 256, i * 13 % 256);
  uchar3* d_image;
  unsigned char* d_gray;
  cudaMalloc(&d_image, image.size() * sizeof(uchar3));
  cudaMalloc(&d_gray, image.size());
  cudaMemcpy(d_image, &image[0], image.size() * sizeof(uchar3), cudaMemcpyHostToDevice);
  cudaMemset(d_gray, 0, image.size());
  const dim3 block(32, 8, 1);
  const dim3 grid(columns / block.x + 1, rows / block.y + 1, 1);
  rgb_to_gray<<<grid, block>>>(d_image, d_gray, rows, columns);
  std::vector<unsigned char> gray(image.size());
  cudaMemcpy(&gray[0], d_gray, gray.size(), cudaMemcpyDeviceToHost);
  int wrong = 0;
  for (size_t i = 0; i < gray.size(); ++i) {
    const float exact = .299f * image[i].x + .587f * image[i].y + .114f * image[i].z;
    wrong += gray[i] > exact + 0.01f || gray[i] + 1.01f < exact;
  }
  std::printf("%s\n", wrong ? "FAIL" : "PASS");
  return wrong;
}
