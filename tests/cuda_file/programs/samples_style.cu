// As NVIDIA's introductory samples are written: helper headers, arguments, a stop watch, what the device is.
#include <assert.h>
#include <cuda_runtime.h>
#include <helper_cuda.h>
#include <helper_functions.h>
#include <stdio.h>
#include <string.h>
#include <memory>

template <int BLOCK_SIZE>
__global__ void MatrixMulCUDA(float *C, float *A, float *B, int wA, int wB) {
  int bx = blockIdx.x, by = blockIdx.y, tx = threadIdx.x, ty = threadIdx.y;
  int aBegin = wA * BLOCK_SIZE * by, aEnd = aBegin + wA - 1, aStep = BLOCK_SIZE;
  int bBegin = BLOCK_SIZE * bx, bStep = BLOCK_SIZE * wB;
  float Csub = 0;
  for (int a = aBegin, b = bBegin; a <= aEnd; a += aStep, b += bStep) {
    __shared__ float As[BLOCK_SIZE][BLOCK_SIZE];
    __shared__ float Bs[BLOCK_SIZE][BLOCK_SIZE];
    As[ty][tx] = A[a + wA * ty + tx];
    Bs[ty][tx] = B[b + wB * ty + tx];
    __syncthreads();
#pragma unroll
    for (int k = 0; k < BLOCK_SIZE; ++k) Csub += As[ty][k] * Bs[k][tx];
    __syncthreads();
  }
  C[wB * BLOCK_SIZE * by + BLOCK_SIZE * bx + wB * ty + tx] = Csub;
}

static void print_device(int dev) {
  cudaDeviceProp prop;
  checkCudaErrors(cudaSetDevice(dev));
  checkCudaErrors(cudaGetDeviceProperties(&prop, dev));
  int driver = 0, runtime = 0;
  checkCudaErrors(cudaDriverGetVersion(&driver));
  checkCudaErrors(cudaRuntimeGetVersion(&runtime));
  printf("Device %d: \"%s\"\n", dev, prop.name);
  printf("  CUDA Driver Version / Runtime Version  %d.%d / %d.%d\n", driver / 1000, driver % 100 / 10, runtime / 1000, runtime % 100 / 10);
  printf("  CUDA Capability: %d.%d, %.0f MBytes (%llu bytes)\n", prop.major, prop.minor, prop.totalGlobalMem / 1048576.0f, (unsigned long long)prop.totalGlobalMem);
  printf("  (%03d) Multiprocessors, (%03d) CUDA Cores/MP: %d CUDA Cores\n", prop.multiProcessorCount, _ConvertSMVer2Cores(prop.major, prop.minor), _ConvertSMVer2Cores(prop.major, prop.minor) * prop.multiProcessorCount);
  printf("  Max Texture Dimension Size (x,y,z) 1D=(%d), 2D=(%d, %d), 3D=(%d, %d, %d)\n", prop.maxTexture1D, prop.maxTexture2D[0], prop.maxTexture2D[1], prop.maxTexture3D[0], prop.maxTexture3D[1], prop.maxTexture3D[2]);
  printf("  Shared memory per block: %zu, registers %d, warp size %d\n", prop.sharedMemPerBlock, prop.regsPerBlock, prop.warpSize);
  printf("  Max dimension size of a thread block (x,y,z): (%d, %d, %d)\n", prop.maxThreadsDim[0], prop.maxThreadsDim[1], prop.maxThreadsDim[2]);
  printf("  Max dimension size of a grid size (x,y,z): (%d, %d, %d)\n", prop.maxGridSize[0], prop.maxGridSize[1], prop.maxGridSize[2]);
  printf("  Maximum memory pitch: %zu, texture alignment %zu, surface %zu\n", prop.memPitch, prop.textureAlignment, prop.surfaceAlignment);
  printf("  Concurrent copy and kernel execution: %s with %d copy engine(s)\n", (prop.deviceOverlap ? "Yes" : "No"), prop.asyncEngineCount);
  printf("  Run time limit on kernels: %s, integrated: %s, ECC %s\n", prop.kernelExecTimeoutEnabled ? "Yes" : "No", prop.integrated ? "Yes" : "No", prop.ECCEnabled ? "Enabled" : "Disabled");
  printf("  Memory Bus Width: %d-bit, L2 Cache Size: %d bytes, UVA %s\n", prop.memoryBusWidth, prop.l2CacheSize, prop.unifiedAddressing ? "Yes" : "No");
  printf("  Device PCI Domain ID / Bus ID / location ID: %d / %d / %d\n", prop.pciDomainID, prop.pciBusID, prop.pciDeviceID);
}

