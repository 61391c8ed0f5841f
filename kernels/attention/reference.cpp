// What attention computes, in double precision; its shapes, fills, cost and tolerance, and the
// problems to verify and to time.
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "kernels/attention/operations.hpp"
#include "kernels/gemm/reference.hpp"

namespace ws::attention {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

// The tensors of attention.
enum Place { kQ, kK, kV, kBias, kSlopes, kSinksAt, kOut, kLse };
// Those of attention_varlen, after v.
enum VarlenPlace {
  kStartsQ = 3,
  kStartsK,
  kUsedK,
  kTable,
  kVarlenSlopesAt,
  kVarlenSinksAt,
  kVarlenOut,
  kVarlenLse
};

// ---- From a problem to a call -----------------------------------------------------------------

Heads heads_of(const Tensor& tensor) {
  return {tensor.data, tensor.stride(0), tensor.stride(1), tensor.stride(2),
          tensor.rank > 3 ? tensor.stride(3) : 0};
}
// Of [rows, heads, columns], packed.
Heads packed_heads_of(const Tensor& tensor) {
  return {tensor.data, 0, tensor.stride(1), tensor.stride(0), tensor.stride(2)};
}

PerHead per_head(const Tensor& tensor) {
  if (!tensor.exists()) return {};
  const bool by_batch = tensor.rank == 2;
  return {true, tensor.as<const float>(), by_batch ? tensor.stride(0) : 0,
          tensor.stride(tensor.rank - 1)};
}

Lengths lengths_of(const Tensor& tensor) {
  if (!tensor.exists()) return {};
  return {true, tensor.as<const int32_t>(), tensor.stride(0)};
}

// Scale, softcap and window: of a call whose head_dim is set.
void set_attributes(const Problem& problem, Call& call) {
  // Wider than any sequence is wide enough, and sums with it stay in range.
  constexpr int64_t kWidest = int64_t{1} << 60;
  call.window = {
      .left = std::min(problem.integer("window_left"), kWidest),
      .right = problem.flag("causal") ? 0 : std::min(problem.integer("window_right"), kWidest)};
  const Value& scale = problem.attribute("scale");
  call.scale = scale.is_absent() ? 1 / std::sqrt(static_cast<float>(call.head_dim))
                                 : static_cast<float>(scale.as_float());
  call.softcap = static_cast<float>(problem.number("softcap"));
}

// ---- What a valid call is -----------------------------------------------------------------------

template <class... What>
[[noreturn]] void fail(const Problem& problem, const What&... what) {
  throw InvalidArgument(concatenate(problem.operation->name, " ", what...));
}

void check_attributes(const Problem& problem) {
  for (const std::string_view name : {"window_left", "window_right"}) {
    if (problem.integer(name) < -1) [[unlikely]]
      fail(problem, "takes ", name, " from -1 on, not ", problem.integer(name));
  }
  const Value& scale = problem.attribute("scale");
  if (!scale.is_absent() && !std::isfinite(scale.as_float())) [[unlikely]]
    fail(problem, "takes a finite scale, not ", scale.as_float());
  const double softcap = problem.number("softcap");
  if (!std::isfinite(softcap) || softcap < 0) [[unlikely]]
    fail(problem, "takes a softcap from 0 on, not ", softcap);
}

// q, k and v of these ranks, heads in dimension `head`, columns in the last.
void check_heads(const Problem& problem, int rank_q, int rank_k, int head_q, int head_k) {
  const Tensor& q = problem.tensor(kQ);
  const Tensor& k = problem.tensor(kK);
  const Tensor& v = problem.tensor(kV);
  const auto wrong = [&](const auto&... what) {
    fail(problem, what..., ", got ", q, ", ", k, " and ", v);
  };
  if (q.rank != rank_q || k.rank != rank_k || v.rank != rank_k) [[unlikely]]
    wrong("takes q of ", rank_q, " dimensions, k and v of ", rank_k);
  if (q.dtype != k.dtype || q.dtype != v.dtype || !kFloats.has(q.dtype)) [[unlikely]]
    wrong("takes q, k and v of one dtype: f32, f16 or bf16");
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

void check_per_head(const Problem& problem, std::string_view name, int64_t batch, int64_t heads,
                    bool may_have_batch) {
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
};

template <class T>
struct Formula {
  const Call& call;

  static double at(const Heads& heads, int64_t offset) {
    return to_float(heads.as<const T>()[offset]);
  }

  // The scores of a query, -infinity where it sees nothing. place(j): which batch and row of k and
  // v key j is.
  template <class Place>
  std::vector<double> scores(const Query& query, const Place& place) const {
    const int64_t kv_head = query.head / call.group();
    std::vector<double> scores(static_cast<size_t>(query.keys), -kInf);
    const int64_t over = query.row + query.keys - query.queries;
    const Window& window = call.window;
    const int64_t from = call.q.batch * query.batch + call.q.head * query.head +
                         call.q.row * (query.first_query + query.row);
    for (int64_t j = 0; j < query.keys; ++j) {
      if (window.right >= 0 && j > over + window.right) continue;
      if (window.left >= 0 && j < over - window.left) continue;
      const auto [batch, row] = place(j);
      const int64_t to = call.k.batch * batch + call.k.head * kv_head + call.k.row * row;
      double sum = 0;
      for (int64_t d = 0; d < call.head_dim; ++d) {
        sum += at(call.q, from + d * call.q.column) * at(call.k, to + d * call.k.column);
      }
      double score = sum * call.scale;
      if (call.softcap > 0) score = call.softcap * std::tanh(score / call.softcap);
      score += bias(query, j);
      if (call.slopes.exists) {
        const float slope =
            call.slopes.data[call.slopes.batch * query.batch + call.slopes.head * query.head];
        score -= slope * std::abs(static_cast<double>(over - j));
      }
      scores[static_cast<size_t>(j)] = score;
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
        to[d] += weight * at(call.v, from + d * call.v.column);
      }
    }
  }
};

struct KeyPlace {
  int64_t batch;
  int64_t row;
};

// Pairs of a query and a key that it sees.
double pairs_of(const Window& window, int64_t queries, int64_t keys) {
  double pairs = 0;
  for (int64_t i = 0; i < queries; ++i) {
    const int64_t over = i + keys - queries;
    const int64_t first = window.left < 0 ? 0 : std::max<int64_t>(0, over - window.left);
    const int64_t last = window.right < 0 ? keys : std::min(keys, over + window.right + 1);
    pairs += static_cast<double>(std::max<int64_t>(0, last - first));
  }
  return pairs;
}

double flops_of(const Call& call, double pairs) {
  return 2.0 * pairs * static_cast<double>(call.head_dim + call.value_dim);
}

double bytes_of(const Problem& problem) {
  double bytes = 0;
  for (const Parameter& parameter : problem.operation->parameters) {
    const Tensor& tensor = problem[parameter.name];
    if (!tensor.exists()) continue;
    bytes += static_cast<double>(without_repeats(tensor).elements()) *
             static_cast<double>(size_of(tensor.dtype));
  }
  return bytes;
}

// An output is rounded once. What weighs the values is rounded to the dtype too before tensor cores
// multiply it, each weight alone, so that the noise is of the size of an output; an f32 weight is
// off by its exponential's last bits. A typical output of n keys that weigh alike is 1 / sqrt(n);
// where few are seen, 1.
Tolerance tolerance_of(const Call& call, const Problem& problem, const Parameter& output,
                       bool all_seen) {
  const double sums = gemm::accumulation_error(call.keys) + gemm::accumulation_error(call.head_dim);
  if (output.name == "lse") {
    const double off = std::ldexp(1.0, -18) + 4 * sums;
    return {.relative = off, .worst = 8 * off, .floor = 1};
  }
  const double rounding = gemm::rounding_error(problem.dtype());
  const double noise = problem.dtype() == DType::kF32 ? std::ldexp(1.0, -19) : rounding;
  const double typical =
      all_seen ? 2 / std::sqrt(static_cast<double>(std::max<int64_t>(call.keys, 4))) : 1;
  return {.relative = rounding + noise + 4 * sums,
          .worst = 1.01 * rounding + 8 * (noise + sums),
          .floor = typical};
}

// ---- Cases --------------------------------------------------------------------------------------

// [batch, heads, rows, columns], each row `padding` longer than its own; rows before heads in
// memory where asked.
Tensor laid(DType dtype, std::array<int64_t, 4> shape, int64_t padding, bool rows_first) {
  Tensor tensor = Tensor::dense(dtype, shape);
  const int64_t pitch = shape[3] + padding;
  tensor.strides[2] = rows_first ? pitch * shape[1] : pitch;
  tensor.strides[1] = rows_first ? pitch : pitch * shape[2];
  tensor.strides[0] = pitch * shape[1] * shape[2];
  return tensor;
}
Tensor laid_rows(DType dtype, std::array<int64_t, 3> shape, int64_t padding) {
  Tensor tensor = Tensor::dense(dtype, shape);
  tensor.strides[1] = shape[2] + padding;
  tensor.strides[0] = shape[1] * tensor.strides[1];
  return tensor;
}

// Where `count` sequences of `total` rows in all begin, some of them empty, and where the last
// ends. Of 1024 rows and more, lengths differ by up to eight times, and are the same for keys and
// queries and with every seed, as what is timed is to be.
std::vector<int64_t> random_starts(int64_t count, int64_t total, uint64_t seed) {
  std::vector<double> weights(static_cast<size_t>(count));
  double sum = 0;
  const uint64_t mixed = (total >= 1024 ? 0 : seed) + static_cast<uint64_t>(total * 31 + count);
  for (size_t b = 0; b < weights.size(); ++b) {
    const double uniform = random_uniform(mixed, b);
    weights[b] = total >= 1024 ? 0.125 + 0.875 * uniform : std::floor(uniform * 5);
    sum += weights[b];
  }
  std::vector<int64_t> starts(weights.size() + 1, 0);
  double reached = 0;
  for (size_t b = 0; b < weights.size(); ++b) {
    reached += weights[b];
    starts[b + 1] =
        sum == 0 ? 0 : static_cast<int64_t>(std::round(reached / sum * static_cast<double>(total)));
  }
  starts.back() = total;
  return starts;
}

constexpr double kMostSlope = 0.5;

}  // namespace

