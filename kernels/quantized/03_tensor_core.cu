// Idea: mma.sync multiplies 16 rows of the weight with 8 rows of x, summed in f32: codes become
//   halves in registers, two at a time, as the last bits of 1024.
// From warp_per_row: three instructions a code, not four for each row of x; 16 rows of x share one
//   reading of the codes.
// Traffic: codes once. The sum over K does not care for K's order: a lane multiplies the codes that
//   it has loaded, and x in the order in which their bits come. Four lanes read a sector of 32.
// Limits: f16, bf16; K and groups of whole 64 codes of 4 bits, or 32 of 8; aligned rows.
// Long: pairs of codes by format and dtype.
#include "kernels/quantized/pairs.hpp"
#include "warpsmith/ptx/mma.hpp"

namespace ws::quantized {
namespace {

// kTiles: of 8 rows of x.
template <class T, Format kFormat, int kTiles>
struct TensorCoreKernel {
  static constexpr int kThreads = 256;
  static constexpr int kMinBlocks = 2;
  static constexpr int kWarps = kThreads / kWarpSize;  // share out K
  static constexpr int kRows = 16;                     // of the weight
  static constexpr int kColumns = 8 * kTiles;          // rows of x, columns of the product
  static constexpr int kLoads = kTiles == 1 ? 4 : 2;   // of each of a lane's two rows, in flight
  static constexpr int kWords = 2;                     // of a load
  static constexpr int kOfWord = Levels<kFormat>::kOfWord;
  static constexpr int kRun = kWords * kOfWord;  // codes of a load
  static constexpr int kChain = 4 * kRun;        // columns that are summed before they are scaled
  using Of = Pairs<T, kFormat>;
  using Words = Vec<uint32_t, kWords>;
  struct Arguments : LinearCall {
    thread::Divider tiles;   // of rows of the weight
    thread::Divider chains;  // of a group
  };
  struct SharedStorage {
    Table table;
    SharedArray<float, kWarps * kColumns * kRows> sums;
  };

  __device__ void operator()(SharedStorage& shared, const Arguments& a) const {
    if constexpr (kFormat == Format::kNf4) {
      fill_table(shared.table);
      ptx::barrier_sync();
    }
    const auto block = static_cast<uint32_t>(block_index());
    const uint32_t row_tile = a.tiles.quotient(block);  // of x
    const int64_t first_n = int64_t{block - row_tile * a.tiles.divisor()} * kRows;
    const int64_t first_m = int64_t{row_tile} * kColumns;
    float sums[kTiles][4] = {};
    multiply(shared.table, a, first_n, first_m, sums);

    const int row = lane_index() / 4;
    const int column = lane_index() % 4 * 2;
#pragma unroll
    for (int tile = 0; tile < kTiles; ++tile) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int at = warp_index() * kColumns + tile * 8 + column + i % 2;
        shared.sums[at * kRows + row + i / 2 * 8] = sums[tile][i];
      }
    }
    ptx::barrier_sync();
    if (thread_index() < kRows * kColumns) {
      write(shared, a, first_n + thread_index() % kRows, first_m + thread_index() / kRows);
    }
  }

 private:
  static __device__ __forceinline__ void multiply(Table& table, const Arguments& a, int64_t first_n,
                                                  int64_t first_m, float (&sums)[kTiles][4]) {
    const Weight& w = a.weight;
    const int chains = static_cast<int>(w.columns / kChain);
    const int group = lane_index() / 4;
    const int place = lane_index() % 4;
    const uint32_t* codes[2];
    const float* scales[2];
    const uint8_t* zeros[2];
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int64_t row = first_n + group + h * 8;
      const int64_t n = row < w.rows ? row : w.rows - 1;
      const uint8_t* from = w.codes.as<const uint8_t>() + n * w.codes.row;
      codes[h] = reinterpret_cast<const uint32_t*>(from) + place * kWords;
      scales[h] = w.scales.as<const float>() + n * w.scales.row;
      zeros[h] = w.zeros.as<const uint8_t>() + n * w.zeros.row;
    }
    const bool zeros_are_there = has_zeros(kFormat) && w.zeros.data != nullptr;
    const T* x[kTiles];
#pragma unroll
    for (int tile = 0; tile < kTiles; ++tile) {
      const int64_t m = first_m + tile * 8 + group;
      x[tile] = a.x.template as<const T>() + (m < a.m ? m : a.m - 1) * a.x.row + place * kRun;
    }

