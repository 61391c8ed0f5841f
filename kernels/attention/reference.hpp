// What the operations of attention have in common in double precision: from a problem to a call,
// what a valid one is, the formula, and how cases are laid out.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "catalogue/tolerance.hpp"
#include "kernels/attention/operations.hpp"

namespace ws::attention::in_double {

inline constexpr double kInf = std::numeric_limits<double>::infinity();

// The tensors that all begin with.
enum First { kQ, kK, kV };

// ---- From a problem to a call -----------------------------------------------------------------

inline Heads heads_of(const Tensor& tensor) {
  return {tensor.data, tensor.stride(0), tensor.stride(1), tensor.stride(2),
          tensor.rank > 3 ? tensor.stride(3) : 0};
}
inline PerHead per_head(const Tensor& tensor) {
  if (!tensor.exists()) return {};
  const bool by_batch = tensor.rank == 2;
  return {true, tensor.as<const float>(), by_batch ? tensor.stride(0) : 0,
          tensor.stride(tensor.rank - 1)};
}

// Scale and window: of a call whose head_dim is set.
inline void set_attributes(const Problem& problem, Call& call) {
  // Wider than any sequence is wide enough, and sums with it stay in range.
  constexpr int64_t kWidest = int64_t{1} << 60;
  call.window = {
      .left = std::min(problem.integer("window_left"), kWidest),
      .right = problem.flag("causal") ? 0 : std::min(problem.integer("window_right"), kWidest)};
  const Value& scale = problem.attribute("scale");
  call.scale = scale.is_absent() ? 1 / std::sqrt(static_cast<float>(call.head_dim))
                                 : static_cast<float>(scale.as_float());
}
inline void set_softcap(const Problem& problem, Call& call) {
  call.softcap = static_cast<float>(problem.number("softcap"));
}

// ---- What a valid call is -----------------------------------------------------------------------

template <class... What>
[[noreturn]] void fail(const Problem& problem, const What&... what) {
  throw InvalidArgument(concatenate(problem.operation->name, " ", what...));
}

inline void check_attributes(const Problem& problem) {
  for (const std::string_view name : {"window_left", "window_right"}) {
    if (problem.integer(name) < -1) [[unlikely]]
      fail(problem, "takes ", name, " from -1 on, not ", problem.integer(name));
  }
  const Value& scale = problem.attribute("scale");
  if (!scale.is_absent() && !std::isfinite(static_cast<float>(scale.as_float()))) [[unlikely]]
    fail(problem, "takes a finite scale, not ", static_cast<float>(scale.as_float()));
}

inline void check_softcap(const Problem& problem) {
  const double softcap = problem.number("softcap");
  const auto in_f32 = static_cast<float>(softcap);
  if (!std::isfinite(in_f32) || softcap < 0 || (softcap > 0 && in_f32 == 0)) [[unlikely]]
    fail(problem, "takes a softcap from 0 on, not ", softcap, " (", in_f32, " in f32)");
}

// q, k and v of these ranks and dtypes, heads in dimension `head`, columns in the last. k and v may
// be of kv_dtypes instead.
inline void check_heads(const Problem& problem, DTypes dtypes, int rank_q, int rank_k, int head_q,
                        int head_k, DTypes kv_dtypes = {}) {
  const Tensor& q = problem.tensor(kQ);
  const Tensor& k = problem.tensor(kK);
  const Tensor& v = problem.tensor(kV);
  const auto wrong = [&](const auto&... what) {
    fail(problem, what..., ", got ", q, ", ", k, " and ", v);
  };
  if (q.rank != rank_q || k.rank != rank_k || v.rank != rank_k) [[unlikely]]
    wrong("takes q of ", rank_q, " dimensions, k and v of ", rank_k);
  if ((q.dtype != k.dtype && !kv_dtypes.has(k.dtype)) || k.dtype != v.dtype || !dtypes.has(q.dtype))
      [[unlikely]] {
    wrong("takes q, k and v of one dtype of ", to_string(dtypes),
          kv_dtypes.has(DType::kE4m3) ? ", or k and v of e4m3" : "");
  }
  if (q.extent(rank_q - 1) != k.extent(rank_k - 1)) [[unlikely]]
    wrong("takes one D in q and k, not ", q.extent(rank_q - 1), " and ", k.extent(rank_k - 1));
  for (int d = 0; d < rank_k - 1; ++d) {
    if (k.extent(d) != v.extent(d)) [[unlikely]]
      wrong("takes k and v that differ in the last dimension only");
  }
  const int64_t heads = q.extent(head_q);
  const int64_t kv_heads = k.extent(head_k);
  if (kv_heads == 0 ? heads != 0 : heads % kv_heads != 0) [[unlikely]]
    wrong("takes query heads that are a multiple of those of k, not ", heads, " of ", kv_heads);
  constexpr int64_t kMost = 1024;
  const int64_t dim = q.extent(rank_q - 1);
  const int64_t value_dim = v.extent(rank_k - 1);
  if (dim < 1 || dim > kMost || value_dim < 1 || value_dim > kMost) [[unlikely]]
    wrong("takes D and Dv from 1 to ", kMost);
}

inline void check_per_head(const Problem& problem, std::string_view name, int64_t batch,
                           int64_t heads, bool may_have_batch) {
  const Tensor& tensor = problem[name];
  if (!tensor.exists()) return;
  const bool fits =
      tensor.dtype == DType::kF32 && ((tensor.rank == 1 && tensor.extent(0) == heads) ||
                                      (may_have_batch && tensor.rank == 2 &&
                                       tensor.extent(0) == batch && tensor.extent(1) == heads));
  if (!fits) [[unlikely]]
    fail(problem, "takes ", name, " of f32 [", heads, "]",
         may_have_batch ? concatenate(" or [", batch, ", ", heads, "]") : std::string(), ", got ",
         tensor);
}

// ---- The formula --------------------------------------------------------------------------------

// What a query sees: key j at k + j_offset(j).
struct Query {
  int64_t batch, head, row;  // of q, in its sequence
  int64_t first_query;       // of its sequence
  int64_t queries, keys;     // of its sequence
  int64_t first_key = 0;     // of its sequence, where keys are packed
};

// q of T, k and v of Kv.
template <class T, class Kv = T>
struct Formula {
  const Call& call;

