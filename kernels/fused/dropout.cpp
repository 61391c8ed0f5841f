// dropout on the host: what a call is, and what it should give.
#include "kernels/fused/dropout.hpp"

#include <algorithm>
#include <cmath>

#include "catalogue/fill.hpp"

namespace ws::fused {
namespace {

double least_of(double p) { return std::nearbyint(p * 0x1p31); }

// Philox4x32-7 from the paper, with nothing of what kernels call.
uint32_t word_of(uint64_t seed, uint64_t number) {
  uint32_t key[2] = {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)};
  uint32_t at[4] = {static_cast<uint32_t>(number / 4), static_cast<uint32_t>(number / 4 >> 32), 0,
                    0};
  for (int round = 0; round < 7; ++round) {
    const uint64_t a = uint64_t{0xD2511F53} * at[0];
    const uint64_t b = uint64_t{0xCD9E8D57} * at[2];
    const uint32_t next[4] = {
        static_cast<uint32_t>(b >> 32) ^ at[1] ^ key[0], static_cast<uint32_t>(b),
        static_cast<uint32_t>(a >> 32) ^ at[3] ^ key[1], static_cast<uint32_t>(a)};
    std::copy_n(next, 4, at);
    key[0] += 0x9E3779B9;
    key[1] += 0xBB67AE85;
  }
  return at[number % 4];
}

}  // namespace

Mask::Mask(double p, int64_t seed, int64_t first)
    : random(static_cast<uint64_t>(seed)),
      least(static_cast<uint32_t>(std::min(2 * least_of(p), 0x1p32 - 1))),
      scale(least_of(p) < 0x1p31 ? static_cast<float>(1 / (1 - p)) : 0.0F),
      offset(static_cast<uint64_t>(first)) {}

bool takes_vectors(const DropoutCall& call, int width, Why& why) {
  const size_t bytes = static_cast<size_t>(width) * size_of(call.dtype);
  const auto past = [&](const void* p) { return reinterpret_cast<uintptr_t>(p) % bytes; };
  return why.unless(call.is_dense, "needs dense tensors in row-major order") &&
         why.unless(call.mask.offset % 4 == 0, "takes four words of a counter at once, and offset ",
                    call.mask.offset, " is no multiple of 4") &&
         why.unless(past(call.rows.data[0]) == 0 && past(call.rows.data[1]) == 0,
                    "needs pointers aligned to ", bytes, " bytes");
}

DropoutCall Dropout::call(const Problem& problem) {
  const Tensor& x = problem.tensor(0);
  const Tensor& y = problem.tensor(1);
  DropoutCall call{};
  call.dtype = x.dtype;
  call.rows = row_layout(x, y);
  call.mask = Mask(problem.number("p"), problem.integer("seed"), problem.integer("offset"));
  call.elements = x.elements();
  call.is_dense = x.contiguous() && y.contiguous();
  return call;
}

void Dropout::infer(Problem& problem) {
  const Tensor& x = problem.tensor(0);
  if (!kFloats.has(x.dtype)) [[unlikely]] {
    throw InvalidArgument(concatenate("dropout takes f32, f16 and bf16, got ", x));
  }
  const double p = problem.number("p");
  if (!(p >= 0 && p <= 1)) [[unlikely]] {
    throw InvalidArgument(concatenate("dropout: p is from 0 to 1, not ", p));
  }
  if (problem.integer("offset") < 0) [[unlikely]] {
    throw InvalidArgument(
        concatenate("dropout: offset is from 0 on, not ", problem.integer("offset")));
  }
  problem.tensor(1) = Tensor::like(x);
}

void Dropout::make(const Case& chosen, DType dtype, Problem& problem) {
  fused::make(chosen, dtype, problem, 1, false);
}
Cost Dropout::cost(const Problem& problem) { return cost_of(problem, 15); }
int64_t Dropout::items(const Problem& problem, const Parameter& /*output*/) {
  return problem.tensor(0).elements();
}
// A product of two numbers of f32, rounded to it and then to the dtype.
Tolerance Dropout::tolerance(const Problem& problem, const Parameter& /*output*/) {
  switch (problem.dtype()) {
    case DType::kF16: return {.relative = 5.2e-4, .worst = 5.2e-4, .floor = 1e-3};
    case DType::kBf16: return {.relative = 4e-3, .worst = 4e-3, .floor = 1e-6};
    default: return {.relative = 2e-7, .worst = 2e-7, .floor = 1e-6};
  }
}

void Dropout::reference(const Problem& problem, Slice slice, std::span<double* const> expected) {
  const double p = problem.number("p");
  const auto seed = static_cast<uint64_t>(problem.integer("seed"));
  const auto offset = static_cast<uint64_t>(problem.integer("offset"));
  for (int64_t i = slice.first; i < slice.last; ++i) {
    const uint32_t word = word_of(seed, offset + static_cast<uint64_t>(i));
    const bool keeps = word / 2 >= least_of(p);  // NOLINT: 31 bits are exact in a double
    const double factor = keeps ? 1 / (1 - p) : 0;
    expected[1][i - slice.first] = element(problem.tensor(0), i) * factor;
  }
}

namespace {

constexpr std::array<Value, kMaxAttributes> with(double p, int64_t seed, int64_t offset) {
  std::array<Value, kMaxAttributes> all{};
  all[0] = p;
  all[1] = seed;
  all[2] = offset;
  return all;
}

constexpr Case kSmoke[] = {
    {.extents = {3, 67}, .attributes = with(0.5, 12, 0)},
    {.extents = {5, 64}, .attributes = with(0.1, 7, 4)},
    {.extents = {3, 20}, .attributes = with(0.75, -5, 3)},
    {.extents = {5, 11, 1}, .attributes = with(0.5, 1, 0)},
};
constexpr Case kVerify[] = {
    {.extents = {0, 5}, .attributes = with(0.5, 3, 0)},
    {.extents = {1, 1}, .attributes = with(0.5, 3, 0)},
    {.extents = {1, 9}, .attributes = with(0.5, 3, 0)},
    {.extents = {1, 4099}, .attributes = with(0.3, int64_t{1} << 40, (int64_t{1} << 35) + 8)},
    {.extents = {33, 64}, .attributes = with(0.0, 3, 0)},
    {.extents = {33, 64}, .attributes = with(1.0, 3, 0)},
    {.extents = {2, 64}, .offset = 1, .attributes = with(0.5, 3, 0)},
    {.extents = {9, 40}, .padding = 8, .attributes = with(0.5, 3, 0)},
    {.extents = {33, 16, 1}, .attributes = with(0.5, 3, 0)},
    {.extents = {33, 67, 1}, .attributes = with(0.5, 3, 5)},
    {.extents = {37, 61}, .padding = 3, .attributes = with(0.5, 3, 2)},
    {.extents = {0, 10}, .padding = 3, .attributes = with(0.5, 3, 1)},
};
constexpr Case kBench[] = {
    {.extents = {16384, 4096}, .attributes = with(0.1, 1, 0)},
    {.extents = {1, 1 << 20}, .attributes = with(0.1, 1, 0)},
};

}  // namespace

Cases Dropout::cases() { return {kSmoke, kVerify, kBench}; }

}  // namespace ws::fused
