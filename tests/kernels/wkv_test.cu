// What `verify` cannot ask of wkv: calls that are refused, and why; seed names; which rung a call
// gets.
#include <gmock/gmock.h>

#include <functional>

#include "kernels/wkv/operations.hpp"
#include "tests/kernels/refused.hpp"

namespace ws::wkv {
namespace {

using test::told;
using testing::HasSubstr;

Problem problem_of(std::string_view operation, std::array<int64_t, kMaxExtents> extents,
                   DType dtype = DType::kF32) {
  return make_problem(operation_named(operation), {.extents = extents}, dtype);
}

TEST(Wkv, CallsThatAreRefused) {
  using P = Problem;
  struct Refused {
    const char* words;
    std::function<void(Problem&)> change;
  };
  const Problem right = problem_of("wkv_backward", {2, 4, 8, kHasState});
  EXPECT_EQ(told(right, [](Problem&) {}), "accepted");
  const Refused all[] = {
      {"not f32, f16 or bf16 of [B, T, C]", [](P& p) { p["k"].rank = 2; }},
      {"'v' is f16 [2, 4, 8], not of the shape and dtype of 'k'",
       [](P& p) { p["v"].dtype = DType::kF16; }},
      {"'g' is f32 [2, 3, 8]", [](P& p) { p["g"].shape[1] = 3; }},
      {"'w' is bf16 [8], not f32 of [C]", [](P& p) { p["w"].dtype = DType::kBf16; }},
      {"'u' is f32 [7], not f32 of [C]", [](P& p) { p["u"].shape[0] = 7; }},
      {"not f32 of [B, 3, C]", [](P& p) { p["state"].shape[1] = 2; }},
  };
  for (const Refused& refused : all) {
    EXPECT_THAT(told(right, refused.change), HasSubstr(refused.words));
  }
}

TEST(Wkv, SeedNames) {
  EXPECT_EQ(resolve("rwkv_wkv_forward").operation->name, "wkv");
  EXPECT_EQ(resolve("rwkv_wkv_backward").rung->name, "backward_naive");
}

TEST(Wkv, WhichRungACallGets) {
  const auto best_of = [](std::string_view operation, std::array<int64_t, kMaxExtents> extents) {
    return best(AnyCall(problem_of(operation, extents, DType::kBf16)), 90).name;
  };
  EXPECT_EQ(best_of("wkv", {64, 1024, 4096}), "ahead");
  EXPECT_EQ(best_of("wkv", {1, 4096, 768}), "chunked");
  EXPECT_EQ(best_of("wkv", {1, 1, 768}), "ahead");
  EXPECT_EQ(best_of("wkv_backward", {1, 4096, 768}), "backward_chunked");
}

}  // namespace
}  // namespace ws::wkv
