// The C++ functions that tools/operations_header.cpp makes, those of the trial family: every role
// of a tensor, every kind of attribute.
#include <gmock/gmock.h>

#include <cmath>
#include <vector>

#include "warpsmith/operations.hpp"

namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using warpsmith::Tensor;

// What an expression throws says `text`.
template <class Exception = warpsmith::InvalidArgument, class Body>
void expect_thrown(Body&& body, const char* text) {
  EXPECT_THAT(body, testing::ThrowsMessage<Exception>(HasSubstr(text)));
}

TEST(CppApi, SeveralOutputsOfDifferentDtypes) {
  const float x[6] = {1, 5, 2, 9, 7, 8};
  float value[2] = {};
  int64_t place[2] = {};
  warpsmith::row_max({x, {2, 3}}, {value, 2}, {place, 2});
  EXPECT_THAT(value, ElementsAre(5, 9));
  EXPECT_THAT(place, ElementsAre(1, 0));
}

TEST(CppApi, OptionalTensorsAreOptions) {
  const float x[2] = {1, 2};
  const float weight[2] = {10, 100};
  float y[2] = {};
  float total[1] = {};
  warpsmith::weigh({x, {1, 2}}, {y, {1, 2}});
  EXPECT_THAT(y, ElementsAre(1, 2));
  warpsmith::weigh({x, {1, 2}}, {y, {1, 2}},
                   {.weight = {weight, 2}, .total = {total, 1}, .with_total = true});
  EXPECT_THAT(y, ElementsAre(10, 200));
  EXPECT_THAT(total, ElementsAre(210));
}

TEST(CppApi, AttributesHaveTheCataloguesDefaults) {
  float x[2] = {1, 2};
  warpsmith::scale_in_place({x, 2});
  EXPECT_THAT(x, ElementsAre(2, 4));
  warpsmith::scale_in_place({x, 2}, {.factor = 0.25});
  EXPECT_THAT(x, ElementsAre(0.5, 1));
}

TEST(CppApi, AttributesThatMayBeAbsent) {
  const float x[3] = {-5, 0, 5};
  float y[3] = {};
  warpsmith::clip({x, 3}, {y, 3}, {.high = 1});
  EXPECT_THAT(y, ElementsAre(-5, 0, 1));
  warpsmith::clip({x, 3}, {y, 3}, {.low = -1, .high = std::nullopt});
  EXPECT_THAT(y, ElementsAre(-1, 0, 5));
}

TEST(CppApi, IntegersAreExact) {
  const int64_t x[1] = {int64_t{1} << 60};
  int64_t y[1] = {};
  warpsmith::shift({x, 1}, {y, 1}, {.by = 1});
  EXPECT_EQ(y[0], (int64_t{1} << 60) + 1);
}

template <class Options>
concept CanBeLeftOut = requires { Options{}; };
static_assert(CanBeLeftOut<warpsmith::ClipOptions>);
static_assert(!CanBeLeftOut<warpsmith::ShiftOptions>, "it has an attribute without a default");

TEST(CppApi, Dimensions) {
  const float x[6] = {1, 2, 3, 4, 5, 6};
  float y[3] = {};
  const auto sum = [&](const warpsmith::Integers& shape, const warpsmith::TotalOptions& options) {
    warpsmith::prepare::total({x, {2, 3}}, {y, shape}, options).with("plain").run();
    return y[0];
  };
  EXPECT_EQ(sum({}, {}), 21);
  EXPECT_EQ(sum(3, {.dim = 0}), 5);
  EXPECT_EQ(sum(2, {.dim = -1}), 6);
  EXPECT_EQ(sum({1, 1}, {.dim = {0, -1}, .keepdim = true}), 21);
  const std::vector<int64_t> both = {0, 1};
  EXPECT_EQ(sum({}, {.dim = both}), 21);
  expect_thrown([&] { sum({}, {.dim = 1000}); }, "1000");
  expect_thrown([&] { sum({}, {.dim = std::vector<int64_t>(9)}); }, "9 dimensions; at most 8");
}

