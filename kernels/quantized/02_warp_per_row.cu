// Idea: a warp a row of the weight, 16 bytes of codes a load; a lane makes numbers of its codes
//   once for four rows of x.
// From naive: neighbouring lanes read neighbouring bytes; no conversion of integers.
// Traffic: codes once for four rows of x, which come from the L1: 16 bytes of int4 meet 64 of f16.
// Limits: rows at multiples of 16 bytes, K and groups of whole 16 bytes of codes.
#include "kernels/quantized/codes.hpp"
#include "warpsmith/warp/reduce.hpp"

namespace ws::quantized {
namespace {

template <class T, Format kFormat>
struct WarpPerRowKernel {
  static constexpr int kThreads = 128;
  static constexpr int kWarps = kThreads / kWarpSize;
  static constexpr int kRows = 4;   // of x
  static constexpr int kLoads = 2;  // of codes in flight
  static constexpr int kCodes = 128 / bits_of(kFormat);
  static constexpr int kWidth = row::kWidest<T>;
  static constexpr int kOfWord = Levels<kFormat>::kOfWord;
  struct Arguments : LinearCall {
    thread::Divider vectors;  // of a group
  };
  struct SharedStorage {
    Table table;
  };

  __device__ void operator()(SharedStorage& shared, const Arguments& a) const {
    if constexpr (kFormat == Format::kNf4) {
      fill_table(shared.table);
      ptx::barrier_sync();
    }
    const int64_t n = block_index() * kWarps + warp_index();
    if (n >= a.weight.rows) return;
    for (int64_t first = 0; first < a.m; first += kRows) {
      float sums[kRows] = {};
      multiply(shared.table, a, n, first, sums);
#pragma unroll
      for (int r = 0; r < kRows; ++r) {
        const float sum = warp::all_reduce(sums[r], [](float p, float q) { return p + q; });
        if (lane_index() == r && first + r < a.m) write(a, n, first + r, sum);
      }
    }
  }

 private:
  // Rows first, first + 1, ... of x, as far as they are there.
  static __device__ __forceinline__ void multiply(Table& table, const Arguments& a, int64_t n,
                                                  int64_t first, float (&sums)[kRows]) {
    const Weight& w = a.weight;
    const auto* codes =
        reinterpret_cast<const uint32_t*>(w.codes.as<const uint8_t>() + n * w.codes.row);
    const T* x = a.x.template as<const T>() + first * a.x.row;
    const int vectors = static_cast<int>(w.columns / kCodes);
    for (int v = lane_index(); v < vectors; v += kLoads * kWarpSize) {
      Vec<uint32_t, 4> words[kLoads];
#pragma unroll
      for (int i = 0; i < kLoads; ++i) {
        const int vector = v + i * kWarpSize;
        if (vector < vectors) words[i] = thread::load<4>(codes + vector * 4);
      }
#pragma unroll
      for (int i = 0; i < kLoads; ++i) {
        const int vector = v + i * kWarpSize;
        if (vector >= vectors) break;
        const int64_t group = a.vectors.quotient(static_cast<uint32_t>(vector));
        const float scale = scale_at(w, n, group);
        const int zero = has_zeros(kFormat) ? zero_at(w, n, group) : 0;
        float dots[kRows] = {};
#pragma unroll
        for (int word = 0; word < 4; ++word) {
          const Levels<kFormat> levels(words[i][word], zero, table);
          const T* here = x + int64_t{vector} * kCodes + word * kOfWord;
#pragma unroll
          for (int r = 0; r < kRows; ++r) {
            if (first + r < a.m) add_dot(dots[r], levels, here + r * a.x.row);
          }
        }
#pragma unroll
        for (int r = 0; r < kRows; ++r) sums[r] = thread::fma(scale, dots[r], sums[r]);
      }
    }
  }

  static __device__ __forceinline__ void add_dot(float& dot, const Levels<kFormat>& levels,
                                                 const T* x) {
    constexpr int kStep = kWidth < kOfWord ? kWidth : kOfWord;
#pragma unroll
    for (int at = 0; at < kOfWord; at += kStep) {
      const auto values = row::Packed<T, kStep>::load(x + at);
#pragma unroll
      for (int e = 0; e < kStep; ++e) dot = thread::fma(levels[at + e], values[e], dot);
    }
  }

  static __device__ __forceinline__ void write(const Arguments& a, int64_t n, int64_t m,
                                               float sum) {
    if (a.bias != nullptr) {
      sum += to_float(thread::load(static_cast<const T*>(a.bias) + n * a.bias_step));
    }
    thread::store(a.y.template as<T>() + m * a.y.row + n * a.y.column, from_float<T>(sum));
  }
};

struct WarpPerRow {
  static bool supports(const LinearCall& call, Why& why) {
    const auto bytes = static_cast<int64_t>(size_of(call.dtype));
    return codes_are_runs(call.weight, 128 / bits_of(call.weight.format), 16, why) &&
           why.unless(has_aligned_rows(call.x, bytes, 16),
                      "reads 16 bytes of x at a time: rows have to start at multiples of that");
  }
  static void run(const LinearCall& call, const Context& context) {
    with_type<kFloats>(call.dtype, [&]<class T>() {
      with_format(call.weight.format, [&]<Format kFormat>() {
        using Kernel = WarpPerRowKernel<T, kFormat>;
        launch<Kernel>(
            {.blocks = divide_up(call.weight.rows, Kernel::kWarps), .threads = Kernel::kThreads},
            context.stream, {call, thread::Divider(call.weight.group / Kernel::kCodes)});
      });
    });
  }
};

constexpr Seed kWarpPerRowSeeds[] = {{.name = "int8/nf4 dequantize gemv"}};

}  // namespace

extern const Rung kWarpPerRow;
const Rung kWarpPerRow = rung_of<WarpPerRow, QuantizedLinear>({
    .name = "warp_per_row",
    .from = "naive",
    .idea = "a warp a row of the weight, 16 bytes of codes a load, made numbers once for four rows",
    .seeds = kWarpPerRowSeeds,
});

}  // namespace ws::quantized