  template <class U>
  static double at(const Heads& heads, int64_t offset) {
    return to_float(heads.as<const U>()[offset]);
  }

  static int64_t over(const Query& query) { return query.row + query.keys - query.queries; }

  bool sees(const Query& query, int64_t j) const {
    const Window& window = call.window;
    return (window.right < 0 || j <= over(query) + window.right) &&
           (window.left < 0 || j >= over(query) - window.left);
  }

  // scale * <q, k>, of key `row` of a batch.
  double product(const Query& query, int64_t batch, int64_t row) const {
    const int64_t from = call.q.batch * query.batch + call.q.head * query.head +
                         call.q.row * (query.first_query + query.row);
    const int64_t to =
        call.k.batch * batch + call.k.head * (query.head / call.group()) + call.k.row * row;
    double sum = 0;
    for (int64_t d = 0; d < call.head_dim; ++d) {
      sum += at<T>(call.q, from + d * call.q.column) * at<Kv>(call.k, to + d * call.k.column);
    }
    return sum * call.scale;
  }

  // What becomes of that, of key j of the query's sequence.
  double score(const Query& query, int64_t j, double product) const {
    double score = call.softcap > 0 ? call.softcap * std::tanh(product / call.softcap) : product;
    score += bias(query, j);
    if (call.slopes.exists) {
      const float slope =
          call.slopes.data[call.slopes.batch * query.batch + call.slopes.head * query.head];
      score -= slope * std::abs(static_cast<double>(over(query) - j));
    }
    return score;
  }

