// What the operations that are gradients have in common in double precision.
#pragma once

#include "kernels/attention/backward.hpp"
#include "kernels/attention/reference.hpp"

namespace ws::attention::in_double {

// A query that may see `count` keys has about this lse, of normal scores: weights that do not add
// up to about 1 would be larger than any forward leaves, and so their roundings.
inline double usual_lse(const Call& call, int64_t count) {
  const double size = call.scale * std::sqrt(static_cast<double>(call.head_dim));
  const double most = call.softcap > 0 ? std::min<double>(std::abs(size), call.softcap) : size;
  return count == 0 ? -kInf : std::log(static_cast<double>(count)) + most * most / 2;
}

inline int64_t seen_by(const Window& window, int64_t over, int64_t keys) {
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
    const double product = formula_.product(query, query.batch, query.first_key + j);
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
    const U* const row = heads.at<const U>(query.batch, query.head, query.first_query + query.row);
    return to_float(row[column * heads.column]);
  }
  double of_key(const Heads& heads, const Query& query, int64_t j, int64_t column) const {
    const T* const row =
        heads.at<const T>(query.batch, query.head / call_.group(), query.first_key + j);
    return to_float(row[column * heads.column]);
  }

 private:
  const BackwardCall& call_;
  Formula<T> formula_;
};

inline void add(double* to, int64_t columns, double factor, const auto& element) {
  if (to == nullptr || factor == 0) return;
  for (int64_t d = 0; d < columns; ++d) to[d] += factor * element(d);
}

// What one query gathers of the keys that it sees.
template <class T>
void query_reference(const BackwardCall& call, const Query& query, double* dq, double* dscores) {
  const Gradients<T> gradients(call);
  const double delta = gradients.delta(query);
  if (dq != nullptr) std::fill(dq, dq + call.head_dim, 0.0);
  for (int64_t j = 0; j < query.keys; ++j) {
    const auto pair = gradients.pair(query, j, delta);
    if (dscores != nullptr) dscores[j] = pair.score;
    add(dq, call.head_dim, pair.product,
        [&](int64_t d) { return gradients.of_key(call.k, query, j, d); });
  }
}

// What key j gathers of those of a sequence's queries that see it. Of `sequence` head and row say
// nothing.
template <class T>
void key_reference(const BackwardCall& call, const Query& sequence, int64_t kv_head, int64_t j,
                   double* dk, double* dv) {
  const Gradients<T> gradients(call);
  if (dk != nullptr) std::fill(dk, dk + call.head_dim, 0.0);
  if (dv != nullptr) std::fill(dv, dv + call.value_dim, 0.0);
  for (int64_t head = kv_head * call.group(); head < (kv_head + 1) * call.group(); ++head) {
    for (int64_t i = 0; i < sequence.queries; ++i) {
      Query query = sequence;
      query.head = head;
      query.row = i;
      if (!Formula<T>{call}.sees(query, j)) continue;
      const auto pair = gradients.pair(query, j, gradients.delta(query));
      add(dk, call.head_dim, pair.product,
          [&](int64_t d) { return gradients.template of_query<T>(call.q, query, d); });
      add(dv, call.value_dim, pair.weight,
          [&](int64_t d) { return gradients.template of_query<T>(call.dout, query, d); });
    }
  }
}

inline void check_like(const Problem& problem, const char* name, const Tensor& want) {
  const Tensor& tensor = problem[name];
  if (tensor.exists() && (tensor.dtype != want.dtype || !tensor.same_shape(want))) [[unlikely]]
    fail(problem, "takes ", name, " of ", want, ", got ", tensor);
}

// Five products of the forward's size: two again, of which each gives two.
inline double backward_flops_of(const Call& call, double pairs) {
  const double columns =
      3 * static_cast<double>(call.head_dim) + 2 * static_cast<double>(call.value_dim);
  return 2 * pairs * columns;
}

// Weights and gradients of scores are rounded to the inputs' dtype before tensor cores multiply
// them, each alone; an f32 weight is off by its exponential's last bits, and by those of a score of
// which lse is taken off. A sum over n keys of weights of 1 / n is of the size of 1 / sqrt(n), one
// over a query that sees few up to some tens: what is near 0 is judged by the largest.
inline Tolerance backward_tolerance_of(const Call& call, const Problem& problem,
                                       const Parameter& output) {
  const DType dtype = problem.dtype();
  const double sums = accumulation_error(call.head_dim) + accumulation_error(call.value_dim) +
                      accumulation_error(std::max(call.keys, call.queries * call.group()));
  const double exact = std::ldexp(1.0, -17) + 8 * sums;
  if (output.name == "dscores") {
    return {.relative = exact, .worst = 32 * exact, .floor = 1};
  }
  const double rounding = rounding_error(dtype);
  const double noise = dtype == DType::kF32 ? 0 : 2 * rounding;
  return {.relative = rounding + noise + exact,
          .worst = 1.01 * rounding + 16 * noise + 32 * exact,
          .floor = 1};
}

inline void fill_slopes(const Tensor& tensor, uint64_t seed) {
  fill_with(tensor, [seed](int64_t h) {
    return kMostSlope * random_uniform(seed, static_cast<uint64_t>(h));
  });
}
// The i-th lse of all: of query `row` of so many, as a forward would about leave it.
inline double random_lse(const Call& call, int64_t row, int64_t queries, int64_t keys,
                         uint64_t seed, int64_t i) {
  return usual_lse(call, seen_by(call.window, row + keys - queries, keys)) +
         0.1 * random_normal(seed, static_cast<uint64_t>(i));
}

}  // namespace ws::attention::in_double
