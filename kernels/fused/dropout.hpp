// dropout: elements become 0 with probability p, the others grow by 1 / (1 - p). Nothing remembers
// which: the mask is a function of seed and of offset plus the element's number in row-major order,
// so that the gradient finds it again, and every rung, block size and layout has the same.
//
//   word     = philox4x32-7(key = seed, counter = (offset + i) / 4)[(offset + i) % 4]
//   y[i]     = x[i] * (word / 2^32 >= p ? 1 / (1 - p) : 0)
//
// A NaN or an infinity that is dropped becomes NaN, as in torch, where a mask is multiplied too.
#pragma once

#include "catalogue/row.hpp"
#include "catalogue/row_layout.hpp"
#include "kernels/fused/operations.hpp"
#include "warpsmith/thread/philox.hpp"

namespace ws::fused {

// Which words keep their element, and what is made of it.
struct Mask {
  thread::Philox random;
  uint32_t least;  // of words that keep: twice that of their upper 31 bits
  float scale;     // 1 / (1 - p); 0 where no word keeps
  uint64_t offset;

  Mask() = default;
  Mask(double p, int64_t seed, int64_t first);

  // What an element is multiplied by.
  __device__ __forceinline__ float factor(uint32_t word) const {
    return word >= least ? scale : 0.0F;
  }
  // Of element i alone: one of the four words of its counter.
  __device__ __forceinline__ float factor_of(int64_t i) const {
    const uint64_t number = offset + static_cast<uint64_t>(i);
    const Vec<uint32_t, 4> words = random(number / 4);
    const uint32_t low = number % 2 == 0 ? words[0] : words[1];
    const uint32_t high = number % 2 == 0 ? words[2] : words[3];
    return factor(number % 4 < 2 ? low : high);
  }
};

struct DropoutCall {
  DType dtype;
  RowLayout<2> rows;  // of x and y
  Mask mask;
  int64_t elements;
  bool is_dense;  // both in row-major order without gaps

  template <class T>
  const T* x() const {
    return rows.as<const T>(0);
  }
  template <class T>
  T* y() const {
    return rows.as<T>(1);
  }
};

// Whether a rung may take `width` elements of x and y, and four words of a counter, at once.
bool takes_vectors(const DropoutCall& call, int width, Why& why);

struct Dropout {
  static constexpr std::string_view kName = "dropout";
  static constexpr std::string_view kSummary =
      "elements dropped at random, by a generator that is a function of their number";
  static constexpr std::string_view kSource =
      "Srivastava et al., Dropout, JMLR 2014; Salmon et al., Parallel random numbers, SC 2011";
  static constexpr std::string_view kFormula =
      "y[i] = x[i] * (philox(seed, offset + i) >= p) / (1 - p)";
  // Philox4x32-7 by products of 16 bits, which 64 bits with a sign hold.
  static constexpr std::string_view kTorch = R"(
e = torch.arange(x.numel(), device=x.device) + offset
m = 0xFFFFFFFF
def product(a, b):
    low = a * (b & 0xFFFF)
    high = a * (b >> 16) + (low >> 16)
    return high >> 16, ((high & 0xFFFF) << 16) | (low & 0xFFFF)
n = e >> 2
w = [n & m, (n >> 32) & m, torch.zeros_like(n), torch.zeros_like(n)]
k = [seed & m, (seed >> 32) & m]
for _ in range(7):
    h0, l0 = product(w[0], 0xD2511F53)
    h1, l1 = product(w[2], 0xCD9E8D57)
    w = [h1 ^ w[1] ^ k[0], l1, h0 ^ w[3] ^ k[1], l0]
    k = [(k[0] + 0x9E3779B9) & m, (k[1] + 0xBB67AE85) & m]
word = torch.stack(w, -1).gather(-1, (e & 3)[:, None])[:, 0]
keep = (word >> 1) >= round(p * 2 ** 31)
return x * (keep.to(x.dtype) * (1 / (1 - p) if p < 1 else 0.0)).reshape(x.shape))";
  static constexpr std::string_view kGradient = "(ops.dropout(g, p=p, seed=seed, offset=offset),)";
  static constexpr PythonPeer kPythonPeers[] = {{"torch", "torch.nn.functional.dropout(x, p)"}};
  static constexpr DTypes kDTypes = kFloats;
  static constexpr auto& kExtentNames = kLayoutExtents;
  static constexpr int kOptionalExtents = 1;
  static constexpr bool kInPlace = true;
  static constexpr Parameter kParameters[] = {
      {.name = "x", .doc = "any shape of rank 0 to 6, f32, f16 or bf16, any strides"},
      {.name = "y", .role = Parameter::Role::kOut, .doc = "shape and dtype of x"}};
  static constexpr Attribute kAttributes[] = {
      {.name = "p",
       .kind = Value::Kind::kFloat,
       .standard = 0.5,
       .doc = "how likely an element becomes 0: from 0 to 1"},
      {.name = "seed",
       .kind = Value::Kind::kInt,
       .doc = "the generator's key: other seeds give other masks"},
      {.name = "offset",
       .kind = Value::Kind::kInt,
       .standard = int64_t{0},
       .doc = "number of the first element, from 0; multiples of 4 are fast"}};

  using Call = DropoutCall;
  static Call call(const Problem& problem);
  static void infer(Problem& problem);
  static void make(const Case& chosen, DType dtype, Problem& problem);
  static Cases cases();
  static Cost cost(const Problem& problem);
  static Tolerance tolerance(const Problem& problem, const Parameter& output);
  static int64_t items(const Problem& problem, const Parameter& output);
  static void reference(const Problem& problem, Slice slice, std::span<double* const> expected);
  static std::span<const Rung* const> by_worth(const Call& call);  // fused.cu
};

}  // namespace ws::fused
