// Idea: a dozen instructions an element: ranges of elements of 16 bits two at a time, codes that a
//   sum with 1.5 * 2^23 leaves in its last bits, put together by byte permutations; nf4's levels
//   lie so far apart that of 31 parts of [-1, 1] none has more than one middle: a lane asks the
//   lane of its part for it.
// From quantize_lanes: sixteen elements a lane share scales, divisions, addresses and shuffles; a
//   kernel for each format.
// Traffic: x and codes once.
// Limits: whole groups of 16 to 512, a power of two; aligned rows.
// Long: ranges of three dtypes, nf4's parts, codes of four formats.
#include <algorithm>

#include "kernels/quantized/encode.hpp"
#include "warpsmith/device_facts.hpp"
#include "warpsmith/ptx/half.hpp"
#include "warpsmith/warp/shuffle.hpp"

namespace ws::quantized {
namespace {

constexpr int kRun = 16;  // elements of a lane

// The largest of a group, of -x too; or the largest magnitude, twice. NaN where one is. Two of 16
// bits in a word; of f32 as whole numbers, in whose order NaN is above all.
template <class T, bool kZero>
struct Largest {
  static constexpr bool kPairs = sizeof(T) == 2;
  static constexpr uint32_t kSigns = kPairs ? 0x80008000 : 0x80000000;
  uint32_t of_x = 0;
  uint32_t of_minus_x = 0;

  __device__ __forceinline__ void add(uint32_t word) {
    of_x = larger(of_x, kZero ? word : word & ~kSigns);
    if constexpr (kZero) of_minus_x = larger(of_minus_x, word ^ kSigns);
  }
  __device__ __forceinline__ void add_lanes(int lanes) {
    for (int distance = lanes / 2; distance > 0; distance /= 2) {
      of_x = larger(of_x, warp::shuffle_xor(of_x, distance));
      if constexpr (kZero) of_minus_x = larger(of_minus_x, warp::shuffle_xor(of_minus_x, distance));
    }
  }
  __device__ __forceinline__ Range range() const {
    const float high = value(of_x);
    return {.low = kZero ? -value(of_minus_x) : -high, .high = high};
  }

 private:
  __device__ __forceinline__ static uint32_t larger(uint32_t p, uint32_t q) {
    if constexpr (kPairs) {
      return ptx::max_nan_x2<T>(p, q);
    } else {
      return static_cast<uint32_t>(std::max(static_cast<int32_t>(p), static_cast<int32_t>(q)));
    }
  }
  __device__ __forceinline__ static float value(uint32_t word) {
    if constexpr (kPairs) {
      T element;
      element.bits = static_cast<uint16_t>(larger(word, word >> 16));
      return to_float(element);
    } else {
      return std::bit_cast<float>(word);
    }
  }
};

// Of [-1, 1] in 31 parts, the nearest of n / 15: no middle is so near to a part's end that
// roundings matter, none has two.
constexpr float kNf4Parts = 15;
template <int... kCodes>
constexpr bool are_middles_apart(std::integer_sequence<int, kCodes...> /*codes*/) {
  constexpr float kPlaces[] = {(kNf4Middle<kCodes> * kNf4Parts + 15.5F)...};
  for (size_t i = 0; i < std::size(kPlaces); ++i) {
    const float rest = kPlaces[i] - static_cast<float>(static_cast<int>(kPlaces[i]));
    if (rest < 0x1p-10F || rest > 1 - 0x1p-10F) return false;
    if (i > 0 && static_cast<int>(kPlaces[i]) == static_cast<int>(kPlaces[i - 1])) return false;
  }
  return true;
}
static_assert(are_middles_apart(std::make_integer_sequence<int, 15>{}));

// Which part x is in stands in the last bits of a sum. Lane n % 32 knows the middle of two levels
// that lies there, if one does, and the code below it.
struct Nf4Parts {
  float middle = 2;
  int code = 0;

  __device__ __forceinline__ Nf4Parts() {
    const int part = lane_index() < 16 ? lane_index() : lane_index() - kWarpSize;
    const float from = (static_cast<float>(part) - 0.5F) / kNf4Parts;
    const float to = (static_cast<float>(part) + 0.5F) / kNf4Parts;
    add(from, to, std::make_integer_sequence<int, 15>{});
  }
  __device__ __forceinline__ int code_of(float x) const {
    const int part = std::bit_cast<int>(thread::fma(x, kNf4Parts, kWholes)) & (kWarpSize - 1);
    const float here = warp::shuffle(middle, part);
    return warp::shuffle(code, part) + (x > here ? 1 : 0);
  }

