// Conversions, against what the formats' definitions say of every pattern.
#include "warpsmith/types.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>

namespace ws {
namespace {

// A format's value of a pattern, computed from its definition.
struct Format {
  int exponent_bits;
  int mantissa_bits;
  bool has_infinity;

  double value(uint32_t bits) const {
    const uint32_t mantissa = bits & ((1u << mantissa_bits) - 1);
    const uint32_t exponent = bits >> mantissa_bits & ((1u << exponent_bits) - 1);
    const double sign = bits >> (exponent_bits + mantissa_bits) != 0 ? -1 : 1;
    const int bias = (1 << (exponent_bits - 1)) - 1;
    const uint32_t top = (1u << exponent_bits) - 1;
    if (exponent == top && has_infinity) {
      return mantissa == 0 ? sign * std::numeric_limits<double>::infinity() : std::nan("");
    }
    if (exponent == top && mantissa == (1u << mantissa_bits) - 1) return std::nan("");
    const double fraction = std::ldexp(mantissa, -mantissa_bits);
    return exponent == 0 ? sign * std::ldexp(fraction, 1 - bias)
                         : sign * std::ldexp(1 + fraction, static_cast<int>(exponent) - bias);
  }
  uint32_t patterns() const { return 1u << (1 + exponent_bits + mantissa_bits); }
};

template <class T>
constexpr Format kFormat{};
template <>
constexpr Format kFormat<half>{5, 10, true};
template <>
constexpr Format kFormat<bf16>{8, 7, true};
template <>
constexpr Format kFormat<e4m3>{4, 3, false};
template <>
constexpr Format kFormat<e5m2>{5, 2, true};

template <class T>
T from_bits(uint32_t bits) {
  T value;
  value.bits = static_cast<decltype(value.bits)>(bits);
  return value;
}

template <class T>
class Types : public testing::Test {};
using NarrowFloats = testing::Types<half, bf16, e4m3, e5m2>;
TYPED_TEST_SUITE(Types, NarrowFloats);

TYPED_TEST(Types, EveryPatternHasItsValue) {
  for (uint32_t bits = 0; bits < kFormat<TypeParam>.patterns(); ++bits) {
    const double expected = kFormat<TypeParam>.value(bits);
    const float value = to_float(from_bits<TypeParam>(bits));
    if (std::isnan(expected)) {
      ASSERT_TRUE(std::isnan(value)) << bits;
    } else {
      ASSERT_EQ(value, expected) << bits;
      ASSERT_EQ(std::signbit(value), std::signbit(expected)) << bits;
    }
  }
}

TYPED_TEST(Types, EveryValueHasItsPattern) {
  const bool saturates = sizeof(TypeParam) == 1;
  for (uint32_t bits = 0; bits < kFormat<TypeParam>.patterns(); ++bits) {
    const auto value = static_cast<float>(kFormat<TypeParam>.value(bits));
    if (std::isnan(value) || (saturates && std::isinf(value))) continue;
    ASSERT_EQ(from_float<TypeParam>(value).bits, bits) << value;
  }
}

// Between every two neighbours: the midpoint goes to the even one, its own neighbours to the
// nearer.
TYPED_TEST(Types, RoundsToNearestEven) {
  const Format& format = kFormat<TypeParam>;
  for (uint32_t low = 0; low + 1 < format.patterns() / 2; ++low) {
    const double a = format.value(low);
    const double b = format.value(low + 1);
    if (!std::isfinite(a) || !std::isfinite(b)) continue;
    const auto middle = static_cast<float>((a + b) / 2);
    ASSERT_EQ(middle, (a + b) / 2);
    const uint32_t even = low % 2 == 0 ? low : low + 1;
    const uint32_t sign = format.patterns() / 2;
    ASSERT_EQ(from_float<TypeParam>(middle).bits, even) << middle;
    ASSERT_EQ(from_float<TypeParam>(-middle).bits, even | sign) << middle;
    ASSERT_EQ(from_float<TypeParam>(std::nextafter(middle, 0.0f)).bits, low) << middle;
    ASSERT_EQ(from_float<TypeParam>(std::nextafter(middle, INFINITY)).bits, low + 1) << middle;
    ASSERT_EQ(from_float<TypeParam>(-std::nextafter(middle, INFINITY)).bits, (low + 1) | sign);
  }
}

TYPED_TEST(Types, InfinityNanAndOverflow) {
  const Format& format = kFormat<TypeParam>;
  uint32_t largest = format.patterns() / 2 - 1;
  while (!std::isfinite(format.value(largest))) --largest;
  // fp8 conversion saturates; the others go to infinity from the midpoint after the largest value.
  const uint32_t overflow = sizeof(TypeParam) == 1 ? largest : largest + 1;
  const double step = format.value(largest) - format.value(largest - 1);
  const auto limit = static_cast<float>(format.value(largest) + step / 2);
  EXPECT_EQ(from_float<TypeParam>(std::nextafter(limit, 0.0f)).bits, largest);
  EXPECT_EQ(from_float<TypeParam>(limit).bits, overflow);
  EXPECT_EQ(from_float<TypeParam>(std::numeric_limits<float>::max()).bits, overflow);
  EXPECT_EQ(from_float<TypeParam>(INFINITY).bits, overflow);
  EXPECT_EQ(from_float<TypeParam>(-INFINITY).bits, overflow | format.patterns() / 2);
  EXPECT_TRUE(std::isnan(to_float(from_float<TypeParam>(NAN))));
  EXPECT_TRUE(std::isnan(to_float(from_float<TypeParam>(-NAN))));
  EXPECT_EQ(from_float<TypeParam>(-0.0f).bits, format.patterns() / 2);
  EXPECT_EQ(from_float<TypeParam>(std::numeric_limits<float>::denorm_min()).bits, 0);
}

#ifdef __FLT16_MAX__
// Patterns of f32 all over the range, against the compiler's own conversion.
TEST(Half, AgreesWithTheCompiler) {
  std::mt19937 random(1);
  for (int i = 0; i < 2'000'000; ++i) {
    const auto bits = static_cast<uint32_t>(random());
    const auto value = std::bit_cast<float>(bits);
    if (std::isnan(value)) continue;
    const auto expected = std::bit_cast<uint16_t>(static_cast<_Float16>(value));
    ASSERT_EQ(half(value).bits, expected) << value;
  }
}
#endif

TEST(E4m3, FourAtATime) {
  const float values[] = {0.3F, -448, 1e6F, 0.001F, -0.0F, 17};
  for (int first = 0; first < 3; ++first) {
    const float four[4] = {values[first], values[first + 1], values[first + 2], values[first + 3]};
    const uint32_t bits = ptx::cvt_rn_satfinite_e4m3x4_f32(four);
    for (int i = 0; i < 4; ++i) EXPECT_EQ(bits >> (8 * i) & 0xFF, e4m3(four[i]).bits);
  }
}

TEST(Types, EqualityIsOfValues) {
  EXPECT_TRUE(half(0.0f) == half(-0.0f));
  EXPECT_FALSE(half(NAN) == half(NAN));
  EXPECT_TRUE(bf16(3.0f) == bf16(3.0f));
  EXPECT_FALSE(e4m3(3.0f) == e4m3(3.25f));
}

TEST(Vec, IsAlignedForOneAccess) {
  EXPECT_EQ(alignof(Vec<float, 1>), 4);
  EXPECT_EQ(alignof(Vec<float, 4>), 16);
  EXPECT_EQ(alignof(Vec<float, 8>), 16);
  EXPECT_EQ(alignof(Vec<float, 3>), 4);
  EXPECT_EQ(alignof(Vec<half, 8>), 16);
  EXPECT_EQ(alignof(Vec<half, 2>), 4);
  EXPECT_EQ(alignof(Vec<e4m3, 2>), 2);
  EXPECT_EQ(sizeof(Vec<half, 8>), 16);
  EXPECT_EQ((Vec<half, 8>::size()), 8);
  static_assert(std::is_trivially_copyable_v<Vec<bf16, 8>> && std::is_aggregate_v<Vec<bf16, 8>>);
  static_assert(std::is_trivially_default_constructible_v<Vec<half, 4>>);
}

}  // namespace
}  // namespace ws