// ---- attention ----------------------------------------------------------------------------------

Attention::Call Attention::call(const Problem& problem) {
  const Tensor& q = problem.tensor(kQ);
  const Tensor& k = problem.tensor(kK);
  const Tensor& v = problem.tensor(kV);
  Call call;
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
  call.out = heads_of(problem.tensor(kOut));
  call.lse = heads_of(problem.tensor(kLse));
  set_attributes(problem, call);
  const Tensor& bias = problem.tensor(kBias);
  if (bias.exists()) {
    Tensor scores = Tensor::dense(bias.dtype, {call.batch, call.heads, call.queries, call.keys});
    call.bias = {true, bias.dtype, heads_of(broadcast(bias, scores))};
  }
  call.slopes = per_head(problem.tensor(kSlopes));
  call.sinks = per_head(problem.tensor(kSinksAt));
  return call;
}

void Attention::infer(Problem& problem) {
  check_attributes(problem);
  check_heads(problem, 4, 4, 1, 1);
  const Tensor& q = problem.tensor(kQ);
  const Tensor& k = problem.tensor(kK);
  if (q.extent(0) != k.extent(0)) [[unlikely]]
    fail(problem, "takes one batch, got ", q, " and ", k);
  const Tensor& bias = problem.tensor(kBias);
  if (bias.exists()) {
    const Tensor scores =
        Tensor::dense(bias.dtype, {q.extent(0), q.extent(1), q.extent(2), k.extent(2)});
    const DTypes taken = DTypes{q.dtype, DType::kF32, DType::kBool};
    if (!taken.has(bias.dtype) || !broadcast(bias, scores).exists()) [[unlikely]]
      fail(problem, "takes a bias of ", to_string(taken), " that broadcasts to ", scores, ", got ",
           bias);
  }
  check_per_head(problem, "alibi_slopes", q.extent(0), q.extent(1), true);
  check_per_head(problem, "sinks", q.extent(0), q.extent(1), false);
  problem.tensor(kOut) =
      Tensor::dense(q.dtype, {q.extent(0), q.extent(1), q.extent(2), problem.tensor(kV).extent(3)});
  problem.tensor(kLse) = Tensor::dense(DType::kF32, {q.extent(0), q.extent(1), q.extent(2)});
}

