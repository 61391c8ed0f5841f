// The wkv family: its operations, its rungs in teaching order, and which to prefer.
#include "kernels/wkv/01_naive.cuh"
#include "kernels/wkv/02_ahead.cuh"
#include "kernels/wkv/03_chunked.cuh"
#include "kernels/wkv/04_backward_naive.cuh"
#include "kernels/wkv/05_backward_chunked.cuh"

namespace ws::wkv {
namespace {

constexpr const Rung* kRungs[] = {&kNaive, &kAhead, &kChunked, &kBackwardNaive, &kBackwardChunked};
constexpr Operation kOperations[] = {operation_of<Wkv>(), operation_of<WkvBackward>()};

}  // namespace

// Where channels alone are threads enough, parts would only read k and v twice.
std::span<const Rung* const> Wkv::by_worth(const Call& call) {
  static constexpr const Rung* kMany[] = {&kAhead};
  static constexpr const Rung* kFew[] = {&kChunked, &kAhead};
  constexpr int64_t kManyLines = 132 * 768;
  if (call.lines() >= kManyLines || call.length < 2 * Parts::kLeastSteps) return kMany;
  return kFew;
}
std::span<const Rung* const> WkvBackward::by_worth(const Call& /*call*/) {
  static constexpr const Rung* kAll[] = {&kBackwardChunked, &kBackwardNaive};
  return kAll;
}

extern const Family kFamily;
const Family kFamily = {
    .name = "wkv",
    .summary = "RWKV's wkv and its gradient: means whose weights decay from step to step",
    .operations = kOperations,
    .rungs = kRungs,
};

}  // namespace ws::wkv
