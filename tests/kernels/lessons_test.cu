// What `verify` cannot ask of the lessons: what wrong calls are told, and that an SM holds as many
// blocks as a rung of occupancy says.
#include <gmock/gmock.h>

#include "kernels/lessons/05_occupancy.cuh"
#include "tests/kernels/refused.hpp"

namespace ws::lessons {
namespace {

using ::testing::HasSubstr;

TEST(Lessons, WrongCallsAreToldTheirValues) {
  using test::set;
  using test::told;
  const auto smoke = [](std::string_view name) {
    const Operation& operation = operation_named(name);
    return make_problem(operation, operation.cases().smoke[0], DType::kF32);
  };
  const Problem tiles = smoke("bank_conflicts");
  EXPECT_EQ(told(tiles, [](Problem&) {}), "accepted");
  EXPECT_THAT(
      told(tiles, [](Problem& p) { p.tensor(0) = Tensor::dense(DType::kF32, {4, 32, 33}); }),
      HasSubstr("takes [tiles, 32, 32], not f32 [4, 32, 33]"));
  EXPECT_THAT(
      told(tiles, [](Problem& p) { std::swap(p.tensor(0).strides[1], p.tensor(0).strides[2]); }),
      HasSubstr("takes a contiguous tensor of f32, not f32 [2, 32, 32] strides"));
  EXPECT_THAT(told(tiles, [](Problem& p) { set(p, "rounds", Value(-1)); }),
              HasSubstr("takes 0 to 2147483647 rounds, not -1"));
  EXPECT_THAT(told(smoke("coalescing"),
                   [](Problem& p) {
                     p.tensor(1) = Tensor::dense(DType::kF32, {1000});
                     p.tensor(1).strides[0] = 2;
                   }),
              HasSubstr("coalescing writes a contiguous tensor, not f32 [1000] strides [2]"));
  EXPECT_THAT(
      told(smoke("warp_divergence"), [](Problem& p) { set(p, "degree", Value(int64_t{1} << 31)); }),
      HasSubstr("not 2147483648"));
  for (const int64_t terms : {int64_t{0}, int64_t{12}, int64_t{-8}, int64_t{1} << 31}) {
    EXPECT_THAT(told(smoke("unrolling"), [&](Problem& p) { set(p, "terms", Value(terms)); }),
                HasSubstr(concatenate("takes a multiple of 8 terms, from 8 on and below 2^31, not ",
                                      terms)));
  }
}

TEST(Lessons, SharedMemoryLeavesRoomForSoManyBlocks) {
  const auto all =
      static_cast<size_t>(device_facts().shared_bytes) + Multiprocessor::kSharedReserved;
  for (const int blocks : {1, 2, 3, 5, 8}) {
    const size_t each = shared_bytes_for(blocks) + Multiprocessor::kSharedReserved;
    EXPECT_LE(each * static_cast<size_t>(blocks), all) << blocks;
    EXPECT_GT(each * static_cast<size_t>(blocks + 1), all) << blocks;
  }
  EXPECT_EQ(shared_bytes_for(0), 0U);
}

}  // namespace
}  // namespace ws::lessons
