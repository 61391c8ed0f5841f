// What append_kv leaves in a cache, in double precision; its shapes, fills, cost and tolerance.
#include <algorithm>
#include <cmath>

#include "kernels/attention/append.hpp"
#include "kernels/attention/reference.hpp"

namespace ws::attention {
namespace {

enum Place {
  kKeys,
  kValues,
  kNewKeys,
  kNewValues,
  kSeqlens,
  kTableAt,
  kCos,
  kSin,
  kScaleK,
  kScaleV
};

// [batch or page, row, head, column]
Heads rows_of(const Tensor& tensor) {
  return {tensor.data, tensor.stride(0), tensor.stride(2), tensor.stride(1), tensor.stride(3)};
}
AppendKv::Table table_of(const Tensor& tensor) {
  return {tensor.data, tensor.stride(0), tensor.stride(1)};
}

}  // namespace

AppendKv::Call AppendKv::call(const Problem& problem) {
  const Tensor& cache = problem.tensor(kKeys);
  const Tensor& k = problem.tensor(kNewKeys);
  const Tensor& table = problem.tensor(kTableAt);
  const Tensor& cos = problem.tensor(kCos);
  const Tensor& seqlens = problem.tensor(kSeqlens);
  Call call;
  call.dtype = k.dtype;
  call.cache_dtype = cache.dtype;
  call.batch = k.extent(0);
  call.tokens = k.extent(1);
  call.kv_heads = k.extent(2);
  call.head_dim = k.extent(3);
  call.value_dim = problem.tensor(kNewValues).extent(3);
  call.k_cache = rows_of(cache);
  call.v_cache = rows_of(problem.tensor(kValues));
  call.k = rows_of(k);
  call.v = rows_of(problem.tensor(kNewValues));
  call.page = cache.extent(1);
  call.total_pages = cache.extent(0);
  call.seqlens = {true, seqlens.as<const int32_t>(), seqlens.stride(0)};
  if (table.exists()) {
    call.most_pages = table.extent(1);
    call.pages = table.as<const int32_t>();
    call.pages_batch = table.stride(0);
    call.pages_column = table.stride(1);
  }
  if (cos.exists()) {
    call.turns = true;
    call.table_dtype = cos.dtype;
    call.cos = table_of(cos);
    call.sin = table_of(problem.tensor(kSin));
    call.table_rows = cos.extent(0);
    call.pairs = cos.extent(1);
  }
  call.interleaved = problem.flag("interleaved");
  call.scale_k = in_double::per_head(problem.tensor(kScaleK));
  call.scale_v = in_double::per_head(problem.tensor(kScaleV));
  return call;
}

void AppendKv::infer(Problem& problem) {
  const Tensor& cache = problem.tensor(kKeys);
  const Tensor& values = problem.tensor(kValues);
  const Tensor& k = problem.tensor(kNewKeys);
  const Tensor& v = problem.tensor(kNewValues);
  const auto wrong = [&](const auto&... what) {
    throw InvalidArgument(concatenate("append_kv takes ", what..., ", got ", cache, ", ", values,
                                      ", ", k, " and ", v));
  };
  const bool of_8_bits = cache.dtype == DType::kE4m3;
  for (const Tensor* tensor : {&cache, &values, &k, &v}) {
    if (tensor->rank != 4) [[unlikely]]
      wrong("caches, k and v of 4 dimensions");
  }
  if (values.dtype != cache.dtype || v.dtype != k.dtype || !kFloats.has(k.dtype) ||
      (k.dtype != cache.dtype && !of_8_bits)) [[unlikely]]
    wrong("caches, k and v of one dtype of ", to_string(kFloats), ", or caches of e4m3");
  if (!std::equal(cache.shape.begin(), cache.shape.begin() + 3, values.shape.begin()) ||
      !std::equal(k.shape.begin(), k.shape.begin() + 3, v.shape.begin())) [[unlikely]]
    wrong("keys and values that differ in the last dimension only");
  if (k.extent(2) != cache.extent(2) || k.extent(3) != cache.extent(3) ||
      v.extent(3) != values.extent(3)) [[unlikely]]
    wrong("heads of the cache in k and v");
  if (k.extent(3) < 1 || v.extent(3) < 1) [[unlikely]]
    wrong("D and Dv from 1 on");
  if (cache.extent(1) < 1) [[unlikely]]
    wrong("pages of at least one row");
  const Tensor& seqlens = problem.tensor(kSeqlens);
  if (seqlens.rank != 1 || seqlens.dtype != DType::kI32 || seqlens.extent(0) != k.extent(0))
      [[unlikely]]
    throw InvalidArgument(
        concatenate("append_kv takes seqlens of i32 [", k.extent(0), "], got ", seqlens));
  const Tensor& table = problem.tensor(kTableAt);
  if (table.exists() && (table.rank != 2 || table.dtype != DType::kI32 ||
                         table.extent(0) != k.extent(0))) [[unlikely]]
    throw InvalidArgument(
        concatenate("append_kv takes block_table of i32 [", k.extent(0), ", pages], got ", table));
  if (!table.exists() && cache.extent(0) < k.extent(0)) [[unlikely]]
    wrong("a page for each of ", k.extent(0), " sequences, without block_table");
  const int64_t room = cache.extent(1) * (table.exists() ? table.extent(1) : 1);
  if (k.extent(0) > 0 && k.extent(1) > room) [[unlikely]]
    wrong("as many new rows as a sequence has room for, ", room);
  for (const auto& [at, name] : {std::pair{kScaleK, "scale_k"}, std::pair{kScaleV, "scale_v"}}) {
    if (!problem.tensor(at).exists()) continue;
    if (!of_8_bits) [[unlikely]]
      throw InvalidArgument(
          concatenate("append_kv takes ", name, " where caches are of e4m3, got ", cache));
    in_double::check_per_head(problem, name, k.extent(0), k.extent(2), true);
  }
  const Tensor& cos = problem.tensor(kCos);
  const Tensor& sin = problem.tensor(kSin);
  if (cos.exists() != sin.exists()) [[unlikely]]
    throw InvalidArgument("append_kv takes cos and sin, or neither");
  if (!cos.exists()) return;
  if (cos.rank != 2 || !cos.same_shape(sin) || cos.dtype != sin.dtype ||
      (cos.dtype != DType::kF32 && cos.dtype != k.dtype) || cos.extent(1) < 1 ||
      2 * cos.extent(1) > k.extent(3)) [[unlikely]]
    throw InvalidArgument(concatenate("append_kv takes cos and sin of [positions, 1 to ",
                                      k.extent(3) / 2, "], f32 or the dtype of k, got ", cos,
                                      " and ", sin));
}

void AppendKv::make(const Case& chosen, DType dtype, Problem& problem) {
  const auto [batch, tokens, heads, dim, value_dim, page, pages, has] = chosen.extents;
  const bool of_8_bits = dtype == DType::kE4m3;
  const DType of_new = !of_8_bits             ? dtype
                       : (has & kOfF32) != 0  ? DType::kF32
                       : (has & kOfBf16) != 0 ? DType::kBf16
                                              : DType::kF16;
  const auto laid = [&](DType of, int64_t outer, int64_t rows, int64_t columns, bool heads_first) {
    Tensor tensor =
        in_double::laid(of, {outer, heads, rows, columns}, chosen.padding, !heads_first);
    std::swap(tensor.shape[1], tensor.shape[2]);
    std::swap(tensor.strides[1], tensor.strides[2]);
    return tensor;
  };
  const bool heads_first = (has & kHeadsFirst) != 0;
  problem.tensor(kKeys) = laid(dtype, batch * pages, page, dim, heads_first);
  problem.tensor(kValues) = laid(dtype, batch * pages, page, value_dim, heads_first);
  problem.tensor(kNewKeys) = laid(of_new, batch, tokens, dim, false);
  problem.tensor(kNewValues) = laid(of_new, batch, tokens, value_dim, false);
  problem.tensor(kSeqlens) = Tensor::dense(DType::kI32, {batch});
  if ((has & kTable) != 0) problem.tensor(kTableAt) = Tensor::dense(DType::kI32, {batch, pages});
  const int64_t rows = page * ((has & kTable) != 0 ? pages : 1);
  if ((has & kTurned) != 0) {
    problem.tensor(kCos) = problem.tensor(kSin) = Tensor::dense(DType::kF32, {rows, dim / 2});
  }
  if ((has & kPartlyTurned) != 0) {
    problem.tensor(kCos) = problem.tensor(kSin) = Tensor::dense(of_new, {rows, dim / 4});
  }
  if (of_8_bits && (has & kScales) != 0) {
    problem.tensor(kScaleK) = Tensor::dense(DType::kF32, {batch, heads});
    problem.tensor(kScaleV) = Tensor::dense(DType::kF32, {heads});
  }
}

// Of the cache nothing is read, and only the rows of new tokens are written.
Cost AppendKv::cost(const Problem& problem) {
  const Call call = AppendKv::call(problem);
  const auto rows = static_cast<double>(call.items());
  const auto size = static_cast<double>(size_of(call.dtype) + size_of(call.cache_dtype));
  const double tables = static_cast<double>(call.batch * call.tokens * call.pairs * 2) *
                        static_cast<double>(size_of(call.table_dtype));
  return {.bytes = rows * static_cast<double>(call.head_dim + call.value_dim) * size + tables,
          .flops = 6 * rows * static_cast<double>(call.pairs)};
}

// A sum of two products, rounded once: what is not turned is equal. Of e4m3 numbers below 2^-6 lie
// 2^-9 apart.
Tolerance AppendKv::tolerance(const Problem& problem, const Parameter& output) {
  if (output.name == "v_cache" || !problem.tensor(kCos).exists()) return {};
  const double noise = std::ldexp(1.0, -22);
  const double rounding = rounding_error(problem.dtype());
  return {.relative = rounding + noise,
          .worst = 1.01 * rounding + 4 * noise,
          .floor = problem.dtype() == DType::kE4m3 ? 0x1p-6 : 1};
}

int64_t AppendKv::items(const Problem& problem, const Parameter& /*output*/) {
  const Tensor& cache = problem.tensor(kKeys);
  return cache.extent(0) * cache.extent(1) * cache.extent(2);
}

// Each sequence has pages of its own, in no order, and room for its tokens.
void AppendKv::fill(const Problem& problem, int index, uint64_t seed) {
  const Call call = AppendKv::call(problem);
  const Tensor& tensor = problem.tensor(index);
  if (index == kSeqlens) {
    const int64_t room = call.most_pages * call.page - call.tokens + 1;
    return fill_with(tensor, [&](int64_t b) {
      return std::floor(random_uniform(seed, static_cast<uint64_t>(b)) *
                        static_cast<double>(std::max<int64_t>(room, 1)));
    });
  }
  if (index == kTableAt) {
    const int64_t step = in_double::scattering_step(call.total_pages);
    return fill_with(tensor, [&](int64_t i) {
      return static_cast<double>(i * step % std::max<int64_t>(call.total_pages, 1));
    });
  }
  if (index == kScaleK || index == kScaleV) {
    // From 2^-10, by which most of what is normal is beyond the largest, to 2^2.
    return fill_with(tensor, [&](int64_t i) {
      return std::exp2(12 * random_uniform(seed, static_cast<uint64_t>(i)) - 10);
    });
  }
  fill_normal_input(problem, index, seed);
}

// Slices are rows of the cache, each of a head.
void AppendKv::reference(const Problem& problem, Slice slice, std::span<double* const> expected) {
  const Call call = AppendKv::call(problem);
  const auto angle = [&](const Tensor& table, int64_t position, int64_t pair) {
    return element(table, position * call.pairs + pair);
  };
  const auto rows = [&]<class T, class C>() {
    for (int64_t item = slice.first; item < slice.last; ++item) {
      const int64_t head = item % call.kv_heads;
      const int64_t row = item / call.kv_heads % call.page;
      const int64_t page = item / call.kv_heads / call.page;
      // Which token comes here.
      int64_t from = -1;
      int64_t token = 0;
      int64_t position = 0;
      for (int64_t b = 0; b < call.batch && from < 0; ++b) {
        for (int64_t t = 0; t < call.tokens && from < 0; ++t) {
          position = call.seqlens.data[b * call.seqlens.stride] + t;
          const int64_t at =
              call.pages == nullptr
                  ? b
                  : call.pages[b * call.pages_batch + position / call.page * call.pages_column];
          if (at != page || position % call.page != row) continue;
          from = b;
          token = t;
        }
      }
      const auto scale_of = [&](const PerHead& scales) {
        return from < 0 ? 1 : in_double::scale_of(scales, from, head);
      };
      // What the cache has there, or the new numbers as it will have them.
      const auto put = [&](const Heads& cache, const Heads& heads, double scale, int64_t columns,
                           double* out) {
        for (int64_t d = 0; d < columns; ++d) {
          if (from < 0) {
            out[d] = to_float(cache.at<const C>(page, head, row)[d * cache.column]);
          } else {
            const double x = to_float(heads.at<const T>(from, head, token)[d * heads.column]);
            out[d] = to_float(nearest<C>(x / scale));
          }
        }
      };
      const int64_t i = item - slice.first;
      if (double* const out = expected[kValues]) {
        put(call.v_cache, call.v, scale_of(call.scale_v), call.value_dim, out + i * call.value_dim);
      }
      if (expected[kKeys] == nullptr) continue;
      double* const out = expected[kKeys] + i * call.head_dim;
      const double scale = scale_of(call.scale_k);
      put(call.k_cache, call.k, scale, call.head_dim, out);
      if (from < 0 || !call.turns) continue;
      const T* const key = call.k.at<const T>(from, head, token);
      const auto number = [&](int64_t d) -> double { return to_float(key[d * call.k.column]); };
      const double most = sizeof(C) == 1 ? 448 : in_double::kInf;
      for (int64_t pair = 0; pair < call.pairs; ++pair) {
        const int64_t first = call.interleaved ? 2 * pair : pair;
        const int64_t second = call.interleaved ? first + 1 : first + call.pairs;
        const double cos = angle(problem.tensor(kCos), position, pair);
        const double sin = angle(problem.tensor(kSin), position, pair);
        out[first] = std::clamp((number(first) * cos - number(second) * sin) / scale, -most, most);
        out[second] = std::clamp((number(second) * cos + number(first) * sin) / scale, -most, most);
      }
    }
  };
  with_type<kFloats>(call.dtype, [&]<class T>() {
    call.cache_dtype == DType::kE4m3 ? rows.template operator()<T, e4m3>()
                                     : rows.template operator()<T, T>();
  });
}

namespace {

constexpr Case appended(std::array<int64_t, kMaxExtents> extents, bool interleaved = false,
                        int64_t padding = 0, int offset = 0) {
  Case chosen{.extents = extents, .offset = offset, .padding = padding};
  if (interleaved) chosen.attributes[0] = true;
  return chosen;
}
// Of tensors of e4m3 alone, or of all others.
constexpr Case of_e4m3(Case chosen) {
  chosen.dtypes = {DType::kE4m3};
  return chosen;
}
constexpr Case of_floats(Case chosen) {
  chosen.dtypes = kFloats;
  return chosen;
}
constexpr int64_t kF32WithScales = AppendKv::kOfF32 | AppendKv::kScales;
constexpr int64_t kBf16WithScales = AppendKv::kOfBf16 | AppendKv::kScales;
constexpr int64_t kTableAndTurned = AppendKv::kTable | AppendKv::kTurned;

constexpr Case kSmoke[] = {
    appended({3, 1, 2, 64, 64, 4, 3, kTableAndTurned | AppendKv::kScales}),
    appended({2, 3, 2, 32, 16, 9, 1, AppendKv::kTurned}, true),
};
constexpr Case kVerify[] = {
    appended({2, 5, 3, 128, 128, 1, 9, AppendKv::kTable | AppendKv::kScales}),
    appended(
        {3, 7, 2, 64, 128, 16, 2, AppendKv::kTable | AppendKv::kPartlyTurned | kBf16WithScales}),
    appended({3, 2, 2, 64, 64, 16, 2, AppendKv::kTable | AppendKv::kPartlyTurned | kF32WithScales},
             true),
    appended(
        {2, 1, 4, 128, 64, 40, 1, AppendKv::kTurned | AppendKv::kHeadsFirst | AppendKv::kOfBf16}),
    appended({1, 4, 2, 36, 20, 5, 2, kTableAndTurned | kF32WithScales}),
    appended({2, 3, 2, 35, 35, 6, 1, AppendKv::kScales}),
    appended({1, 1, 1, 16, 16, 4, 1}),
    appended({3, 2, 2, 64, 32, 7, 1, kBf16WithScales}),
    appended({2, 1, 4, 128, 128, 33, 1, AppendKv::kOfF32}),
    appended({1, 6, 2, 40, 40, 6, 1}),
    appended({2, 3, 2, 64, 64, 6, 1, AppendKv::kTurned | kBf16WithScales}, true, 3),
    appended({2, 3, 2, 64, 64, 6, 1, AppendKv::kTurned}, false, 8),
    of_e4m3(appended({2, 3, 2, 64, 64, 6, 1, AppendKv::kTurned | kF32WithScales}, false, 16)),
    appended({2, 3, 2, 64, 64, 6, 1, AppendKv::kTurned | AppendKv::kScales}, false, 0, 1),
    appended({0, 3, 2, 64, 64, 6, 1, AppendKv::kScales}),
    appended({2, 0, 2, 64, 64, 6, 1, AppendKv::kScales}),
};
constexpr Case kBench[] = {
    of_floats(appended({64, 1, 8, 128, 128, 16, 64, kTableAndTurned})),
    of_floats(appended({4, 2048, 8, 128, 128, 16, 256, kTableAndTurned})),
    of_e4m3(appended({64, 1, 8, 128, 128, 16, 64, kTableAndTurned | kBf16WithScales})),
    of_e4m3(appended({4, 2048, 8, 128, 128, 16, 256, kTableAndTurned | kBf16WithScales})),
};

}  // namespace

Cases AppendKv::cases() { return {kSmoke, kVerify, kBench}; }

}  // namespace ws::attention
