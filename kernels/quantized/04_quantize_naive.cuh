// Idea: a thread a group: its range, its scale, then its codes.
// Traffic: x twice, an element at a time, by lanes that are a group apart; codes byte by byte.
// Limits: none.
#pragma once

#include "kernels/quantized/encode.hpp"

namespace ws::quantized {

template <class T>
struct QuantizeNaiveKernel {
  static constexpr int kThreads = 128;
  using Arguments = QuantizeCall;
  struct SharedStorage {};

  __device__ void operator()(SharedStorage& /*shared*/, const Arguments& a) const {
    const Weight& w = a.weight;
    const int64_t i = block_index() * kThreads + thread_index();
    if (i >= w.rows * w.groups) return;
    const int64_t n = i / w.groups;
    const int64_t group = i % w.groups;
    const int64_t first = group * w.group;
    const int64_t last = first + w.group < w.columns ? first + w.group : w.columns;
    const auto x = [&](int64_t k) {
      return to_float(
          thread::load(a.values.as<const T>() + n * a.values.row + k * a.values.column));
    };

    Range range;
    for (int64_t k = first; k < last; ++k) range.add(x(k));
    const Encoder encoder(w.format, w.zeros.data != nullptr, range);
    store_group(w, n, group, encoder);
    uint8_t* codes = w.codes.as<uint8_t>() + n * w.codes.row;
    if (bits_of(w.format) == 8) {
      for (int64_t k = first; k < last; ++k) {
        thread::store(codes + k * w.codes.column, static_cast<uint8_t>(encoder.code(x(k))));
      }
    } else {
      for (int64_t k = first; k < last; k += 2) {
        const int byte = encoder.code(x(k)) << 4 | encoder.code(x(k + 1));
        thread::store(codes + k / 2 * w.codes.column, static_cast<uint8_t>(byte));
      }
    }
  }
};

struct QuantizeNaive {
  static void run(const QuantizeCall& call, const Context& context) {
    with_type<kFloats>(call.dtype, [&]<class T>() {
      using Kernel = QuantizeNaiveKernel<T>;
      launch<Kernel>({.blocks = divide_up(call.weight.rows * call.weight.groups, Kernel::kThreads),
                      .threads = Kernel::kThreads},
                     context.stream, call);
    });
  }
};

inline constexpr Rung kQuantizeNaive = rung_of<QuantizeNaive, QuantizeBlockwise>({
    .name = "quantize_naive",
    .idea = "a thread a group: range, scale, codes",
});

}  // namespace ws::quantized
