// What attention computes, in double precision; its shapes, fills, cost and tolerance, and the
// problems to verify and to time.
#include "kernels/attention/reference.hpp"

namespace ws::attention {

using namespace in_double;

namespace {

enum Place { kBias = 3, kSlopes, kSinksAt, kOut, kLse };

}  // namespace

Attention::Call Attention::call(const Problem& problem) {
  Call call;
  set_dense(problem, problem.tensor(kOut), problem.tensor(kLse), call);
  set_scores(problem, problem.tensor(kBias), problem.tensor(kSlopes), call);
  call.sinks = per_head(problem.tensor(kSinksAt));
  return call;
}

void Attention::infer(Problem& problem) {
  check_dense(problem, kFloats);
  check_scores(problem);
  const Tensor& q = problem.tensor(kQ);
  check_per_head(problem, "sinks", q.extent(0), q.extent(1), false);
  problem.tensor(kOut) =
      Tensor::dense(q.dtype, {q.extent(0), q.extent(1), q.extent(2), problem.tensor(kV).extent(3)});
  problem.tensor(kLse) = Tensor::dense(DType::kF32, {q.extent(0), q.extent(1), q.extent(2)});
}

void Attention::make(const Case& chosen, DType dtype, Problem& problem) {
  const auto [batch, heads, queries, keys, dim, kv, value, has] = chosen.extents;
  problem.tensor(kOut) = make_dense(problem, chosen, dtype, dtype, (has & kRowsBeforeHeads) != 0);
  if ((has & kValuesInKeys) != 0) share_memory(problem, kK, kV);
  if ((has & kBiasTensor) != 0) {
    problem.tensor(kBias) = Tensor::dense(dtype, {batch, heads, queries, keys});
  }
  if ((has & kBiasOfKeys) != 0) {
    problem.tensor(kBias) = Tensor::dense(DType::kBool, {batch, 1, 1, keys});
  }
  if ((has & kAlibi) != 0) problem.tensor(kSlopes) = Tensor::dense(DType::kF32, {heads});
  if ((has & kSinks) != 0) problem.tensor(kSinksAt) = Tensor::dense(DType::kF32, {heads});
}

Cost Attention::cost(const Problem& problem) {
  return dense_cost(problem, Attention::call(problem));
}

Tolerance Attention::tolerance(const Problem& problem, const Parameter& output) {
  const Call call = Attention::call(problem);
  const bool all_seen = call.window.is_open() && !call.slopes.exists && !call.bias.exists;
  return tolerance_of(call, problem, output, all_seen);
}

// Scores of size 1 are sums of sqrt(D) before they are scaled, rounded D / 16 times; weights are at
// most 1, and the sums of up to `keys` of them times values are rounded once in 16 keys.
Tolerance Attention::tolerance_in(const Problem& problem, const Parameter& output,
                                  DType accumulate) {
  const Call call = Attention::call(problem);
  Tolerance allowed = tolerance(problem, output);
  const double steps = static_cast<double>(call.head_dim + call.keys) / 16 + 4;
  const double noise = rounding_error(accumulate) * std::sqrt(steps);
  allowed.relative += 2 * noise;
  allowed.worst += 8 * noise;
  return allowed;
}

int64_t Attention::items(const Problem& problem, const Parameter& /*output*/) {
  return dense_queries(problem);
}

void Attention::fill(const Problem& problem, int index, uint64_t seed) {
  const Tensor& tensor = problem.tensor(index);
  if (index == kSlopes) {
    return fill_with(tensor, [seed](int64_t h) {
      return kMostSlope * random_uniform(seed, static_cast<uint64_t>(h));
    });
  }
  fill_normal_input(problem, index, seed);
}

// Slices are queries, of one head after the other.
void Attention::reference(const Problem& problem, Slice slice, std::span<double* const> expected) {
  const Call call = Attention::call(problem);
  with_type<kFloats>(call.dtype, [&]<class T>() {
    for (int64_t item = slice.first; item < slice.last; ++item) {
      dense_query(Formula<T>{call}, item,
                  expected_of(expected[kOut], item - slice.first, call.value_dim),
                  expected_of(expected[kLse], item - slice.first, 1));
    }
  });
}

// ---- Cases ------------------------------------------------------------------------------------

namespace {

constexpr Case scored(std::array<int64_t, kMaxExtents> extents, double scale, double softcap) {
  Case chosen{.extents = extents};
  chosen.attributes[3] = scale;
  chosen.attributes[4] = softcap;
  return chosen;
}

constexpr Case kDenseSmoke[] = {
    dense({1, 2, 19, 21, 64}),
    dense({1, 1, 70, 40, 64, 1}, kOnlyBefore),
    dense({1, 4, 17, 33, 32, 2, 0, kRowsBeforeHeads}, kOnlyBefore),
    dense({1, 2, 9, 13, 20, 1, 12, kAlibi | kSinks}),
    dense({1, 4, 2, 40, 72, 2}, kOnlyBefore),
    dense({1, 2, 3, 20, 264}),
    dense({1, 4, 2, 40, 320, 1, 264, kValuesInKeys}, kOnlyBefore),
};

constexpr Case kDenseVerify[] = {
    // Head dims of every width of a rung, one tile and its tails.
    dense({1, 1, 64, 64, 64}),
    dense({2, 2, 65, 129, 64}),
    dense({1, 1, 200, 300, 64}, kOnlyBefore),
    dense({1, 1, 300, 200, 64}, kOnlyBefore),
    dense({1, 1, 128, 128, 128}),
    dense({1, 1, 191, 257, 128}, kOnlyBefore),
    dense({1, 1, 130, 140, 256}),
    dense({1, 1, 90, 150, 256}, kOnlyBefore),
    dense({1, 2, 40, 72, 32}),
    dense({1, 1, 70, 66, 96}, kOnlyBefore),
    dense({1, 1, 33, 80, 40}),
    dense({1, 1, 50, 60, 72, 1, 80}),
    dense({1, 1, 70, 66, 192}, kOnlyBefore),
    dense({1, 1, 70, 66, 320}),
    dense({1, 1, 66, 80, 512}, kOnlyBefore),
    dense({1, 2, 20, 70, 576, 1, 512}),
    dense({1, 1, 20, 40, 1024}),
    // Several tiles of keys under wide heads.
    dense({1, 1, 10, 300, 512}, kOnlyBefore),
    dense({1, 2, 5, 390, 576, 1, 512}),
    dense({2, 16, 2, 330, 576, 1, 512, kValuesInKeys}, kOnlyBefore),
    dense({1, 66, 1, 150, 320, 1, 256, kValuesInKeys + kSinks}),
    dense({1, 1, 5, 530, 1024}, kOnlyBefore),
    // Few and many heads a head of keys; rows before heads.
    dense({2, 4, 70, 70, 64, 2}, kOnlyBefore),
    dense({1, 6, 33, 97, 128, 1, 0, kRowsBeforeHeads}),
    dense({2, 2, 65, 65, 64, 0, 0, kRowsBeforeHeads}, kOnlyBefore),
    // One query, one key, none of either.
    dense({2, 4, 1, 129, 64, 2}),
    dense({1, 2, 130, 1, 64}),
    dense({1, 2, 5, 0, 64}),
    dense({1, 2, 0, 5, 64}),
    dense({0, 2, 5, 5, 64}),
    // More queries than keys: the first see nothing.
    dense({1, 1, 150, 20, 64}, kOnlyBefore),
    // Windows.
    windowed({1, 1, 200, 200, 64}, 17, 0),
    windowed({1, 1, 130, 260, 64}, 64, 70),
    windowed({1, 1, 100, 40, 64}, -1, 3),
    windowed({1, 1, 90, 200, 128}, 0, 0),
    windowed({1, 1, 260, 200, 64}, 30, -1),
    windowed({1, 3, 140, 150, 64, 1}, 40, 0),
    // Scores.
    scored({1, 1, 65, 70, 64}, 0.3, 0),
    scored({1, 1, 65, 70, 64}, 0.125, 1.5),
    dense({1, 2, 65, 70, 64, 0, 0, kBiasTensor}),
    dense({2, 2, 33, 70, 64, 0, 0, kBiasOfKeys}, kOnlyBefore),
    dense({1, 4, 65, 70, 64, 2, 0, kAlibi}, kOnlyBefore),
    dense({1, 2, 65, 70, 64, 0, 0, kSinks}, kOnlyBefore),
    // Rows that are not multiples of 16 bytes, that begin anywhere, that are apart.
    dense({1, 1, 33, 40, 35}),
    dense({1, 2, 33, 40, 64}, kAll, 0, 1),
    dense({1, 2, 66, 70, 64}, kOnlyBefore, 8),
    dense({1, 2, 33, 40, 64}, kAll, 3),
    // One query, or few, of many heads that share many keys.
    dense({2, 8, 1, 300, 128, 1}),
    dense({1, 7, 2, 1000, 64, 1}, kOnlyBefore),
    dense({1, 8, 5, 130, 128, 1}, kOnlyBefore),
    dense({1, 3, 1, 1, 64}),
    dense({1, 4, 1, 15, 128, 1}),
    dense({1, 4, 1, 17, 256, 2}),
    windowed({1, 4, 2, 260, 64, 2}, 40, 0),
    dense({1, 4, 3, 165, 64, 2, 0, kAlibi | kSinks}, kOnlyBefore),
    // The same, of up to eight rows: whole tiles and less, keys cut among blocks.
    dense({1, 8, 1, 1100, 128, 1}),
    dense({2, 6, 2, 333, 72, 2}, kOnlyBefore),
    dense({1, 4, 2, 700, 128, 1, 0, kRowsBeforeHeads}, kOnlyBefore),
    dense({1, 2, 1, 900, 64}),
    dense({3, 5, 1, 257, 36, 1, 20, kAlibi | kSinks}),
    scored({1, 9, 2, 97, 128, 3}, 0.3, 1.5),
};

constexpr Case kDenseBench[] = {
    dense({1, 48, 8192, 8192, 64}),
    dense({1, 48, 8192, 8192, 64}, kOnlyBefore),
    dense({4, 16, 4096, 4096, 64}),
    dense({4, 16, 4096, 4096, 64}, kOnlyBefore),
    dense({4, 16, 4096, 4096, 128}),
    dense({4, 16, 4096, 4096, 128}, kOnlyBefore),
    dense({1, 16, 16384, 16384, 128}),
    dense({1, 16, 16384, 16384, 128}, kOnlyBefore),
    dense({2, 8, 8192, 8192, 256}),
    dense({2, 8, 8192, 8192, 256}, kOnlyBefore),
    dense({2, 32, 8192, 8192, 128, 8}, kOnlyBefore),
    dense({8, 32, 2048, 2048, 128, 8}, kOnlyBefore),
    dense({32, 32, 512, 512, 128, 8}, kOnlyBefore),
    dense({1, 48, 8192, 8192, 320}),
    dense({1, 48, 8192, 8192, 512}),
    dense({1, 48, 8192, 8192, 512}, kOnlyBefore),
    dense({1, 16, 8192, 8192, 576, 1, 512}),
    // Decoding.
    dense({8, 64, 1, 8192, 128, 8}),
    dense({8, 64, 1, 8192, 128, 8, 0, kRowsBeforeHeads}),
    dense({8, 64, 4, 8192, 128, 8}),
    dense({1, 32, 1, 8192, 128, 8}),
    dense({1, 32, 1, 65536, 128, 8}),
    dense({64, 32, 1, 1024, 128, 8}),
    dense({256, 32, 1, 4096, 128, 8}),
    dense({8, 16, 1, 8192, 576, 1, 512, kValuesInKeys}),
    dense({8, 128, 1, 8192, 576, 1, 512, kValuesInKeys}),
};

}  // namespace

Cases Attention::cases() { return {kDenseSmoke, kDenseVerify, kDenseBench}; }

}  // namespace ws::attention
