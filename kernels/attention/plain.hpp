// What the textbook rungs take: dense tensors, as many heads of keys as of queries, D = Dv, and
// scores that are seen whole or causally.
#pragma once

#include "kernels/attention/operations.hpp"
#include "kernels/attention/seen.hpp"
#include "warpsmith/thread/divide.hpp"

namespace ws::attention {

template <class T>
struct Plain {
  const T* q;                            // [matrices, queries, dim]
  const T* k;                            // [matrices, keys, dim]
  const T* v;                            // [matrices, keys, dim]
  T* out;                                // [matrices, queries, dim]
  float* lse;                            // [matrices, queries]
  int64_t matrices, queries, keys, dim;  // a matrix is a head of a batch
  float scale;
  bool causal;

  // Keys that query i sees: the first so many.
  __device__ __forceinline__ int64_t seen(int64_t i) const {
    return Seen<int64_t>{keys - queries, keys, -1, causal ? 0 : -1}.end(i);
  }
};

template <class T>
Plain<T> plain_of(const Call& call) {
  return {call.q.as<const T>(),   call.k.as<const T>(),
          call.v.as<const T>(),   call.out.as<T>(),
          call.lse.as<float>(),   call.batch * call.heads,
          call.queries,           call.keys,
          call.head_dim,          call.scale,
          call.window.is_causal()};
}

// Nothing is added to scores, which may be capped.
inline bool has_only_capped_scores(const Call& call, Why& why) {
  return why.unless(!call.bias.exists, "takes no bias") &&
         why.unless(!call.slopes.exists, "takes no alibi_slopes") &&
         why.unless(!call.sinks.exists, "takes no sinks");
}

// Scores are <q, k> times the scale, and nothing else.
inline bool has_bare_scores(const Call& call, Why& why) {
  return has_only_capped_scores(call, why) && why.unless(call.softcap == 0, "takes no softcap");
}

// And they are seen whole or causally.
inline bool has_plain_scores(const Call& call, Why& why) {
  return has_bare_scores(call, why) && why.unless(call.window.is_open() || call.window.is_causal(),
                                                  "takes no window but a causal one");
}

// k and v are of the dtype of q.
inline bool has_kv_of_q(const Call& /*call*/, Why& /*why*/) { return true; }
inline bool has_kv_of_q(const VarlenCall& call, Why& why) {
  return why.unless(!call.has_kv_of_8_bits, "takes k and v of the dtype of q");
}

// Of one matrix after the other.
inline bool is_dense(const char* name, const Call& call, const Heads& heads, int64_t rows,
                     int64_t columns, Why& why) {
  return why.unless((columns <= 1 || heads.column == 1) && (rows <= 1 || heads.row == columns) &&
                        (call.heads <= 1 || heads.head == rows * columns) &&
                        (call.batch <= 1 || heads.batch == call.heads * rows * columns),
                    "needs a dense ", name);
}
inline bool is_dense(const char* name, const Call& call, const Heads& heads, int64_t rows,
                     Why& why) {
  return is_dense(name, call, heads, rows, call.head_dim, why);
}

inline bool is_plain(const Call& call, Why& why) {
  return has_plain_scores(call, why) &&
         why.unless(call.heads == call.kv_heads, "needs a head of keys for each of q") &&
         why.unless(call.head_dim == call.value_dim, "needs Dv = D") &&
         is_dense("q", call, call.q, call.queries, why) &&
         is_dense("k", call, call.k, call.keys, why) &&
         is_dense("v", call, call.v, call.keys, why) &&
         is_dense("out", call, call.out, call.queries, why) &&
         is_dense("lse", call, call.lse, call.queries, 1, why);
}

}  // namespace ws::attention
