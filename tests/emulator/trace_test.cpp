// What the trace tells of kernels whose waits, copies and phases are known.
#include "warpsmith/trace.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>
#include <utility>

#include "tests/emulator/run.hpp"
#include "warpsmith/ptx/atomic.hpp"
#include "warpsmith/ptx/barrier.hpp"
#include "warpsmith/ptx/bulk.hpp"
#include "warpsmith/ptx/cp_async.hpp"
#include "warpsmith/ptx/shuffle.hpp"
#include "warpsmith/shared.hpp"
#include "warpsmith/tile/pipeline.hpp"

namespace ws::emulator {
namespace {

using Kind = TraceEvent::Kind;

alignas(256) std::array<float, 1 << 12> memory;

template <class Body>
Trace trace_of(const LaunchShape& shape, Body&& body, const TraceOptions& options = {}) {
  TraceScope scope(options);
  launch(shape, body);
  return scope.end();
}

int64_t count(const Trace& trace, Kind kind, const std::string& name = "") {
  return std::ranges::count_if(trace.events, [&](const TraceEvent& event) {
    return event.kind == kind && (name.empty() || event.name == name);
  });
}

// Waits, whether or not they held the warp up.
int64_t waits(const Trace& trace, const std::string& name) {
  return count(trace, Kind::kWait, name) + count(trace, Kind::kTurn, "passes " + name);
}

const TraceEvent& first(const Trace& trace, Kind kind, const std::string& name = "") {
  static const TraceEvent kNone;
  const auto at = std::ranges::find_if(trace.events, [&](const TraceEvent& event) {
    return event.kind == kind && (name.empty() || event.name == name);
  });
  EXPECT_NE(at, trace.events.end()) << name;
  return at == trace.events.end() ? kNone : *at;
}

// One thing at a time on each track of a warp and of an mbarrier; each has a name.
void expect_well_formed(const Trace& trace) {
  std::map<std::pair<int, int>, std::vector<std::pair<uint64_t, uint64_t>>> tracks;
  for (const TraceEvent& event : trace.events) {
    EXPECT_LE(event.begin, event.end) << event.name;
    const bool in_flight = event.kind == Kind::kCopy || event.kind == Kind::kProducts;
    if (in_flight || event.kind == Kind::kInstant) continue;
    tracks[{event.process, event.track}].emplace_back(event.begin, event.end);
  }
  for (auto& [track, spans] : tracks) {
    std::ranges::sort(spans);
    for (size_t i = 1; i < spans.size(); ++i) EXPECT_LE(spans[i - 1].second, spans[i].first);
    EXPECT_EQ(std::ranges::count_if(trace.tracks,
                                    [&](const TraceTrack& known) {
                                      return std::pair(known.process, known.track) == track;
                                    }),
              1);
  }
}

// In every order of threads.
template <class Body, class Check>
void expect_trace(const LaunchShape& shape, Body&& body, Check&& check) {
  test::in_every_order([&] {
    const Trace trace = trace_of(shape, body);
    expect_well_formed(trace);
    check(trace);
  });
}

TEST(Trace, BarriersAreWaitsOfWarps) {
  expect_trace(
      {4, 96, 1, 0},
      [](std::byte*) {
        ptx::barrier_sync();
        if (warp_index() < 2) {
          ptx::barrier_sync(3, 64);
        } else {
          ptx::syncwarp();
        }
      },
      [](const Trace& trace) {
        EXPECT_EQ(trace.blocks, 1);
        EXPECT_EQ(trace.blocks_of_run, 4);
        EXPECT_EQ(count(trace, Kind::kWait) + count(trace, Kind::kTurn), 5);
        EXPECT_GE(count(trace, Kind::kWait), 3);
        EXPECT_EQ(waits(trace, "barrier.sync 0"), 3);
        EXPECT_EQ(waits(trace, "barrier.sync 3"), 2);
        EXPECT_GE(count(trace, Kind::kRun), 3);
        const TraceEvent& wait = first(trace, Kind::kWait, "barrier.sync 3");
        EXPECT_EQ(wait.threads, 32);
        EXPECT_TRUE(wait.place.starts_with("tests/emulator/trace_test.cpp:")) << wait.place;
        EXPECT_EQ(trace.left_out, 0U);
      });
}

struct Ring {
  SharedArray<float, 2 * 64, 128> stages;
  tile::Pipeline<2> pipeline;
};

// Warp 0 copies six tiles through two stages, warps 1 and 2 use them.
void use_ring(std::byte* shared) {
  constexpr int kTiles = 6;
  Ring& ring = at<Ring>(shared, 0);
  if (thread_index() == 0) {
    ring.pipeline.init(2);
    ptx::fence_mbarrier_init();
  }
  ptx::barrier_sync();
  tile::PipelinePosition<2> position;
  if (warp_index() == 0) {
    for (int i = 0; i < kTiles && thread_index() == 0; ++i, position.advance()) {
      ptx::Mbarrier& full = ring.pipeline.acquire(position, 256);
      ptx::bulk_load(ring.stages.pointer(64 * position.stage), memory.data() + 64 * i, 256, full);
    }
  } else {
    for (int i = 0; i < kTiles; ++i, position.advance()) {
      ring.pipeline.wait(position);
      static_cast<void>(float{ring.stages[64 * position.stage + lane_index()]});
      ptx::barrier_sync(1, 64);
      if (lane_index() == 0) ring.pipeline.release(position.stage);
    }
  }
}

TEST(Trace, ARingShowsItsPhasesAndTheCopiesInFlight) {
  expect_trace(
      {1, 96, 1, sizeof(Ring)}, [](std::byte* shared) { use_ring(shared); },
      [](const Trace& trace) {
        EXPECT_EQ(count(trace, Kind::kCopy), 6);
        const auto offset = static_cast<int64_t>(offsetof(Ring, pipeline));
        for (const TraceEvent& event : trace.events) {
          EXPECT_FALSE(event.place.empty() && event.kind != Kind::kRun && !event.is_open);
          if (event.kind != Kind::kCopy) continue;
          EXPECT_EQ(event.bytes, 256U);
          EXPECT_EQ(event.track, 1);
          EXPECT_TRUE(event.mbarrier == offset || event.mbarrier == offset + 8) << event.mbarrier;
          EXPECT_LT(event.begin, event.end);
          EXPECT_FALSE(event.is_open);
        }
        // Of four mbarriers three complete phases each, and one that is open at the end.
        EXPECT_EQ(count(trace, Kind::kPhase), 16);
        EXPECT_EQ(count(trace, Kind::kPhase, "phase 2"), 4);
        EXPECT_EQ(std::ranges::count_if(trace.events,
                                        [](const TraceEvent& event) {
                                          return event.kind == Kind::kPhase && event.is_open;
                                        }),
                  4);
        EXPECT_EQ(std::ranges::count_if(trace.tracks,
                                        [](const TraceTrack& track) {
                                          return track.name.ends_with(": copies and 1 arrival");
                                        }),
                  2);
        // Each of two warps waits six times for data, and one thread as often for room.
        const std::string full = concatenate("mbarrier ", offset);
        EXPECT_EQ(waits(trace, full), 6);
        for (const TraceEvent& event : trace.events) {
          if (event.kind != Kind::kWait || event.mbarrier != offset) continue;
          EXPECT_EQ(event.threads, 32);
          EXPECT_GE(event.phase, 0);
        }
        EXPECT_EQ(waits(trace, concatenate("mbarrier ", offset + 16)), 3);
        EXPECT_EQ(count(trace, Kind::kInstant, "mbarrier.arrive"), 6 + 12);
      });
}

TEST(Trace, TheProducerIsAheadOfItsConsumers) {
  const Trace trace =
      trace_of({1, 96, 1, sizeof(Ring)}, [](std::byte* shared) { use_ring(shared); });
  int most = 0;
  for (const TraceEvent& one : trace.events) {
    if (one.kind != Kind::kCopy) continue;
    most = std::max(
        most, static_cast<int>(std::ranges::count_if(trace.events, [&](const TraceEvent& other) {
          return other.kind == Kind::kCopy && other.begin <= one.begin && other.end > one.begin;
        })));
  }
  EXPECT_EQ(most, 2);
  // So it is held up for room, after it has passed the first two stages.
  EXPECT_GE(
      std::ranges::count_if(
          trace.events, [](const TraceEvent& e) { return e.kind == Kind::kTurn && e.track == 1; }),
      2);
}

TEST(Trace, SmallCopiesAreGroupsOfAWarp) {
  struct Storage {
    SharedArray<float, 4 * 128, 128> x;
  };
  expect_trace(
      {1, 32, 1, sizeof(Storage)},
      [](std::byte* shared) {
        Storage& s = at<Storage>(shared, 0);
        for (int group = 0; group < 4; ++group) {
          const int i = 128 * group + 4 * lane_index();
          ptx::cp_async<16>(s.x.pointer(i), memory.data() + i);
          ptx::cp_async_commit_group();
          ptx::cp_async_wait_group<1>();
        }
        ptx::cp_async_wait_group<0>();
      },
      [](const Trace& trace) {
        EXPECT_EQ(count(trace, Kind::kCopy, "cp.async of warp 0"), 4);
        EXPECT_EQ(first(trace, Kind::kCopy).bytes, 512U);
        EXPECT_EQ(waits(trace, "cp.async.wait_group"), 5);
        EXPECT_EQ(first(trace, Kind::kWait).pending, 1);
      });
}

TEST(Trace, SpinsNameWhatTheyWaitFor) {
  expect_trace(
      {1, 64, 1, 0},
      [](std::byte*) {
        static uint32_t flag = 0;
        if (thread_index() == 0) flag = 0;
        ptx::barrier_sync();
        if (thread_index() == 0) {
          while (ptx::atom_global_cas(&flag, 2U, 0U) != 2U) yield("atom.global.cas");
        } else if (thread_index() == 32) {
          yield("a while");
          ptx::atom_global_cas(&flag, 0U, 2U);
        }
      },
      [](const Trace& trace) { EXPECT_GE(count(trace, Kind::kWait, "atom.global.cas"), 1); });
}

TEST(Trace, SaysWhatItLeavesOut) {
  const auto body = [](std::byte*) {
    for (int i = 0; i < 10; ++i) ptx::barrier_sync();
  };
  const Trace trace = trace_of({2, 64, 1, 0}, body, {.blocks = 2, .events = 7});
  EXPECT_EQ(trace.events.size(), 7U);
  EXPECT_GE(trace.left_out, 2U * 2U * 10U - 7U);
  EXPECT_EQ(trace.blocks, 2);
  expect_well_formed(trace);
}

TEST(Trace, ThoseWhoWaitForEverAreStillThere) {
  TraceScope scope({});
  EXPECT_THROW(launch({1, 96, 1, 0},
                      [](std::byte*) {
                        if (warp_index() == 0) ptx::barrier_sync(1, 64);
                      }),
               FaultError);
  const Trace trace = scope.end();
  EXPECT_TRUE(first(trace, Kind::kWait, "barrier.sync 1").name == "barrier.sync 1");
}

TEST(Trace, OnceEndedNothingIsLeft) {
  const auto body = [](std::byte*) { ptx::barrier_sync(); };
  const int workers = options().workers;
  const Trace one = trace_of({1, 64, 1, 0}, body);
  launch({1, 64, 1, 0}, body);
  const Trace other = trace_of({1, 64, 1, 0}, body);
  EXPECT_EQ(options().workers, workers);
  ASSERT_EQ(one.events.size(), other.events.size());
  for (size_t i = 0; i < one.events.size(); ++i) {
    EXPECT_EQ(one.events[i].name, other.events[i].name);
    EXPECT_EQ(one.events[i].begin, other.events[i].begin);
  }
  EXPECT_THROW(trace_of({1, 64, 1, 0}, body, {.blocks = -1}), InvalidArgument);
}

}  // namespace
}  // namespace ws::emulator
