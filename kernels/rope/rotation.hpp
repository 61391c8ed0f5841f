// What a pair turns by, on the device: positions, rows of tables, angles; and the turn itself.
#pragma once

#include <cmath>

#include "kernels/rope/operations.hpp"
#include "warpsmith/device_error.hpp"
#include "warpsmith/launch.hpp"
#include "warpsmith/thread/divide.hpp"
#include "warpsmith/thread/memory.hpp"
#include "warpsmith/thread/turns.hpp"

namespace ws::rope {

// ---- Which rungs take a call --------------------------------------------------------------------

// As textbook rungs have it: contiguous tensors, all columns turn, one position after the other.
inline bool is_dense_and_plain(const Call& call, Why& why) {
  const Turned& x = call.tensors[0];
  const auto is_dense = [&](const Strides& s) {
    const bool heads_first = call.positions > 1 && s.position == call.columns;
    const int64_t head = heads_first ? call.columns * call.positions : call.columns;
    const int64_t position = heads_first ? call.columns : call.columns * x.heads;
    return s.column == 1 && (x.heads == 1 || s.head == head) &&
           (call.positions == 1 || s.position == position) &&
           (call.batches == 1 || s.batch == call.columns * x.heads * call.positions);
  };
  return why.unless(
             is_dense(x.from) && is_dense(x.to) && (x.heads == 1 || x.from.head == x.to.head),
             "takes contiguous tensors of one order") &&
         why.unless(2 * call.pairs == call.columns, "turns whole heads, not ", 2 * call.pairs,
                    " of ", call.columns, " columns") &&
         why.unless(!call.has_positions, "takes the positions 0, 1, 2, ...");
}
// Angles computed in f32, of which the digits behind the point must say something.
inline constexpr int64_t kMostPositions = 1 << 16;
inline bool computes_angles(const Call& call, Why& why) {
  return is_dense_and_plain(call, why) && why.unless(!call.has_tables, "takes no tables") &&
         why.unless(call.positions <= kMostPositions, "computes angles in f32, of up to ",
                    kMostPositions, " positions, not ", call.positions);
}
// Rows of a contiguous tensor that follow each other at one position.
inline int64_t rows_a_position(const Call& call) {
  const Turned& x = call.tensors[0];
  return x.heads == 1 || x.from.head == call.columns ? x.heads : 1;
}

#if WS_DEVICE_CODE

// ---- The turn -----------------------------------------------------------------------------------

__device__ __forceinline__ void turn(float& a, float& b, thread::SinCos by) {
  const float first = a * by.cos - b * by.sin;
  b = b * by.cos + a * by.sin;
  a = first;
}

// The angle of a pair at a position, in f32.
__device__ __forceinline__ thread::SinCos turn_at(int64_t position, float base, int64_t pair,
                                                  int64_t pairs, bool inverse) {
  const float exponent = -static_cast<float>(pair) / static_cast<float>(pairs);
  const float angle = static_cast<float>(position) * ::powf(base, exponent);
  const thread::SinCos found = thread::sin_cos(angle);
  return {inverse ? -found.sin : found.sin, found.cos};
}

// ---- Positions ----------------------------------------------------------------------------------

class Positions {
 public:
  Positions() = default;
  // `rung` is of static storage.
  Positions(const Call& call, const char* rung)
      : data_(call.position),
        is_given_(call.has_positions),
        is_wide_(call.wide_positions),
        rows_(call.has_tables ? call.table_rows : 0),
        is_checked_(call.has_tables),
        batch_stride_(call.batch_stride),
        stride_(call.position_stride),
        count_(call.positions),
        check_(rung, "positions", call.table_rows) {}

