// Idea: a thread writes 16 bytes, and has both numbers of each pair that it turns: neighbours lie
//   together, of halves it takes 16 bytes of each. Of a cache of 8 bits they are 16 numbers.
// From append_naive: a place is found once for 16 or 32 bytes, each number is read once.
// Traffic: k and v once, their rows of the cache once, tables once a head.
// Limits: rows that begin at multiples of 16 bytes, dense columns; D, Dv and what turns in pieces
//   of 16 bytes of the cache.
#pragma once

#include "kernels/attention/append_place.hpp"
#include "kernels/attention/row_tile.hpp"

namespace ws::attention {

template <class T, class C, class V>
struct AppendVectorKernel {
  static constexpr int kThreads = 128;
  static constexpr int kMinBlocks = sizeof(C) == 1 ? 6 : 1;  // of 1 ptxas makes 128 registers
  static constexpr int kWidth = 16 / static_cast<int>(sizeof(C));
  using Piece = Vec<T, kWidth>;
  using Wide = Vec<float, kWidth>;

  struct Arguments {
    AppendKv::Call call;
    AppendPlaces places;
    // Pieces of a row: of keys that turn with those a half further on, of other keys, of values.
    int pairs, keys, values;
  };
  struct SharedStorage {};

  __device__ void operator()(SharedStorage& /*shared*/, const Arguments& a) const {
    const AppendKv::Call& call = a.call;
    // Pieces of one kind follow each other, so that hardly a warp has two kinds to go through.
    const int64_t items = call.items();
    int64_t index = block_index() * kThreads + thread_index();
    const bool is_pair = index < items * a.pairs;
    if (!is_pair) index -= items * a.pairs;
    const bool is_value = !is_pair && index >= items * a.keys;
    if (is_value) index -= items * a.keys;
    if (is_value && index >= items * a.values) return;
    const int pieces = is_pair ? a.pairs : is_value ? a.values : a.keys;
    const int64_t item = index / pieces;
    const int column = static_cast<int>(index - item * pieces) * kWidth;
    const int64_t head = item % call.kv_heads;
    const int64_t token = item / call.kv_heads % call.tokens;
    const int64_t b = item / call.kv_heads / call.tokens;
    const auto place = a.places.template of<C>(call, b, token, head);
    if (!place.exists) return;
    if (is_value) {
      const Piece piece = thread::load<kWidth>(call.v.at<const T>(b, head, token) + column);
      thread::store(call.v_cache.at<C>(place.page, head, place.row) + column,
                    stored(piece, place.scale_v));
      return;
    }
    // Behind those that turn with a half.
    const int first_column = is_pair ? column : column + 2 * a.pairs * kWidth;
    const T* const from = call.k.at<const T>(b, head, token) + first_column;
    C* const to = call.k_cache.at<C>(place.page, head, place.row) + first_column;
    if (is_pair) {
      const auto apart = static_cast<int>(call.pairs);
      Wide first = thread::convert<float>(thread::load<kWidth>(from));
      Wide second = thread::convert<float>(thread::load<kWidth>(from + apart));
#pragma unroll
      for (int i = 0; i < kWidth; ++i) {
        rope::turn(first[i], second[i], angle_of<V>(call, place.position, column + i));
      }
      thread::store(to, stored(first, place.scale_k));
      thread::store(to + apart, stored(second, place.scale_k));
      return;
    }
    const Piece piece = thread::load<kWidth>(from);
    if (call.turns && call.interleaved && column < 2 * call.pairs) {
      Wide turned = thread::convert<float>(piece);
#pragma unroll
      for (int i = 0; i < kWidth; i += 2) {
        rope::turn(turned[i], turned[i + 1], angle_of<V>(call, place.position, (column + i) / 2));
      }
      thread::store(to, stored(turned, place.scale_k));
      return;
    }
    thread::store(to, stored(piece, place.scale_k));
  }

 private:
  // Numbers as the cache has them: of 8 bits they are saturated as they are rounded.
  template <class X>
  __device__ __forceinline__ static Vec<C, kWidth> stored(const Vec<X, kWidth>& x, float scale) {
    if constexpr (sizeof(C) == 1) {
      const ScaledDown scaled(scale);
      Wide quotients;
#pragma unroll
      for (int i = 0; i < kWidth; ++i) quotients[i] = scaled(to_float(x[i]));
      return thread::convert<C>(quotients);
    } else {
      return thread::convert<C>(x);
    }
  }
};

struct AppendVector {
  static bool supports(const AppendKv::Call& call, Why& why) {
    const auto width = static_cast<int64_t>(16 / size_of(call.cache_dtype));
    const auto is_whole = [&](const Heads& heads, DType dtype, int64_t batch, int64_t rows,
                              int64_t columns) {
      return is_aligned(heads, dtype, batch, call.kv_heads, rows, columns) && columns % width == 0;
    };
    const int64_t together = call.interleaved ? 2 * call.pairs : call.pairs;
    const auto fits = [&](const Heads& heads, const Heads& cache, int64_t columns) {
      return is_whole(heads, call.dtype, call.batch, call.tokens, columns) &&
             is_whole(cache, call.cache_dtype, call.total_pages, call.page, columns);
    };
    return why.unless(fits(call.k, call.k_cache, call.head_dim) &&
                          fits(call.v, call.v_cache, call.value_dim),
                      "moves 16 bytes: rows begin at and are multiples of them, columns dense") &&
           why.unless(!call.turns || together % width == 0, "turns pieces of 16 bytes, not ",
                      together, " columns");
  }
  static void run(const AppendKv::Call& call, const Context& context) {
    with_append_types(call, [&]<class T, class C, class V>() {
      using Kernel = AppendVectorKernel<T, C, V>;
      const bool halves = call.turns && !call.interleaved;
      const auto pairs = static_cast<int>(halves ? call.pairs / Kernel::kWidth : 0);
      const auto keys = static_cast<int>(call.head_dim / Kernel::kWidth) - 2 * pairs;
      const auto values = static_cast<int>(call.value_dim / Kernel::kWidth);
      const int64_t count = call.items() * (pairs + keys + values);
      if (count == 0) return;
      launch<Kernel>({.blocks = divide_up(count, Kernel::kThreads), .threads = Kernel::kThreads},
                     context.stream,
                     {call, AppendPlaces(call, "append_kv/append_vector"), pairs, keys, values});
    });
  }
};

inline constexpr Rung kAppendVector = rung_of<AppendVector, AppendKv>({
    .name = "append_vector",
    .from = "append_naive",
    .idea = "16 bytes a thread, which has both numbers of each pair that it turns",
});

}  // namespace ws::attention
