// Idea: mma.sync multiplies 16 rows of the weight with 8 rows of x, summed in f32: codes become
//   halves in registers, two at a time, as the last bits of 1024.
// From warp_per_row: three instructions a code, not four for each row of x; 16 rows of x share one
//   reading of the codes.
// Traffic: codes once. The sum over K does not care for K's order: a lane multiplies the codes that
//   it has loaded, and x in the order in which their bits come. Four lanes read a sector of 32.
// Limits: f16, bf16; K and groups of whole 64 codes of 4 bits, or 32 of 8; aligned rows.
// Long: pairs of codes by format and dtype.
#include "kernels/quantized/codes.hpp"
#include "warpsmith/ptx/convert_e4m3x2.hpp"
#include "warpsmith/ptx/half.hpp"
#include "warpsmith/ptx/logic.hpp"
#include "warpsmith/ptx/mma.hpp"

namespace ws::quantized {
namespace {

// A word's levels as pairs of T, in any order, and words of x in the same one.
template <class T, Format kFormat>
struct Pairs {
  static constexpr int kCount = Levels<kFormat>::kOfWord / 2;
  uint32_t pairs[kCount];

  __device__ __forceinline__ Pairs(uint32_t word, int zero, Table& table) {
    const Levels<kFormat> levels(word, zero, table);
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      if constexpr (std::is_same_v<T, half>) {
        pairs[i] = ptx::cvt_rn_f16x2_f32(levels[2 * i], levels[2 * i + 1]);
      } else {
        pairs[i] = ptx::cvt_rn_bf16x2_f32(levels[2 * i], levels[2 * i + 1]);
      }
    }
  }
  __device__ __forceinline__ static void order(uint32_t (& /*x*/)[kCount]) {}
};

constexpr uint32_t kOnes = 0x3C003C00;        // 1 as halves
constexpr uint32_t kSixteenths = 0x2C002C00;  // 1 / 16
constexpr uint32_t kThousands = 0x64006400;   // 1024, whose last bit is 1

// The lower nibbles of bytes 0 and 2 are q below 1024's, the upper ones 16 q: no shifts.
template <>
struct Pairs<half, Format::kInt4> {
  static constexpr int kCount = 4;
  uint32_t pairs[kCount];

  __device__ __forceinline__ Pairs(uint32_t word, int zero, Table& /*table*/) {
    const uint32_t both = static_cast<uint32_t>(zero) * 0x00010001U;
    const uint32_t lower_minus = 0xE400E400U + both;       // -(1024 + zero)
    const uint32_t upper_minus = 0xD400D400U + both * 16;  // -(64 + zero), whose last bit is 1 / 16
#pragma unroll
    for (int i = 0; i < kCount; i += 2) {
      const uint32_t bytes = i == 0 ? word : word >> 8;
      const uint32_t lower = ptx::and_or(bytes, 0x000F000FU, kThousands);
      const uint32_t upper = ptx::and_or(bytes, 0x00F000F0U, kThousands);
      pairs[i] = ptx::fma_rn_f16x2(lower, kOnes, lower_minus);
      pairs[i + 1] = ptx::fma_rn_f16x2(upper, kSixteenths, upper_minus);
    }
  }
  // Codes 1 and 5, 0 and 4, 3 and 7, 2 and 6.
  __device__ __forceinline__ static void order(uint32_t (&x)[kCount]) {
    const uint32_t in_order[kCount] = {x[0], x[1], x[2], x[3]};
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      x[2 * i] = ptx::permute_bytes(in_order[i], in_order[i + 2], 0x7632);
      x[2 * i + 1] = ptx::permute_bytes(in_order[i], in_order[i + 2], 0x5410);
    }
  }
};

template <>
struct Pairs<half, Format::kInt8> {
  static constexpr int kCount = 2;
  uint32_t pairs[kCount];

  __device__ __forceinline__ Pairs(uint32_t word, int zero, Table& /*table*/) {
    const uint32_t moved = word ^ 0x80808080U;  // from -128 ... 127 to 0 ... 255
    // -(1024 + 128 + zero), whose last bit is 1
    const uint32_t minus = static_cast<uint32_t>(0xE480 + zero) * 0x00010001U;
    pairs[0] = ptx::fma_rn_f16x2(ptx::permute_bytes(moved, kThousands, 0x5150), kOnes, minus);
    pairs[1] = ptx::fma_rn_f16x2(ptx::permute_bytes(moved, kThousands, 0x5352), kOnes, minus);
  }
  __device__ __forceinline__ static void order(uint32_t (& /*x*/)[kCount]) {}
};

// An e4m3 is a half.
template <>
struct Pairs<half, Format::kFp8> {
  static constexpr int kCount = 2;
  uint32_t pairs[kCount];

  __device__ __forceinline__ Pairs(uint32_t word, int /*zero*/, Table& /*table*/) {
    pairs[0] = ptx::cvt_rn_f16x2_e4m3x2(word);
    pairs[1] = ptx::cvt_rn_f16x2_e4m3x2(word >> 16);
  }
  __device__ __forceinline__ static void order(uint32_t (& /*x*/)[kCount]) {}
};

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
           why.unless((call.weight.groups <= 1 || call.weight.scales.column == 1) &&
                          (call.weight.groups <= 1 || call.weight.zeros.data == nullptr ||
                           call.weight.zeros.column == 1),
                      "takes scales and zeros of a row that lie side by side") &&
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