void Attention::make(const Case& chosen, DType dtype, Problem& problem) {
  const auto [batch, heads, queries, keys, dim, kv, value, has] = chosen.extents;
  const int64_t kv_heads = kv == 0 ? heads : kv;
  const int64_t value_dim = value == 0 ? dim : value;
  const bool rows_first = (has & kRowsBeforeHeads) != 0;
  problem.tensor(kQ) = laid(dtype, {batch, heads, queries, dim}, chosen.padding, rows_first);
  problem.tensor(kK) = laid(dtype, {batch, kv_heads, keys, dim}, chosen.padding, rows_first);
  problem.tensor(kV) = laid(dtype, {batch, kv_heads, keys, value_dim}, chosen.padding, rows_first);
  if ((has & kBiasTensor) != 0) {
    problem.tensor(kBias) = Tensor::dense(dtype, {batch, heads, queries, keys});
  }
  if ((has & kBiasOfKeys) != 0) {
    problem.tensor(kBias) = Tensor::dense(DType::kBool, {batch, 1, 1, keys});
  }
  if ((has & kAlibi) != 0) problem.tensor(kSlopes) = Tensor::dense(DType::kF32, {heads});
  if ((has & kSinks) != 0) problem.tensor(kSinksAt) = Tensor::dense(DType::kF32, {heads});
  problem.tensor(kOut) =
      laid(dtype, {batch, heads, queries, value_dim}, chosen.padding, rows_first);
}