TEST(CppApi, StridesAndAnotherDlpackTensor) {
  const float x[6] = {1, 2, 3, 4, 5, 6};
  float value[3] = {};
  int64_t place[3] = {};
  warpsmith::row_max({x, {3, 2}, {1, 3}}, {value, 3}, {place, 3});  // columns as rows
  EXPECT_THAT(value, ElementsAre(4, 5, 6));

  int64_t shape[2] = {1, 2};
  int64_t strides[2] = {2, 2};
  DLTensor given{const_cast<float*>(x), {kDLCPU, 0}, 2, warpsmith::kF32, shape, strides, 4};
  warpsmith::row_max(given, {value, 1}, {place, 1});  // of 2 and 4
  EXPECT_EQ(value[0], 4);
  given.strides = nullptr;
  warpsmith::row_max(given, {value, 1}, {place, 1});  // of 2 and 3
  EXPECT_EQ(value[0], 3);
  given.shape = nullptr;
  expect_thrown([&] { Tensor{given}; }, "a tensor of 2 dimensions without a shape");
  given.ndim = -3;
  expect_thrown([&] { Tensor{given}; }, "a tensor of -3 dimensions");
  expect_thrown([&] { Tensor(x, {2, 3}, 1); }, "2 dimensions and 1 strides");
}

TEST(CppApi, TypesAreDtypes) {
  const auto is = [](const Tensor& tensor, DLDataType dtype) {
    const DLTensor made = tensor.dlpack();
    return made.dtype.code == dtype.code && made.dtype.bits == dtype.bits && made.dtype.lanes == 1;
  };
  EXPECT_TRUE(is({static_cast<double*>(nullptr), 1}, warpsmith::kF64));
  EXPECT_TRUE(is({static_cast<const int8_t*>(nullptr), 1}, warpsmith::kI8));
  EXPECT_TRUE(is({static_cast<uint8_t*>(nullptr), 1}, warpsmith::kU8));
  EXPECT_TRUE(is({static_cast<bool*>(nullptr), 1}, warpsmith::kBool));
  EXPECT_TRUE(is({nullptr, warpsmith::kBf16, 1}, warpsmith::kBf16));
}

TEST(CppApi, Choices) {
  using Side = warpsmith::Choice<"left", "right">;
  EXPECT_EQ(Side("right").index(), 1);
  EXPECT_EQ(Side::named("left").index(), 0);
  EXPECT_FALSE(Side(std::nullopt).exists());
  EXPECT_EQ(warpsmith::detail::encode(Side("right")).kind, WS_CHOICE);
  EXPECT_EQ(warpsmith::detail::encode(Side(std::nullopt)).kind, WS_ABSENT);
  expect_thrown([] { Side::named("up"); }, "'up' is none of left right");
}

TEST(CppApi, ACallSaysWhatItNeeds) {
  const float x[6] = {1, 2, 3, 4, 5, 6};
  float y[2] = {};
  const auto outputs = warpsmith::prepare::weigh({x, {2, 3}}, {}).outputs();
  EXPECT_EQ(outputs.size(), 2U);
  EXPECT_THAT(std::span(outputs[0].shape, 2), ElementsAre(2, 3));
  EXPECT_EQ(outputs[1].ndim, -1);

  auto call = warpsmith::prepare::total({x, {2, 3}}, {y, 2}, {.dim = 1});
  call.with("tickets");
  EXPECT_STREQ(call.why_not().c_str(), "");
  const warpsmith::Workspace need = call.workspace();
  EXPECT_EQ(need.bytes, 4U);
  EXPECT_EQ(need.zeroed, 4U);
  expect_thrown([&] { call.run(); }, "workspace of 4 bytes, got 0");
  alignas(256) std::byte memory[256] = {};
  for (int i = 0; i < 2; ++i) {
    y[0] = 0;
    call.run(nullptr, memory, need.bytes);
    EXPECT_THAT(y, ElementsAre(6, 15));
  }
  expect_thrown([&] { call.with("ticket"); }, "total/ticket");
  const Tensor large(static_cast<float*>(nullptr), {int64_t{1} << 31, 1});
  EXPECT_THAT(warpsmith::prepare::total(large, {}, {.dim = 1}).with("tickets").why_not(),
              HasSubstr("counts to 2^31, not to 2147483648"));
}

TEST(CppApi, ErrorsOfTheDevice) {
  const float x[2] = {1, 2};
  const int64_t index[2] = {1, 5};
  float y[2] = {-1, -1};
  expect_thrown([&] { warpsmith::take({x, 2}, {index, 2}, {y, 2}); }, "index 5 at position 1");
  EXPECT_THAT(y, ElementsAre(2, -1));
  warpsmith::check();
  warpsmith::synchronize();
  expect_thrown([] { warpsmith::check(1000); }, "device 1000");
}

TEST(CppApi, TheCatalogueIsTheTrials) {
  EXPECT_THAT(warpsmith::catalogue(), HasSubstr("\"row_max\""));
}

}  // namespace