    for (int chain = warp_index() * kLoads; chain < chains; chain += kWarps * kLoads) {
      // All that is waited for at once. Beyond the end the last ones come again, for nothing: a
      // branch would let the next loads wait for these.
      Words words[kLoads][2];
      float scale[kLoads][2];
      int zero[kLoads][2];
#pragma unroll
      for (int i = 0; i < kLoads; ++i) {
        const int at = chain + i < chains ? chain + i : chains - 1;
        const uint32_t of = a.chains.quotient(static_cast<uint32_t>(at));
#pragma unroll
        for (int h = 0; h < 2; ++h) {
          words[i][h] = thread::load<kWords>(codes[h] + int64_t{at} * 4 * kWords);
          scale[i][h] = thread::load(scales[h] + of);
          zero[i][h] =
              zeros_are_there ? zero_of(kFormat, thread::load(zeros[h] + of)) : middle_of(kFormat);
        }
      }
#pragma unroll
      for (int i = 0; i < kLoads; ++i) {
        const int at = chain + i < chains ? chain + i : chains - 1;
        float partial[kTiles][4] = {};
#pragma unroll
        for (int word = 0; word < kWords; ++word) {
          const Of upper(words[i][0][word], zero[i][0], table);
          const Of lower(words[i][1][word], zero[i][1], table);
#pragma unroll
          for (int tile = 0; tile < kTiles; ++tile) {
            const T* from = x[tile] + int64_t{at} * kChain + word * kOfWord;
            add_products(partial[tile], upper, lower, row::Packed<T, kOfWord>::load(from));
          }
        }
        if (chain + i >= chains) continue;
#pragma unroll
        for (int tile = 0; tile < kTiles; ++tile) {
#pragma unroll
          for (int e = 0; e < 4; ++e) {
            sums[tile][e] = thread::fma(scale[i][e / 2], partial[tile][e], sums[tile][e]);
          }
        }
      }
    }
  }

  static __device__ __forceinline__ void add_products(float (&sums)[4], const Of& upper,
                                                      const Of& lower,
                                                      const row::Packed<T, kOfWord>& x) {
    uint32_t of_x[Of::kCount];
#pragma unroll
    for (int i = 0; i < Of::kCount; ++i) of_x[i] = x.words[i];
    Of::order(of_x);
#pragma unroll
    for (int i = 0; i < Of::kCount; i += 2) {
      const uint32_t of_w[4] = {upper.pairs[i], lower.pairs[i], upper.pairs[i + 1],
                                lower.pairs[i + 1]};
      const uint32_t both[2] = {of_x[i], of_x[i + 1]};
      ptx::mma_m16n8k16<T>(sums, of_w, both, sums);
    }
  }

  static __device__ __forceinline__ void write(SharedStorage& shared, const Arguments& a, int64_t n,
                                               int64_t m) {
    if (n >= a.weight.rows || m >= a.m) return;
    float sum = 0;
    if (a.bias != nullptr) {
      sum = to_float(thread::load(static_cast<const T*>(a.bias) + n * a.bias_step));
    }
#pragma unroll
    for (int warp = 0; warp < kWarps; ++warp) {
      sum += shared.sums[warp * kColumns * kRows + thread_index()];
    }
    thread::store(a.y.template as<T>() + m * a.y.row + n * a.y.column, from_float<T>(sum));
  }
};

struct TensorCore {
  static bool supports(const LinearCall& call, Why& why) {
    return codes_are_runs(call.weight, 256 / bits_of(call.weight.format), 8, why) &&
           takes_groups_side_by_side(call.weight, why) &&
           why.unless(has_aligned_rows(call.x, 2, 16),
                      "reads 16 bytes of x at a time: rows have to start at multiples of that");
  }
  static void run(const LinearCall& call, const Context& context) {
    with_type<kHalves>(call.dtype, [&]<class T>() {
      with_format(call.weight.format, [&]<Format kFormat>() {
        if (call.m <= 8) {
          start<TensorCoreKernel<T, kFormat, 1>>(call, context);
        } else {
          start<TensorCoreKernel<T, kFormat, 2>>(call, context);
        }
      });
    });
  }

 private:
  template <class Kernel>
  static void start(const LinearCall& call, const Context& context) {
    const int64_t tiles = divide_up(call.weight.rows, Kernel::kRows);
    launch<Kernel>(
        {.blocks = tiles * divide_up(call.m, Kernel::kColumns), .threads = Kernel::kThreads},
        context.stream,
        {call, thread::Divider(tiles), thread::Divider(call.weight.group / Kernel::kChain)});
  }
};

}  // namespace

extern const Rung kTensorCore;
const Rung kTensorCore = rung_of<TensorCore, kHalves, QuantizedLinear>({
    .name = "tensor_core",
    .from = "warp_per_row",
    .idea = "16 rows of codes become fragments in registers, and meet up to 16 rows of x at once",
});

}  // namespace ws::quantized
