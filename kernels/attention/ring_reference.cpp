// What ring_attention_step computes, in double precision; its shapes, fills, cost and tolerance,
// and the problems to verify and to time.
#include "kernels/attention/reference.hpp"
#include "kernels/attention/ring.hpp"

namespace ws::attention {

using namespace in_double;

namespace {

enum Place { kOut = 3, kLse };

}  // namespace

RingAttentionStep::Call RingAttentionStep::call(const Problem& problem) {
  Call call;
  set_dense(problem, problem.tensor(kOut), problem.tensor(kLse), call);
  return call;
}

void RingAttentionStep::infer(Problem& problem) {
  check_dense(problem, kFloats);
  check_attributes(problem);
  const Tensor& q = problem.tensor(kQ);
  const Tensor out = Tensor::dense(
      DType::kF32, {q.extent(0), q.extent(1), q.extent(2), problem.tensor(kV).extent(3)});
  const Tensor lse = Tensor::dense(DType::kF32, {q.extent(0), q.extent(1), q.extent(2)});
  const auto is = [&](int place, const Tensor& wanted) {
    return problem.tensor(place).same_shape(wanted) && problem.tensor(place).dtype == wanted.dtype;
  };
  if (!is(kOut, out) || !is(kLse, lse)) [[unlikely]]
    fail(problem, "takes out of ", out, " and lse of ", lse, ", got ", problem.tensor(kOut),
         " and ", problem.tensor(kLse));
}

void RingAttentionStep::make(const Case& chosen, DType dtype, Problem& problem) {
  const bool rows_first = (chosen.extents[7] & kRowsBeforeHeads) != 0;
  problem.tensor(kOut) = make_dense(problem, chosen, dtype, DType::kF32, rows_first);
  const Tensor& out = problem.tensor(kOut);
  problem.tensor(kLse) = Tensor::dense(DType::kF32, {out.extent(0), out.extent(1), out.extent(2)});
}

// out and lse are read and written.
Cost RingAttentionStep::cost(const Problem& problem) {
  Cost cost = dense_cost(problem, RingAttentionStep::call(problem));
  for (const int place : {kOut, kLse}) {
    cost.bytes += static_cast<double>(problem.tensor(place).elements()) * sizeof(float);
  }
  return cost;
}

// As attention's, but that nothing is rounded to 16 bits but the weights.
Tolerance RingAttentionStep::tolerance(const Problem& problem, const Parameter& output) {
  Tolerance allowed = tolerance_of(RingAttentionStep::call(problem), problem, output, false);
  if (output.name == "lse") return allowed;
  const double rounding = rounding_error(problem.dtype()) - rounding_error(DType::kF32);
  allowed.relative -= rounding;
  allowed.worst -= rounding;
  return allowed;
}

int64_t RingAttentionStep::items(const Problem& problem, const Parameter& /*output*/) {
  return dense_queries(problem);
}

// A query in eight has met no key; others what is about as much as this part has.
void RingAttentionStep::fill(const Problem& problem, int index, uint64_t seed) {
  if (index != kLse) return fill_normal_input(problem, index, seed);
  const auto keys = static_cast<double>(std::max<int64_t>(problem.tensor(kK).extent(2), 1));
  fill_with(problem.tensor(kLse), [&](int64_t i) {
    const auto at = static_cast<uint64_t>(i);
    return random_uniform(seed, 2 * at) < 0.125
               ? -kInf
               : std::log(keys) + 2 * random_uniform(seed, 2 * at + 1) - 1;
  });
}

// Slices are queries, of one head after the other. What was met before is one key more: its score
// is lse, its value out.
void RingAttentionStep::reference(const Problem& problem, Slice slice,
                                  std::span<double* const> expected) {
  const Call call = RingAttentionStep::call(problem);
  with_type<kFloats>(call.dtype, [&]<class T>() {
    const Formula<T> formula{call};
    for (int64_t item = slice.first; item < slice.last; ++item) {
      const Query query = dense_query_at(call, item);
      const int64_t at = item - slice.first;
      double* const out = expected_of(expected[kOut], at, call.value_dim);
      double part = 0;
      dense_query(formula, item, out, &part);
      const double before = *call.lse.at<const float>(query.batch, query.head, query.row);
      const double most = std::max(before, part);
      const double lse =
          most == -kInf ? -kInf : most + std::log(std::exp(before - most) + std::exp(part - most));
      if (expected[kLse] != nullptr) expected[kLse][at] = lse;
      if (out == nullptr || lse == -kInf) continue;
      const float* const met = call.out.at<const float>(query.batch, query.head, query.row);
      const double of_part = std::exp(part - lse);
      const double of_met = std::exp(before - lse);
      for (int64_t d = 0; d < call.value_dim; ++d) {
        out[d] *= of_part;
        if (of_met > 0) out[d] += of_met * met[d * call.out.column];
      }
    }
  });
}

// ---- Cases ------------------------------------------------------------------------------------

namespace {

constexpr Case scaled(std::array<int64_t, kMaxExtents> extents, double scale) {
  Case chosen{.extents = extents};
  chosen.attributes[3] = scale;
  return chosen;
}

constexpr Case kRingSmoke[] = {
    dense({1, 2, 9, 11, 16}),
    dense({1, 1, 34, 20, 32, 1}, kOnlyBefore),
    dense({1, 4, 7, 13, 32, 2, 16, kRowsBeforeHeads}, kOnlyBefore),
    windowed({1, 2, 9, 8, 24}, 3, 2),
    dense({1, 2, 19, 21, 64}),
};

constexpr Case kRingVerify[] = {
    // Head dims of every width of a rung, one tile and its tails; a rectangle and a causal square.
    dense({1, 2, 64, 64, 64}),
    dense({2, 2, 65, 129, 64}),
    dense({1, 2, 200, 200, 64}, kOnlyBefore),
    dense({1, 1, 200, 300, 64}, kOnlyBefore),
    dense({1, 2, 128, 128, 128}),
    dense({1, 1, 191, 257, 128}, kOnlyBefore),
    dense({1, 1, 70, 66, 192}, kOnlyBefore),
    dense({1, 1, 130, 140, 256}),
    dense({1, 1, 90, 150, 256}, kOnlyBefore),
    dense({1, 2, 40, 72, 32}),
    dense({1, 1, 50, 60, 72, 1, 80}),
    dense({1, 1, 30, 40, 320}),
    dense({1, 1, 20, 40, 1024}),
    // Few and many heads a head of keys; rows before heads.
    dense({2, 8, 70, 70, 64, 2}, kOnlyBefore),
    dense({1, 6, 33, 97, 128, 1, 0, kRowsBeforeHeads}),
    dense({2, 3, 65, 65, 64, 0, 0, kRowsBeforeHeads}, kOnlyBefore),
    // One query, one key, none of either; more queries than keys: the first see nothing.
    dense({2, 4, 1, 129, 64, 2}),
    dense({1, 2, 130, 1, 64}),
    dense({1, 2, 5, 0, 64}),
    dense({1, 2, 0, 5, 64}),
    dense({0, 2, 5, 5, 64}),
    dense({1, 2, 150, 20, 64}, kOnlyBefore),
    // What windows leave of a part.
    windowed({1, 2, 200, 200, 64}, 17, 0),
    windowed({1, 1, 130, 260, 64}, 64, 70),
    windowed({1, 1, 140, 140, 128}, 0, -1),
    windowed({1, 1, 90, 200, 128}, 110, 0),
    scaled({1, 2, 65, 70, 64}, 0.3),
    // Rows that are not multiples of 16 bytes, that begin anywhere, that are apart.
    dense({1, 1, 33, 40, 35}),
    dense({1, 2, 33, 40, 64}, kAll, 0, 1),
    dense({1, 2, 36, 40, 64}, kOnlyBefore, 8),
    dense({1, 2, 33, 40, 64}, kAll, 3),
};

// A quarter of 128k tokens by a quarter or an eighth of them, as zigzag has them, and half of
// these.
constexpr Case kRingBench[] = {
    dense({1, 16, 32768, 16384, 128}),
    dense({1, 16, 16384, 32768, 128}),
    dense({1, 16, 32768, 32768, 128}, kOnlyBefore),
    dense({1, 16, 16384, 8192, 128}),
    dense({1, 32, 16384, 8192, 128, 8}),
    dense({1, 16, 16384, 8192, 64}),
};

}  // namespace

Cases RingAttentionStep::cases() { return {kRingSmoke, kRingVerify, kRingBench}; }

}  // namespace ws::attention
