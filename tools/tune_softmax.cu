// Measures configurations of softmax's upper rungs against each other and a copy, on the GPU at
// hand. For choosing constants; `warpsmith bench` is what claims are made with.
//
//   make build/cuda TARGET=tune_softmax && build/cuda/tune_softmax [queue | registers]
//
// Each configuration is a rung of its own to the harness, which verifies it too.
#include <array>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "cli/figures.hpp"
#include "harness/bench.hpp"
#include "kernels/softmax/10_row_in_registers.cuh"
#include "kernels/softmax/12_cluster_queue.cuh"

namespace ws::softmax {
namespace {

// The operation's kernel for one dtype, whatever the rung's table would choose.
template <class T, class Op, class Shape>
void run_queue(const Problem& problem, const Context& context) {
  ClusterQueue::run_shape<T, Op, Shape>(problem, context);
}
template <class T, class Op, int kLanes, int kVectors>
void run_registers(const Problem& problem, const Context& context) {
  const auto rows = rows_of<T, Op>(problem);
  RowInRegistersKernel<T, Op, kLanes, kVectors, Fit::kAligned>::launch_on(rows, context.stream);
}

template <class T, class Op, class Shape>
Rung queue(std::string_view name) {
  return {.name = name,
          .idea = "",
          .dtypes = kFloats,
          .run = run_queue<T, Op, Shape>,
          .workspace = ClusterQueue::workspace};
}
template <class T, class Op, int kLanes, int kVectors>
Rung registers(std::string_view name) {
  return {.name = name, .idea = "", .dtypes = kFloats, .run = run_registers<T, Op, kLanes, kVectors>};
}

void measure(Kind kind, const Case& chosen, DType dtype, const std::vector<Rung>& rungs) {
  std::vector<const Rung*> pointers;
  for (const Rung& rung : rungs) pointers.push_back(&rung);
  harness::BenchOptions options;
  options.peers = false;
  const auto group = harness::bench(kOperations[static_cast<int>(kind)], pointers, chosen, dtype,
                                    options);
  std::fputs(cli::figures(group).c_str(), stdout);
  std::fflush(stdout);
}

#define WS_QUEUE(T, Op, ...) queue<T, Op, QueueShape<__VA_ARGS__>>(#__VA_ARGS__)
#define WS_REGISTERS(T, Op, ...) registers<T, Op, __VA_ARGS__>(#__VA_ARGS__)

void tune_queue() {
  {
    const Case chosen = bounded(1024, 262144);
    using Softmax = Forward<false>;
    measure(Kind::kSoftmax, chosen, DType::kF32,
            {WS_QUEUE(float, Softmax, 256, 16, 1, 1, 2), WS_QUEUE(float, Softmax, 512, 16, 4, 6, 1),
             WS_QUEUE(float, Softmax, 512, 16, 8, 13, 1), WS_QUEUE(float, Softmax, 512, 16, 8, 9, 1)});
    measure(Kind::kSoftmax, bounded(4096, 65536), DType::kF32,
            {WS_QUEUE(float, Softmax, 512, 4, 1, 2, 2), WS_QUEUE(float, Softmax, 512, 16, 8, 13, 1),
             WS_QUEUE(float, Softmax, 512, 8, 4, 13, 1)});
    measure(Kind::kSoftmax, chosen, DType::kBf16,
            {WS_QUEUE(bf16, Softmax, 256, 8, 1, 3, 2), WS_QUEUE(bf16, Softmax, 512, 8, 4, 13, 1)});
    measure(Kind::kSoftmax, bounded(4096, 65536), DType::kBf16,
            {WS_QUEUE(bf16, Softmax, 256, 8, 1, 3, 2), WS_QUEUE(bf16, Softmax, 512, 8, 4, 13, 1), WS_QUEUE(bf16, Softmax, 512, 8, 1, 2, 1)});
  }
}

void tune_registers() {
  using Masked = ScaleMaskForward;
  measure(Kind::kScaleMaskSoftmax, masked({16384, 16384}), DType::kF32,
          {WS_REGISTERS(float, Masked, 512, 8), WS_REGISTERS(float, Masked, 1024, 4)});
  measure(Kind::kScaleMaskSoftmax, masked({4096, 4096, 16}), DType::kF32,
          {WS_REGISTERS(float, Masked, 512, 2), WS_REGISTERS(float, Masked, 256, 4)});
  measure(Kind::kScaleMaskSoftmax, masked({4096, 4096, 16}), DType::kBf16,
          {WS_REGISTERS(bf16, Masked, 128, 4), WS_REGISTERS(bf16, Masked, 256, 2)});
}

}  // namespace
}  // namespace ws::softmax

int main(int argc, char** argv) {
  const auto wants = [&](const char* what) { return argc < 2 || std::strcmp(argv[1], what) == 0; };
  if (wants("queue")) ws::softmax::tune_queue();
  if (wants("registers")) ws::softmax::tune_registers();
}
