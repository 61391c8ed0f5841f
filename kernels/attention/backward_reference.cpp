// The gradients of attention in double precision, and what rungs are checked on.
//
// out and lse are inputs here: the reference takes them as they are given, not as the forward would
// give them, so that a problem of any size is filled in no time.
#include "kernels/attention/backward.hpp"
#include "kernels/attention/reference.hpp"

namespace ws::attention {

using namespace in_double;

namespace {

enum Place { kDout = 3, kOut, kLse, kBias, kSlopes, kDlse, kDq, kDk, kDv, kDscores };

// A query that may see `count` keys has about this lse, of normal scores: weights that do not add
// up to about 1 would be larger than any forward leaves, and so their roundings.
double usual_lse(const Call& call, int64_t count) {
  const double size = call.scale * std::sqrt(static_cast<double>(call.head_dim));
  const double most = call.softcap > 0 ? std::min<double>(std::abs(size), call.softcap) : size;
  return count == 0 ? -kInf : std::log(static_cast<double>(count)) + most * most / 2;
}

int64_t seen_by(const Window& window, int64_t over, int64_t keys) {
  const int64_t first = window.left < 0 ? 0 : std::max<int64_t>(0, over - window.left);
  const int64_t end = window.right < 0 ? keys : std::min(keys, over + window.right + 1);
  return std::max<int64_t>(0, end - first);
}

// The gradients of one query's scores.
template <class T>
class Gradients {
 public:
  explicit Gradients(const BackwardCall& call) : call_(call), formula_{call} {}

  // Of what a query has with all keys: its delta.
  double delta(const Query& query) const {
    double sum = call_.dlse.data == nullptr ? 0 : -of_query<float>(call_.dlse, query, 0);
    for (int64_t d = 0; d < call_.value_dim; ++d) {
      sum += of_query<T>(call_.dout, query, d) * of_query<T>(call_.out, query, d);
    }
    return sum;
  }

  struct Pair {
    double weight = 0;
    double score = 0;    // the gradient of the score
    double product = 0;  // that of <q, k>
  };
  Pair pair(const Query& query, int64_t j, double delta) const {
    const double lse = of_query<float>(call_.lse, query, 0);
    if (!formula_.sees(query, j) || lse == -kInf) return {};
    const double product = formula_.product(query, query.batch, j);
    Pair pair;
    pair.weight = std::exp(formula_.score(query, j, product) - lse);
    double values = 0;
    for (int64_t d = 0; d < call_.value_dim; ++d) {
      values += of_query<T>(call_.dout, query, d) * of_key(call_.v, query, j, d);
    }
    pair.score = pair.weight * (values - delta);
    pair.product = pair.score * call_.scale;
    if (call_.softcap > 0) {
      const double part = std::tanh(product / call_.softcap);
      pair.product *= 1 - part * part;
    }
    return pair;
  }

  template <class U>
  static double of_query(const Heads& heads, const Query& query, int64_t column) {
    return to_float(heads.at<const U>(query.batch, query.head, query.row)[column * heads.column]);
  }
  double of_key(const Heads& heads, const Query& query, int64_t j, int64_t column) const {
    return to_float(
        heads.at<const T>(query.batch, query.head / call_.group(), j)[column * heads.column]);
  }