  // The scores of a query, -infinity where it sees nothing. place(j): which batch and row of k and
  // v key j is.
  template <class Place>
  std::vector<double> scores(const Query& query, const Place& place) const {
    std::vector<double> scores(static_cast<size_t>(query.keys), -kInf);
    for (int64_t j = 0; j < query.keys; ++j) {
      if (!sees(query, j)) continue;
      const auto [batch, row] = place(j);
      scores[static_cast<size_t>(j)] = score(query, j, product(query, batch, row));
    }
    return scores;
  }

  double bias(const Query& query, int64_t j) const {
    if (!call.bias.exists) return 0;
    const Heads& b = call.bias.at;
    const int64_t offset =
        b.batch * query.batch + b.head * query.head + b.row * query.row + b.column * j;
    if (call.bias.dtype == DType::kBool) return b.as<const bool>()[offset] ? 0 : -kInf;
    return with_type<kFloats>(
        call.bias.dtype, [&]<class B>() -> double { return to_float(b.as<const B>()[offset]); });
  }

  double sink(const Query& query) const {
    return call.sinks.exists ? call.sinks.data[call.sinks.head * query.head] : -kInf;
  }

  double lse(const Query& query, const std::vector<double>& scores) const {
    const double sink = this->sink(query);
    double most = sink;
    for (const double score : scores) most = std::max(most, score);
    if (most == -kInf) return -kInf;
    double sum = std::exp(sink - most);
    for (const double score : scores) sum += std::exp(score - most);
    return most + std::log(sum);
  }