Cost Attention::cost(const Problem& problem) {
  const Call call = Attention::call(problem);
  const double pairs =
      pairs_of(call.window, call.queries, call.keys) * static_cast<double>(call.batch * call.heads);
  return {.bytes = bytes_of(problem), .flops = flops_of(call, pairs)};
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
  const double noise = gemm::rounding_error(accumulate) * std::sqrt(steps);
  allowed.relative += 2 * noise;
  allowed.worst += 8 * noise;
  return allowed;
}

int64_t Attention::items(const Problem& problem, const Parameter& /*output*/) {
  const Tensor& q = problem.tensor(kQ);
  return q.extent(0) * q.extent(1) * q.extent(2);
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
    const Formula<T> formula{call};
    for (int64_t item = slice.first; item < slice.last; ++item) {
      const int64_t batch = item / (call.heads * call.queries);
      const Query query{
          batch, item / call.queries % call.heads, item % call.queries, 0, call.queries, call.keys};
      const auto place = [&](int64_t j) { return KeyPlace{batch, j}; };
      const int64_t at = item - slice.first;
      if (expected[kOut] != nullptr) {
        formula.out(query, place, expected[kOut] + at * call.value_dim);
      }
      if (expected[kLse] != nullptr) {
        expected[kLse][at] = formula.lse(query, formula.scores(query, place));
      }
    }
  });
}

// ---- attention_varlen ---------------------------------------------------------------------------

