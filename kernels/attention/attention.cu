// The table of the attention family: its rungs in teaching order, and which to prefer.
#include "kernels/attention/01_naive.cuh"
#include "kernels/attention/02_materialized.cuh"
#include "kernels/attention/03_online.cuh"
#include "kernels/attention/04_tiled.cuh"
#include "kernels/attention/05_any.cuh"
#include "kernels/attention/10_mma_flash.cuh"
#include "kernels/attention/40_merge_naive.cuh"
#include "kernels/attention/41_merge_vector.cuh"
#include "kernels/attention/operations.hpp"

namespace ws::attention {

extern const Rung kWgmmaRoles;
extern const Rung kWgmmaOverlap;
extern const Rung kWgmmaTurns;
extern const Rung kWgmmaPersistent;
extern const Rung kWgmmaLazy;
extern const Rung kWgmmaSpeculative;

namespace {

constexpr Operation kOperations[] = {operation_of<Attention>(), operation_of<AttentionVarlen>(),
                                     operation_of<MergeAttnStates>()};

constexpr const Rung* kRungs[] = {
    &kNaive,           &kAny,       &kWgmmaRoles,      &kWgmmaOverlap, &kWgmmaTurns,
    &kWgmmaPersistent, &kWgmmaLazy, &kWgmmaSpeculative};

}  // namespace

std::span<const Rung* const> Attention::by_worth(const Call& /*call*/) {
  static constexpr const Rung* kOrder[] = {&kWgmmaSpeculative, &kAny};
  return kOrder;
}

std::span<const Rung* const> AttentionVarlen::by_worth(const Call& /*call*/) {
  static constexpr const Rung* kOrder[] = {&kWgmmaSpeculative, &kAny};
  return kOrder;
}

extern const Family kFamily;
constinit const Family kFamily{
    .name = "attention",
    .summary = "softmax(q k^T) v, with the softmax never in memory",
    .operations = kOperations,
    .rungs = kRungs,
};

}  // namespace ws::attention