  // Whether there is one that tables have; who reports tells of one that they have not.
  __device__ __forceinline__ bool find(int64_t batch, int64_t token, bool reports,
                                       int64_t& position) const {
    position = token;
    if (!is_given_) return true;
    const int64_t at = batch * batch_stride_ + token * stride_;
    position = is_wide_ ? thread::load(static_cast<const int64_t*>(data_) + at)
                        : thread::load(static_cast<const int32_t*>(data_) + at);
    if (!is_checked_) return true;
    const int64_t place = (batch_stride_ != 0 ? batch * count_ : 0) + token;
    return reports ? check_(position, place) : position >= 0 && position < rows_;
  }

 private:
  const void* data_ = nullptr;
  bool is_given_ = false;
  bool is_wide_ = true;
  int64_t rows_ = 0;
  bool is_checked_ = false;
  int64_t batch_stride_ = 0;
  int64_t stride_ = 0;
  int64_t count_ = 0;
  IndexCheck check_;
};

// ---- Tables and angles --------------------------------------------------------------------------

// Cosines and sines from memory, of elements V.
template <class V>
class Tables {
 public:
  explicit Tables(const Call& call) : cos_(call.cos), sin_(call.sin) {}

  __device__ __forceinline__ thread::SinCos at(int64_t batch, int64_t position, int64_t head,
                                               int64_t pair) const {
    const V* cos = row(cos_, batch, position, head) + pair * cos_.strides.column;
    const V* sin = row(sin_, batch, position, head) + pair * sin_.strides.column;
    return {to_float(thread::load(sin)), to_float(thread::load(cos))};
  }
  // Of N pairs that lie side by side.
  template <int N>
  __device__ __forceinline__ void load(int64_t batch, int64_t position, int64_t head, int64_t pair,
                                       thread::SinCos* found) const {
    const Vec<V, N> cos = thread::load<N>(row(cos_, batch, position, head) + pair);
    const Vec<V, N> sin = thread::load<N>(row(sin_, batch, position, head) + pair);
#pragma unroll
    for (int i = 0; i < N; ++i) found[i] = {to_float(sin[i]), to_float(cos[i])};
  }

 private:
  static __device__ __forceinline__ const V* row(const Table& table, int64_t batch,
                                                 int64_t position, int64_t head) {
    const Strides& s = table.strides;
    return static_cast<const V*>(table.data) + batch * s.batch + position * s.position +
           head * s.head;
  }

  Table cos_;
  Table sin_;
};

// Angles in turns of 2^64, whose multiples by any position lose whole turns and nothing else: they
// are as right as the frequencies, which have the 53 bits of a double.
class Angles {
 public:
  explicit Angles(const Call& call)
      : octaves_(-std::log2(call.base) / static_cast<double>(call.pairs)) {}

  // 2^64 / (2 pi) * base^(-pair / pairs)
  __device__ __forceinline__ uint64_t frequency(int64_t pair) const {
    constexpr double kRadian = 2935890503282001226.0;
    return static_cast<uint64_t>(::exp2(octaves_ * static_cast<double>(pair)) * kRadian);
  }
  static __device__ __forceinline__ thread::SinCos turn(uint64_t frequency, int64_t position) {
    const uint64_t angle = frequency * static_cast<uint64_t>(position);
    return thread::sin_cos_of_turns(static_cast<uint32_t>(angle >> 32));
  }
  __device__ __forceinline__ thread::SinCos at(int64_t /*batch*/, int64_t position,
                                               int64_t /*head*/, int64_t pair) const {
    return turn(frequency(pair), position);
  }

 private:
  double octaves_;  // of one pair to the next
};

// visit.template operator()<T, Source>() with the types of a call.
template <class Visit>
void with_source(const Call& call, Visit&& visit) {
  with_type<kFloats>(call.dtype, [&]<class T>() {
    if (!call.has_tables) {
      visit.template operator()<T, Angles>();
    } else if (std::is_same_v<T, float> || call.table_dtype == DType::kF32) {
      visit.template operator()<T, Tables<float>>();
    } else {
      visit.template operator()<T, Tables<T>>();
    }
  });
}
#endif

}  // namespace ws::rope
