// What attention_varlen computes, in double precision; its shapes, fills, cost and tolerance, and
// the problems to verify and to time.
#include "kernels/attention/packed_reference.hpp"
#include "warpsmith/thread/divide.hpp"

namespace ws::attention {

using namespace in_double;

namespace {

enum VarlenPlace {
  kStartsQ = 3,
  kStartsK,
  kUsedK,
  kTable,
  kVarlenSlopesAt,
  kVarlenSinksAt,
  kVarlenScaleK,
  kVarlenScaleV,
  kVarlenOut,
  kVarlenLse
};

}  // namespace

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
  call.has_kv_of_8_bits = k.dtype != q.dtype;
  call.scales = {
      {}, per_head(problem.tensor(kVarlenScaleK)), per_head(problem.tensor(kVarlenScaleV))};
  set_attributes(problem, call);
  set_softcap(problem, call);
  call.slopes = per_head(problem.tensor(kVarlenSlopesAt));
  call.sinks = per_head(problem.tensor(kVarlenSinksAt));
  return call;
}

void AttentionVarlen::infer(Problem& problem) {
  check_attributes(problem);
  check_softcap(problem);
  const Value& most = problem.attribute("max_seqlen_q");
  if (!most.is_absent() && most.as_int() < 0) [[unlikely]]
    fail(problem, "takes max_seqlen_q from 0 on, not ", most.as_int());
  const bool paged = problem.tensor(kTable).exists();
  check_heads(problem, kFloats, 3, paged ? 4 : 3, 1, paged ? 2 : 1, {DType::kE4m3});
  check_lengths(problem, "cu_seqlens_q", -1);
  const int64_t batch = problem.tensor(kStartsQ).extent(0) - 1;
  const bool has_starts = problem.tensor(kStartsK).exists();
  const bool has_used = problem.tensor(kUsedK).exists();
  if (has_starts) check_lengths(problem, "cu_seqlens_k", batch + 1);
  if (has_used) check_lengths(problem, "seqused_k", batch);
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
  const Tensor& k = problem.tensor(kK);
  for (const std::string_view name : {"scale_k", "scale_v"}) {
    if (problem[name].exists() && k.dtype == q.dtype) [[unlikely]]
      fail(problem, "takes ", name, " where k and v are of e4m3, got ", k);
    check_per_head(problem, name, batch, k.extent(paged ? 2 : 1), true);
  }
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
  const DType of_kv = (has & kKvOf8Bits) != 0 ? DType::kE4m3 : dtype;
  const bool shared_pages = (has & kPages) != 0;
  const bool own_pages = (has & kOwnPages) != 0;
  if (shared_pages || own_pages) {
    const int64_t page = has < of_page(1) ? 16 : has / of_page(1);
    const int64_t pages = divide_up(own_pages ? keys / std::max<int64_t>(batch, 1) : keys, page);
    const int64_t count = own_pages ? pages * batch : pages + 1;
    problem.tensor(kK) = laid(of_kv, {count, kv_heads, page, dim}, chosen.padding, true);
    problem.tensor(kV) = laid(of_kv, {count, kv_heads, page, value_dim}, chosen.padding, true);
    for (const int place : {kK, kV}) {  // the page's rows are its second dimension
      std::swap(problem.tensor(place).shape[1], problem.tensor(place).shape[2]);
      std::swap(problem.tensor(place).strides[1], problem.tensor(place).strides[2]);
    }
    problem.tensor(kTable) = Tensor::dense(DType::kI32, {batch, pages});
  } else {
    problem.tensor(kK) = laid_rows(of_kv, {keys, kv_heads, dim}, chosen.padding);
    problem.tensor(kV) = laid_rows(of_kv, {keys, kv_heads, value_dim}, chosen.padding);
    problem.tensor(kStartsK) = Tensor::dense(DType::kI32, {batch + 1});
  }
  if ((has & kVarlenValuesInKeys) != 0) share_memory(problem, kK, kV);
  if ((has & (kUsed | kPages | kOwnPages)) != 0)
    problem.tensor(kUsedK) = Tensor::dense(DType::kI32, {batch});
  if ((has & kVarlenAlibi) != 0) {
    problem.tensor(kVarlenSlopesAt) = Tensor::dense(DType::kF32, {batch, heads});
  }
  if ((has & kVarlenSinks) != 0) {
    problem.tensor(kVarlenSinksAt) = Tensor::dense(DType::kF32, {heads});
  }
  if ((has & kKvScales) != 0) {
    problem.tensor(kVarlenScaleK) = Tensor::dense(DType::kF32, {batch, kv_heads});
    problem.tensor(kVarlenScaleV) = Tensor::dense(DType::kF32, {kv_heads});
  }
  problem.tensor(kVarlenOut) = laid_rows(dtype, {queries, heads, value_dim}, chosen.padding);
}

