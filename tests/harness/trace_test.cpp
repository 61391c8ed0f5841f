// The file of a trace, of events that the test makes.
#include "harness/trace.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

namespace ws::harness {
namespace {

using ::testing::SizeIs;
using ::testing::StartsWith;
using Kind = TraceEvent::Kind;

Json written(const Trace& trace, const Json& about = Json::object()) {
  std::ostringstream out;
  write_chrome_trace(out, trace, about);
  return Json::parse(out.str());
}
Json event_of(const TraceEvent& event) { return written({.events = {event}})["traceEvents"][0]; }

TEST(ChromeTrace, SaysWhatItIsOf) {
  const Trace trace{.order = "reverse", .left_out = 3, .blocks = 2, .blocks_of_run = 16};
  const Json json = written(trace, {{"rung", "gemm/mma"}});
  EXPECT_THAT(json["traceEvents"], SizeIs(0));
  EXPECT_EQ(json["otherData"], (Json{{"clock", kTraceClock},
                                     {"rung", "gemm/mma"},
                                     {"order", "reverse"},
                                     {"blocks", 2},
                                     {"blocks_of_run", 16},
                                     {"events_left_out", 3}}));
}

TEST(ChromeTrace, NamesAndOrdersItsTracks) {
  const Json events =
      written({.tracks = {{4, -1, "block 2"}, {4, 0, "warp 0"}, {4, 7, "warp 7"}}})["traceEvents"];
  ASSERT_THAT(events, SizeIs(6));
  for (const Json& event : events) {
    EXPECT_EQ(event["ph"], "M");
    EXPECT_EQ(event["pid"], 4);
  }
  EXPECT_EQ(events[0]["name"], "process_name");
  EXPECT_THAT(events[0]["args"]["name"], StartsWith("block 2 (clock: the emulator's order"));
  EXPECT_EQ(events[0]["tid"], 0);
  EXPECT_EQ(events[1]["name"], "process_sort_index");
  EXPECT_EQ(events[1]["args"], (Json{{"sort_index", 4}}));
  EXPECT_EQ(events[2]["name"], "thread_name") << "track 0 is no process";
  EXPECT_EQ(events[4]["name"], "thread_name");
  EXPECT_EQ(events[4]["args"], (Json{{"name", "warp 7"}}));
  EXPECT_EQ(events[4]["tid"], 7);
  EXPECT_EQ(events[5]["name"], "thread_sort_index");
  EXPECT_EQ(events[5]["args"], (Json{{"sort_index", 7}}));
}

TEST(ChromeTrace, WhatLastsHasADuration) {
  for (const auto& [kind, category] : {std::pair{Kind::kRun, "run"},
                                       {Kind::kWait, "wait"},
                                       {Kind::kTurn, "turn"},
                                       {Kind::kPhase, "phase"}}) {
    const Json event = event_of(
        {.kind = kind, .name = "bar.sync", .process = 1, .track = 2, .begin = 10, .end = 14});
    EXPECT_EQ(event, (Json{{"ph", "X"},
                           {"name", "bar.sync"},
                           {"cat", category},
                           {"pid", 1},
                           {"tid", 2},
                           {"ts", 10},
                           {"dur", 4},
                           {"args", Json::object()}}));
  }
  const Json event = event_of({.kind = Kind::kInstant, .begin = 10, .end = 10});
  EXPECT_EQ(event["ph"], "i");
  EXPECT_EQ(event["s"], "t") << "of its track alone";
  EXPECT_EQ(event["cat"], "arrival");
  EXPECT_FALSE(event.contains("dur"));
}

TEST(ChromeTrace, WhatIsInFlightBeginsAndEnds) {
  const TraceEvent copy{.kind = Kind::kCopy, .begin = 10, .end = 14, .bytes = 512};
  const TraceEvent products{.kind = Kind::kProducts, .begin = 11, .end = 13, .products = 4};
  const Json events = written({.events = {copy, products}})["traceEvents"];
  ASSERT_THAT(events, SizeIs(4));
  for (const size_t i : {0, 2}) {
    EXPECT_EQ(events[i]["ph"], "b");
    EXPECT_EQ(events[i + 1]["ph"], "e");
    EXPECT_EQ(events[i]["id"], events[i + 1]["id"]);
    EXPECT_FALSE(events[i + 1].contains("args")) << "as its begin has them";
  }
  EXPECT_NE(events[0]["id"], events[2]["id"]);
  EXPECT_EQ(events[0]["ts"], 10);
  EXPECT_EQ(events[1]["ts"], 14);
  EXPECT_EQ(events[0]["cat"], "copy");
  EXPECT_EQ(events[0]["args"], (Json{{"bytes", 512}}));
  EXPECT_EQ(events[2]["cat"], "products");
  EXPECT_EQ(events[2]["args"], (Json{{"products", 4}}));
}

TEST(ChromeTrace, ArgumentsAreWhatThereIsToTell) {
  EXPECT_EQ(event_of({.mbarrier = 0, .mbarrier_block = 3, .phase = 0, .pending = 0})["args"],
            (Json{{"mbarrier", "shared byte 0 of block 3"}, {"phase", 0}, {"pending", 0}}));
  EXPECT_EQ(event_of({.place = "a.cuh:3", .threads = 32, .is_open = true})["args"],
            (Json{{"place", "a.cuh:3"}, {"threads", 32}, {"open", true}}));
}

}  // namespace
}  // namespace ws::harness