AttentionVarlen::Call AttentionVarlen::call(const Problem& problem) {
  const Tensor& q = problem.tensor(kQ);
  const Tensor& k = problem.tensor(kK);
  const Tensor& v = problem.tensor(kV);
  const Tensor& table = problem.tensor(kTable);
  Call call;
  call.dtype = q.dtype;
  call.paged = table.exists();
  call.starts_q = lengths_of(problem.tensor(kStartsQ));
  call.starts_k = lengths_of(problem.tensor(kStartsK));
  call.used_k = lengths_of(problem.tensor(kUsedK));
  call.batch = problem.tensor(kStartsQ).extent(0) - 1;
  call.heads = q.extent(1);
  call.kv_heads = std::max<int64_t>(k.extent(call.paged ? 2 : 1), 1);
  call.total_queries = q.extent(0);
  const Value& most = problem.attribute("max_seqlen_q");
  call.queries =
      most.is_absent() ? call.total_queries : std::min(call.total_queries, most.as_int());
  call.head_dim = q.extent(2);
  call.value_dim = v.extent(v.rank - 1);
  call.q = packed_heads_of(q);
  call.out = packed_heads_of(problem.tensor(kVarlenOut));
  const Tensor& lse = problem.tensor(kVarlenLse);
  call.lse = {lse.data, 0, lse.stride(0), lse.stride(1), 0};
  if (call.paged) {
    const auto in_pages = [](const Tensor& tensor) -> Heads {
      return {tensor.data, tensor.stride(0), tensor.stride(2), tensor.stride(1), tensor.stride(3)};
    };
    call.k = in_pages(k);
    call.v = in_pages(v);
    call.total_pages = k.extent(0);
    call.page = k.extent(1);
    call.most_pages = table.extent(1);
    call.pages = table.as<const int32_t>();
    call.pages_batch = table.stride(0);
    call.pages_column = table.stride(1);
    call.total_keys = call.total_pages * call.page;
    call.keys = call.most_pages * call.page;
  } else {
    call.k = packed_heads_of(k);
    call.v = packed_heads_of(v);
    call.total_keys = k.extent(0);
    call.keys = call.total_keys;
  }
  set_attributes(problem, call);
  call.slopes = per_head(problem.tensor(kVarlenSlopesAt));
  call.sinks = per_head(problem.tensor(kVarlenSinksAt));
  return call;
}

void AttentionVarlen::infer(Problem& problem) {
  check_attributes(problem);
  const Value& most = problem.attribute("max_seqlen_q");
  if (!most.is_absent() && most.as_int() < 0) [[unlikely]]
    fail(problem, "takes max_seqlen_q from 0 on, not ", most.as_int());
  const bool paged = problem.tensor(kTable).exists();
  check_heads(problem, 3, paged ? 4 : 3, 1, paged ? 2 : 1);
  const auto check_i32 = [&](int place, int64_t extent, std::string_view name) {
    const Tensor& tensor = problem.tensor(place);
    if (tensor.rank != 1 || tensor.dtype != DType::kI32 ||
        (extent < 0 ? tensor.extent(0) < 1 : tensor.extent(0) != extent)) [[unlikely]] {
      fail(problem, "takes ", name, " of i32 [", extent < 0 ? "B + 1" : std::to_string(extent),
           "], got ", tensor);
    }
  };
  check_i32(kStartsQ, -1, "cu_seqlens_q");
  const int64_t batch = problem.tensor(kStartsQ).extent(0) - 1;
  if (batch == 0 && problem.tensor(kQ).extent(0) > 0) [[unlikely]]
    fail(problem, "takes no rows of q where there is no sequence, got ", problem.tensor(kQ));
  const bool has_starts = problem.tensor(kStartsK).exists();
  const bool has_used = problem.tensor(kUsedK).exists();
  if (has_starts) check_i32(kStartsK, batch + 1, "cu_seqlens_k");
  if (has_used) check_i32(kUsedK, batch, "seqused_k");
  if (paged ? has_starts || !has_used : !has_starts) [[unlikely]]
    fail(problem, paged ? "of pages takes seqused_k and no cu_seqlens_k"
                        : "without block_table takes cu_seqlens_k");
  if (paged) {
    const Tensor& table = problem.tensor(kTable);
    if (table.rank != 2 || table.dtype != DType::kI32 || table.extent(0) != batch) [[unlikely]]
      fail(problem, "takes block_table of i32 [", batch, ", pages], got ", table);
    if (problem.tensor(kK).extent(1) < 1) [[unlikely]]
      fail(problem, "takes pages of at least one key, got ", problem.tensor(kK));
  }
  const Tensor& q = problem.tensor(kQ);
  const Tensor& v = problem.tensor(kV);
  check_per_head(problem, "alibi_slopes", batch, q.extent(1), true);
  check_per_head(problem, "sinks", batch, q.extent(1), false);
  problem.tensor(kVarlenOut) =
      Tensor::dense(q.dtype, {q.extent(0), q.extent(1), v.extent(v.rank - 1)});
  problem.tensor(kVarlenLse) = Tensor::dense(DType::kF32, {q.extent(1), q.extent(0)});
}