Cost AttentionVarlen::cost(const Problem& problem) {
  const Call call = AttentionVarlen::call(problem);
  const double pairs =
      fewest_pairs_of(call.window, call, call.batch) * static_cast<double>(call.heads);
  return {.bytes = least_traffic(problem), .flops = flops_of(call, pairs), .at_most = true};
}

Cost AttentionVarlen::cost_of_data(const Problem& problem) {
  const Call call = AttentionVarlen::call(problem);
  const double pairs =
      packed_pairs_of(call.window, call, call.batch) * static_cast<double>(call.heads);
  return {.bytes = least_traffic(problem), .flops = flops_of(call, pairs)};
}

Tolerance AttentionVarlen::tolerance(const Problem& problem, const Parameter& output) {
  const Call call = AttentionVarlen::call(problem);
  return tolerance_of(call, problem, output, false, call.scales.k.exists ? kMostScale : 1);
}

int64_t AttentionVarlen::items(const Problem& problem, const Parameter& /*output*/) {
  const Tensor& q = problem.tensor(kQ);
  return q.extent(0) * q.extent(1);
}

void AttentionVarlen::fill(const Problem& problem, int index, uint64_t seed) {
  const Tensor& tensor = problem.tensor(index);
  const Call call = AttentionVarlen::call(problem);
  const auto starts = [&](int64_t total) {
    fill_starts(tensor, random_starts(call.batch, total, seed));
  };
  const auto below = [&](int64_t limit) {
    fill_with(tensor, [&](int64_t i) {
      return std::floor(random_uniform(seed, static_cast<uint64_t>(i)) *
                        static_cast<double>(limit));
    });
  };
  const bool own_pages = call.paged && call.total_pages == call.batch * call.most_pages;
  switch (index) {
    case kStartsQ: {
      // As many each, where no more are allowed.
      if (call.queries * call.batch != call.total_queries) return starts(call.total_queries);
      return fill_with(tensor, [&](int64_t b) { return static_cast<double>(b * call.queries); });
    }
    case kStartsK: return starts(call.total_keys);
    case kTable: {
      if (!own_pages) return below(call.total_pages);
      // Far from each other, each once.
      const int64_t step = scattering_step(call.total_pages);
      return fill_with(tensor, [&](int64_t i) {
        return static_cast<double>((i * step + static_cast<int64_t>(seed % 1024)) %
                                   call.total_pages);
      });
    }
    case kVarlenSlopesAt:
      return fill_with(tensor, [seed](int64_t h) {
        return kMostSlope * random_uniform(seed, static_cast<uint64_t>(h));
      });
    case kVarlenScaleK:
    case kVarlenScaleV: return fill_scales(tensor, seed + static_cast<uint64_t>(index));
    case kUsedK: {
      if (own_pages && is_timed(call.total_keys)) {
        return fill_with(tensor, [&](int64_t) { return static_cast<double>(call.keys); });
      }
      if (call.paged) return below(call.keys + 1);
      return fill_used(tensor, call, seed);
    }
    default: return fill_normal_input(problem, index, seed);
  }
}