 private:
  template <int... kCodes>
  __device__ __forceinline__ void add(float from, float to,
                                      std::integer_sequence<int, kCodes...> /*codes*/) {
    const auto add_one = [&]<int kCode>() {
      constexpr float kHere = kNf4Middle<kCode>;
      if (kHere < from) {
        code = kCode + 1;
      } else if (kHere < to) {
        middle = kHere;
      }
    };
    (add_one.template operator()<kCodes>(), ...);
  }
};
struct NoParts {};

template <class T, Format kFormat, bool kZero>
struct QuantizePackedKernel {
  static constexpr int kThreads = 128;
  static constexpr int kMinBlocks = 12;  // 40 registers
  static constexpr bool kIsNf4 = kFormat == Format::kNf4;
  // Blocks stay where a lane has nf4's table to make, and for elements of 16 bits (H200 2026-11-30,
  // 8192 x 8192: f16 int8 56.9 us, 58.2 with a block for each run; f32 90.2 and 85.4).
  static constexpr bool kStays = kIsNf4 || sizeof(T) == 2;
  static constexpr int kWords = kRun * bits_of(kFormat) / 32;
  struct Arguments : QuantizeCall {
    uint32_t lanes_there;  // that have a run
    thread::Divider runs;  // of a row
    int lanes;             // of a group, a power of two
    thread::Divider by_lanes;
  };
  struct SharedStorage {};

  __device__ void operator()(SharedStorage& /*shared*/, const Arguments& a) const {
    const std::conditional_t<kIsNf4, Nf4Parts, NoParts> parts;
    const auto step = static_cast<uint32_t>(grid_blocks()) * kThreads;
    const auto first = static_cast<uint32_t>(block_index()) * kThreads + warp_index() * kWarpSize;
    for (uint32_t warp = first; warp < a.lanes_there; warp += step) quantize(a, parts, warp);
  }

 private:
  template <class Parts>
  static __device__ __forceinline__ void quantize(const Arguments& a, const Parts& parts,
                                                  uint32_t warp) {
    const Weight& w = a.weight;
    // Whole groups are there, or are not: a lane that is not does as the last one.
    const bool is_there = warp + lane_index() < a.lanes_there;
    const uint32_t i = is_there ? warp + lane_index() : a.lanes_there - 1;
    const uint32_t n = a.runs.quotient(i);
    const uint32_t run = i - n * a.runs.divisor();
    constexpr int kLoads = kRun * static_cast<int>(sizeof(T)) / 16;
    using Elements = row::Packed<T, kRun / kLoads>;
    Elements x[kLoads];
    const T* from = a.values.template as<const T>() + n * a.values.row + run * kRun;
#pragma unroll
    for (int l = 0; l < kLoads; ++l) x[l] = Elements::load(from + l * (kRun / kLoads));
    Largest<T, kZero> largest;
#pragma unroll
    for (int l = 0; l < kLoads; ++l) {
#pragma unroll
      for (int word = 0; word < 4; ++word) largest.add(x[l].words[word]);
    }
    largest.add_lanes(a.lanes);
    const Encoder encoder(kFormat, kZero, largest.range());

    float quotients[kRun];
    const bool is_plain = encoder.is_plain();
    if (is_plain) {
      const float inverse = 1 / encoder.scale;
#pragma unroll
      for (int e = 0; e < kRun; ++e) {
        const float element = x[e / (kRun / kLoads)][e % (kRun / kLoads)];
        quotients[e] = thread::quotient(element, encoder.scale, inverse);
        // Of -0 that is 0, which e4m3 tells from -0.
        if constexpr (kFormat == Format::kFp8) quotients[e] = ::copysignf(quotients[e], element);
      }
    } else {
#pragma unroll
      for (int e = 0; e < kRun; ++e) {
        quotients[e] = encoder.divided(x[e / (kRun / kLoads)][e % (kRun / kLoads)]);
        if (kIsNf4 && quotients[e] != quotients[e]) quotients[e] = -1;  // code 0, as of NaN
      }
    }
    Vec<uint32_t, kWords> words;
    if constexpr (kIsNf4) {
      words = packed<4>([&](int e) { return static_cast<uint32_t>(parts.code_of(quotients[e])); });
    } else if constexpr (kFormat == Format::kFp8) {
#pragma unroll
      for (int word = 0; word < kWords; ++word) {
        const float four[4] = {quotients[4 * word], quotients[4 * word + 1],
                               quotients[4 * word + 2], quotients[4 * word + 3]};
        words[word] = ptx::cvt_rn_satfinite_e4m3x4_f32(four);
      }
    } else if (is_plain) {
      words = packed<bits_of(kFormat)>([&](int e) { return plain_code(quotients[e], encoder); });
    } else {
      constexpr uint32_t kMask = (1U << bits_of(kFormat)) - 1;
      words = packed<bits_of(kFormat)>([&](int e) {
        return static_cast<uint32_t>(encoder.template code_of<kFormat, kZero>(quotients[e])) &
               kMask;
      });
    }
    if (!is_there) return;
    if ((run & (a.lanes - 1)) == 0) store_group(w, n, a.by_lanes.quotient(run), encoder);
    uint8_t* to = w.codes.as<uint8_t>() + n * w.codes.row + run * (kWords * 4);
    thread::store(reinterpret_cast<uint32_t*>(to), words);
  }