void AttentionVarlen::make(const Case& chosen, DType dtype, Problem& problem) {
  const auto [batch, heads, queries, keys, dim, kv, value, has] = chosen.extents;
  const int64_t kv_heads = kv == 0 ? heads : kv;
  const int64_t value_dim = value == 0 ? dim : value;
  problem.tensor(kQ) = laid_rows(dtype, {queries, heads, dim}, chosen.padding);
  problem.tensor(kStartsQ) = Tensor::dense(DType::kI32, {batch + 1});
  if ((has & kPages) != 0) {
    constexpr int64_t kPage = 16;
    const int64_t pages = (keys + kPage - 1) / kPage;
    problem.tensor(kK) = laid(dtype, {pages + 1, kv_heads, kPage, dim}, chosen.padding, true);
    problem.tensor(kV) = laid(dtype, {pages + 1, kv_heads, kPage, value_dim}, chosen.padding, true);
    for (const int place : {kK, kV}) {  // the page's rows are its second dimension
      std::swap(problem.tensor(place).shape[1], problem.tensor(place).shape[2]);
      std::swap(problem.tensor(place).strides[1], problem.tensor(place).strides[2]);
    }
    problem.tensor(kTable) = Tensor::dense(DType::kI32, {batch, pages});
  } else {
    problem.tensor(kK) = laid_rows(dtype, {keys, kv_heads, dim}, chosen.padding);
    problem.tensor(kV) = laid_rows(dtype, {keys, kv_heads, value_dim}, chosen.padding);
    problem.tensor(kStartsK) = Tensor::dense(DType::kI32, {batch + 1});
  }
  if ((has & (kUsed | kPages)) != 0) problem.tensor(kUsedK) = Tensor::dense(DType::kI32, {batch});
  if ((has & kVarlenAlibi) != 0) {
    problem.tensor(kVarlenSlopesAt) = Tensor::dense(DType::kF32, {batch, heads});
  }
  if ((has & kVarlenSinks) != 0) {
    problem.tensor(kVarlenSinksAt) = Tensor::dense(DType::kF32, {heads});
  }
  problem.tensor(kVarlenOut) = laid_rows(dtype, {queries, heads, value_dim}, chosen.padding);
}

// As if all sequences were of one length, which data says.
Cost AttentionVarlen::cost(const Problem& problem) {
  const Call call = AttentionVarlen::call(problem);
  const int64_t batch = std::max<int64_t>(call.batch, 1);
  const double pairs = pairs_of(call.window, call.total_queries / batch, call.total_keys / batch) *
                       static_cast<double>(batch * call.heads);
  return {.bytes = bytes_of(problem), .flops = flops_of(call, pairs), .at_most = true};
}

Tolerance AttentionVarlen::tolerance(const Problem& problem, const Parameter& output) {
  return tolerance_of(AttentionVarlen::call(problem), problem, output, false);
}

