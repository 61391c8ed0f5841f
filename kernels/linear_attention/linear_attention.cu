// The linear_attention family: its one table of rungs, in teaching order.
#include "kernels/linear_attention/01_naive.cuh"

namespace ws::linear_attention {

// Rungs of units of their own.
extern const Rung kRecurrent, kChunked, kChunkedMma, kChunkedParallel, kDeltaChunked,
    kDeltaBackwardRecurrent, kDeltaBackwardChunked;

namespace {

constexpr Operation kOperations[] = {operation_of<LinearAttention>(),
                                     operation_of<LinearAttentionBackward>(),
                                     operation_of<DeltaRule>(), operation_of<DeltaRuleBackward>()};

constexpr const Rung* kRungs[] = {&kNaive,
                                  &kRecurrent,
                                  &kChunked,
                                  &kChunkedMma,
                                  &kChunkedParallel,
                                  &kDeltaChunked,
                                  &kDeltaBackwardRecurrent,
                                  &kDeltaBackwardChunked};

}  // namespace

// A few steps, as in decoding, are a chunk that is nearly empty.
std::span<const Rung* const> LinearAttention::by_worth(const Call& call) {
  static constexpr const Rung* kFewSteps[] = {&kRecurrent, &kNaive};
  static constexpr const Rung* kManySteps[] = {&kChunkedParallel, &kChunked, &kRecurrent, &kNaive};
  constexpr int64_t kFew = 4;
  if (call.walk.steps <= kFew) return kFewSteps;
  return kManySteps;
}
std::span<const Rung* const> LinearAttentionBackward::by_worth(const Call& /*call*/) {
  static constexpr const Rung* kOrder[] = {&kChunkedParallel, &kChunked, &kRecurrent, &kNaive};
  return kOrder;
}
std::span<const Rung* const> DeltaRule::by_worth(const Call& /*call*/) {
  static constexpr const Rung* kOrder[] = {&kDeltaChunked, &kRecurrent, &kNaive};
  return kOrder;
}
std::span<const Rung* const> DeltaRuleBackward::by_worth(const Call& /*call*/) {
  static constexpr const Rung* kOrder[] = {&kDeltaBackwardChunked, &kDeltaBackwardRecurrent};
  return kOrder;
}

extern const Family kFamily;
const Family kFamily = {
    .name = "linear_attention",
    .summary = "causal attention without a softmax: a state that is added to, decays, is asked",
    .operations = kOperations,
    .rungs = kRungs,
};

}  // namespace ws::linear_attention