namespace {

// Calls f(query, place) with where its keys lie.
template <class F>
void with_query(const VarlenCall& call, int64_t row, int64_t head, F&& f) {
  const Query query = query_of_row(call, row, head);
  f(query, [&](int64_t j) -> KeyPlace {
    if (!call.paged) return {0, query.first_key + j};
    const int32_t page =
        call.pages[query.batch * call.pages_batch + j / call.page * call.pages_column];
    return {page, j % call.page};
  });
}

// f.template operator()<T, Kv>() with the types of q, and of k and v.
template <class F>
void with_types(const VarlenCall& call, F&& f) {
  with_type<kFloats>(call.dtype, [&]<class T>() {
    call.has_kv_of_8_bits ? f.template operator()<T, e4m3>() : f.template operator()<T, T>();
  });
}

}  // namespace

// Slices of out are queries, each with all heads; those of lse are heads, each with all queries.
void AttentionVarlen::reference(const Problem& problem, Slice slice,
                                std::span<double* const> expected) {
  const Call call = AttentionVarlen::call(problem);
  with_types(call, [&]<class T, class Kv>() {
    // The formula of a query, by the scale of its keys.
    const auto with_formula = [&](int64_t row, int64_t head, auto&& f) {
      with_query(call, row, head, [&](const Query& query, const auto& place) {
        const int64_t kv_head = head / call.group();
        attention::Call scaled = call;
        scaled.scale *= static_cast<float>(scale_of(call.scales.k, query.batch, kv_head));
        f(Formula<T, Kv>{scaled}, query, place, scale_of(call.scales.v, query.batch, kv_head));
      });
    };
    for (int64_t item = slice.first; item < slice.last; ++item) {
      const int64_t at = item - slice.first;
      if (double* const all = expected[kVarlenOut]) {
        with_formula(
            item / call.heads, item % call.heads,
            [&](const auto& formula, const Query& query, const auto& place, double of_values) {
              double* const out = all + at * call.value_dim;
              formula.out(query, place, out);
              for (int64_t d = 0; d < call.value_dim; ++d) out[d] *= of_values;
            });
      }
      if (double* const lse = expected[kVarlenLse]) {
        with_formula(
            item % call.total_queries, item / call.total_queries,
            [&](const auto& formula, const Query& query, const auto& place, double /*of_values*/) {
              lse[at] = formula.lse(query, formula.scores(query, place));
            });
      }
    }
  });
}

// ---- Cases ------------------------------------------------------------------------------------

