// Idea: eight elements a lane, as many lanes a group as it has eights: the range by shuffles.
// From quantize_naive: x is read once, in vectors, and stays in registers; codes leave 4 or 8 bytes
//   at a time.
// Traffic: x and codes once.
// Limits: whole groups of 16 to 256, a power of two; aligned rows.
#pragma once

#include "kernels/quantized/encode.hpp"
#include "warpsmith/warp/shuffle.hpp"

namespace ws::quantized {

inline constexpr int kRun = 8;  // elements of a lane

template <class T>
struct QuantizeLanesKernel {
  static constexpr int kThreads = 128;
  static constexpr int kMinBlocks = 16;  // all threads that an SM has: 32 registers
  struct Arguments : QuantizeCall {
    int64_t threads;
    thread::Divider runs;  // of a row
    int lanes;             // of a group, a power of two
    thread::Divider by_lanes;
  };
  struct SharedStorage {};

  __device__ void operator()(SharedStorage& /*shared*/, const Arguments& a) const {
    const Weight& w = a.weight;
    const int64_t i = block_index() * kThreads + thread_index();
    const bool is_there = i < a.threads;  // whole groups are, or are not
    const uint32_t n = is_there ? a.runs.quotient(static_cast<uint32_t>(i)) : 0;
    const int64_t run = is_there ? i - int64_t{n} * a.runs.divisor() : 0;
    const auto x =
        row::Packed<T, kRun>::load(a.values.template as<const T>() + n * a.values.row + run * kRun);
    Range range;
#pragma unroll
    for (int e = 0; e < kRun; ++e) range.add(x[e]);
    for (int distance = a.lanes / 2; distance > 0; distance /= 2) {
      range = Either{}(range, warp::shuffle_xor(range, distance));
    }
    if (!is_there) return;
    const Encoder encoder(w.format, w.zeros.data != nullptr, range);
    if ((run & (a.lanes - 1)) == 0) {
      store_group(w, n, a.by_lanes.quotient(static_cast<uint32_t>(run)), encoder);
    }
    store_codes(w, n, run, encoder, x);
  }

 private:
  static __device__ __forceinline__ void store_codes(const Weight& w, int64_t n, int64_t run,
                                                     const Encoder& encoder,
                                                     const row::Packed<T, kRun>& x) {
    const auto element = [&](int e) { return x[e]; };
    uint8_t* codes = w.codes.as<uint8_t>() + n * w.codes.row;
    if (bits_of(w.format) == 8) {
      Vec<uint32_t, 2> words{};
      encoder.codes<kRun>(element, [&](int e, int code) {
        words[e / 4] |= (static_cast<uint32_t>(code) & 0xFF) << (e % 4 * 8);
      });
      thread::store(reinterpret_cast<uint32_t*>(codes) + run * 2, words);
    } else {
      uint32_t word = 0;
      encoder.codes<kRun>(element, [&](int e, int code) {
        word |= (static_cast<uint32_t>(code) & 0xFF) << (4 * (e ^ 1));
      });
      thread::store(reinterpret_cast<uint32_t*>(codes) + run, word);
    }
  }
};

struct QuantizeLanes {
  static bool supports(const QuantizeCall& call, Why& why) {
    const Weight& w = call.weight;
    const auto bytes = static_cast<int64_t>(size_of(call.dtype));
    return why.unless(w.group <= kRun * kWarpSize && (w.group & (w.group - 1)) == 0,
                      "takes groups of 16 to 256 that are a power of two, not ", w.group) &&
           why.unless(w.columns % w.group == 0, "takes whole groups of ", w.group,
                      ", not K = ", w.columns) &&
           codes_are_runs(w, kRun, bits_of(w.format), why) &&
           why.unless(has_aligned_rows(call.values, bytes, 16),
                      "reads 16 bytes of x at a time: rows have to start at multiples of that") &&
           why.unless(w.rows * (w.columns / kRun) < (int64_t{1} << 31),
                      "takes fewer than 2^34 elements");
  }
  static void run(const QuantizeCall& call, const Context& context) {
    with_type<kFloats>(call.dtype, [&]<class T>() {
      using Kernel = QuantizeLanesKernel<T>;
      const int64_t runs = call.weight.columns / kRun;
      const int64_t threads = call.weight.rows * runs;
      const auto lanes = static_cast<uint32_t>(call.weight.group / kRun);
      launch<Kernel>(
          {.blocks = divide_up(threads, Kernel::kThreads), .threads = Kernel::kThreads},
          context.stream,
          {call, threads, thread::Divider(runs), static_cast<int>(lanes), thread::Divider(lanes)});
    });
  }
};

inline constexpr Rung kQuantizeLanes = rung_of<QuantizeLanes, QuantizeBlockwise>({
    .name = "quantize_lanes",
    .from = "quantize_naive",
    .idea = "eight elements a lane in registers, a group's range by shuffles",
});

}  // namespace ws::quantized