 private:
  const BackwardCall& call_;
  Formula<T> formula_;
};

void add(double* to, int64_t columns, double factor, const auto& element) {
  if (to == nullptr || factor == 0) return;
  for (int64_t d = 0; d < columns; ++d) to[d] += factor * element(d);
}

template <class T>
void query_reference(const BackwardCall& call, int64_t item, double* dq, double* dscores) {
  const Gradients<T> gradients(call);
  const Query query = dense_query_at(call, item);
  const double delta = gradients.delta(query);
  if (dq != nullptr) std::fill(dq, dq + call.head_dim, 0.0);
  for (int64_t j = 0; j < call.keys; ++j) {
    const auto pair = gradients.pair(query, j, delta);
    if (dscores != nullptr) dscores[j] = pair.score;
    add(dq, call.head_dim, pair.product,
        [&](int64_t d) { return gradients.of_key(call.k, query, j, d); });
  }
}

template <class T>
void key_reference(const BackwardCall& call, int64_t item, double* dk, double* dv) {
  const Gradients<T> gradients(call);
  const int64_t j = item % call.keys;
  const int64_t kv_head = item / call.keys % call.kv_heads;
  const int64_t batch = item / (call.keys * call.kv_heads);
  if (dk != nullptr) std::fill(dk, dk + call.head_dim, 0.0);
  if (dv != nullptr) std::fill(dv, dv + call.value_dim, 0.0);
  for (int64_t head = kv_head * call.group(); head < (kv_head + 1) * call.group(); ++head) {
    for (int64_t i = 0; i < call.queries; ++i) {
      const Query query{batch, head, i, 0, call.queries, call.keys};
      if (!Formula<T>{call}.sees(query, j)) continue;
      const auto pair = gradients.pair(query, j, gradients.delta(query));
      add(dk, call.head_dim, pair.product,
          [&](int64_t d) { return gradients.template of_query<T>(call.q, query, d); });
      add(dv, call.value_dim, pair.weight,
          [&](int64_t d) { return gradients.template of_query<T>(call.dout, query, d); });
    }
  }
}

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
  const auto check = [&](const char* name, const Tensor& want) {
    const Tensor& tensor = problem[name];
    if (tensor.exists() && (tensor.dtype != want.dtype || !tensor.same_shape(want))) [[unlikely]]
      fail(problem, "takes ", name, " of ", want, ", got ", tensor);
  };
  check("dout", out);
  check("o", out);
  check("lse", lse);
  check("dlse", lse);
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

// Five products of the forward's size: two again, of which each gives two.
Cost AttentionBackward::cost(const Problem& problem) {
  const Call call = AttentionBackward::call(problem);
  const double pairs =
      pairs_of(call.window, call.queries, call.keys) * static_cast<double>(call.batch * call.heads);
  const double columns =
      3 * static_cast<double>(call.head_dim) + 2 * static_cast<double>(call.value_dim);
  return {.bytes = bytes_of(problem), .flops = 2 * pairs * columns};
}

// Weights and gradients of scores are rounded to the inputs' dtype before tensor cores multiply
// them, each alone; an f32 weight is off by its exponential's last bits, and by those of a score of
// which lse is taken off. A sum over n keys of weights of 1 / n is of the size of 1 / sqrt(n), one
// over a query that sees few up to some tens: what is near 0 is judged by the largest.
Tolerance AttentionBackward::tolerance(const Problem& problem, const Parameter& output) {
  const Call call = AttentionBackward::call(problem);
  const DType dtype = problem.dtype();
  const double sums = gemm::accumulation_error(call.head_dim) +
                      gemm::accumulation_error(call.value_dim) +
                      gemm::accumulation_error(std::max(call.keys, call.queries * call.group()));
  const double exact = std::ldexp(1.0, -17) + 8 * sums;
  if (output.name == "dscores") {
    return {.relative = exact, .worst = 32 * exact, .floor = 1};
  }
  const double rounding = gemm::rounding_error(dtype);
  const double noise = dtype == DType::kF32 ? 0 : 2 * rounding;
  return {.relative = rounding + noise + exact,
          .worst = 1.01 * rounding + 16 * noise + 32 * exact,
          .floor = 1};
}

int64_t AttentionBackward::items(const Problem& problem, const Parameter& output) {
  const Tensor& k = problem.tensor(kK);
  const bool of_keys = output.name == "dk" || output.name == "dv";
  return of_keys ? k.extent(0) * k.extent(1) * k.extent(2) : dense_queries(problem);
}

void AttentionBackward::fill(const Problem& problem, int index, uint64_t seed) {
  const Tensor& tensor = problem.tensor(index);
  if (index == kSlopes) {
    return fill_with(tensor, [seed](int64_t h) {
      return kMostSlope * random_uniform(seed, static_cast<uint64_t>(h));
    });
  }
  if (index != kLse) return fill_normal_input(problem, index, seed);
  const Call call = AttentionBackward::call(problem);
  fill_with(tensor, [&](int64_t i) {
    const int64_t over = i % call.queries + call.keys - call.queries;
    return usual_lse(call, seen_by(call.window, over, call.keys)) +
           0.1 * random_normal(seed, static_cast<uint64_t>(i));
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
        query_reference<T>(call, item, expected_of(expected[kDq], at, call.head_dim),
                           expected_of(expected[kDscores], at, call.keys));
      }
      if (expected[kDk] != nullptr || expected[kDv] != nullptr) {
        key_reference<T>(call, item, expected_of(expected[kDk], at, call.head_dim),
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
    // Scores.
    capped({1, 2, 35, 40, 64}, 0),
    capped({1, 1, 35, 40, 64}, 1.5),
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
};

}  // namespace

Cases AttentionBackward::cases() { return {kBackwardSmoke, kBackwardVerify, kBackwardBench}; }

}  // namespace ws::attention
