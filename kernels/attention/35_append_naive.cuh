// Idea: a thread owns a number of a new key, and the same of its value: it finds the row of the
//   cache where its token goes, and turns the key as it writes it.
// Traffic: each number of k is read twice where it turns, by both of its pair; 2 bytes an access of
//   16-bit numbers, one of a cache of 8; the place is found anew for every number.
// Limits: none.
#pragma once

#include "kernels/attention/append_place.hpp"

namespace ws::attention {

template <class T, class C, class V>
struct AppendNaiveKernel {
  static constexpr int kThreads = 256;
  struct Arguments {
    AppendKv::Call call;
    AppendPlaces places;
    int64_t columns;  // of the wider of k and v
  };
  struct SharedStorage {};

  __device__ void operator()(SharedStorage& /*shared*/, const Arguments& a) const {
    const AppendKv::Call& call = a.call;
    const int64_t index = block_index() * kThreads + thread_index();
    if (index >= call.items() * a.columns) return;
    const int64_t d = index % a.columns;
    const int64_t head = index / a.columns % call.kv_heads;
    const int64_t token = index / a.columns / call.kv_heads % call.tokens;
    const int64_t b = index / a.columns / call.kv_heads / call.tokens;
    const auto place = a.places.template of<C>(call, b, token, head);
    if (!place.exists) return;
    if (d < call.head_dim) {
      C* const to = call.k_cache.at<C>(place.page, head, place.row) + d * call.k_cache.column;
      thread::store(
          to, key(call, call.k.at<const T>(b, head, token), place.position, d, place.scale_k));
    }
    if (d < call.value_dim) {
      const T* const from = call.v.at<const T>(b, head, token) + d * call.v.column;
      C* const to = call.v_cache.at<C>(place.page, head, place.row) + d * call.v_cache.column;
      thread::store(to, stored(thread::load(from), place.scale_v));
    }
  }

 private:
  // A number as the cache has it: of 8 bits it is saturated as it is rounded.
  template <class X>
  __device__ __forceinline__ static C stored(X x, float scale) {
    if constexpr (sizeof(C) == 1) {
      return from_float<C>(to_float(x) / scale);
    } else if constexpr (std::is_same_v<C, X>) {
      return x;
    } else {
      return from_float<C>(x);
    }
  }

  // Column d of a key, turned.
  __device__ __forceinline__ static C key(const AppendKv::Call& call, const T* row,
                                          int64_t position, int64_t d, float scale) {
    const T own = thread::load(row + d * call.k.column);
    if (!call.turns || d >= 2 * call.pairs) return stored(own, scale);
    const bool is_first = call.interleaved ? d % 2 == 0 : d < call.pairs;
    const int64_t pair = call.interleaved ? d / 2 : d % call.pairs;
    const int64_t apart = call.interleaved ? 1 : call.pairs;
    float first = to_float(is_first ? own : thread::load(row + (d - apart) * call.k.column));
    float second = to_float(is_first ? thread::load(row + (d + apart) * call.k.column) : own);
    rope::turn(first, second, angle_of<V>(call, position, pair));
    return stored(is_first ? first : second, scale);
  }
};

struct AppendNaive {
  static void run(const AppendKv::Call& call, const Context& context) {
    const int64_t columns = std::max(call.head_dim, call.value_dim);
    const int64_t count = call.items() * columns;
    if (count == 0) return;
    with_append_types(call, [&]<class T, class C, class V>() {
      using Kernel = AppendNaiveKernel<T, C, V>;
      launch<Kernel>({.blocks = divide_up(count, Kernel::kThreads), .threads = Kernel::kThreads},
                     context.stream, {call, AppendPlaces(call, "append_kv/append_naive"), columns});
    });
  }
};

inline constexpr Rung kAppendNaive = rung_of<AppendNaive, AppendKv>({
    .name = "append_naive",
    .idea = "a thread a number, which finds its token's row and turns the key on the way",
});

}  // namespace ws::attention
