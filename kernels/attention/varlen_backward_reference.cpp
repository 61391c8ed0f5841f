// The gradients of attention over packed sequences in double precision, and what rungs are checked
// on.
//
// Sequences begin some rows behind the first and end some before the last, so that there are rows
// that no sequence has; what the forward has not written there, lse, is NaN.
#include "kernels/attention/backward_reference.hpp"
#include "kernels/attention/packed_reference.hpp"

namespace ws::attention {

using namespace in_double;

namespace {

enum Place { kStartsQ = 3, kStartsK, kDout, kOut, kLse, kUsedK, kSlopes, kDlse, kDq, kDk, kDv };

// Of [heads, rows].
Heads numbers_of(const Tensor& tensor) {
  if (!tensor.exists()) return {};
  return {tensor.data, 0, tensor.stride(0), tensor.stride(1), 0};
}

// As random_starts, with up to two rows before the first sequence and three behind the last, but of
// what is timed.
std::vector<int64_t> starts_apart(int64_t count, int64_t total, uint64_t seed) {
  if (count == 0 || is_timed(total)) return random_starts(count, total, seed);
  const auto drawn = [&](uint64_t at, int64_t most) {
    const uint64_t mixed = seed + static_cast<uint64_t>(total * 17 + count);
    return static_cast<int64_t>(random_uniform(mixed, at) * static_cast<double>(most + 1));
  };
  const int64_t before = drawn(0, std::min<int64_t>(total, 2));
  const int64_t behind = drawn(1, std::min<int64_t>(total - before, 3));
  std::vector<int64_t> starts = random_starts(count, total - before - behind, seed);
  for (int64_t& start : starts) start += before;
  return starts;
}

// The sequence that has row `row` of all; below zero where none does.
int64_t owner_of(const Lengths& starts, int64_t batch, int64_t row) {
  if (batch == 0 || row < entry(starts, 0) || row >= entry(starts, batch)) return -1;
  return sequence_of_row(starts, batch, row);
}

}  // namespace

AttentionVarlenBackward::Call AttentionVarlenBackward::call(const Problem& problem) {
  const Tensor& q = problem.tensor(kQ);
  const Tensor& k = problem.tensor(kK);
  const Tensor& v = problem.tensor(kV);
  Call call;
  call.dtype = q.dtype;
  call.deterministic = problem.flag("deterministic");
  call.starts_q = lengths_of(problem.tensor(kStartsQ));
  call.starts_k = lengths_of(problem.tensor(kStartsK));
  call.used_k = lengths_of(problem.tensor(kUsedK));
  call.batch = problem.tensor(kStartsQ).extent(0) - 1;
  call.heads = q.extent(1);
  call.kv_heads = std::max<int64_t>(k.extent(1), 1);
  call.queries = call.total_queries = q.extent(0);
  call.keys = call.total_keys = k.extent(0);
  call.head_dim = q.extent(2);
  call.value_dim = v.extent(2);
  call.q = packed_heads_of(q);
  call.k = packed_heads_of(k);
  call.v = packed_heads_of(v);
  call.out = packed_heads_of(problem.tensor(kOut));
  call.dout = packed_heads_of(problem.tensor(kDout));
  call.lse = numbers_of(problem.tensor(kLse));
  call.dlse = numbers_of(problem.tensor(kDlse));
  call.dq = packed_heads_of(problem.tensor(kDq));
  call.dk = packed_heads_of(problem.tensor(kDk));
  call.dv = packed_heads_of(problem.tensor(kDv));
  set_attributes(problem, call);
  set_softcap(problem, call);
  call.slopes = per_head(problem.tensor(kSlopes));
  return call;
}

void AttentionVarlenBackward::infer(Problem& problem) {
  check_attributes(problem);
  check_softcap(problem);
  check_heads(problem, kFloats, 3, 3, 1, 1);
  check_lengths(problem, "cu_seqlens_q", -1);
  const int64_t batch = problem.tensor(kStartsQ).extent(0) - 1;
  check_lengths(problem, "cu_seqlens_k", batch + 1);
  if (problem.tensor(kUsedK).exists()) check_lengths(problem, "seqused_k", batch);
  const Tensor& q = problem.tensor(kQ);
  const Tensor& k = problem.tensor(kK);
  const Tensor& v = problem.tensor(kV);
  check_per_head(problem, "alibi_slopes", batch, q.extent(1), true);
  const Tensor out = Tensor::dense(q.dtype, {q.extent(0), q.extent(1), v.extent(2)});
  const Tensor lse = Tensor::dense(DType::kF32, {q.extent(1), q.extent(0)});
  check_like(problem, "dout", out);
  check_like(problem, "o", out);
  check_like(problem, "lse", lse);
  check_like(problem, "dlse", lse);
  problem.tensor(kDq) = Tensor::like(q);
  problem.tensor(kDk) = Tensor::like(k);
  problem.tensor(kDv) = Tensor::like(v);
}

void AttentionVarlenBackward::make(const Case& chosen, DType dtype, Problem& problem) {
  const auto [batch, heads, queries, keys, dim, kv, value, has] = chosen.extents;
  const int64_t kv_heads = kv == 0 ? heads : kv;
  const int64_t value_dim = value == 0 ? dim : value;
  const auto laid = [&](int64_t rows, int64_t of_heads, int64_t columns) {
    return laid_rows(dtype, {rows, of_heads, columns}, chosen.padding);
  };
  problem.tensor(kQ) = problem.tensor(kDq) = laid(queries, heads, dim);
  problem.tensor(kK) = problem.tensor(kDk) = laid(keys, kv_heads, dim);
  problem.tensor(kV) = problem.tensor(kDv) = laid(keys, kv_heads, value_dim);
  problem.tensor(kOut) = problem.tensor(kDout) = laid(queries, heads, value_dim);
  const Tensor starts = Tensor::dense(DType::kI32, {batch + 1});
  problem.tensor(kStartsQ) = problem.tensor(kStartsK) = starts;
  const Tensor lse = Tensor::dense(DType::kF32, {heads, queries});
  problem.tensor(kLse) = lse;
  if ((has & kWithUsed) != 0) problem.tensor(kUsedK) = Tensor::dense(DType::kI32, {batch});
  if ((has & kWithSlopes) != 0) {
    problem.tensor(kSlopes) = Tensor::dense(DType::kF32, {batch, heads});
  }
  if ((has & kWithGradientOfLse) != 0) problem.tensor(kDlse) = lse;
}

Cost AttentionVarlenBackward::cost(const Problem& problem) {
  const Call call = AttentionVarlenBackward::call(problem);
  const double pairs =
      fewest_pairs_of(call.window, call, call.batch) * static_cast<double>(call.heads);
  return {
      .bytes = least_traffic(problem), .flops = backward_flops_of(call, pairs), .at_most = true};
}

Cost AttentionVarlenBackward::cost_of_data(const Problem& problem) {
  const Call call = AttentionVarlenBackward::call(problem);
  const double pairs =
      packed_pairs_of(call.window, call, call.batch) * static_cast<double>(call.heads);
  return {.bytes = least_traffic(problem), .flops = backward_flops_of(call, pairs)};
}

Tolerance AttentionVarlenBackward::tolerance(const Problem& problem, const Parameter& output) {
  return backward_tolerance_of(AttentionVarlenBackward::call(problem), problem, output);
}

// Rows, each with all its heads.
int64_t AttentionVarlenBackward::items(const Problem& problem, const Parameter& output) {
  const Tensor& rows = problem.tensor(output.name == "dq" ? kQ : kK);
  return rows.extent(0) * rows.extent(1);
}

void AttentionVarlenBackward::fill(const Problem& problem, int index, uint64_t seed) {
  const Tensor& tensor = problem.tensor(index);
  const Call call = AttentionVarlenBackward::call(problem);
  switch (index) {
    case kStartsQ: return fill_starts(tensor, starts_apart(call.batch, call.total_queries, seed));
    case kStartsK: return fill_starts(tensor, starts_apart(call.batch, call.total_keys, seed));
    case kUsedK: return fill_used(tensor, call, seed);
    case kSlopes: return fill_slopes(tensor, seed);
    case kLse: break;
    default: return fill_normal_input(problem, index, seed);
  }
  // Of all keys of a sequence: seqused_k is filled later, and of fewer weights are but smaller.
  fill_with(tensor, [&](int64_t i) {
    const int64_t row = i % call.total_queries;
    const int64_t b = owner_of(call.starts_q, call.batch, row);
    if (b < 0) return std::numeric_limits<double>::quiet_NaN();
    return random_lse(call, row - entry(call.starts_q, b), between(call.starts_q, b),
                      between(call.starts_k, b), seed, i);
  });
}

void AttentionVarlenBackward::reference(const Problem& problem, Slice slice,
                                        std::span<double* const> expected) {
  const Call call = AttentionVarlenBackward::call(problem);
  const auto clear = [](double* to, int64_t columns) {
    if (to != nullptr) std::fill(to, to + columns, 0.0);
  };
  with_type<kFloats>(call.dtype, [&]<class T>() {
    for (int64_t item = slice.first; item < slice.last; ++item) {
      const int64_t at = item - slice.first;
      if (double* const dq = expected_of(expected[kDq], at, call.head_dim)) {
        const int64_t row = item / call.heads;
        const int64_t b = owner_of(call.starts_q, call.batch, row);
        if (b < 0) {
          clear(dq, call.head_dim);
        } else {
          query_reference<T>(
              call, packed_query(call, b, row - entry(call.starts_q, b), item % call.heads), dq,
              nullptr);
        }
      }
      double* const dk = expected_of(expected[kDk], at, call.head_dim);
      double* const dv = expected_of(expected[kDv], at, call.value_dim);
      if (dk == nullptr && dv == nullptr) continue;
      const int64_t row = item / call.kv_heads;
      const int64_t b = owner_of(call.starts_k, call.batch, row);
      if (b < 0 || row - entry(call.starts_k, b) >= keys_of(call, b)) {
        clear(dk, call.head_dim);
        clear(dv, call.value_dim);
      } else {
        key_reference<T>(call, packed_query(call, b, 0, 0), item % call.kv_heads,
                         row - entry(call.starts_k, b), dk, dv);
      }
    }
  });
}

// ---- Cases ------------------------------------------------------------------------------------

namespace {

constexpr auto kUsedKeys = AttentionVarlenBackward::kWithUsed;
constexpr auto kSloped = AttentionVarlenBackward::kWithSlopes;
constexpr auto kOfLse = AttentionVarlenBackward::kWithGradientOfLse;

constexpr Case in_window(std::array<int64_t, kMaxExtents> extents, int64_t left, int64_t right) {
  Case chosen = varlen(extents);
  chosen.attributes[1] = left;
  chosen.attributes[2] = right;
  return chosen;
}
constexpr Case capped(std::array<int64_t, kMaxExtents> extents, double softcap) {
  Case chosen = varlen(extents);
  chosen.attributes[3] = 0.3;
  chosen.attributes[4] = softcap;
  return chosen;
}

constexpr Case kPackedBackwardSmoke[] = {
    varlen({3, 2, 19, 22, 16}, kOnlyBefore),
    varlen({2, 2, 9, 20, 24, 1, 16, kUsedKeys | kSloped | kOfLse}),
};

constexpr Case kPackedBackwardVerify[] = {
    // One sequence; several, of lengths around those of tiles; many that are short.
    varlen({1, 2, 64, 64, 64}),
    varlen({1, 1, 131, 133, 64}, kOnlyBefore),
    varlen({2, 1, 256, 256, 64}, kOnlyBefore),
    varlen({2, 1, 270, 140, 64}),
    varlen({4, 2, 300, 300, 64}, kOnlyBefore),
    varlen({3, 1, 200, 260, 128}),
    varlen({3, 1, 260, 200, 128}, kOnlyBefore),
    varlen({40, 1, 90, 100, 64}),
    // Several heads a head of keys.
    varlen({5, 4, 100, 133, 64, 2}),
    varlen({7, 2, 150, 40, 128, 1}, kOnlyBefore),
    varlen({3, 7, 60, 70, 64, 1}, kOnlyBefore),
    // Head dims.
    varlen({3, 2, 66, 70, 40, 1, 24}),
    varlen({2, 1, 40, 50, 72, 1, 80}, kOnlyBefore),
    varlen({3, 1, 30, 40, 256}, kOnlyBefore),
    varlen({3, 2, 200, 230, 136, 1, 256}, kOnlyBefore),
    varlen({3, 1, 150, 170, 320}, kOnlyBefore),
    varlen({2, 1, 20, 25, 512}),
    varlen({2, 2, 30, 35, 35}),
    // Keys that do not count, windows, scores.
    varlen({3, 2, 70, 90, 64, 0, 0, kUsedKeys}, kOnlyBefore),
    varlen({4, 1, 140, 300, 128, 0, 0, kUsedKeys}),
    in_window({3, 2, 200, 210, 64, 1}, 17, 0),
    in_window({2, 1, 150, 190, 64}, 33, 40),
    in_window({3, 1, 120, 90, 128}, -1, 3),
    capped({2, 2, 35, 40, 64}, 1.5),
    capped({2, 1, 100, 150, 192}, 4),
    varlen({3, 4, 50, 60, 64, 2, 0, kSloped}, kOnlyBefore),
    varlen({3, 2, 50, 60, 64, 0, 0, kOfLse}, kOnlyBefore),
    // None of either, no sequence.
    varlen({1, 2, 0, 5, 64}),
    varlen({2, 2, 5, 0, 64}),
    varlen({0, 2, 0, 0, 64}),
    varlen({0, 2, 0, 7, 64}),
    // Rows apart, where 16 bytes of one are aligned and where not.
    varlen({3, 2, 50, 60, 64}, kOnlyBefore, 8),
    varlen({3, 2, 50, 60, 64}, kAll, 3),
};

constexpr Case kPackedBackwardBench[] = {
    varlen({9, 16, 65536, 65536, 128}),  // 764 to 15399 rows a sequence
    varlen({9, 16, 65536, 65536, 128}, kOnlyBefore),
    varlen({9, 32, 65536, 65536, 64}),
    varlen({9, 32, 65536, 65536, 64}, kOnlyBefore),
};

}  // namespace

Cases AttentionVarlenBackward::cases() {
  return {kPackedBackwardSmoke, kPackedBackwardVerify, kPackedBackwardBench};
}

}  // namespace ws::attention
