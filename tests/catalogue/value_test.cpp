#include "catalogue/value.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "warpsmith/error.hpp"

namespace ws {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Kind = Value::Kind;

constexpr std::array<std::string_view, 2> kChoices = {"none", "tanh"};
constexpr Attribute kChoice{.name = "approximate",
                            .kind = Kind::kChoice,
                            .standard = Value::choice(0),
                            .choices = kChoices,
                            .doc = ""};
constexpr Attribute kNumber{.name = "alpha", .kind = Kind::kFloat, .standard = 1.0, .doc = ""};
constexpr Attribute kCount{.name = "k", .kind = Kind::kInt, .standard = 1, .doc = ""};
constexpr Attribute kFlag{.name = "causal", .kind = Kind::kBool, .standard = false, .doc = ""};
constexpr Attribute kDim{
    .name = "dim", .kind = Kind::kDims, .standard = Value::absent(), .doc = ""};

std::string error_of(const auto& call) {
  try {
    call();
  } catch (const InvalidArgument& error) {
    return error.what();
  }
  return "no error";
}

TEST(Value, TextGoesBothWays) {
  EXPECT_EQ(parse_value(kChoice, "tanh"), Value::choice(1));
  EXPECT_EQ(describe_value(kChoice, Value::choice(1)), "tanh");
  EXPECT_EQ(parse_value(kNumber, "0.5"), Value(0.5));
  EXPECT_EQ(describe_value(kNumber, 0.5), "0.5");
  EXPECT_EQ(parse_value(kFlag, "true"), Value(true));
  EXPECT_EQ(parse_value(kDim, "0,-1"), Value(Dims{0, -1}));
  EXPECT_EQ(describe_value(kDim, Dims{0, -1}), "0,-1");
  EXPECT_EQ(parse_value(kDim, "none"), Value::absent());
  EXPECT_EQ(describe_value(kDim, Value::absent()), "none");
}

TEST(Value, IntegersAreExact) {
  const int64_t odd = (int64_t{1} << 62) + 1;  // no double
  EXPECT_EQ(parse_value(kCount, std::to_string(odd)).as_int(), odd);
  EXPECT_EQ(describe_value(kCount, odd), std::to_string(odd));
  EXPECT_NE(Value(odd), Value(odd - 1));
}

TEST(Value, RefusalsSayWhatIsTaken) {
  EXPECT_THAT(error_of([] { parse_value(kChoice, "erf"); }),
              HasSubstr("'approximate' is one of none, tanh, not 'erf'"));
  EXPECT_THAT(error_of([] { parse_value(kNumber, "half"); }), HasSubstr("a number, not 'half'"));
  EXPECT_THAT(error_of([] { parse_value(kCount, "1.5"); }), HasSubstr("an integer, not '1.5'"));
  EXPECT_THAT(error_of([] { parse_value(kFlag, "maybe"); }), HasSubstr("true or false"));
  EXPECT_THAT(error_of([] { parse_value(kDim, "0,x"); }), HasSubstr("or none, not '0,x'"));
  EXPECT_THAT(error_of([] { parse_value(kDim, "0,1,2,3,4,5,6,7,8"); }), HasSubstr("dimensions"));
  EXPECT_THAT(error_of([] { parse_value(kDim, "1000"); }), HasSubstr("not '1000'"));
  EXPECT_THAT(error_of([] { parse_value(kNumber, "none"); }), HasSubstr("not 'none'"));
}

TEST(Value, IsTakenAsTheAttributeHasIt) {
  EXPECT_EQ(checked_value(kNumber, Value{}), Value(1.0)) << "unset: the default";
  EXPECT_EQ(checked_value(kNumber, 2), Value(2.0)) << "an integer where a float is wanted";
  EXPECT_EQ(checked_value(kDim, -1), Value(Dims{-1})) << "one dimension";
  EXPECT_EQ(checked_value(kDim, Value{}), Value::absent());
  EXPECT_THAT(error_of([] { checked_value(kNumber, Value::absent()); }), HasSubstr("a number"));
  EXPECT_THAT(error_of([] { checked_value(kCount, 0.5); }), HasSubstr("an integer, not 0.5"));
  EXPECT_THAT(error_of([] { checked_value(kChoice, 7); }), HasSubstr("not 7"));
  EXPECT_THAT(error_of([] { checked_value(kFlag, 2); }), HasSubstr("true or false, not 2"));
  constexpr Attribute kRequired{.name = "k", .kind = Kind::kInt, .doc = ""};
  EXPECT_THAT(error_of([&] { checked_value(kRequired, Value{}); }), HasSubstr("not unset"));
}

TEST(Value, ComparesBitByBit) { EXPECT_NE(Value(0.0), Value(-0.0)); }

TEST(Dims, KeepTheirOrder) {
  const Dims dims = Value(Dims{2, -1, 0}).as_dims();
  EXPECT_THAT(std::vector<int>(dims.begin(), dims.end()), ElementsAre(2, -1, 0));
}

}  // namespace
}  // namespace ws