int64_t AttentionVarlen::items(const Problem& problem, const Parameter& /*output*/) {
  const Tensor& q = problem.tensor(kQ);
  return q.extent(0) * q.extent(1);
}

void AttentionVarlen::fill(const Problem& problem, int index, uint64_t seed) {
  const Tensor& tensor = problem.tensor(index);
  const Call call = AttentionVarlen::call(problem);
  const auto starts = [&](int64_t total) {
    const std::vector<int64_t> at = random_starts(call.batch, total, seed);
    fill_with(tensor, [&](int64_t b) { return static_cast<double>(at[static_cast<size_t>(b)]); });
  };
  const auto below = [&](int64_t limit) {
    fill_with(tensor, [&](int64_t i) {
      return std::floor(random_uniform(seed, static_cast<uint64_t>(i)) *
                        static_cast<double>(limit));
    });
  };
  switch (index) {
    case kStartsQ: return starts(call.total_queries);
    case kStartsK: return starts(call.total_keys);
    case kTable: return below(call.total_pages);
    case kVarlenSlopesAt:
      return fill_with(tensor, [seed](int64_t h) {
        return kMostSlope * random_uniform(seed, static_cast<uint64_t>(h));
      });
    case kUsedK: {
      if (call.paged) return below(call.keys + 1);
      // Up to as many as a sequence has, which are filled before.
      return fill_with(tensor, [&](int64_t b) {
        const int64_t stride = call.starts_k.stride;
        const int32_t has = call.starts_k.data[(b + 1) * stride] - call.starts_k.data[b * stride];
        return std::floor(random_uniform(seed, static_cast<uint64_t>(b)) * (has + 1));
      });
    }
    default: return fill_normal_input(problem, index, seed);
  }
}

namespace {

// Query `row` of all, in the sequence that has it.
Query query_of(const VarlenCall& call, int64_t row, int64_t head) {
  const auto start = [&](const Lengths& lengths, int64_t b) -> int64_t {
    return lengths.data[b * lengths.stride];
  };
  int64_t b = 0;
  while (b + 1 < call.batch && start(call.starts_q, b + 1) <= row) ++b;
  const int64_t first = start(call.starts_q, b);
  const int64_t keys = call.used_k.exists ? start(call.used_k, b)
                                          : start(call.starts_k, b + 1) - start(call.starts_k, b);
  return {b, head, row - first, first, start(call.starts_q, b + 1) - first, keys};
}

// Calls f(query, place) with where its keys lie.
template <class F>
void with_query(const VarlenCall& call, int64_t row, int64_t head, F&& f) {
  const Query query = query_of(call, row, head);
  f(query, [&](int64_t j) -> KeyPlace {
    if (!call.paged) return {0, call.starts_k.data[query.batch * call.starts_k.stride] + j};
    const int32_t page =
        call.pages[query.batch * call.pages_batch + j / call.page * call.pages_column];
    return {page, j % call.page};
  });
}

}  // namespace

// Slices of out are queries, each with all heads; those of lse are heads, each with all queries.
void AttentionVarlen::reference(const Problem& problem, Slice slice,
                                std::span<double* const> expected) {
  const Call call = AttentionVarlen::call(problem);
  with_type<kFloats>(call.dtype, [&]<class T>() {
    const Formula<T> formula{call};
    for (int64_t item = slice.first; item < slice.last; ++item) {
      const int64_t at = item - slice.first;
      if (double* const out = expected[kVarlenOut]) {
        with_query(call, item / call.heads, item % call.heads,
                   [&](const Query& query, const auto& place) {
                     formula.out(query, place, out + at * call.value_dim);
                   });
      }
      if (double* const lse = expected[kVarlenLse]) {
        with_query(call, item % call.total_queries, item / call.total_queries,
                   [&](const Query& query, const auto& place) {
                     lse[at] = formula.lse(query, formula.scores(query, place));
                   });
      }
    }
  });
}

// ---- Cases ------------------------------------------------------------------------------------

