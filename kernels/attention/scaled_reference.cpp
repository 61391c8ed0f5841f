// What scaled_attention computes, in double precision; its shapes, fills, cost and tolerance, and
// the problems to verify and to time.
#include "kernels/attention/reference.hpp"

namespace ws::attention {

using namespace in_double;

namespace {

enum Place { kScaleQ = 3, kScaleK, kScaleV, kOut, kLse };

constexpr DType kOutDTypes[] = {DType::kBf16, DType::kF16};

}  // namespace

ScaledAttention::Call ScaledAttention::call(const Problem& problem) {
  ScaledCall call;
  set_dense(problem, problem.tensor(kOut), problem.tensor(kLse), call);
  call.scales = {per_head(problem.tensor(kScaleQ)), per_head(problem.tensor(kScaleK)),
                 per_head(problem.tensor(kScaleV))};
  call.out_dtype = problem.tensor(kOut).dtype;
  return call;
}

void ScaledAttention::infer(Problem& problem) {
  check_attributes(problem);
  check_dense(problem, kDTypes);
  const Tensor& q = problem.tensor(kQ);
  const Tensor& k = problem.tensor(kK);
  check_per_head(problem, "scale_q", q.extent(0), q.extent(1), true);
  check_per_head(problem, "scale_k", q.extent(0), k.extent(1), true);
  check_per_head(problem, "scale_v", q.extent(0), k.extent(1), true);
  problem.tensor(kOut) =
      Tensor::dense(kOutDTypes[problem.choice<size_t>("out_dtype")],
                    {q.extent(0), q.extent(1), q.extent(2), problem.tensor(kV).extent(3)});
  problem.tensor(kLse) = Tensor::dense(DType::kF32, {q.extent(0), q.extent(1), q.extent(2)});
}

void ScaledAttention::make(const Case& chosen, DType dtype, Problem& problem) {
  const int64_t has = chosen.extents[7];
  problem.tensor(kOut) =
      make_dense(problem, chosen, dtype, kOutDTypes[problem.choice<size_t>("out_dtype")],
                 (has & kScaledRowsBeforeHeads) != 0);
  const int64_t batch = chosen.extents[0];
  const int64_t heads = chosen.extents[1];
  const int64_t kv_heads = problem.tensor(kK).extent(1);
  if ((has & kScales) != 0) {
    problem.tensor(kScaleQ) = Tensor::dense(DType::kF32, {batch, heads});
    problem.tensor(kScaleK) = Tensor::dense(DType::kF32, {batch, kv_heads});
    problem.tensor(kScaleV) = Tensor::dense(DType::kF32, {kv_heads});
  }
}

Cost ScaledAttention::cost(const Problem& problem) {
  return dense_cost(problem, ScaledAttention::call(problem));
}

Tolerance ScaledAttention::tolerance(const Problem& problem, const Parameter& output) {
  const Call call = ScaledAttention::call(problem);
  const double largest = call.scales.q.exists ? kMostScale * kMostScale : 1;
  return tolerance_of(call, problem, output, call.window.is_open(), largest);
}

int64_t ScaledAttention::items(const Problem& problem, const Parameter& /*output*/) {
  return dense_queries(problem);
}

void ScaledAttention::fill(const Problem& problem, int index, uint64_t seed) {
  if (index < kScaleQ) return fill_normal_input(problem, index, seed);
  fill_scales(problem.tensor(index), seed + static_cast<uint64_t>(index));
}

void ScaledAttention::reference(const Problem& problem, Slice slice,
                                std::span<double* const> expected) {
  const Call call = ScaledAttention::call(problem);
  for (int64_t item = slice.first; item < slice.last; ++item) {
    const int64_t batch = item / (call.heads * call.queries);
    const int64_t head = item / call.queries % call.heads;
    const int64_t kv_head = head / call.group();
    attention::Call scaled = call;
    scaled.scale = static_cast<float>(call.scale * scale_of(call.scales.q, batch, head) *
                                      scale_of(call.scales.k, batch, kv_head));
    double* const out = expected_of(expected[kOut], item - slice.first, call.value_dim);
    dense_query(Formula<e4m3>{scaled}, item, out,
                expected_of(expected[kLse], item - slice.first, 1));
    if (out == nullptr) continue;
    const double of_values = scale_of(call.scales.v, batch, kv_head);
    for (int64_t d = 0; d < call.value_dim; ++d) out[d] *= of_values;
  }
}

namespace {

constexpr Case kScaledSmoke[] = {
    dense({1, 2, 19, 21, 64}),
    dense({1, 2, 70, 40, 32, 1, 0, kScales}, kOnlyBefore),
    dense({1, 2, 9, 13, 16, 1, 0, kScales}),
};

constexpr Case kScaledVerify[] = {
    // Every policy, one tile and its tails.
    dense({1, 2, 64, 64, 64}),
    dense({2, 2, 65, 129, 64, 0, 0, kScales}),
    dense({1, 1, 200, 300, 64}, kOnlyBefore),
    dense({1, 2, 128, 128, 128}),
    dense({1, 2, 191, 257, 128, 1, 0, kScales}, kOnlyBefore),
    dense({1, 1, 130, 140, 256}),
    dense({1, 1, 90, 150, 256, 0, 0, kScales}, kOnlyBefore),
    dense({1, 1, 70, 66, 192}, kOnlyBefore),
    dense({1, 1, 70, 66, 96}),
    dense({1, 1, 50, 60, 80, 1, 48}),
    dense({1, 2, 40, 72, 16}),
    // Heads that share keys; rows before heads.
    dense({2, 6, 70, 70, 64, 2, 0, kScales}, kOnlyBefore),
    dense({1, 6, 33, 97, 128, 2, 0, kScales | kScaledRowsBeforeHeads}),
    // One query, one key, none of either; queries that see nothing.
    dense({2, 4, 1, 129, 64, 2}),
    dense({1, 2, 130, 1, 64}),
    dense({1, 2, 5, 0, 64}),
    dense({1, 2, 0, 5, 64}),
    dense({1, 1, 150, 20, 64}, kOnlyBefore),
    windowed({1, 1, 200, 200, 64}, 17, 0),
    windowed({1, 1, 130, 260, 128}, 64, 70),
    // Rows that no copy engine takes.
    dense({1, 1, 33, 40, 35}),
    dense({1, 1, 33, 40, 64}, kAll, 0, 1),
    dense({1, 2, 66, 70, 64, 0, 0, kScales}, kOnlyBefore, 16),
};

constexpr Case kScaledBench[] = {
    dense({1, 16, 16384, 16384, 128}),
    dense({1, 16, 16384, 16384, 128}, kOnlyBefore),
    dense({4, 16, 4096, 4096, 128}),
    dense({4, 16, 4096, 4096, 128}, kOnlyBefore),
    dense({4, 16, 4096, 4096, 64}),
    dense({2, 8, 8192, 8192, 256}),
    dense({2, 8, 8192, 8192, 256}, kOnlyBefore),
};

}  // namespace

Cases ScaledAttention::cases() { return {kScaledSmoke, kScaledVerify, kScaledBench}; }

}  // namespace ws::attention