  // A code in the last bits of a word whose next ones are 0 where codes are of 4 bits. Magnitudes
  // are no larger than the group's: of codes around 0 none is beyond the largest, of others none is
  // below the least, but the sum of two that were rounded up may be one too large.
  static __device__ __forceinline__ uint32_t plain_code(float quotient, const Encoder& encoder) {
    constexpr auto kZeroBits = std::bit_cast<int>(kWholes);
    if constexpr (kZero) {
      const int zero = static_cast<int>(encoder.zero);
      const int most = least_of(kFormat) + steps_of(kFormat) + kZeroBits - zero;
      return static_cast<uint32_t>(std::min(std::bit_cast<int>(quotient + kWholes), most) +
                                   (zero - kZeroBits));
    } else {
      return std::bit_cast<uint32_t>(quotient + (kWholes + middle_of(kFormat)));
    }
  }

  // Last bits of code(0), code(1), ... side by side. Of 4 bits the first of two is above.
  template <int kBits, class Code>
  static __device__ __forceinline__ Vec<uint32_t, kRun * kBits / 32> packed(const Code& code) {
    Vec<uint32_t, kRun * kBits / 32> words;
#pragma unroll
    for (int word = 0; word < kRun * kBits / 32; ++word) {
      uint32_t bytes[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int byte = word * 4 + i;
        if constexpr (kBits == 4) {
          bytes[i] = (code(2 * byte) << 4) + code(2 * byte + 1);
        } else {
          bytes[i] = code(byte);
        }
      }
      words[word] = ptx::permute_bytes(ptx::permute_bytes(bytes[0], bytes[1], 0x0040),
                                       ptx::permute_bytes(bytes[2], bytes[3], 0x0040), 0x5410);
    }
    return words;
  }
};

// f.template operator()<kFormat, kZero>().
template <class F>
void with_coding(const Weight& w, const F& f) {
  with_format(w.format, [&]<Format kFormat>() {
    if constexpr (has_zeros(kFormat)) {
      if (w.zeros.data != nullptr) return f.template operator()<kFormat, true>();
    }
    f.template operator()<kFormat, false>();
  });
}

struct QuantizePacked {
  static bool supports(const QuantizeCall& call, Why& why) {
    const Weight& w = call.weight;
    const auto bytes = static_cast<int64_t>(size_of(call.dtype));
    return why.unless(w.group <= kRun * kWarpSize && (w.group & (w.group - 1)) == 0,
                      "takes groups of 16 to 512 that are a power of two, not ", w.group) &&
           why.unless(w.columns % w.group == 0, "takes whole groups of ", w.group,
                      ", not K = ", w.columns) &&
           codes_are_runs(w, kRun, kRun * bits_of(w.format) / 8, why) &&
           why.unless(has_aligned_rows(call.values, bytes, 16),
                      "reads 16 bytes of x at a time: rows have to start at multiples of that") &&
           why.unless(w.rows * (w.columns / kRun) < (int64_t{1} << 31),
                      "takes fewer than 2^35 elements");
  }
  static void run(const QuantizeCall& call, const Context& context) {
    const int64_t runs = call.weight.columns / kRun;
    const int64_t lanes_there = call.weight.rows * runs;
    const int64_t lanes = call.weight.group / kRun;
    if (lanes_there == 0) return;
    with_type<kFloats>(call.dtype, [&]<class T>() {
      with_coding(call.weight, [&]<Format kFormat, bool kZero>() {
        using Kernel = QuantizePackedKernel<T, kFormat, kZero>;
        const int64_t all = divide_up(lanes_there, Kernel::kThreads);
        const int64_t resident = int64_t{Kernel::kMinBlocks} * device_facts().multiprocessors;
        launch<Kernel>(
            {.blocks = Kernel::kStays ? std::min(all, resident) : all, .threads = Kernel::kThreads},
            context.stream,
            {call, static_cast<uint32_t>(lanes_there), thread::Divider(runs),
             static_cast<int>(lanes), thread::Divider(lanes)});
      });
    });
  }
};

}  // namespace

extern const Rung kQuantizePacked;
const Rung kQuantizePacked = rung_of<QuantizePacked, QuantizeBlockwise>({
    .name = "quantize_packed",
    .from = "quantize_lanes",
    .idea = "sixteen elements a lane, ranges two at a time, codes from the last bits of a sum",
});

}  // namespace ws::quantized