namespace {

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
};

constexpr Case kDenseVerify[] = {
    // Head dims of every width of a rung, one tile and its tails.
    dense({1, 2, 64, 64, 64}),
    dense({2, 2, 65, 129, 64}),
    dense({1, 2, 200, 300, 64}, kOnlyBefore),
    dense({1, 1, 300, 200, 64}, kOnlyBefore),
    dense({1, 2, 128, 128, 128}),
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
    dense({1, 1, 5, 530, 1024}, kOnlyBefore),
    // Few and many heads a head of keys; rows before heads.
    dense({2, 8, 70, 70, 64, 2}, kOnlyBefore),
    dense({1, 6, 33, 97, 128, 1, 0, kRowsBeforeHeads}),
    dense({2, 3, 65, 65, 64, 0, 0, kRowsBeforeHeads}, kOnlyBefore),
    // One query, one key, none of either.
    dense({2, 4, 1, 129, 64, 2}),
    dense({1, 2, 130, 1, 64}),
    dense({1, 2, 5, 0, 64}),
    dense({1, 2, 0, 5, 64}),
    dense({0, 2, 5, 5, 64}),
    // More queries than keys: the first see nothing.
    dense({1, 2, 150, 20, 64}, kOnlyBefore),
    // Windows.
    windowed({1, 2, 200, 200, 64}, 17, 0),
    windowed({1, 1, 130, 260, 64}, 64, 70),
    windowed({1, 1, 100, 40, 64}, -1, 3),
    windowed({1, 1, 90, 200, 128}, 0, 0),
    windowed({1, 1, 260, 200, 64}, 30, -1),
    // Scores.
    scored({1, 2, 65, 70, 64}, 0.3, 0),
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
};

constexpr Case varlen(std::array<int64_t, kMaxExtents> extents, Seen seen = kAll,
                      int64_t padding = 0) {
  Case chosen{.extents = extents, .padding = padding};
  if (seen == kOnlyBefore) chosen.attributes[0] = true;
  return chosen;
}

constexpr Case kVarlenSmoke[] = {
    varlen({3, 2, 40, 50, 32}, kOnlyBefore),
    varlen({2, 2, 9, 40, 16, 1, 0, kPages}),
};

constexpr Case kVarlenVerify[] = {
    varlen({1, 2, 64, 64, 64}),
    varlen({4, 2, 300, 300, 64}, kOnlyBefore),
    varlen({5, 4, 200, 333, 64, 2}),
    varlen({7, 2, 150, 40, 128, 1}, kOnlyBefore),
    varlen({3, 1, 260, 290, 256}, kOnlyBefore),
    varlen({40, 2, 90, 100, 64}),
    varlen({3, 2, 66, 70, 40, 1, 24}),
    varlen({3, 2, 70, 90, 64, 0, 0, kUsed}, kOnlyBefore),
    varlen({3, 4, 40, 200, 64, 2, 0, kPages}, kOnlyBefore),
    varlen({2, 2, 5, 130, 128, 1, 0, kPages}),
    varlen({3, 2, 50, 60, 64, 0, 0, kVarlenAlibi | kVarlenSinks}, kOnlyBefore),
    varlen({1, 2, 0, 5, 64}),
    varlen({0, 2, 0, 0, 64}),
    varlen({2, 2, 5, 0, 64}),
    varlen({3, 2, 50, 60, 64}, kAll, 3),
};

constexpr Case kVarlenBench[] = {
    varlen({8, 16, 32768, 32768, 128}),
    varlen({8, 16, 32768, 32768, 128}, kOnlyBefore),
    varlen({16, 32, 32768, 32768, 64}, kOnlyBefore),
};

}  // namespace

Cases Attention::cases() { return {kDenseSmoke, kDenseVerify, kDenseBench}; }
Cases AttentionVarlen::cases() { return {kVarlenSmoke, kVarlenVerify, kVarlenBench}; }

}  // namespace ws::attention