  template <class Place>
  void out(const Query& query, const Place& place, double* to) const {
    const std::vector<double> scores = this->scores(query, place);
    const double lse = this->lse(query, scores);
    std::fill(to, to + call.value_dim, 0.0);
    if (lse == -kInf) return;
    const int64_t kv_head = query.head / call.group();
    for (int64_t j = 0; j < query.keys; ++j) {
      const double weight = std::exp(scores[static_cast<size_t>(j)] - lse);
      if (weight == 0) continue;
      const auto [batch, row] = place(j);
      const int64_t from = call.v.batch * batch + call.v.head * kv_head + call.v.row * row;
      for (int64_t d = 0; d < call.value_dim; ++d) {
        to[d] += weight * at<Kv>(call.v, from + d * call.v.column);
      }
    }
  }
};

struct KeyPlace {
  int64_t batch;
  int64_t row;
};

// Pairs of a query and a key that it sees.
inline double pairs_of(const Window& window, int64_t queries, int64_t keys) {
  double pairs = 0;
  for (int64_t i = 0; i < queries; ++i) {
    const int64_t over = i + keys - queries;
    const int64_t first = window.left < 0 ? 0 : std::max<int64_t>(0, over - window.left);
    const int64_t last = window.right < 0 ? keys : std::min(keys, over + window.right + 1);
    pairs += static_cast<double>(std::max<int64_t>(0, last - first));
  }
  return pairs;
}

inline double flops_of(const Call& call, double pairs) {
  return 2.0 * pairs * static_cast<double>(call.head_dim + call.value_dim);
}

// An output is rounded once. What weighs the values is rounded to the inputs' dtype too before
// tensor cores multiply it, each weight alone, so that the noise is of the size of an output; an
// f32 weight is off by its exponential's last bits. A typical output of n keys that weigh alike is
// 1 / sqrt(n); where few are seen, or scores of size s let few weigh (n / e^(s^2)), up to 1.
//
// Of 8 bits that noise is nearly all there is. Weights that are alike are all off alike: by half of
// a last digit, of which the sum, that of the weights before they are rounded, knows nothing. Sums
// of products an H200 keeps with 14 bits (ptx/wgmma.hpp), of scores as large as they come.
inline Tolerance tolerance_of(const Call& call, const Problem& problem, const Parameter& output,
                              bool all_seen, double size_of_scales = 1) {
  const DType dtype = problem.dtype();
  const bool of_8_bits = size_of(dtype) == 1;
  const double sums = of_8_bits ? std::ldexp(1.0, -13)
                                : accumulation_error(call.keys) + accumulation_error(call.head_dim);
  const double size =
      std::abs(call.scale) * size_of_scales * std::sqrt(static_cast<double>(call.head_dim));
  if (output.name == "lse") {
    const double off = std::ldexp(1.0, -18) + 4 * sums;
    // Of one row, which may be near 0, the norm says little: it is the elements that count.
    if (of_8_bits) return {.relative = 0.0625, .worst = 8 * off * std::max(size, 1.0), .floor = 1};
    return {.relative = off, .worst = 8 * off, .floor = 1};
  }
  const double rounding = rounding_error(of_8_bits ? problem["out"].dtype : dtype);
  const double noise = dtype == DType::kF32 ? std::ldexp(1.0, -19) : rounding_error(dtype);
  const double few = size > 1 ? std::exp((size * size - 1) / 2) : 1;
  const double alike = 2 * few / std::sqrt(static_cast<double>(std::max<int64_t>(call.keys, 4)));
  return {.relative = rounding + noise + 4 * sums,
          .worst = 1.01 * rounding + (of_8_bits ? 4 : 8) * noise + 8 * sums,
          .floor = all_seen ? std::min(alike, 1.0) : 1};
}

// ---- Tensors of cases ---------------------------------------------------------------------------

// [batch, heads, rows, columns], each row `padding` longer than its own; rows before heads in
// memory where asked.
inline Tensor laid(DType dtype, std::array<int64_t, 4> shape, int64_t padding, bool rows_first) {
  Tensor tensor = Tensor::dense(dtype, shape);
  const int64_t pitch = shape[3] + padding;
  tensor.strides[2] = rows_first ? pitch * shape[1] : pitch;
  tensor.strides[1] = rows_first ? pitch : pitch * shape[2];
  tensor.strides[0] = pitch * shape[1] * shape[2];
  return tensor;
}
constexpr double kMostSlope = 0.5;

// Scales around 1, so that scores stay of that size.
constexpr double kMostScale = 1.25;
inline void fill_scales(const Tensor& tensor, uint64_t seed) {
  fill_with(tensor, [seed](int64_t h) {
    return kMostScale - 0.5 * random_uniform(seed, static_cast<uint64_t>(h));
  });
}
inline double scale_of(const PerHead& numbers, int64_t batch, int64_t head) {
  return numbers.exists ? numbers.data[batch * numbers.batch + head * numbers.head] : 1;
}

// Multiples of it, modulo `count`, are all numbers below that.
inline int64_t scattering_step(int64_t count) {
  int64_t step = std::max<int64_t>(count * 5 / 8, 1);
  while (std::gcd(step, count) > 1) ++step;
  return step;
}

// ---- Of dense tensors ---------------------------------------------------------------------------

inline void set_dense(const Problem& problem, const Tensor& out, const Tensor& lse, Call& call) {
  const Tensor& q = problem.tensor(kQ);
  const Tensor& k = problem.tensor(kK);
  const Tensor& v = problem.tensor(kV);
  call.dtype = q.dtype;
  call.batch = q.extent(0);
  call.heads = q.extent(1);
  call.kv_heads = std::max<int64_t>(k.extent(1), 1);
  call.queries = q.extent(2);
  call.keys = k.extent(2);
  call.head_dim = q.extent(3);
  call.value_dim = v.extent(3);
  call.q = heads_of(q);
  call.k = heads_of(k);
  call.v = heads_of(v);
  call.out = heads_of(out);
  call.lse = heads_of(lse);
  set_attributes(problem, call);
}

inline void check_dense(const Problem& problem, DTypes dtypes) {
  check_heads(problem, dtypes, 4, 4, 1, 1);
  const Tensor& q = problem.tensor(kQ);
  const Tensor& k = problem.tensor(kK);
  if (q.extent(0) != k.extent(0)) [[unlikely]]
    fail(problem, "takes one batch, got ", q, " and ", k);
}

// What stands between <q, k> and a softmax, sinks aside.
inline void set_scores(const Problem& problem, const Tensor& bias, const Tensor& slopes,
                       Call& call) {
  set_softcap(problem, call);
  call.slopes = per_head(slopes);
  if (!bias.exists()) return;
  const Tensor scores =
      Tensor::dense(bias.dtype, {call.batch, call.heads, call.queries, call.keys});
  call.bias = {true, bias.dtype, heads_of(broadcast(bias, scores))};
}

inline void check_scores(const Problem& problem) {
  check_attributes(problem);
  check_softcap(problem);
  const Tensor& q = problem.tensor(kQ);
  const Tensor& bias = problem["bias"];
  if (bias.exists()) {
    const Tensor scores = Tensor::dense(
        bias.dtype, {q.extent(0), q.extent(1), q.extent(2), problem.tensor(kK).extent(2)});
    const DTypes taken = DTypes{q.dtype, DType::kF32, DType::kBool};
    if (!taken.has(bias.dtype) || !broadcast(bias, scores).exists()) [[unlikely]]
      fail(problem, "takes a bias of ", to_string(taken), " that broadcasts to ", scores, ", got ",
           bias);
  }
  check_per_head(problem, "alibi_slopes", q.extent(0), q.extent(1), true);
}

// q, k and v of a case; returns out. Extents: B, H, Sq, Sk, D, Hk, Dv.
inline Tensor make_dense(Problem& problem, const Case& chosen, DType dtype, DType out_dtype,
                         bool rows_first) {
  const auto [batch, heads, queries, keys, dim, kv, value, has] = chosen.extents;
  const int64_t kv_heads = kv == 0 ? heads : kv;
  const int64_t value_dim = value == 0 ? dim : value;
  problem.tensor(kQ) = laid(dtype, {batch, heads, queries, dim}, chosen.padding, rows_first);
  problem.tensor(kK) = laid(dtype, {batch, kv_heads, keys, dim}, chosen.padding, rows_first);
  problem.tensor(kV) = laid(dtype, {batch, kv_heads, keys, value_dim}, chosen.padding, rows_first);
  return laid(out_dtype, {batch, heads, queries, value_dim}, chosen.padding, rows_first);
}

inline Cost dense_cost(const Problem& problem, const Call& call) {
  const double pairs =
      pairs_of(call.window, call.queries, call.keys) * static_cast<double>(call.batch * call.heads);
  return {.bytes = least_traffic(problem), .flops = flops_of(call, pairs)};
}

inline int64_t dense_queries(const Problem& problem) {
  const Tensor& q = problem.tensor(kQ);
  return q.extent(0) * q.extent(1) * q.extent(2);
}

// Where slice element `at` of an output is expected, of so many numbers; null where nobody asks.
inline double* expected_of(double* output, int64_t at, int64_t numbers) {
  return output == nullptr ? nullptr : output + at * numbers;
}

// Query `item` of all heads, one head after the other.
inline Query dense_query_at(const Call& call, int64_t item) {
  return {item / (call.heads * call.queries),
          item / call.queries % call.heads,
          item % call.queries,
          0,
          call.queries,
          call.keys};
}
template <class T>
void dense_query(const Formula<T>& formula, int64_t item, double* out, double* lse) {
  const Query query = dense_query_at(formula.call, item);
  const auto place = [&](int64_t j) { return KeyPlace{query.batch, j}; };
  if (out != nullptr) formula.out(query, place, out);
  if (lse != nullptr) *lse = formula.lse(query, formula.scores(query, place));
}

// ---- Cases --------------------------------------------------------------------------------------

enum Seen : uint8_t { kAll, kOnlyBefore };

constexpr Case dense(std::array<int64_t, kMaxExtents> extents, Seen seen = kAll,
                     int64_t padding = 0, int offset = 0) {
  Case chosen{.extents = extents, .offset = offset, .padding = padding};
  if (seen == kOnlyBefore) chosen.attributes[0] = true;
  return chosen;
}
constexpr Case windowed(std::array<int64_t, kMaxExtents> extents, int64_t left, int64_t right) {
  Case chosen{.extents = extents};
  chosen.attributes[1] = left;
  chosen.attributes[2] = right;
  return chosen;
}

}  // namespace ws::attention::in_double
