// The gradients of attention in double precision, and what rungs are checked on.
//
// out and lse are inputs here: the reference takes them as they are given, not as the forward would
// give them, so that a problem of any size is filled in no time.
#include "kernels/attention/backward_reference.hpp"

namespace ws::attention {

using namespace in_double;

namespace {

enum Place { kDout = 3, kOut, kLse, kBias, kSlopes, kDlse, kDq, kDk, kDv, kDscores };

}  // namespace

AttentionBackward::Call AttentionBackward::call(const Problem& problem) {
  Call call;
  set_dense(problem, problem.tensor(kOut), problem.tensor(kLse), call);
  set_scores(problem, problem.tensor(kBias), problem.tensor(kSlopes), call);
  call.dout = heads_of(problem.tensor(kDout));
  call.dq = heads_of(problem.tensor(kDq));
  call.dk = heads_of(problem.tensor(kDk));
  call.dv = heads_of(problem.tensor(kDv));
  if (problem.tensor(kDlse).exists()) call.dlse = heads_of(problem.tensor(kDlse));
  if (problem.tensor(kDscores).exists()) call.dscores = heads_of(problem.tensor(kDscores));
  call.deterministic = problem.flag("deterministic");
  return call;
}

void AttentionBackward::infer(Problem& problem) {
  check_dense(problem, kFloats);
  check_scores(problem);
  const Tensor& q = problem.tensor(kQ);
  const Tensor& k = problem.tensor(kK);
  const Tensor& v = problem.tensor(kV);
  const int64_t rows[] = {q.extent(0), q.extent(1), q.extent(2)};
  const Tensor out = Tensor::dense(q.dtype, {rows[0], rows[1], rows[2], v.extent(3)});
  const Tensor lse = Tensor::dense(DType::kF32, rows);
  check_like(problem, "dout", out);
  check_like(problem, "o", out);
  check_like(problem, "lse", lse);
  check_like(problem, "dlse", lse);
  problem.tensor(kDq) = Tensor::like(q);
  problem.tensor(kDk) = Tensor::like(k);
  problem.tensor(kDv) = Tensor::like(v);
  if (problem.flag("score_gradient")) {
    problem.tensor(kDscores) = Tensor::dense(DType::kF32, {rows[0], rows[1], rows[2], k.extent(2)});
  }
}

void AttentionBackward::make(const Case& chosen, DType dtype, Problem& problem) {
  const auto [batch, heads, queries, keys, dim, kv, value, has] = chosen.extents;
  const Tensor out = make_dense(problem, chosen, dtype, dtype, (has & kLaidRowsFirst) != 0);
  problem.tensor(kOut) = problem.tensor(kDout) = out;
  problem.tensor(kDq) = problem.tensor(kQ);
  problem.tensor(kDk) = problem.tensor(kK);
  problem.tensor(kDv) = problem.tensor(kV);
  const Tensor lse = Tensor::dense(DType::kF32, {batch, heads, queries});
  problem.tensor(kLse) = lse;
  if ((has & kWithDlse) != 0) problem.tensor(kDlse) = lse;
  if ((has & kWithBias) != 0) {
    problem.tensor(kBias) = Tensor::dense(dtype, {batch, heads, queries, keys});
  }
  if ((has & kWithBiasOfKeys) != 0) {
    problem.tensor(kBias) = Tensor::dense(DType::kBool, {batch, 1, 1, keys});
  }
  if ((has & kWithAlibi) != 0) problem.tensor(kSlopes) = Tensor::dense(DType::kF32, {heads});
}

Cost AttentionBackward::cost(const Problem& problem) {
  const Call call = AttentionBackward::call(problem);
  const double pairs =
      pairs_of(call.window, call.queries, call.keys) * static_cast<double>(call.batch * call.heads);
  return {.bytes = least_traffic(problem), .flops = backward_flops_of(call, pairs)};
}

Tolerance AttentionBackward::tolerance(const Problem& problem, const Parameter& output) {
  return backward_tolerance_of(AttentionBackward::call(problem), problem, output);
}

int64_t AttentionBackward::items(const Problem& problem, const Parameter& output) {
  const Tensor& k = problem.tensor(kK);
  const bool of_keys = output.name == "dk" || output.name == "dv";
  return of_keys ? k.extent(0) * k.extent(1) * k.extent(2) : dense_queries(problem);
}

void AttentionBackward::fill(const Problem& problem, int index, uint64_t seed) {
  const Tensor& tensor = problem.tensor(index);
  if (index == kSlopes) return fill_slopes(tensor, seed);
  if (index != kLse) return fill_normal_input(problem, index, seed);
  const Call call = AttentionBackward::call(problem);
  fill_with(tensor, [&](int64_t i) {
    return random_lse(call, i % call.queries, call.queries, call.keys, seed, i);
  });
}

// Slices are queries, of one head after the other, or keys.
void AttentionBackward::reference(const Problem& problem, Slice slice,
                                  std::span<double* const> expected) {
  const Call call = AttentionBackward::call(problem);
  with_type<kFloats>(call.dtype, [&]<class T>() {
    for (int64_t item = slice.first; item < slice.last; ++item) {
      const int64_t at = item - slice.first;
      if (expected[kDq] != nullptr || expected[kDscores] != nullptr) {
        query_reference<T>(call, dense_query_at(call, item),
                           expected_of(expected[kDq], at, call.head_dim),
                           expected_of(expected[kDscores], at, call.keys));
      }
      if (expected[kDk] != nullptr || expected[kDv] != nullptr) {
        const int64_t head = item / call.keys;
        key_reference<T>(call, {head / call.kv_heads, 0, 0, 0, call.queries, call.keys},
                         head % call.kv_heads, item % call.keys,
                         expected_of(expected[kDk], at, call.head_dim),
                         expected_of(expected[kDv], at, call.value_dim));
      }
    }
  });
}

// ---- Cases ------------------------------------------------------------------------------------

namespace {

constexpr auto kFirst = AttentionBackward::kLaidRowsFirst;
constexpr auto kBiased = AttentionBackward::kWithBias;
constexpr auto kKeysHidden = AttentionBackward::kWithBiasOfKeys;
constexpr auto kSloped = AttentionBackward::kWithAlibi;
constexpr auto kWithDlse = AttentionBackward::kWithDlse;

constexpr Case with_scores(Case chosen) {
  chosen.attributes[5] = true;
  return chosen;
}
constexpr Case capped(std::array<int64_t, kMaxExtents> extents, double softcap) {
  Case chosen{.extents = extents};
  chosen.attributes[3] = 0.3;
  chosen.attributes[4] = softcap;
  return chosen;
}

constexpr Case kBackwardSmoke[] = {
    dense({1, 2, 9, 11, 16}),
    dense({1, 1, 34, 20, 32, 1}, kOnlyBefore),
    dense({1, 2, 17, 19, 64, 1, 0, kFirst}, kOnlyBefore),
    with_scores(dense({1, 2, 9, 13, 20, 1, 12, kSloped | kBiased | kWithDlse})),
};

constexpr Case kBackwardVerify[] = {
    // Head dims, one tile and its tails.
    dense({1, 2, 64, 64, 64}),
    dense({1, 1, 65, 129, 64}),
    dense({1, 2, 70, 100, 64}, kOnlyBefore),
    dense({1, 1, 100, 70, 64}, kOnlyBefore),
    dense({1, 1, 40, 66, 128}),
    dense({1, 1, 66, 40, 128}, kOnlyBefore),
    dense({1, 1, 33, 40, 256}, kOnlyBefore),
    dense({1, 2, 40, 36, 32}),
    dense({1, 1, 33, 40, 40}),
    dense({1, 1, 30, 35, 72, 1, 80}),
    dense({1, 1, 66, 70, 136, 1, 200}),
    dense({1, 1, 130, 140, 192}, kOnlyBefore),
    dense({1, 1, 20, 33, 512}),
    dense({1, 2, 130, 140, 320, 1}, kOnlyBefore),
    windowed({1, 1, 100, 70, 512}, 30, -1),
    dense({1, 1, 9, 20, 576, 1, 512}, kOnlyBefore),
    dense({1, 1, 9, 20, 1024}),
    // Several heads a head of keys; rows before heads.
    dense({2, 4, 35, 37, 64, 2}, kOnlyBefore),
    dense({1, 6, 17, 35, 64, 1, 0, kFirst}),
    dense({2, 3, 33, 33, 32, 0, 0, kFirst}, kOnlyBefore),
    // One query, one key, none of either.
    dense({2, 4, 1, 65, 64, 2}),
    dense({1, 2, 66, 1, 64}),
    dense({1, 2, 5, 0, 64}),
    dense({1, 2, 0, 5, 64}),
    dense({0, 2, 5, 5, 64}),
    // More queries than keys: the first see nothing.
    dense({1, 2, 80, 20, 64}, kOnlyBefore),
    // Windows.
    windowed({1, 2, 90, 90, 64}, 17, 0),
    windowed({1, 1, 70, 130, 32}, 33, 37),
    windowed({1, 1, 60, 30, 64}, -1, 3),
    windowed({1, 1, 50, 80, 32}, 0, 0),
    windowed({1, 1, 80, 70, 64}, 30, -1),
    // Several tiles of each of several heads, some of which nobody sees.
    windowed({1, 2, 140, 150, 64, 1}, 40, 5),
    dense({1, 2, 130, 70, 128, 1}, kOnlyBefore),
    windowed({1, 2, 140, 200, 256, 1}, 40, 5),
    // Few blocks that meet many tiles: on most GPUs their last wave is worth cutting.
    dense({1, 1, 1100, 8, 128}),
    dense({1, 1, 8, 1100, 256}),
    // Scores.
    capped({1, 2, 35, 40, 64}, 0),
    capped({1, 1, 35, 40, 64}, 1.5),
    capped({1, 2, 140, 150, 128, 1}, 4),
    capped({1, 1, 70, 140, 256}, 1.5),
    capped({1, 1, 70, 80, 320}, 50),
    dense({1, 2, 35, 40, 64, 0, 0, kBiased}),
    dense({2, 2, 33, 40, 64, 0, 0, kKeysHidden}, kOnlyBefore),
    dense({1, 4, 35, 40, 64, 2, 0, kSloped}, kOnlyBefore),
    dense({1, 2, 35, 40, 64, 0, 0, kWithDlse}, kOnlyBefore),
    with_scores(dense({1, 2, 40, 36, 64}, kOnlyBefore)),
    // Rows that are not multiples of 16 bytes, that begin anywhere, that are apart.
    dense({1, 1, 33, 40, 35}),
    dense({1, 2, 33, 40, 64}, kAll, 0, 1),
    dense({1, 2, 36, 40, 64}, kOnlyBefore, 8),
    dense({1, 2, 33, 40, 64}, kAll, 3),
};

constexpr Case kBackwardBench[] = {
    dense({1, 48, 8192, 8192, 64}),    dense({1, 48, 8192, 8192, 64}, kOnlyBefore),
    dense({4, 16, 4096, 4096, 64}),    dense({4, 16, 4096, 4096, 64}, kOnlyBefore),
    dense({4, 16, 4096, 4096, 128}),   dense({4, 16, 4096, 4096, 128}, kOnlyBefore),
    dense({1, 16, 16384, 16384, 128}), dense({1, 16, 16384, 16384, 128}, kOnlyBefore),
    dense({2, 8, 8192, 8192, 256}),    dense({2, 8, 8192, 8192, 256}, kOnlyBefore),
    dense({2, 8, 4096, 4096, 512}),    dense({2, 8, 4096, 4096, 512}, kOnlyBefore),
};

}  // namespace

Cases AttentionBackward::cases() { return {kBackwardSmoke, kBackwardVerify, kBackwardBench}; }

}  // namespace ws::attention
