// Idea: a thread moves 16 bytes, and has both numbers of each pair that it turns: neighbours lie
//   together, of halves it takes 16 bytes of each.
// From append_naive: a place is found once for 16 or 32 bytes, each number is read once.
// Traffic: k and v once, their rows of the cache once, tables once a head.
// Limits: rows that begin at multiples of 16 bytes, dense columns; D, Dv and what turns in pieces
//   of 16 bytes.
#pragma once

#include "kernels/attention/append_place.hpp"
#include "kernels/attention/row_tile.hpp"

namespace ws::attention {

template <class T, class V>
struct AppendVectorKernel {
  static constexpr int kThreads = 128;
  static constexpr int kWidth = 16 / static_cast<int>(sizeof(T));
  using Piece = Vec<T, kWidth>;

  struct Arguments {
    AppendKv::Call call;
    AppendPlaces places;
    // Pieces of a row: of keys that turn with those a half further on, of other keys, of values.
    int pairs, keys, values;
  };
  struct SharedStorage {};

  __device__ void operator()(SharedStorage& /*shared*/, const Arguments& a) const {
    const AppendKv::Call& call = a.call;
    const int pieces = a.pairs + a.keys + a.values;
    const int64_t index = block_index() * kThreads + thread_index();
    const int64_t item = index / pieces;
    if (item >= call.items()) return;
    const auto nth = static_cast<int>(index - item * pieces);
    const int64_t head = item % call.kv_heads;
    const int64_t token = item / call.kv_heads % call.tokens;
    const int64_t b = item / call.kv_heads / call.tokens;
    const auto place = a.places.of(call, b, token);
    if (!place.exists) return;
    if (nth >= a.pairs + a.keys) {
      const int column = (nth - a.pairs - a.keys) * kWidth;
      const Piece piece = thread::load<kWidth>(call.v.at<const T>(b, head, token) + column);
      thread::store(call.v_cache.at<T>(place.page, head, place.row) + column, piece);
      return;
    }
    const T* const from = call.k.at<const T>(b, head, token);
    T* const to = call.k_cache.at<T>(place.page, head, place.row);
    if (nth < a.pairs) {
      const int column = nth * kWidth;
      const auto apart = static_cast<int>(call.pairs);
      Piece first = thread::load<kWidth>(from + column);
      Piece second = thread::load<kWidth>(from + column + apart);
#pragma unroll
      for (int i = 0; i < kWidth; ++i) turn(call, place.position, column + i, first[i], second[i]);
      thread::store(to + column, first);
      thread::store(to + column + apart, second);
      return;
    }
    const int column = (2 * a.pairs + nth - a.pairs) * kWidth;
    Piece piece = thread::load<kWidth>(from + column);
    if (call.turns && call.interleaved && column < 2 * call.pairs) {
#pragma unroll
      for (int i = 0; i < kWidth; i += 2) {
        turn(call, place.position, (column + i) / 2, piece[i], piece[i + 1]);
      }
    }
    thread::store(to + column, piece);
  }

 private:
  __device__ __forceinline__ static void turn(const AppendKv::Call& call, int64_t position,
                                              int pair, T& first, T& second) {
    float a = to_float(first);
    float b = to_float(second);
    rope::turn(a, b, angle_of<V>(call, position, pair));
    first = from_float<T>(a);
    second = from_float<T>(b);
  }
};

struct AppendVector {
  static bool supports(const AppendKv::Call& call, Why& why) {
    const auto width = static_cast<int64_t>(16 / size_of(call.dtype));
    const auto is_whole = [&](const Heads& heads, int64_t batch, int64_t rows, int64_t columns) {
      return is_aligned(heads, batch, call.kv_heads, rows, columns, width) && columns % width == 0;
    };
    const int64_t together = call.interleaved ? 2 * call.pairs : call.pairs;
    return why.unless(is_whole(call.k, call.batch, call.tokens, call.head_dim) &&
                          is_whole(call.v, call.batch, call.tokens, call.value_dim) &&
                          is_whole(call.k_cache, call.total_pages, call.page, call.head_dim) &&
                          is_whole(call.v_cache, call.total_pages, call.page, call.value_dim),
                      "moves 16 bytes: rows begin at and are multiples of them, columns dense") &&
           why.unless(!call.turns || together % width == 0, "turns pieces of 16 bytes, not ",
                      together, " columns");
  }
  static void run(const AppendKv::Call& call, const Context& context) {
    with_append_types(call, [&]<class T, class V>() {
      using Kernel = AppendVectorKernel<T, V>;
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
