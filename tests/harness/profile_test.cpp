// What is said of a profile, of figures that the test makes.
#include "harness/profile.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/ladder.hpp"

namespace ws::harness {
namespace {

using ::testing::ElementsAre;
using ::testing::SizeIs;

TEST(Profile, RemarksSayWhatIsBadAboutALine) {
  EXPECT_THAT(remarks_on({}), SizeIs(0));
  ProfileLine line;
  line.requests = 10;
  line.sectors = 80;
  line.ideal_sectors = 40;
  line.strided = 5;
  line.stride = -128;
  EXPECT_THAT(remarks_on(line), ElementsAre("8.0 sectors a request where 4.0 would do"))
      << "half of them are no most";
  line.strided = 6;
  EXPECT_THAT(remarks_on(line), ElementsAre("8.0 sectors a request where 4.0 would do: lanes are "
                                            "128 bytes apart"));
  line.sectors = 40;
  EXPECT_THAT(remarks_on(line), SizeIs(0));
  line.warp_instructions = 200;
  line.divergent = 1;
  EXPECT_THAT(remarks_on(line), SizeIs(0)) << "less than a hundredth";
  line.divergent = 2;
  EXPECT_THAT(remarks_on(line), ElementsAre("1 % of them without some lanes of the warp"));
  line.divergent = 50;
  EXPECT_THAT(remarks_on(line), ElementsAre("25 % of them without some lanes of the warp"));
  line.by_one_thread = true;
  line.wavefronts = 32;
  line.ideal_wavefronts = 8;
  line.most_on_one_address = 7;
  line.swizzle = 0;
  EXPECT_THAT(remarks_on(line),
              ElementsAre("bank conflicts: 4.0 ways", "no swizzle", "7 times on one address"));
  line = {};
  line.swizzle = 64;
  line.most_on_one_address = 1;
  for (const int number : {1, 2, 3, 4, 5}) {
    line.waits_for.push_back({.file = "a.cuh", .line = number, .operation = "store"});
  }
  EXPECT_THAT(remarks_on(line),
              ElementsAre("swizzle of 64 bytes",
                          "waits for store a.cuh:1, store a.cuh:2, store a.cuh:3 and 2 more"));
}

Json json_of(const ProfileLine& line) { return to_json(Profile{.lines = {line}})["lines"][0]; }

TEST(Profile, LinesHaveWhatThereIsToTell) {
  ProfileLine line;
  line.place = {.file = "kernels/softmax/01_naive.cuh", .line = 7, .operation = "ld.global"};
  line.warp_instructions = 5;
  line.active_lanes = 150;
  line.divergent = 1;
  Json json = json_of(line);
  EXPECT_EQ(json["file"], "kernels/softmax/01_naive.cuh");
  EXPECT_EQ(json["line"], 7);
  EXPECT_EQ(json["operation"], "ld.global");
  EXPECT_EQ(json["warp_instructions"], 5);
  EXPECT_EQ(json["active_lanes"], 150);
  EXPECT_EQ(json["divergent"], 1);
  EXPECT_EQ(json["cost"], 5) << "nothing of memory";
  for (const char* key : {"requests", "strided_requests", "wavefronts", "swizzle_bytes",
                          "most_on_one_address", "access", "waits_for"}) {
    EXPECT_FALSE(json.contains(key)) << key;
  }
  line.requests = 1;
  line.sectors = 4;
  line.ideal_sectors = 3;
  line.asked_bytes = 96;
  line.unique_sectors = 2;
  line.wavefronts = 1;
  line.ideal_wavefronts = 1;
  line.shared_requests = 1;
  line.shared_bytes = 128;
  line.swizzle = 0;
  line.most_on_one_address = 1;
  line.access.lanes = 0b101;
  line.access.width = 4;
  line.access.offset[2] = 64;
  line.waits_for = {{.file = "a.cuh", .line = 3, .operation = "store"}};
  json = json_of(line);
  EXPECT_EQ(json["cost"], 3) << "4 sectors, two a clock, and a wavefront";
  EXPECT_EQ(json["ideal_cost"], 2.5);
  EXPECT_EQ(json["requests"], 1);
  EXPECT_EQ(json["sectors"], 4);
  EXPECT_EQ(json["ideal_sectors"], 3);
  EXPECT_EQ(json["asked_bytes"], 96);
  EXPECT_EQ(json["moved_bytes"], 128) << "of sectors of 32";
  EXPECT_EQ(json["unique_sectors"], 2);
  EXPECT_FALSE(json.contains("strided_requests"));
  EXPECT_EQ(json["wavefronts"], 1);
  EXPECT_EQ(json["ideal_wavefronts"], 1);
  EXPECT_EQ(json["shared_requests"], 1);
  EXPECT_EQ(json["shared_bytes"], 128);
  EXPECT_EQ(json["swizzle_bytes"], 0);
  EXPECT_EQ(json["most_on_one_address"], 1);
  EXPECT_EQ(json["access"]["memory"], "global");
  EXPECT_EQ(json["access"]["bytes"], 4);
  ASSERT_THAT(json["access"]["offsets"], SizeIs(32));
  EXPECT_EQ(json["access"]["offsets"][0], 0);
  EXPECT_TRUE(json["access"]["offsets"][1].is_null()) << "it takes no part";
  EXPECT_EQ(json["access"]["offsets"][2], 64);
  EXPECT_EQ(json["waits_for"][0]["line"], 3);
  EXPECT_EQ(json["remarks"][0], "4.0 sectors a request where 3.0 would do");
  line.strided = 1;
  line.stride = -128;
  json = json_of(line);
  EXPECT_EQ(json["strided_requests"], 1);
  EXPECT_EQ(json["stride_bytes"], -128);
}

TEST(Profile, SourcesAreShownWithoutTheirIndentation) {
  const ProfilePlace indented{"include/warpsmith/thread/divide.hpp", 14, "ld.global"};
  EXPECT_EQ(source_of(indented), "return (a + b - 1) / b;");
  EXPECT_EQ(source_of({"no/such/file.cu", 3, "ld.global"}), "");
  EXPECT_EQ(short_place(indented), "thread/divide.hpp:14");
  const ProfilePlace kernel{"kernels/softmax/01_naive.cuh", 9, "ld.global"};
  EXPECT_EQ(short_place(kernel), "softmax/01_naive.cuh:9");
  EXPECT_EQ(short_place(kernel, "softmax"), "01_naive.cuh:9");
  EXPECT_EQ(short_place(kernel, "norm"), "softmax/01_naive.cuh:9");
}

TEST(Profile, OfALadderHasItsLinesWhereTheyAreWanted) {
  CountedRung rung;
  EXPECT_FALSE(to_json(rung, {}, true).contains("profile")) << "it did not pass";
  rung.profile = Profile{.lines = {ProfileLine()}};
  EXPECT_THAT(to_json(rung, {}, true)["profile"]["lines"], SizeIs(1));
  const Json json = to_json(rung, {.bytes = 12, .flops = 5}, false);
  EXPECT_FALSE(json["profile"].contains("lines"));
  EXPECT_EQ(json["bytes"], 12);
  EXPECT_EQ(json["flops"], 5);
}

TEST(Occupancy, IsWhatTheScarcestLeaves) {
  const auto of = [](int64_t threads, size_t shared, int registers) {
    KernelResources launch{};
    launch.grid.threads = static_cast<int>(threads);
    launch.shared_bytes = shared;
    launch.registers = registers;
    return occupancy_limits(launch);
  };
  // A warp's registers come in pieces of 256, a block's shared memory in 128 bytes and 1 KB more.
  const OccupancyLimits registers = of(256, 0, 33);
  EXPECT_EQ(registers.by_threads, 8);
  EXPECT_EQ(registers.by_registers, 65536 / (5 * 256) / 8);
  EXPECT_EQ(registers.by, "registers");
  EXPECT_EQ(registers.blocks, 6);
  EXPECT_EQ(registers.occupancy, 6 * 8 / 64.0);
  EXPECT_EQ(of(256, 0, 32).by, "threads");
  const OccupancyLimits shared = of(128, 56 * 1024 - 127, -1);
  EXPECT_EQ(shared.by_shared, 4);
  EXPECT_EQ(shared.by, "shared memory");
  EXPECT_EQ(shared.by_registers, -1);
  EXPECT_FALSE(to_json(shared).contains("by_registers")) << "the emulator knows none";
  const OccupancyLimits blocks = of(33, 0, 0);
  EXPECT_EQ(blocks.by_threads, 32) << "two warps each";
  EXPECT_EQ(blocks.blocks, 32);
  EXPECT_EQ(of(32, 0, 16).by, "blocks");
  const Json json = to_json(registers);
  EXPECT_EQ(json["by_registers"], 6);
  EXPECT_EQ(json["blocks"], 6);
  EXPECT_EQ(json["occupancy"], 0.75);
  EXPECT_EQ(json["by"], "registers");
}

}  // namespace
}  // namespace ws::harness
