// Idea: eight elements a thread: 4 or 8 bytes of codes become 16 or 32 of w.
// From dequantize_naive: writes are most of the traffic, and take an eighth of the instructions; no
//   division of 64 bits, no conversion of integers, nf4's table in shared memory.
// Traffic: codes and w once.
// Limits: K and groups of whole eights, aligned rows.
#pragma once

#include "kernels/quantized/codes.hpp"

namespace ws::quantized {

template <class T, Format kFormat>
struct DequantizeVectorKernel {
  static constexpr int kThreads = 256;
  static constexpr int kWidth = 8;
  static constexpr int kWords = kWidth * bits_of(kFormat) / 32;
  static constexpr int kOfWord = kWidth / kWords;
  struct Arguments : DequantizeCall {
    int64_t threads;
    thread::Divider runs;  // of a row
    thread::Divider per_group;
  };
  struct SharedStorage {
    Table table;
  };

  __device__ void operator()(SharedStorage& shared, const Arguments& a) const {
    if constexpr (kFormat == Format::kNf4) {
      fill_table(shared.table);
      ptx::barrier_sync();
    }
    const Weight& w = a.weight;
    const int64_t i = block_index() * kThreads + thread_index();
    if (i >= a.threads) return;
    const int64_t n = a.runs.quotient(static_cast<uint32_t>(i));
    const int64_t run = i - n * a.runs.divisor();
    const int64_t group = a.per_group.quotient(static_cast<uint32_t>(run));
    const auto* codes =
        reinterpret_cast<const uint32_t*>(w.codes.as<const uint8_t>() + n * w.codes.row);
    const Vec<uint32_t, kWords> words = thread::load<kWords>(codes + run * kWords);
    const float scale = scale_at(w, n, group);
    const int zero = has_zeros(kFormat) ? zero_at(w, n, group) : 0;
    Vec<float, kWidth> values;
#pragma unroll
    for (int word = 0; word < kWords; ++word) {
      const Levels<kFormat> levels(words[word], zero, shared.table);
#pragma unroll
      for (int e = 0; e < kOfWord; ++e) values[word * kOfWord + e] = levels[e] * scale;
    }
    thread::store(a.values.template as<T>() + n * a.values.row + run * kWidth,
                  thread::convert<T>(values));
  }
};

struct DequantizeVector {
  static bool supports(const DequantizeCall& call, Why& why) {
    const Weight& w = call.weight;
    const auto bytes = static_cast<int64_t>(size_of(call.dtype));
    return codes_are_runs(w, 8, bits_of(w.format), why) &&
           why.unless(has_aligned_rows(call.values, bytes, 16),
                      "writes 16 bytes at a time: rows of w have to start at multiples of that") &&
           why.unless(w.rows * (w.columns / 8) < (int64_t{1} << 31),
                      "takes fewer than 2^34 elements");
  }
  static void run(const DequantizeCall& call, const Context& context) {
    with_type<kFloats>(call.dtype, [&]<class T>() {
      with_format(call.weight.format, [&]<Format kFormat>() {
        using Kernel = DequantizeVectorKernel<T, kFormat>;
        const int64_t runs = call.weight.columns / Kernel::kWidth;
        const int64_t threads = call.weight.rows * runs;
        launch<Kernel>(
            {.blocks = divide_up(threads, Kernel::kThreads), .threads = Kernel::kThreads},
            context.stream,
            {call, threads, thread::Divider(runs),
             thread::Divider(call.weight.group / Kernel::kWidth)});
      });
    });
  }
};

inline constexpr Rung kDequantizeVector = rung_of<DequantizeVector, DequantizeBlockwise>({
    .name = "dequantize_vector",
    .from = "dequantize_naive",
    .idea = "eight elements a thread: a word or two of codes, 16 bytes of w an access",
});

}  // namespace ws::quantized
