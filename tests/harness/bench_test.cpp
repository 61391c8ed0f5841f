#include "harness/bench.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "harness/bench_loop.hpp"
#include "harness/contenders.hpp"
#include "harness/limits.hpp"
#include "harness/machine.hpp"
#include "harness/resources.hpp"
#include "harness/variants.hpp"
#include "tests/harness/wrong_kernels/wrong_kernels.hpp"

namespace ws::harness {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::Lt;
using ::testing::Not;
using ::testing::SizeIs;
using ::testing::StartsWith;

Machine h200() {
  Machine m;
  m.device = "NVIDIA H200";
  m.capability = 90;
  m.multiprocessors = 132;
  m.l2_bytes = 60'000'000;
  m.clock = 1.98e9;
  m.memory_rate = 4.8e12;
  return m;
}

TEST(Bench, RefusesInTheEmulator) {
  const Rung* rung = &wrong::rung("right");
  try {
    bench(wrong::center(), {&rung, 1}, {.extents = {4, 4}}, DType::kF32, {});
    FAIL();
  } catch (const InvalidArgument& error) {
    EXPECT_THAT(error.what(), HasSubstr("timings in the emulator mean nothing"));
  }
}

TEST(Machine, KnowsThePeaksOfItsTable) {
  EXPECT_EQ(peak_flops(h200(), DType::kF16), 989e12);
  EXPECT_EQ(peak_flops(h200(), DType::kF32), 67e12);
  EXPECT_EQ(peak_flops(h200(), DType::kE4m3), 2 * 989e12);
  EXPECT_EQ(peak_flops(h200(), DType::kI8), 2 * 989e12);
  Machine unknown = h200();
  unknown.device = "Somebody's GPU";
  const double clocks = 1.98e9 * 132;
  EXPECT_NEAR(peak_flops(unknown, DType::kBf16), clocks * 4096, 1);
  EXPECT_NEAR(peak_flops(unknown, DType::kE5m2), clocks * 8192, 1);
  EXPECT_NEAR(peak_flops(unknown, DType::kF32), clocks * 256, 1);
  unknown.capability = 80;
  EXPECT_NEAR(peak_flops(unknown, DType::kF16), clocks * 2048, 1);
  EXPECT_NEAR(peak_flops(unknown, DType::kF32), clocks * 128, 1);
  unknown.capability = 86;
  EXPECT_NEAR(peak_flops(unknown, DType::kF16), clocks * 1024, 1);
}

TEST(Machine, FloorCountsBytesThatMustCrossTheMemory) {
  const Problem large =
      AnyCall(make_problem(wrong::center(), {.extents = {16384, 4096}}, DType::kF32)).problem();
  const double bytes = 16384.0 * 4096 * 8;
  // 60 MB of the output may still lie in the L2.
  EXPECT_NEAR(floor_microseconds(h200(), large, {bytes, 0}), (bytes - 6e7) / 4.8e12 * 1e6, 1e-6);
  // Compute-bound: half the time at the data sheet's rate.
  const Problem f16 =
      AnyCall(make_problem(wrong::center(), {.extents = {16, 16}}, DType::kF16)).problem();
  EXPECT_NEAR(floor_microseconds(h200(), f16, {0, 1e12}), 1e12 / (2 * 989e12) * 1e6, 1e-6);
  // Of f32 that of TF32, which is f16's halved and doubled.
  EXPECT_NEAR(floor_microseconds(h200(), large, {0, 1e12}), 1e12 / 989e12 * 1e6, 1e-6);
}

TEST(Limits, CountWhatHostAndDeviceHold) {
  const auto error_of = [](const Operation& operation) -> std::string {
    const Case chosen{.extents = {1 << 20, 1 << 22}};
    try {
      check_memory(AnyCall(make_problem(operation, chosen, DType::kF32)).problem(), 0, {});
    } catch (const InvalidArgument& error) {
      return error.what();
    }
    return "no error";
  };
  // Of 17.6 TB each: on the host the input and two outputs, on the device, here the same memory,
  // both once; an in-out tensor three times there and twice here.
  EXPECT_THAT(error_of(wrong::center()), HasSubstr("needs 8.8e+04 GB of the host's memory"));
  EXPECT_THAT(error_of(wrong::accumulate()), HasSubstr("needs 1.23e+05 GB"));
}

TEST(Limits, OfMemoryIsNineTenthsOfWhatIsFree) {
  const auto error_of = [](const Limits& limits) -> std::string {
    const Case chosen{.extents = {1 << 20, 1 << 22}};
    try {
      check_memory(AnyCall(make_problem(wrong::center(), chosen, DType::kF32)).problem(), 0,
                   limits);
    } catch (const InvalidArgument& error) {
      return error.what();
    }
    return "no error";
  };
  const std::string error = error_of({});
  const auto number_after = [&](std::string_view words) {
    const size_t at = error.find(words);
    return at == std::string::npos ? -1 : std::stod(error.substr(at + words.size()));
  };
  const double free = number_after(" GB, ");
  EXPECT_GT(free, 0) << error;
  EXPECT_LE(free, number_after("memory, which has ")) << error;
  EXPECT_NEAR(number_after("the limit is "), 0.9 * free, 0.01 * free) << "three digits of each";
  EXPECT_THAT(error_of({.gigabytes = 12}), HasSubstr("the limit is 12 GB"));
}

TEST(Limits, DurationsAreInTheUnitThatReadsBest) {
  EXPECT_EQ(duration_text(99), "99 s");
  EXPECT_EQ(duration_text(100), "2 min");
  EXPECT_EQ(duration_text(5940), "99 min");
  EXPECT_EQ(duration_text(6000), "1.7 h");
  EXPECT_EQ(duration_text(198'880), "55.2 h");
  EXPECT_EQ(duration_text(198'920), "55.3 h");
  EXPECT_EQ(duration_text(200'000), "2.31 days");
}

// The loop runs in the emulator too; only its times mean nothing there.
class Loop : public ::testing::Test {
 protected:
  Loop() : instance(wrong::accumulate(), {.extents = {4, 64}}, DType::kF32, 1), sets(instance, 0) {
    options.min_runs = 3;
    options.warm_up = 1;
  }

  void run(std::vector<Contender>& contenders) {
    BenchLoop(options, sets, 4096, 1e9).run(contenders);
  }
  static Contender contender(const char* name, std::function<void(size_t)> work) {
    Contender c;
    c.name = name;
    c.run = std::move(work);
    return c;
  }

  BenchOptions options;
  Instance instance;
  TensorSets sets;
};

TEST_F(Loop, TakesTurnsAfterWarmingUp) {
  std::string order;
  std::vector<Contender> contenders;
  for (const char* name : {"a", "b", "c"}) {
    contenders.push_back(contender(name, [&order, name](size_t) { order += name; }));
  }
  run(contenders);
  EXPECT_EQ(order, "abcabcabcabc");
  for (const Contender& c : contenders) EXPECT_THAT(c.times, SizeIs(3));
}

TEST_F(Loop, OneLongCallIsWarmUpEnough) {
  options.warm_up = 3;
  int ran = 0;
  std::vector<Contender> contenders;
  contenders.push_back(contender("slow at first", [&ran](size_t) {
    if (ran++ == 0) std::this_thread::sleep_for(std::chrono::milliseconds(101));
  }));
  run(contenders);
  EXPECT_EQ(ran, 1 + 3);
}

TEST_F(Loop, RestoresInOutTensorsBeforeEachRun) {
  const Rung& rung = wrong::rung("right_accumulate");
  std::vector<float> seen;
  options.callbacks.push_back({"reader", [&](const Problem& problem, Stream) {
                                 seen.push_back(*problem["sum"].as<float>());
                               }});
  const Rung* rungs[] = {&rung};
  std::vector<Contender> contenders = contenders_of(wrong::accumulate(), rungs, sets, options);
  ASSERT_THAT(contenders, SizeIs(2));
  ASSERT_EQ(contenders[0].verdict, Verdict::kPassed) << contenders[0].reason;
  run(contenders);
  ASSERT_THAT(seen, SizeIs(4));
  EXPECT_THAT(seen, Each(seen.front())) << "the rung adds to it in each of its runs";
}

TEST_F(Loop, WhatThrowsFailsAlone) {
  const auto too_long = [](size_t) { throw InvalidArgument("rows are too long"); };
  std::vector<Contender> contenders;
  contenders.push_back(contender("right", [](size_t) {}));
  contenders.push_back(contender("breaks", [](size_t) { throw Error("it broke"); }));
  contenders.push_back(contender("declines", too_long));
  contenders.push_back(contender("refuses", too_long));
  contenders[2].may_decline = true;
  run(contenders);
  EXPECT_EQ(contenders[0].verdict, Verdict::kPassed);
  EXPECT_EQ(contenders[1].verdict, Verdict::kFailed);
  EXPECT_EQ(contenders[1].reason, "it broke");
  EXPECT_EQ(contenders[2].verdict, Verdict::kSkipped);
  EXPECT_EQ(contenders[3].verdict, Verdict::kFailed) << "only callbacks decline";
}

TEST_F(Loop, CopiesReadTheDataThatIsTimed) {
  const Copies copies(sets, 5000);
  EXPECT_EQ(copies.half(), 2496) << "pieces of 16 bytes";
  std::vector<std::byte> data(sets[0].buffer(0).bytes());
  sets[0].buffer(0).download(data);
  ASSERT_THAT(data, SizeIs(1024));
  std::vector<std::byte> source(copies.half());
  runtime::copy(source.data(), copies.source(0), source.size());
  for (size_t i = 0; i < source.size(); ++i) ASSERT_EQ(source[i], data[i % data.size()]) << i;
}

TEST(Contenders, ThatDoNotTakeTheProblemSayWhy) {
  Instance instance(wrong::center(), {.extents = {4, 64}}, DType::kF32, 1);
  TensorSets sets(instance, 0);
  BenchOptions options;
  const Rung* rungs[] = {&wrong::rung("right_accumulate"), &wrong::rung("right")};
  const std::vector<Contender> contenders = contenders_of(wrong::center(), rungs, sets, options);
  ASSERT_THAT(contenders, SizeIs(2));
  EXPECT_EQ(contenders[0].verdict, Verdict::kSkipped);
  EXPECT_THAT(contenders[0].reason, Not(StartsWith(" ")));
  EXPECT_EQ(contenders[1].verdict, Verdict::kPassed);
}

TEST(Contenders, HaveAWorkspaceOfZerosWhereTheyAskForOne) {
  Instance instance(wrong::center(), {.extents = {4, 64}}, DType::kF32, 1);
  TensorSets sets(instance, 0);
  BenchOptions options;
  const Rung* rungs[] = {&wrong::rung("right"), &wrong::rung("counts")};
  std::vector<Contender> contenders = contenders_of(wrong::center(), rungs, sets, options);
  EXPECT_EQ(contenders[0].workspace, nullptr);
  ASSERT_NE(contenders[1].workspace, nullptr);
  const auto is_zero = [](const DeviceBuffer& buffer) {
    std::vector<std::byte> bytes(buffer.bytes());
    buffer.download(bytes);
    return std::ranges::all_of(bytes, [](std::byte b) { return b == std::byte{0}; });
  };
  EXPECT_TRUE(is_zero(*contenders[1].workspace));
  contenders[1].run(0);
  EXPECT_TRUE(is_zero(*contenders[1].workspace)) << "as the next call finds it";
}

TEST(Contenders, AreMeasuredByTheirMedian) {
  Contender contender;
  contender.times = {5, 1, 3, 9, 7};
  EXPECT_EQ(contender.median(), 5);
  contender.times = {7, 1, 2, 4};
  EXPECT_EQ(contender.median(), 3);
}

TEST_F(Loop, SustainedIsWindowsOfCallsThatTakeTurns) {
  options.mode = Mode::kSustained;
  options.windows = 2;
  options.window_milliseconds = 2;
  std::string order;
  std::vector<Contender> contenders;
  for (const char* name : {"a", "b"}) {
    contenders.push_back(contender(name, [&order, name](size_t) {
      if (!order.ends_with(name)) order += name;
    }));
  }
  contenders.push_back(contender("breaks", [](size_t) { throw Error("it broke"); }));
  run(contenders);
  // Each is warmed up first.
  EXPECT_EQ(order, "ababab");
  for (const Contender& c : std::span(contenders).first(2)) {
    EXPECT_THAT(c.times, SizeIs(2));
    EXPECT_GE(c.spent, 2 * 2000) << "both windows are at least as long as was asked for";
    EXPECT_THAT(c.times, Each(Lt(c.spent))) << "a call's, not the window's";
    EXPECT_GE(c.calls, 2);
  }
  EXPECT_EQ(contenders[2].reason, "it broke");
}

TEST_F(Loop, AWindowIsNoLongerThanWhatWasAskedFor) {
  options.mode = Mode::kSustained;
  options.windows = 1;
  options.window_milliseconds = 20;
  int64_t ran = 0;
  std::vector<Contender> contenders;
  contenders.push_back(contender("a millisecond", [&ran](size_t) {
    ++ran;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }));
  run(contenders);
  EXPECT_GE(contenders[0].spent, 20'000);
  // As a call never takes less, a twentieth more than fits at most.
  EXPECT_LE(contenders[0].calls, 21);
  EXPECT_GT(ran, contenders[0].calls) << "what warms up is not counted";
  EXPECT_DOUBLE_EQ(contenders[0].times.at(0),
                   contenders[0].spent / static_cast<double>(contenders[0].calls));
}

TEST_F(Loop, SustainedCallsTakeTheSetsInTurns) {
  TensorSets many(instance, size_t{1} << 30, Mode::kSustained);
  EXPECT_EQ(many.count(), 256U) << "what is small does not exceed the L2";
  EXPECT_EQ(many.bytes(), 256.0 * 2 * 4 * 64 * 4);
  const size_t bytes = size_t{2} * 4 * 64 * 4;
  EXPECT_EQ(TensorSets(instance, 10 * bytes, Mode::kSustained).count(), 42U) << "over 4 L2s";
  EXPECT_EQ(TensorSets(instance, 5 * bytes, Mode::kBurst).count(), 12U) << "over 2";
}

// A peer with three ways of computing a problem.
const Peer kThreeWays = {
    .name = "three_ways",
    .supports = [](const Problem&) { return Reason(); },
    .run = [](const Problem&, const Context&) {},
    .variants = [](const Problem&) { return 3; },
    .run_variant = [](const Problem&, const Context&, int) {},
};
std::span<const Peer> three_ways() { return {&kThreeWays, 1}; }

TEST_F(Loop, APeerOfOneWayHasNoVariants) {
  static Peer peer;
  static int ran;
  ran = 0;
  Operation with_peer = wrong::accumulate();
  with_peer.peers = [] { return std::span<const Peer>(&peer, 1); };
  const auto variants = [&] {
    return contenders_of(with_peer, {}, sets, options).at(0).variants.size();
  };
  peer = kThreeWays;
  EXPECT_EQ(variants(), 3U);
  peer.variants = [](const Problem&) { return 1; };
  EXPECT_EQ(variants(), 0U);
  peer.variants = nullptr;
  EXPECT_EQ(variants(), 0U);
  peer.run = [](const Problem&, const Context&) { ++ran; };
  std::vector<Contender> contenders = contenders_of(with_peer, {}, sets, options);
  run(contenders);
  EXPECT_EQ(ran, 1 + 3) << "it is its own way that is timed";
}

class Variants : public Loop {
 protected:
  Variants() {
    Operation with_peer = wrong::accumulate();
    with_peer.peers = three_ways;
    const Rung* rung = &wrong::rung("right_accumulate");
    contenders = contenders_of(with_peer, {&rung, 1}, sets, options);
  }
  // Gives each variant its time; they come in their own order.
  void choose(const std::vector<double>& times, const OutputCheck& compare) {
    choose_variants(
        contenders,
        [&](std::vector<Contender>& trials) {
          ++rounds;
          ASSERT_THAT(trials, SizeIs(times.size()));
          for (size_t i = 0; i < trials.size(); ++i) {
            EXPECT_EQ(trials[i].name, "three_ways");
            if (times[i] > 0) {
              trials[i].times = {times[i] + 1, times[i], times[i] - 1};
            } else {
              trials[i].fail(concatenate("variant ", i, " broke"));
            }
          }
        },
        compare);
  }

  std::vector<Contender> contenders;
  int rounds = 0;
};

TEST_F(Variants, OfAPeerTheFastestTakesPart) {
  ASSERT_THAT(contenders, SizeIs(2));
  EXPECT_EQ(contenders[0].role, Role::kRung);
  EXPECT_EQ(contenders[1].role, Role::kPeer);
  ASSERT_THAT(contenders[1].variants, SizeIs(3));
  choose({30, 20, 25}, [](Contender&) {});
  EXPECT_EQ(rounds, 1) << "rungs are not tuned here";
  EXPECT_EQ(contenders[0].variant, 0U);
  EXPECT_EQ(contenders[1].variant, 1U);
  EXPECT_EQ(contenders[1].verdict, Verdict::kPassed);
  EXPECT_THAT(contenders[1].times, SizeIs(0)) << "a look at it is no measurement";
}

TEST_F(Variants, OneThatIsWrongOrBreaksIsNone) {
  int compared = 0;
  choose({30, 20, 0}, [&](Contender& trial) {
    if (compared++ == 0) trial.fail("wrong");
  });
  EXPECT_EQ(compared, 2);
  EXPECT_EQ(contenders[1].variant, 0U);
  EXPECT_EQ(contenders[1].verdict, Verdict::kPassed);
}

TEST_F(Variants, WithoutARightOneThePeerFails) {
  choose({0, 0, 0}, [](Contender&) {});
  EXPECT_EQ(contenders[1].verdict, Verdict::kFailed);
  EXPECT_EQ(contenders[1].reason, "variant 0 broke");
}

TEST_F(Variants, TheChosenOneIsWhatRuns) {
  static std::vector<int> ran;
  ran.clear();
  Peer peer = kThreeWays;
  peer.run_variant = [](const Problem&, const Context&, int variant) { ran.push_back(variant); };
  Operation with_peer = wrong::accumulate();
  static Peer kept;
  kept = peer;
  with_peer.peers = [] { return std::span<const Peer>(&kept, 1); };
  contenders = contenders_of(with_peer, {}, sets, options);
  choose({30, 20, 10}, [](Contender&) {});
  run(contenders);
  EXPECT_THAT(ran, AllOf(SizeIs(4), Each(2)));
}

TEST(BenchOptions, OfALookAtVariantsAreBrief) {
  const BenchOptions few = brief({.mode = Mode::kSustained, .min_runs = 5});
  EXPECT_EQ(few.mode, Mode::kSustained) << "as the run that follows";
  EXPECT_EQ(few.min_runs, 5);
  EXPECT_LT(few.window_milliseconds, 1000);
}

BenchGroup measured() {
  BenchGroup group;
  group.family = "softmax";
  group.operation = "softmax";
  group.problem = "softmax f16 [2, 2]";
  group.cost = {.bytes = 1234567, .flops = 1, .at_most = true};
  group.measurements = {
      {.name = "softmax/a", .runs = 50, .median = 4.123456, .min = 1, .max = 3, .rate = 123456789},
      {.name = "softmax/b", .runs = 50, .median = 2, .rate = 1e9, .from = "softmax/a"},
      {.name = "softmax/c", .runs = 50, .median = 2, .from = "softmax/d", .deterministic = false},
      {.name = "cudnn", .role = Role::kPeer, .runs = 50, .median = 3, .min = 2, .max = 4},
      {.name = "softmax/d", .verdict = Verdict::kSkipped, .reason = "rows are too long"},
  };
  return group;
}

TEST(Report, RatiosAreToTheRungItGrewFromAndToThePeer) {
  const BenchGroup group = measured();
  EXPECT_DOUBLE_EQ(group.over_from(group.measurements[1]), 4.123456 / 2);
  EXPECT_EQ(group.over_from(group.measurements[0]), 0) << "the bottom of its ladder";
  EXPECT_EQ(group.over_from(group.measurements[2]), 0) << "that one was skipped";
  const Json json = to_json(group);
  EXPECT_EQ(json["at_most"], true);
  EXPECT_EQ(json["bytes"], 1234567);
  const Json& measurements = json["measurements"];
  EXPECT_EQ(measurements[1]["from"], "softmax/a");
  EXPECT_EQ(measurements[1]["over_from"], 2.062);
  EXPECT_EQ(measurements[1]["over_peer"], 1.5);
  EXPECT_FALSE(measurements[2].contains("over_from"));
  EXPECT_EQ(measurements[2]["deterministic"], false);
}

TEST(Report, SaysWhichVariantAndWhatWasTimed) {
  BenchGroup group = measured();
  Json json = to_json(group);
  EXPECT_EQ(json["mode"], "burst");
  EXPECT_FALSE(json["measurements"][3].contains("variant"));
  group.mode = Mode::kSustained;
  group.sets = 12;
  group.measurements[3].variant = 3;
  group.measurements[3].variants = 8;
  group.measurements[3].calls = 4711;
  json = to_json(group);
  EXPECT_EQ(json["mode"], "sustained");
  EXPECT_EQ(json["sets"], 12);
  EXPECT_EQ(json["measurements"][3]["name"], "cudnn") << "the same in every file";
  EXPECT_EQ(json["measurements"][3]["variant"], 3);
  EXPECT_EQ(json["measurements"][3]["variants"], 8);
  EXPECT_EQ(json["measurements"][3]["calls"], 4711);
  EXPECT_EQ(group.measurements[3].title(), "cudnn (3 of 8)");
  EXPECT_EQ(group.measurements[0].title(), "softmax/a");
  const auto options_of = [&](const BenchOptions& options) -> Json {
    return report(options, {&group, 1})["runs"][0]["options"];
  };
  const Json burst = options_of({.min_runs = 7, .min_milliseconds = 12, .warm_up = 2, .seed = 9});
  EXPECT_EQ(burst, (Json{{"mode", "burst"},
                         {"min_runs", 7},
                         {"min_milliseconds", 12},
                         {"flush", "reads 2x the L2 before each run"},
                         {"warm_up", 2},
                         {"seed", 9}}));
  const Json run = options_of({.mode = Mode::kSustained});
  EXPECT_EQ(run["mode"], "sustained");
  EXPECT_EQ(run["window_milliseconds"], 1000);
  EXPECT_FALSE(run.contains("min_runs"));
}

TEST(Report, HoldsWhatCompareReads) {
  const BenchGroup group = measured();
  const Json json = report({}, {&group, 1});
  EXPECT_EQ(json["tool"], "warpsmith");
  EXPECT_TRUE(json["device"].contains("name"));
  EXPECT_TRUE(json["runs"][0].contains("revision"));
  EXPECT_TRUE(json["runs"][0].contains("date"));
  EXPECT_EQ(json["results"][0]["run"], 0);
  const Json& measurements = json["results"][0]["measurements"];
  ASSERT_THAT(measurements, SizeIs(5));
  EXPECT_EQ(measurements[0]["runs"], 50);
  EXPECT_EQ(measurements[0]["median_us"], 4.123);
  EXPECT_EQ(measurements[0]["min_us"], 1);
  EXPECT_EQ(measurements[0]["max_us"], 3);
  EXPECT_EQ(measurements[0]["role"], "rung");
  EXPECT_EQ(measurements[3]["role"], "peer");
  EXPECT_FALSE(measurements[4].contains("median_us"));
  EXPECT_EQ(measurements[4]["reason"], "rows are too long");
}

TEST(Report, TextHasALineForEachMeasurementAndFourDigits) {
  const BenchGroup group = measured();
  const Json json = report({}, {&group, 1});
  const std::string text = report_text(json);
  EXPECT_EQ(Json::parse(text), json);
  EXPECT_THAT(text, AllOf(HasSubstr("\n   {\"name\":\"softmax/a\""),
                          HasSubstr("\"median_us\":4.123,"), HasSubstr("\"rate\":123500000,")));
}

TEST(Resources, OfRegistersAreAGpus) {
  KernelResources resources{};
  resources.shared_bytes = 256;
  EXPECT_FALSE(to_json(resources).contains("registers"));
  resources.registers = 32;
  resources.local_bytes = 16;
  resources.blocks_per_sm = 8;
  resources.occupancy = 0.5;
  const Json json = to_json(resources);
  EXPECT_EQ(json["shared_bytes"], 256);
  EXPECT_EQ(json["registers"], 32);
  EXPECT_EQ(json["local_bytes"], 16);
  EXPECT_EQ(json["blocks_per_sm"], 8);
  EXPECT_EQ(json["occupancy"], 0.5);
}

TEST(Resources, SeesLaunchesWithoutRunningThem) {
  const auto launches =
      resources_of(wrong::rung("right"), wrong::center(), {.extents = {16384, 4096}}, DType::kF32);
  ASSERT_THAT(launches, SizeIs(1));
  EXPECT_EQ(launches[0].grid.blocks, 16384);
  EXPECT_EQ(launches[0].grid.threads, 64);
  EXPECT_EQ(launches[0].shared_bytes, 256U);
  EXPECT_EQ(launches[0].registers, -1) << "the emulator has none";
}

}  // namespace
}  // namespace ws::harness