int main(int argc, char **argv) {
  printf("[Matrix Multiply Using CUDA] - Starting...\n");
  if (checkCmdLineFlag(argc, (const char **)argv, "help") || checkCmdLineFlag(argc, (const char **)argv, "?")) {
    printf("Usage -device=n (n >= 0 for deviceID)\n");
    exit(EXIT_SUCCESS);
  }
  int dev = findCudaDevice(argc, (const char **)argv);
  int device_count = 0;
  checkCudaErrors(cudaGetDeviceCount(&device_count));
  assert(device_count == 1);
  print_device(dev);
  const int block_size = 16;
  dim3 dimsA(2 * block_size, 3 * block_size, 1), dimsB(4 * block_size, 2 * block_size, 1);
  if (checkCmdLineFlag(argc, (const char **)argv, "wA")) dimsA.x = getCmdLineArgumentInt(argc, (const char **)argv, "wA");
  unsigned int size_A = dimsA.x * dimsA.y, size_B = dimsB.x * dimsB.y;
  float *h_A, *h_B, *h_C, *d_A, *d_B, *d_C;
  checkCudaErrors(cudaMallocHost(&h_A, sizeof(float) * size_A));
  checkCudaErrors(cudaMallocHost(&h_B, sizeof(float) * size_B));
  for (unsigned i = 0; i < size_A; ++i) h_A[i] = 1.0f;
  for (unsigned i = 0; i < size_B; ++i) h_B[i] = 0.01f;
  dim3 dimsC(dimsB.x, dimsA.y, 1);
  unsigned int mem_size_C = dimsC.x * dimsC.y * sizeof(float);
  checkCudaErrors(cudaMallocHost(&h_C, mem_size_C));
  checkCudaErrors(cudaMalloc(reinterpret_cast<void **>(&d_A), sizeof(float) * size_A));
  checkCudaErrors(cudaMalloc(reinterpret_cast<void **>(&d_B), sizeof(float) * size_B));
  checkCudaErrors(cudaMalloc(reinterpret_cast<void **>(&d_C), mem_size_C));
  cudaStream_t stream;
  checkCudaErrors(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  checkCudaErrors(cudaMemcpyAsync(d_A, h_A, sizeof(float) * size_A, cudaMemcpyHostToDevice, stream));
  checkCudaErrors(cudaMemcpyAsync(d_B, h_B, sizeof(float) * size_B, cudaMemcpyHostToDevice, stream));
  dim3 threads(block_size, block_size), grid(dimsB.x / threads.x, dimsA.y / threads.y);
  StopWatchInterface *timer = NULL;
  sdkCreateTimer(&timer);
  sdkStartTimer(&timer);
  MatrixMulCUDA<block_size><<<grid, threads, 0, stream>>>(d_C, d_A, d_B, dimsA.x, dimsB.x);
  getLastCudaError("MatrixMulCUDA() execution failed\n");
  checkCudaErrors(cudaStreamSynchronize(stream));
  sdkStopTimer(&timer);
  checkCudaErrors(cudaMemcpyAsync(h_C, d_C, mem_size_C, cudaMemcpyDeviceToHost, stream));
  checkCudaErrors(cudaStreamSynchronize(stream));
  bool correct = sdkGetTimerValue(&timer) > 0 && sdkGetAverageTimerValue(&timer) == sdkGetTimerValue(&timer);
  sdkDeleteTimer(&timer);
  for (int i = 0; i < static_cast<int>(dimsC.x * dimsC.y); i++) {
    double abs_err = fabs(h_C[i] - (dimsA.x * 0.01f)), rel_err = abs_err / fabs(h_C[i]) / dimsA.x;
    if (rel_err > 1.e-6) {
      printf("Error! Matrix[%05d]=%.8f, ref=%.8f error term is > %E\n", i, h_C[i], dimsA.x * 0.01f, 1.e-6);
      correct = false;
    }
  }
  printf("%s\n", correct ? "Result = PASS" : "Result = FAIL");
  checkCudaErrors(cudaFreeHost(h_A)); checkCudaErrors(cudaFreeHost(h_B)); checkCudaErrors(cudaFreeHost(h_C));
  checkCudaErrors(cudaFree(d_A)); checkCudaErrors(cudaFree(d_B)); checkCudaErrors(cudaFree(d_C));
  exit(correct ? EXIT_SUCCESS : EXIT_FAILURE);
}
