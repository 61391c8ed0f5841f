// What the operations on packed sequences have in common in double precision.
#pragma once

#include "kernels/attention/reference.hpp"

namespace ws::attention::in_double {

// Of [rows, heads, columns], packed.
inline Heads packed_heads_of(const Tensor& tensor) {
  return {tensor.data, 0, tensor.stride(1), tensor.stride(0), tensor.stride(2)};
}

inline Lengths lengths_of(const Tensor& tensor) {
  if (!tensor.exists()) return {};
  return {true, tensor.as<const int32_t>(), tensor.stride(0)};
}
inline int64_t entry(const Lengths& lengths, int64_t b) { return lengths.data[b * lengths.stride]; }
inline int64_t between(const Lengths& starts, int64_t b) {
  return entry(starts, b + 1) - entry(starts, b);
}
inline int64_t keys_of(const Packing& call, int64_t b) {
  return call.used_k.exists ? entry(call.used_k, b) : between(call.starts_k, b);
}

// [rows, heads, columns], each row of a head `padding` longer than its own.
inline Tensor laid_rows(DType dtype, std::array<int64_t, 3> shape, int64_t padding) {
  Tensor tensor = Tensor::dense(dtype, shape);
  tensor.strides[1] = shape[2] + padding;
  tensor.strides[0] = shape[1] * tensor.strides[1];
  return tensor;
}

inline bool is_timed(int64_t rows) { return rows >= 1024; }

// Where `count` sequences of `total` rows in all begin, some of them empty, and where the last
// ends. Of 1024 rows and more, as are timed, lengths are drawn from 1 to some twice their mean, and
// are the same for keys and queries and with every seed.
inline std::vector<int64_t> random_starts(int64_t count, int64_t total, uint64_t seed) {
  std::vector<double> weights(static_cast<size_t>(count));
  double sum = 0;
  const bool timed = is_timed(total);
  const uint64_t mixed = (timed ? 0 : seed) + static_cast<uint64_t>(total * 31 + count);
  for (size_t b = 0; b < weights.size(); ++b) {
    const double uniform = random_uniform(mixed, b);
    weights[b] = timed ? uniform : std::floor(uniform * 5);
    sum += weights[b];
  }
  std::vector<int64_t> starts(weights.size() + 1, 0);
  const int64_t least = timed ? 1 : 0;
  const auto drawn = static_cast<double>(total - least * count);
  double reached = 0;
  for (size_t b = 0; b < weights.size(); ++b) {
    reached += weights[b];
    const double end = sum == 0 ? 0 : std::round(reached / sum * drawn);
    starts[b + 1] = static_cast<int64_t>(end) + least * static_cast<int64_t>(b + 1);
  }
  starts.back() = total;
  return starts;
}

// i32 of so many numbers; of one and more where `extent` is below zero.
inline void check_lengths(const Problem& problem, std::string_view name, int64_t extent) {
  const Tensor& tensor = problem[name];
  if (tensor.rank != 1 || tensor.dtype != DType::kI32 ||
      (extent < 0 ? tensor.extent(0) < 1 : tensor.extent(0) != extent)) [[unlikely]] {
    fail(problem, "takes ", name, " of i32 [", extent < 0 ? "B + 1" : std::to_string(extent),
         "], got ", tensor);
  }
  if (name == "cu_seqlens_q" && tensor.extent(0) == 1 && problem.tensor(kQ).extent(0) > 0)
      [[unlikely]] {
    fail(problem, "takes no rows of q where there is no sequence, got ", problem.tensor(kQ));
  }
}

inline void fill_starts(const Tensor& tensor, const std::vector<int64_t>& starts) {
  fill_with(tensor, [&](int64_t b) { return static_cast<double>(starts[static_cast<size_t>(b)]); });
}
// Up to as many keys as a sequence has, which are filled before.
inline void fill_used(const Tensor& tensor, const Packing& call, uint64_t seed) {
  fill_with(tensor, [&](int64_t b) {
    const auto has = static_cast<double>(between(call.starts_k, b));
    return std::floor(random_uniform(seed, static_cast<uint64_t>(b)) * (has + 1));
  });
}

// Pairs of a query and a key that it sees, of one head in all sequences.
inline double packed_pairs_of(const Window& window, const Packing& call, int64_t batch) {
  double pairs = 0;
  for (int64_t b = 0; b < batch; ++b) {
    pairs += pairs_of(window, between(call.starts_q, b), keys_of(call, b));
  }
  return pairs;
}
// As if all sequences were of one length: of unlike lengths there are more.
inline double fewest_pairs_of(const Window& window, const Packing& call, int64_t batch) {
  const int64_t count = std::max<int64_t>(batch, 1);
  return pairs_of(window, call.total_queries / count, call.total_keys / count) *
         static_cast<double>(count);
}

// The last sequence that begins at or before `row`.
inline int64_t sequence_of_row(const Lengths& starts, int64_t batch, int64_t row) {
  int64_t b = 0;
  while (b + 1 < batch && entry(starts, b + 1) <= row) ++b;
  return b;
}

// Query `row` of a head of sequence b; keys in pages begin at 0.
inline Query packed_query(const Packing& call, int64_t b, int64_t row, int64_t head) {
  const int64_t first = entry(call.starts_q, b);
  return {b,
          head,
          row,
          first,
          between(call.starts_q, b),
          keys_of(call, b),
          call.paged ? 0 : entry(call.starts_k, b)};
}
// Query `row` of all, in the sequence that has it.
inline Query query_of_row(const VarlenCall& call, int64_t row, int64_t head) {
  const int64_t b = sequence_of_row(call.starts_q, call.batch, row);
  return packed_query(call, b, row - entry(call.starts_q, b), head);
}

// Of packed sequences.
constexpr Case varlen(std::array<int64_t, kMaxExtents> extents, Seen seen = kAll,
                      int64_t padding = 0) {
  Case chosen{.extents = extents, .padding = padding};
  if (seen == kOnlyBefore) chosen.attributes[0] = true;
  return chosen;
}

}  // namespace ws::attention::in_double