namespace {

// No more than so many queries a sequence; with kOnlyBefore, which keys they see.
constexpr Case few(std::array<int64_t, kMaxExtents> extents, int64_t queries, Seen seen = kAll,
                   int64_t window_left = -1) {
  Case chosen = varlen(extents, seen);
  chosen.attributes[1] = window_left;
  chosen.attributes[5] = queries;
  return chosen;
}

constexpr Case kVarlenSmoke[] = {
    varlen({3, 2, 40, 50, 32}, kOnlyBefore),
    varlen({2, 2, 9, 40, 16, 1, 0, kPages}),
    few({2, 4, 2, 40, 64, 1, 0, kPages | kKvOf8Bits | kKvScales}, 1),
    few({2, 2, 2, 20, 264}, 1),
    few({2, 4, 4, 40, 320, 1, 264, kVarlenValuesInKeys}, 2, kOnlyBefore),
};

constexpr Case kVarlenVerify[] = {
    varlen({1, 2, 64, 64, 64}),
    varlen({4, 2, 300, 300, 64}, kOnlyBefore),
    varlen({5, 4, 200, 333, 64, 2}),
    varlen({7, 2, 150, 40, 128, 1}, kOnlyBefore),
    varlen({3, 7, 160, 170, 64, 1}, kOnlyBefore),
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
    // One query, or few, of many keys; pages of one key and of many.
    few({5, 8, 5, 333, 64, 1}, 1),
    few({3, 14, 6, 200, 128, 2, 0, kPages + of_page(1)}, 2, kOnlyBefore),
    few({3, 6, 3, 300, 64, 2, 0, kPages + of_page(64)}, 1),
    few({4, 4, 4, 600, 128, 1, 0, kOwnPages}, 1),
    few({2, 16, 10, 160, 64, 2, 0, kPages + of_page(7)}, 5, kOnlyBefore, 20),
    few({270, 2, 270, 500, 64, 1}, 1),  // more sequences than a block has threads
    few({2, 4, 2, 90, 256, 2, 0, kPages + of_page(1)}, 1),
    // The same, of up to eight rows: of lengths that are alike, and not.
    few({1, 8, 1, 1100, 128, 1, 0, kOwnPages + of_page(64)}, 1),
    few({2, 4, 4, 900, 64, 1, 0, kPages + of_page(7)}, 2, kOnlyBefore),
    few({3, 8, 3, 700, 128, 1, 0, kUsed}, 1),
    // Rows too wide for a warp.
    few({2, 16, 2, 330, 576, 1, 512, kPages + of_page(7)}, 1),
    few({2, 20, 4, 75, 320, 1, 264, kUsed}, 2, kOnlyBefore),
    few({2, 16, 2, 150, 576, 1, 512, kVarlenValuesInKeys + kPages + of_page(7)}, 1),
    few({2, 66, 3, 170, 512, 1, 0, kVarlenValuesInKeys}, 2, kOnlyBefore),
    // Keys and values of 8 bits.
    few({5, 8, 5, 333, 64, 1, 0, kKvOf8Bits | kUsed}, 1),
    few({2, 16, 8, 150, 48, 2, 32, kKvOf8Bits | kKvScales | kVarlenSinks}, 4),
    few({3, 14, 6, 200, 128, 2, 0, (kPages | kKvOf8Bits | kKvScales) + of_page(1)}, 2, kOnlyBefore),
    few({2, 16, 10, 160, 128, 2, 0, (kPages | kKvOf8Bits | kKvScales) + of_page(7)}, 5, kOnlyBefore,
        20),
    few({2, 4, 2, 90, 256, 2, 0, kPages | kKvOf8Bits | kVarlenAlibi}, 1),
    few({1, 8, 1, 1300, 128, 1, 0, (kOwnPages | kKvOf8Bits | kKvScales) + of_page(64)}, 1),
    few({3, 6, 6, 700, 64, 2, 0, kKvOf8Bits | kKvScales | kVarlenSinks}, 2, kOnlyBefore),
};

constexpr Case kVarlenBench[] = {
    varlen({9, 16, 65536, 65536, 128}),  // 764 to 15399 rows a sequence
    varlen({9, 16, 65536, 65536, 128}, kOnlyBefore),
    varlen({9, 32, 65536, 65536, 64}),
    varlen({9, 32, 65536, 65536, 64}, kOnlyBefore),
    // Decoding: of unlike lengths, packed; of 8192 keys each, in pages.
    few({8, 64, 8, 65536, 128, 8}, 1),
    few({8, 64, 8, 65536, 128, 8, 0, kOwnPages + of_page(1)}, 1),
    few({8, 64, 8, 65536, 128, 8, 0, kOwnPages}, 1),
    few({8, 64, 8, 65536, 128, 8, 0, kOwnPages + of_page(64)}, 1),
    few({8, 64, 8, 65536, 128, 8, 0, (kOwnPages | kKvOf8Bits | kKvScales) + of_page(64)}, 1),
    few({8, 64, 8, 65536, 128, 8, 0, kOwnPages + of_page(256)}, 1),
};

}  // namespace

Cases AttentionVarlen::cases() { return {kVarlenSmoke, kVarlenVerify, kVarlenBench}; }

}  // namespace ws::attention
