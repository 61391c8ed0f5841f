// Measures configurations of softmax's upper rungs against each other and a copy, on the GPU at
// hand. For choosing constants; `warpsmith bench` is what claims are made with.
//
//   make build/cuda TARGET=tune_softmax && build/cuda/tune_softmax [queue | registers]
//
// To the harness each configuration is a rung of its own, which it verifies too.
#include <cstdio>
#include <cstring>
#include <vector>

#include "cli/figures.hpp"
#include "harness/bench.hpp"
#include "kernels/softmax/10_row_in_registers.cuh"
#include "kernels/softmax/12_cluster_queue.cuh"

namespace ws::softmax {
namespace {

template <class T, class Op, class Shape>
Rung queue(std::string_view name) {
  return {.name = name,
          .idea = "clusters that draw rows",
          .dtypes = {kDType<T>},
          .run = ClusterQueue::run_shape<T, Op, Shape>,
          .workspace = ClusterQueue::workspace};
}
#define WS_QUEUE(T, Op, ...) queue<T, Op, QueueShape<__VA_ARGS__>>(#__VA_ARGS__)

template <class T, class Op, int kLanes, int kVectors>
Rung registers(std::string_view name) {
  return {.name = name,
          .idea = "a row in a block's registers",
          .dtypes = {kDType<T>},
          .run = [](const Problem& problem, const Context& context) {
            RowInRegistersKernel<T, Op, kLanes, kVectors, Fit::kAligned>::launch_on(
                rows_of<T, Op>(problem), context.stream);
          }};
}
#define WS_REGISTERS(T, Op, ...) registers<T, Op, __VA_ARGS__>(#__VA_ARGS__)

void measure(Kind kind, const Case& chosen, const std::vector<Rung>& candidates) {
  std::vector<const Rung*> rungs;
  for (const Rung& candidate : candidates) rungs.push_back(&candidate);
  DType dtype = DType::kF32;
  for (const DType d : kAllDTypes) {
    if (candidates[0].dtypes.has(d)) dtype = d;
  }
  harness::BenchOptions options;
  options.peers = false;
  const Operation& operation = kOperations[static_cast<int>(kind)];
  std::puts(cli::figures(harness::bench(operation, rungs, chosen, dtype, options)).c_str());
  std::fflush(stdout);
}

// Consumers, vectors, stages, blocks an SM.
void tune_queue() {
  using Softmax = Forward<false>;
  measure(Kind::kSoftmax, bounded(1024, 262144),
          {WS_QUEUE(float, Softmax, 256, 16, 1, 2), WS_QUEUE(float, Softmax, 128, 32, 1, 2),
           WS_QUEUE(float, Softmax, 512, 16, 1, 1)});
  measure(Kind::kSoftmax, bounded(1024, 262144),
          {WS_QUEUE(bf16, Softmax, 256, 8, 3, 2), WS_QUEUE(bf16, Softmax, 128, 16, 2, 2),
           WS_QUEUE(bf16, Softmax, 128, 16, 3, 2), WS_QUEUE(bf16, Softmax, 512, 8, 2, 1)});
  measure(Kind::kSoftmax, bounded(4096, 65536),
          {WS_QUEUE(float, Softmax, 512, 4, 2, 2), WS_QUEUE(float, Softmax, 256, 8, 2, 2),
           WS_QUEUE(float, Softmax, 128, 16, 2, 2)});
  measure(Kind::kSoftmax, bounded(4096, 65536),
          {WS_QUEUE(bf16, Softmax, 512, 8, 2, 1), WS_QUEUE(bf16, Softmax, 256, 16, 2, 1),
           WS_QUEUE(bf16, Softmax, 128, 16, 3, 2)});
}

// Lanes, vectors.
void tune_registers() {
  using Masked = ScaleMaskForward;
  measure(Kind::kScaleMaskSoftmax, masked({1024, 1024, 128}),
          {WS_REGISTERS(half, Masked, 32, 4), WS_REGISTERS(half, Masked, 64, 2),
           WS_REGISTERS(half, Masked, 128, 1)});
  measure(Kind::kScaleMaskSoftmax, masked({4096, 4096, 16}),
          {WS_REGISTERS(half, Masked, 128, 4), WS_REGISTERS(half, Masked, 256, 2)});
  measure(Kind::kScaleMaskSoftmax, masked({16384, 16384}),
          {WS_REGISTERS(float, Masked, 256, 16), WS_REGISTERS(float, Masked, 512, 8),
           WS_REGISTERS(float, Masked, 1024, 4)});
  using Gradient = Backward<false>;
  measure(Kind::kSoftmaxBackward, {.extents = {16384, 16384}},
          {WS_REGISTERS(half, Gradient, 512, 4), WS_REGISTERS(half, Gradient, 1024, 2)});
  measure(Kind::kSoftmaxBackward, {.extents = {16384, 16384}},
          {WS_REGISTERS(float, Gradient, 512, 8), WS_REGISTERS(float, Gradient, 256, 16),
           WS_REGISTERS(float, Gradient, 1024, 4)});
}

}  // namespace
}  // namespace ws::softmax

int main(int argc, char** argv) {
  const auto wants = [&](const char* what) { return argc < 2 || std::strcmp(argv[1], what) == 0; };
  if (wants("queue")) ws::softmax::tune_queue();
  if (wants("registers")) ws::softmax::tune_registers();
}
