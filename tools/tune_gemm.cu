// Measures configurations of gemm's warp-specialised rung against each other and against cuBLASLt,
// on the GPU at hand. For choosing constants; `warpsmith bench` is what claims are made with.
//
//   nvcc -std=c++20 -O3 --expt-relaxed-constexpr -cudart static -I. -Iinclude
//        -gencode arch=compute_90a,code=sm_90a tools/tune_gemm.cu
//        catalogue/{catalogue,fill,problem}.cpp catalogue/peers/*.cpp -ldl -o tune_gemm
//   ./tune_gemm [size | m,n,k] [nn | nt | tn | tt] [launches together] [rounds] [f16 | bf16]
//
// Configurations take turns within a round; figures are medians over the rounds. Each result is
// compared with the naive rung's first.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "catalogue/peers/cublaslt.hpp"
#include "kernels/gemm/01_naive.cuh"
#include "kernels/gemm/02_mma_pipeline.cuh"
#include "kernels/gemm/03_warp_specialized.cuh"

namespace ws {

std::span<const Family* const> families() { return {}; }

namespace gemm {
namespace {

struct Candidate {
  std::string name;
  std::function<void(const Problem&, const Context&)> run;
  std::vector<double> milliseconds{};
};

void check(cudaError_t status) { ws::detail::check_cuda(status, "tune_gemm"); }

// Clusters that the GPU holds at one time, in blocks.
template <class Kernel>
int resident_blocks() {
  const auto entry = &ws::detail::entry<Kernel>;
  constexpr auto kShared = static_cast<int>(ws::detail::static_shared_bytes<Kernel>());
  check(cudaFuncSetAttribute(entry, cudaFuncAttributeMaxDynamicSharedMemorySize, kShared));
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeClusterDimension;
  attribute.val.clusterDim = {Kernel::kCluster, 1, 1};
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(
      static_cast<unsigned>(device_facts().multiprocessors / Kernel::kCluster * Kernel::kCluster));
  config.blockDim = dim3(Kernel::kThreads);
  config.dynamicSmemBytes = kShared;
  config.attrs = &attribute;
  config.numAttrs = 1;
  int clusters = 0;
  check(cudaOccupancyMaxActiveClusters(&clusters, entry, &config));
  return std::min(clusters * Kernel::kCluster, device_facts().multiprocessors);
}

// Both K-major, or both MN-major: the extremes.
template <WgmmaShape kShape>
Candidate shape_candidate(const char* note) {
  using Config = WgmmaConfig<kShape>;
  const auto run = [](const Problem& problem, const Context& context) {
    const Call call = call_of(problem);
    const auto [a, b, c] = storages_of(call);
    const auto with_b = [&]<class T, Contiguous kB>() {
      using Kernel = WarpSpecialized<T, Contiguous::kColumns, kB, Config>;
      static const int kBlocks = resident_blocks<Kernel>();
      Kernel::run(call, kBlocks, context.stream);
    };
    // Few kernels compile in little time: A row-major, f16 alone for the variants.
    if (b.storage.contiguous == Contiguous::kRows) {
      with_b.template operator()<half, Contiguous::kRows>();
    } else {
      with_b.template operator()<half, Contiguous::kColumns>();
    }
  };
  char name[160];
  std::snprintf(name, sizeof name, "%dx%d stages %d cluster %dx%d stores %d band %d %s",
                kShape.tile_m, kShape.tile_n, kShape.stages, kShape.cluster_m, kShape.cluster_n,
                kShape.store_buffers, kShape.band, note);
  return {name, run};
}

std::vector<Candidate> candidates(bool with_shapes) {
  std::vector<Candidate> all = {
      {"cublasLt", peers::cublaslt_gemm_run},
      {"mma_pipeline", run_mma_pipeline},
      {"warp_specialized", run_warp_specialized},
  };
  if (!with_shapes) return all;
#define WS_SHAPE(note, ...) all.push_back(shape_candidate<WgmmaShape{__VA_ARGS__}>(note))
  WS_SHAPE("", .tile_m = 128, .tile_n = 256, .stages = 4, .cluster_m = 2);
  WS_SHAPE("alone", .tile_m = 128, .tile_n = 256, .stages = 4);
  WS_SHAPE("A shared", .tile_m = 128, .tile_n = 256, .stages = 4, .cluster_n = 2);
  WS_SHAPE("both shared", .tile_m = 128, .tile_n = 256, .stages = 4, .cluster_m = 2,
           .cluster_n = 2);
  WS_SHAPE("B by four", .tile_m = 128, .tile_n = 256, .stages = 4, .cluster_m = 4);
  WS_SHAPE("", .tile_m = 128, .tile_n = 256, .stages = 4, .cluster_m = 2, .band = 1024);
  WS_SHAPE("", .tile_m = 128, .tile_n = 256, .stages = 4, .cluster_m = 2, .band = 4096);
  WS_SHAPE("", .tile_m = 128, .tile_n = 256, .stages = 3, .cluster_m = 2, .store_buffers = 4);
  WS_SHAPE("A shared", .tile_m = 256, .tile_n = 128, .stages = 4, .cluster_n = 2);
  WS_SHAPE("", .tile_m = 128, .tile_n = 192, .stages = 4, .cluster_m = 2);
  WS_SHAPE("", .tile_m = 128, .tile_n = 128, .stages = 6, .cluster_m = 2);
  WS_SHAPE("", .tile_m = 128, .tile_n = 64, .stages = 8);
#undef WS_SHAPE
  return all;
}

// Standard normal numbers: a table, walked at random.
void fill(std::vector<uint16_t>& values, DType dtype, uint32_t seed) {
  std::mt19937 engine(seed);
  std::normal_distribution<float> normal;
  std::vector<uint16_t> table(1 << 16);
  for (uint16_t& value : table) {
    const float number = normal(engine);
    value = dtype == DType::kF16 ? half(number).bits : bf16(number).bits;
  }
  uint32_t state = seed;
  for (uint16_t& value : values) {
    state = state * 1664525u + 1013904223u;
    value = table[state >> 16];
  }
}

float number(uint16_t bits, DType dtype) {
  return dtype == DType::kF16 ? ptx::cvt_f32_f16(bits) : ptx::cvt_f32_bf16(bits);
}

int tune(int64_t m, int64_t n, int64_t k, int layout, int together, int rounds, DType dtype) {
  Operation operation{};
  operation.name = "gemm";
  Problem problem = make(operation, shape(m, n, k, layout), dtype);
  std::vector<uint16_t> host[3];
  for (int i = 0; i < 3; ++i) {
    host[i].resize(static_cast<size_t>(problem.tensor(i).elements()));
    if (i < 2) fill(host[i], dtype, 1 + static_cast<uint32_t>(i));
    check(cudaMalloc(&problem.tensor(i).data, host[i].size() * 2 + 256));
    check(cudaMemcpy(problem.tensor(i).data, host[i].data(), host[i].size() * 2,
                     cudaMemcpyHostToDevice));
  }
  Context context;
  const size_t workspace =
      peers::cublaslt_gemm_supports(problem).empty() ? peers::cublaslt_gemm_workspace(problem) : 0;
  check(cudaMalloc(&context.workspace, workspace + 256));
  check(cudaStreamCreate(&context.stream));

  run_naive(problem, context);
  check(cudaStreamSynchronize(context.stream));
  check(cudaMemcpy(host[2].data(), problem.tensor(2).data, host[2].size() * 2,
                   cudaMemcpyDeviceToHost));
  std::vector<Candidate> all = candidates(layout < 2 && dtype == DType::kF16);
  std::vector<uint16_t> result(host[2].size());
  int wrong = 0;
  for (Candidate& candidate : all) {
    try {
      check(cudaMemsetAsync(problem.tensor(2).data, 0xFF, result.size() * 2, context.stream));
      candidate.run(problem, context);
      check(cudaStreamSynchronize(context.stream));
    } catch (const std::exception& error) {
      std::printf("%s: %s\n", candidate.name.c_str(), error.what());
      candidate.run = nullptr;
      continue;
    }
    check(cudaMemcpy(result.data(), problem.tensor(2).data, result.size() * 2,
                     cudaMemcpyDeviceToHost));
    double difference = 0;
    double size = 0;
    for (size_t i = 0; i < result.size(); ++i) {
      const double expected = number(host[2][i], dtype);
      const double error = number(result[i], dtype) - expected;
      difference += error * error;
      size += expected * expected;
    }
    const double relative = std::sqrt(difference / size);
    if (!(relative < (dtype == DType::kF16 ? 1e-3 : 8e-3))) {
      std::printf("WRONG %s: relative difference to naive %g\n", candidate.name.c_str(), relative);
      ++wrong;
    }
  }

  cudaEvent_t start{};
  cudaEvent_t stop{};
  check(cudaEventCreate(&start));
  check(cudaEventCreate(&stop));
  for (int round = -1; round < rounds; ++round) {
    for (Candidate& candidate : all) {
      if (!candidate.run) continue;
      check(cudaEventRecord(start, context.stream));
      for (int i = 0; i < together; ++i) candidate.run(problem, context);
      check(cudaEventRecord(stop, context.stream));
      check(cudaEventSynchronize(stop));
      float milliseconds = 0;
      check(cudaEventElapsedTime(&milliseconds, start, stop));
      if (round >= 0) candidate.milliseconds.push_back(milliseconds / together);
    }
  }
  const double flops =
      2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
  double peer = 0;
  std::printf("%s %lldx%lldx%lld layout %s, %d launches together, %d rounds\n",
              std::string(to_string(dtype)).c_str(), static_cast<long long>(m),
              static_cast<long long>(n), static_cast<long long>(k),
              std::string(kLayouts[static_cast<size_t>(layout)]).c_str(), together, rounds);
  for (Candidate& candidate : all) {
    if (candidate.milliseconds.empty()) continue;
    std::ranges::sort(candidate.milliseconds);
    const double median = candidate.milliseconds[candidate.milliseconds.size() / 2];
    const double rate = flops / median * 1e-9;
    if (peer == 0) peer = rate;
    std::printf("%8.1f TFLOP/s  %5.3f of cublasLt  %8.2f us (best %8.2f)  %s\n", rate, rate / peer,
                median * 1e3, candidate.milliseconds.front() * 1e3, candidate.name.c_str());
  }
  for (int i = 0; i < 3; ++i) check(cudaFree(problem.tensor(i).data));
  check(cudaFree(context.workspace));
  check(cudaStreamDestroy(context.stream));
  return wrong;
}

}  // namespace
}  // namespace gemm
}  // namespace ws

int main(int count, char** words) {
  const auto word = [&](int i, const char* otherwise) { return count > i ? words[i] : otherwise; };
  long long m = 0;
  long long n = 0;
  long long k = 0;
  if (std::sscanf(word(1, "4096"), "%lld,%lld,%lld", &m, &n, &k) == 1) n = k = m;
  const auto layout = std::ranges::find(ws::gemm::kLayouts, std::string_view(word(2, "nn")));
  if (m <= 0 || n <= 0 || k <= 0 || layout == ws::gemm::kLayouts.end()) {
    std::fprintf(
        stderr,
        "usage: tune_gemm [size | m,n,k] [nn | nt | tn | tt] [launches] [rounds] [f16 | bf16]\n");
    return 2;
  }
  try {
    return ws::gemm::tune(m, n, k, static_cast<int>(layout - ws::gemm::kLayouts.begin()),
                          std::atoi(word(3, "20")), std::atoi(word(4, "10")),
                          ws::dtype_from(word(5, "f16")));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "tune_gemm: %s\n", error.what());
    return 1;
  }
}
