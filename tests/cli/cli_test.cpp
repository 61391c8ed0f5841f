// Runs the program and looks at what it prints and returns.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pty.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <climits>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tests/program.hpp"

namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::Gt;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::IsSupersetOf;
using ::testing::Not;
using ::testing::StartsWith;
using Json = nlohmann::json;
using ws::tests::longest_line;
using ws::tests::Outcome;
using ws::tests::program;
using ws::tests::read_file;
using ws::tests::warpsmith;

TEST(Cli, HelpNamesTheVerbsAndExitCodes) {
  const Outcome help = warpsmith({"--help"});
  EXPECT_EQ(help.code, 0);
  for (const char* verb : {"list", "show", "verify", "bench", "ladder", "profile", "trace",
                           "resources", "compare", "doctor"}) {
    EXPECT_THAT(help.out, HasSubstr(verb));
  }
  EXPECT_THAT(help.out, HasSubstr("Exit codes: 0"));
}

TEST(Cli, MicrobenchRunsTheProbesNamed) {
  const Outcome two = warpsmith({"microbench", "shared_latency", "fma_rate", "--json"});
  EXPECT_EQ(two.code, 0) << two.err;
  const Json rows = Json::parse(two.out).at("microbench");
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_EQ(rows[0].at("name"), "shared_latency");
  EXPECT_EQ(rows[0].at("ran"), true);
  EXPECT_TRUE(rows[0].at("value").is_null());  // a clock in the emulator says nothing
  EXPECT_EQ(rows[1].at("known"), 128);
  const Outcome table = warpsmith({"microbench"});
  EXPECT_EQ(table.code, 0) << table.err;
  EXPECT_LE(longest_line(table.out), 100U);
  EXPECT_THAT(warpsmith({"microbench", "--list"}).out, HasSubstr("dram_read_rate"));
}

TEST(Cli, MicrobenchRefusesOtherNames) {
  const Outcome wrong = warpsmith({"microbench", "shared_latancy"});
  EXPECT_EQ(wrong.code, 2);
  EXPECT_THAT(wrong.err, HasSubstr("did you mean 'shared_latency'?"));
  const Outcome seed = warpsmith({"show", "memory_latency_and_bandwidth_microbenchmarks"});
  EXPECT_EQ(seed.code, 2);
  EXPECT_THAT(seed.err, HasSubstr("`warpsmith microbench` answers to it"));
}

TEST(Cli, BadUsageIsTwo) {
  EXPECT_EQ(warpsmith({}).code, 2);
  EXPECT_EQ(warpsmith({"frobnicate"}).code, 2);
  EXPECT_EQ(warpsmith({"show"}).code, 2);
  EXPECT_EQ(warpsmith({"verify", "--cases", "some"}).code, 2);
}

TEST(Cli, ListShowsFamiliesAndRungs) {
  const Outcome all = warpsmith({"list"});
  EXPECT_EQ(all.code, 0);
  EXPECT_THAT(all.out, AllOf(HasSubstr("elementwise:"), HasSubstr("softmax:"), HasSubstr("gemm:"),
                             HasSubstr("warp_per_row")));
  EXPECT_LE(longest_line(all.out), 100U);
  EXPECT_THAT(warpsmith({"list", "gemm"}).out, Not(HasSubstr("softmax:")));
}

TEST(Cli, ListJsonHasEverySeedOfTheFamilies) {
  const Outcome all = warpsmith({"list", "--json"});
  ASSERT_EQ(all.code, 0);
  const Json json = Json::parse(all.out);
  size_t seeds = 0;
  size_t reached = 0;
  for (const Json& family : json["families"]) {
    EXPECT_FALSE(family["operations"].empty());
    EXPECT_FALSE(family["rungs"].empty());
    for (const Json& seed : family["seeds"]) {
      ++seeds;
      if (!seed["rung"].is_null()) ++reached;
    }
  }
  EXPECT_GE(seeds, 52U + 27U + 56U);
  EXPECT_GE(reached, 52U + 20U);
}

TEST(Cli, VerifyTakesSeedNamesDTypesShapesAndAttributes) {
  const Outcome seed = warpsmith({"verify", "gelu_f16x8_pack", "--shape", "3x67", "--json"});
  EXPECT_EQ(seed.code, 0) << seed.err;
  const Json json = Json::parse(seed.out);
  EXPECT_EQ(json["failed"], 0);
  for (const Json& result : json["results"]) {
    EXPECT_EQ(result["dtype"], "f16");
    EXPECT_THAT(result["rung"].get<std::string>(), StartsWith("gelu/"));
    EXPECT_THAT(result["problem"].get<std::string>(), HasSubstr("[3, 67]"));
  }
  // Names that fix attributes too, and a library's, which the emulator does not have.
  const Outcome tf32 = warpsmith(
      {"verify", "sgemm_wmma_m16n16k8_mma4x2_warp2x4_stages", "--shape", "24x40x16", "--json"});
  EXPECT_EQ(tf32.code, 0) << tf32.err;
  const Json by_tf32 = Json::parse(tf32.out);
  EXPECT_EQ(by_tf32["skipped"], 0);
  ASSERT_EQ(by_tf32["results"].size(), 1U);
  EXPECT_EQ(by_tf32["results"][0]["rung"], "gemm/wmma_tf32");
  EXPECT_EQ(by_tf32["results"][0]["problem"], "gemm f32 [24, 16] x [16, 40] precision=tf32");
  const Outcome library = warpsmith(
      {"verify", "hgemm_cublas_tensor_op_tn", "--shape", "8x16x8", "--shape", "8x8x8", "--json"});
  EXPECT_EQ(library.code, 0) << library.err;
  const Json by_library = Json::parse(library.out);
  EXPECT_EQ(by_library["skipped"], 2);
  EXPECT_EQ(by_library["results"][0]["problem"], "gemm f16 [8, 8] x [16, 8] layout=nt");
  const Outcome elu = warpsmith({"verify", "elu/scalar", "--dtype", "f32", "--shape", "4x8",
                                 "--set", "alpha=0.25", "--order", "reverse", "-v"});
  EXPECT_EQ(elu.code, 0) << elu.err;
  EXPECT_THAT(elu.out, AllOf(HasSubstr("alpha=0.25"), HasSubstr("1 passed, 0 skipped, 0 failed")));
}

struct BadInput {
  std::vector<std::string> arguments;
  std::string message;
};

TEST(Cli, BadInputIsTwoAndNamesTheValues) {
  const std::vector<BadInput> inputs = {
      {{"verify", "softmx"}, "did you mean 'softmax'"},
      {{"show", "softmax/warp_per_rwo"}, "'softmax/warp_per_row'"},
      {{"show", "gemm"}, "naive"},
      {{"verify", "gemm", "--shape", "12"}, "shape 12 has 1 extent, gemm has 3: MxNxK"},
      {{"verify", "gemm", "--shape", "4xbx4"}, "'b' is not an extent"},
      {{"verify", "gelu", "--dtype", "f31"}, "unknown dtype 'f31'"},
      {{"verify", "gelu", "--set", "approximate=erf"}, "one of none, tanh, not 'erf'"},
      {{"verify", "elu", "--set", "beta=1"}, "no attribute 'beta': elu has alpha"},
      {{"verify", "elu", "--set", "alpha"}, "NAME=VALUE"},
      {{"verify", "elu", "--dtype", "i32"}, "nothing to verify"},
      {{"verify", "elu", "--order", "sideways"}, "forward, reverse or random"},
      {{"verify", "elu", "--device", "cuda"}, "this warpsmith is the emulated build"},
      {{"verify", "elu", "--device", "tpu"}, "'cuda' or 'emulator'"},
      {{"bench", "elu"}, "timings in the emulator mean nothing"},
      {{"ladder", "softmax/online"}, "not the rung softmax/online"},
      {{"profile", "softmax"}, "profile wants a rung such as softmax/online, not softmax"},
      {{"trace", "softmax"}, "trace wants a rung such as softmax/online, not softmax"},
      {{"trace", "softmax/online", "-o", "no/such/folder.json"}, "cannot write --output no/such"},
      {{"profile", "sum/divergent", "--dtype", "f16"}, "takes none of these dtypes"},
      {{"profile", "sum/divergent", "--resources", "no_such_file.json"},
       "cannot read no_such_file"},
      {{"compare", "no_such_file.json", "nor_this.json"}, "cannot read no_such_file.json"},
  };
  for (const BadInput& input : inputs) {
    const Outcome outcome = warpsmith(input.arguments);
    EXPECT_EQ(outcome.code, 2) << input.message;
    EXPECT_THAT(outcome.err, AllOf(StartsWith("warpsmith: "), HasSubstr(input.message)));
  }
}

// A product that overflows, one that wraps to little, and sizes that no memory holds: refused with
// the values, before anything runs.
TEST(Cli, SizesThatNoMemoryHoldsAreRefused) {
  const std::vector<std::pair<std::string, std::string>> shapes = {
      {"4294967296x4294967296", "[4294967296, 4294967296]"},
      {"4611686018427387904x4", "[4611686018427387904, 4]"},
      {"3037000500x3037000500", "[3037000500, 3037000500]"},
      {"1000000x1000000", "[1000000, 1000000]"},
  };
  for (const auto& [shape, values] : shapes) {
    const Outcome outcome = warpsmith({"verify", "add/scalar", "--shape", shape});
    EXPECT_EQ(outcome.code, 2) << shape << ": " << outcome.err;
    EXPECT_THAT(outcome.err, AllOf(StartsWith("warpsmith: "), HasSubstr(values)));
    EXPECT_THAT(outcome.out, IsEmpty());
    // Of several shapes too, the good one first.
    const Outcome second = warpsmith({"verify", "add/scalar", "--shape", "4x4," + shape});
    EXPECT_EQ(second.code, 2) << shape << ": " << second.err;
  }
  EXPECT_EQ(warpsmith({"verify", "add/scalar", "--shape", "99999999999999999999x1"}).code, 2);
}

// Of a family those operations that have such extents or attributes.
TEST(Cli, AShapeSaysWhichOperationsOfAFamily) {
  const auto operations = [](std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {"verify", "gemm", "--dtype", "f32", "--json"});
    const Outcome outcome = warpsmith(arguments);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    std::set<std::string> found;
    const Json json = Json::parse(outcome.out);
    for (const Json& result : json["results"]) {
      const auto rung = result["rung"].get<std::string>();
      found.insert(rung.substr(0, rung.find('/')));
    }
    return found;
  };
  EXPECT_THAT(operations({"--shape", "8x8x8"}), testing::ElementsAre("gemm"));
  EXPECT_THAT(operations({"--shape", "2x8x8x8"}), testing::ElementsAre("bmm"));
  EXPECT_THAT(operations({"--set", "layout=nt", "--cases", "smoke"}), testing::ElementsAre("gemm"));
  EXPECT_THAT(warpsmith({"verify", "gemm/naive", "bmm/batched_naive", "--shape", "8x8x8"}).err,
              HasSubstr("bmm has 5"));
}

TEST(Cli, VerifyTakesSeveralShapesSettingsAndAnOffset) {
  const Outcome outcome =
      warpsmith({"verify", "elu/scalar", "relu/scalar", "--dtype", "f32,f16", "--shape", "3x5,1x7",
                 "--offset", "1", "--seed", "9", "--json"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  const Json json = Json::parse(outcome.out);
  EXPECT_EQ(json["device"], "emulator");
  EXPECT_EQ(json["seed"], 9);
  EXPECT_EQ(json["results"].size(), 2U * 2U * 2U);
}

TEST(Cli, ShowTellsIdeaAndDifference) {
  const Outcome show = warpsmith({"show", "softmax/online"});
  EXPECT_EQ(show.code, 0) << show.err;
  EXPECT_THAT(show.out, AllOf(StartsWith("softmax/online: "), HasSubstr("Idea: "),
                              HasSubstr("kernels/softmax/"),
                              HasSubstr("what changed from softmax/safe"), HasSubstr("@@"),
                              HasSubstr("the dearest lines for softmax"), HasSubstr("\n^ 1. ")));
  EXPECT_LE(longest_line(show.out), 101U) << "a line of 100 and its mark";
  const Outcome seed = warpsmith({"show", "sgemm_naive_f32", "--json"});
  EXPECT_EQ(seed.code, 0) << seed.err;
  const Json json = Json::parse(seed.out);
  EXPECT_EQ(json["rung"], "gemm/naive");
  EXPECT_TRUE(json["from"].is_null());
  EXPECT_EQ(json["deterministic"], true);
  EXPECT_THAT(json["source"].get<std::string>(), StartsWith("// Idea:"));
  EXPECT_FALSE(json["resources"]["launches"].empty());
  EXPECT_EQ(json["worst"]["lines"][0]["file"], "kernels/gemm/01_naive.cuh");
  EXPECT_EQ(json["worst"]["lines"][0]["operation"], "ld.global");
}

TEST(Cli, ShowOfAnOperationNamesItsRungs) {
  const Outcome operation = warpsmith({"show", "merge_attn_states"});
  EXPECT_EQ(operation.code, 2);
  EXPECT_THAT(operation.err, AllOf(HasSubstr("show wants a rung, merge_attn_states has: merge_"),
                                   Not(HasSubstr("mma_split_q"))));
  EXPECT_THAT(warpsmith({"show", "attention"}).err, HasSubstr("mma_split_q"));
}

TEST(Cli, ShowTellsWhichLibraryANameIs) {
  const Outcome show = warpsmith({"show", "sgemm_cublas_tf32"});
  EXPECT_EQ(show.code, 0) << show.err;
  EXPECT_THAT(show.out, AllOf(StartsWith("gemm/cublasLt: "), HasSubstr("hgemm_mma_cublas")));
}

TEST(Cli, LadderCountsInTheEmulator) {
  for (const char* name : {"softmax", "gemm", "elementwise"}) {
    const Outcome ladder = warpsmith({"ladder", name});
    EXPECT_EQ(ladder.code, 0) << ladder.err;
    EXPECT_THAT(ladder.out, AllOf(HasSubstr("in the emulator"), HasSubstr("traffic"),
                                  HasSubstr("sectors"), HasSubstr("ways")));
    EXPECT_LE(longest_line(ladder.out), 100U) << ladder.out;
    EXPECT_THAT(ladder.err, IsEmpty()) << "progress is for terminals";
  }
  const Json json = Json::parse(warpsmith({"ladder", "relu", "--json"}).out);
  for (const Json& rung : json["results"]) EXPECT_THAT(rung["verdict"], Not("failed"));
}

// Why warp_per_row beats online, which moves as many bytes.
TEST(Cli, LadderTellsStridedFromCoalesced) {
  const Json json = Json::parse(
      warpsmith({"ladder", "softmax", "--shape", "64x256", "--dtype", "f32", "--json"}).out);
  const auto of = [&](const std::string& rung, const char* what) {
    for (const Json& result : json["results"]) {
      if (result["rung"] == "softmax/" + rung) return result["profile"][what].get<double>();
    }
    return -1.0;
  };
  EXPECT_EQ(of("online", "sectors_a_request"), 32.0);
  EXPECT_EQ(of("online", "ideal_sectors_a_request"), 4.0);
  EXPECT_EQ(of("warp_per_row", "sectors_a_request"), 4.0);
  EXPECT_EQ(of("block_per_row", "ways"), 1.0);
}

// The same for who only looks: a bar a rung, most of it waste where lanes are a row apart.
TEST(Cli, LadderDrawsABarARung) {
  const std::vector<std::string> ladder = {"ladder", "softmax", "--shape",
                                           "64x64",  "--dtype", "f32"};
  const std::string out = warpsmith(ladder).out;
  const auto bar_of = [&](const std::string& rung) {
    std::istringstream lines(out.substr(out.find("clocks of one SM")));
    for (std::string line; std::getline(lines, line);) {
      if (line.starts_with(rung + " ")) return line;
    }
    return std::string();
  };
  const auto count = [](const std::string& line, const std::string& cell) {
    size_t cells = 0;
    for (size_t at = line.find(cell); at != std::string::npos; at = line.find(cell, at + 1)) {
      ++cells;
    }
    return cells;
  };
  const std::string online = bar_of("online");
  const std::string warp_per_row = bar_of("warp_per_row");
  EXPECT_GT(count(online, "░"), 6 * count(online, "█")) << out;
  EXPECT_EQ(count(warp_per_row, "░"), 0U);
  EXPECT_GT(count(warp_per_row, "█"), 0U);
  EXPECT_LT(count(warp_per_row, "█"), count(online, "█") + count(online, "░"));
  EXPECT_THAT(out, Not(HasSubstr("\033["))) << "colours are for terminals";
  EXPECT_THAT(warpsmith({"ladder", "relu", "--shape", "2x8", "--json"}).out, Not(HasSubstr("█")));
}

// What `warpsmith ARGUMENTS...` prints on a terminal of so many columns.
std::string on_a_terminal(std::vector<std::string> arguments, int columns, bool no_color) {
  winsize size{};
  size.ws_col = static_cast<unsigned short>(columns);
  int terminal = -1;
  const std::string name = program();
  const pid_t pid = forkpty(&terminal, nullptr, nullptr, &size);
  if (pid == 0) {
    if (no_color) {
      setenv("NO_COLOR", "1", 1);
    } else {
      unsetenv("NO_COLOR");
    }
    arguments.insert(arguments.begin(), name);
    std::vector<char*> argv;
    for (std::string& argument : arguments) argv.push_back(argument.data());
    argv.push_back(nullptr);
    execv(name.c_str(), argv.data());
    _exit(127);
  }
  std::string out;
  std::array<char, 4096> buffer;
  for (ssize_t n = 0; (n = read(terminal, buffer.data(), buffer.size())) > 0;) {
    out.append(buffer.data(), static_cast<size_t>(n));
  }
  close(terminal);
  waitpid(pid, nullptr, 0);
  return out;
}

TEST(Cli, BarsAreAsWideAsTheTerminal) {
  const auto chart = [](int columns, bool no_color) {
    const std::string out = on_a_terminal({"ladder", "relu", "--shape", "2x8"}, columns, no_color);
    const size_t at = out.find("clocks of one SM");
    return at == std::string::npos ? std::string() : out.substr(out.find('\n', at) + 1);
  };
  const std::string plain = chart(140, true);
  EXPECT_EQ(longest_line(plain), 140U + 1U) << "and a carriage return";
  EXPECT_THAT(plain, Not(HasSubstr("\033[3")));
  EXPECT_THAT(chart(140, false), HasSubstr("\033[3"));
  EXPECT_EQ(chart(30, true), "") << "no room for a bar";
}

TEST(Cli, TablesAreAsWideAsTheTerminal) {
  const auto widest = [](int columns) {
    return longest_line(on_a_terminal({"list", "gemm"}, columns, true)) - 1;  // a carriage return
  };
  EXPECT_LE(widest(80), 80U);
  EXPECT_GT(widest(160), 100U);
  EXPECT_LE(widest(160), 160U);
}

TEST(Cli, ALongRunSaysHowLongItWillTake) {
  const std::vector<std::string> arguments = {"verify", "sum",     "--shape",
                                              "100000", "--dtype", "f32"};
  EXPECT_THAT(on_a_terminal(arguments, 120, true), HasSubstr(" to go"));
}

TEST(Cli, ShowDrawsWhatAWarpAsksFor) {
  const std::string online = warpsmith({"show", "softmax/online"}).out;
  EXPECT_THAT(online, AllOf(HasSubstr("32 sectors of 32 bytes for 128 bytes"),
                            HasSubstr("+0  █░░░░░░░ ········ ········ ········  lane 0\n"),
                            HasSubstr("... 26 rows more"), HasSubstr("lane 31\n")));
  const std::string warp_per_row = warpsmith({"show", "softmax/warp_per_row"}).out;
  EXPECT_THAT(warp_per_row,
              AllOf(HasSubstr("4 sectors of 32 bytes for 128 bytes"),
                    HasSubstr("+0  ████████ ████████ ████████ ████████  lanes 0-31\n"),
                    HasSubstr("of softmax/online, which it grew from")));
  const std::string register_tile = warpsmith({"show", "gemm/register_tile"}).out;
  EXPECT_THAT(register_tile, AllOf(HasSubstr("take 4 passes over the 32 banks"),
                                   HasSubstr("pass 4  █ · · · · · · · █")));
  const Json json = Json::parse(
      warpsmith({"profile", "softmax/online", "--shape", "64x256", "--dtype", "f32", "--json"})
          .out);
  const Json& access = json["lines"][0]["access"];
  EXPECT_EQ(access["memory"], "global");
  EXPECT_EQ(access["bytes"], 4);
  EXPECT_EQ(access["offsets"].size(), 32U);
  EXPECT_EQ(access["offsets"][31], 31 * 1024);
}

TEST(Cli, TraceWritesTheChromeFormat) {
  const std::filesystem::path path =
      std::filesystem::temp_directory_path() / (std::to_string(getpid()) + "trace.json");
  const auto trace = [&](std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), "trace");
    arguments.insert(arguments.end(), {"-o", path.string()});
    const Outcome outcome = warpsmith(arguments);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_THAT(outcome.out, HasSubstr("the emulator's order, not time"));
    std::ifstream file(path);
    return std::pair(outcome.out, Json::parse(file));
  };
  const auto [out, json] = trace({"gemm/warp_specialized", "--shape", "128x256x1024"});
  EXPECT_THAT(out, HasSubstr("2 of 4 blocks"));
  EXPECT_THAT(json["otherData"]["clock"], HasSubstr("not time"));
  EXPECT_EQ(json["otherData"]["rung"], "gemm/warp_specialized");
  std::map<std::string, int> phases;
  std::map<int64_t, int64_t> in_flight;
  std::map<std::string, std::set<int64_t>> values;  // of the arguments that are numbers
  for (const Json& event : json["traceEvents"]) {
    const std::string phase = event["ph"];
    ++phases[phase];
    if (phase == "b") in_flight[event["id"]] = event["ts"];
    if (phase == "e") {
      EXPECT_GE(event["ts"], in_flight.at(event["id"]));
      EXPECT_FALSE(event.contains("args")) << "as its begin has them";
      continue;
    }
    for (const auto& [key, value] : event["args"].items()) {
      if (value.is_number_integer()) values[key].insert(value.get<int64_t>());
    }
    if (event["name"] == "process_name") {
      EXPECT_THAT(event["args"]["name"], HasSubstr("not time"));
    }
    if (phase == "b") {
      EXPECT_THAT(event["args"]["place"], StartsWith("kernels/gemm/"));
    }
  }
  EXPECT_THAT(values["phase"], IsSupersetOf({0, 1}));
  EXPECT_THAT(values["pending"], IsSupersetOf({0, 1}));
  EXPECT_THAT(values["products"], Each(Gt(0)));
  EXPECT_FALSE(values["products"].empty());
  // 16 steps: two copies, and a group of products of each of two warpgroups; and the stores of C.
  EXPECT_GE(phases["b"], 64);
  EXPECT_EQ(phases["b"], phases["e"]);
  EXPECT_GT(phases["X"], 500);

  EXPECT_THAT(trace({"gemm/mma_pipeline", "--events", "10"}).first,
              HasSubstr("events left out after the first 10"));
  EXPECT_THAT(trace({"sum/divergent", "--blocks", "3", "--order", "random"}).first,
              HasSubstr(" of "));
  std::filesystem::remove(path);
}

TEST(Cli, ProfileTellsLineByLine) {
  for (const char* name : {"softmax/online", "gemm/warp_specialized", "sum/whole_warps",
                           "layer_norm_backward/backward_in_registers", "gelu/pack"}) {
    const Outcome profile = warpsmith({"profile", name});
    EXPECT_EQ(profile.code, 0) << profile.err;
    EXPECT_THAT(profile.out, AllOf(StartsWith("rung, in the emulator"), HasSubstr(name),
                                   HasSubstr("an SM of Hopper holds"), HasSubstr("cost")));
    EXPECT_LE(longest_line(profile.out), 100U) << profile.out;
  }
  const Outcome online =
      warpsmith({"profile", "softmax/online", "--shape", "64x256", "--dtype", "f32"});
  EXPECT_THAT(online.out,
              AllOf(HasSubstr("03_online.cuh:"), HasSubstr("thread::store(y + i"),
                    HasSubstr("32.0 sectors a request where 4.0 would do: lanes are 1024 bytes")));
  const Outcome whole = warpsmith({"profile", "sum/whole_warps", "--shape", "20000", "--json"});
  const Json json = Json::parse(whole.out);
  EXPECT_EQ(json["launches"].size(), 2U);
  EXPECT_EQ(json["launches"][0]["limits"]["by_threads"], 8);
  // As an H200 counts: results/h200/profile.
  EXPECT_EQ(json["requests"], 708);
  EXPECT_EQ(json["sectors"], 2590);
  EXPECT_GT(json["ways"], 2.0);
  EXPECT_EQ(json["lines"][0]["operation"], "ld.shared");
  EXPECT_FALSE(json["lines"][0]["file"].get<std::string>().empty());
}

TEST(Cli, ProfileTakesRegistersFromResources) {
  const std::filesystem::path path =
      std::filesystem::temp_directory_path() / (std::to_string(getpid()) + "resources.json");
  const Json launch = {{"registers", 100}};
  const Json result = {
      {"rung", "softmax/online"}, {"dtype", "f32"}, {"launches", Json::array({launch})}};
  std::ofstream(path) << Json{{"results", Json::array({result})}};
  const Outcome profile = warpsmith({"profile", "softmax/online", "--dtype", "f32", "--shape",
                                     "64x256", "--resources", path.string()});
  EXPECT_EQ(profile.code, 0) << profile.err;
  EXPECT_THAT(profile.out, HasSubstr("4 by registers: 25 %"));
  std::filesystem::remove(path);
}

TEST(Cli, ResourcesListsLaunches) {
  const Outcome text = warpsmith({"resources", "softmax", "--dtype", "f16"});
  EXPECT_EQ(text.code, 0) << text.err;
  EXPECT_THAT(text.out, AllOf(StartsWith("softmax f16 [262144, 256] bounded=true\nrung "),
                              HasSubstr("\nwarp_per_row "), HasSubstr("shared memory\n"),
                              Not(HasSubstr("occupancy\n"))));
  const Json json = Json::parse(warpsmith({"resources", "relu", "--json"}).out);
  EXPECT_GE(json["results"].size(), 3U);
  EXPECT_GE(json["results"][0]["launches"][0]["threads"].get<int>(), 1);
}

// A result file of one rung on one problem, as `bench` writes it.
std::string result_file(const char* name, double median) {
  const std::filesystem::path path =
      std::filesystem::temp_directory_path() / (std::to_string(getpid()) + name);
  const Json measurement = {
      {"name", "softmax/naive"}, {"role", "rung"},   {"verdict", "passed"}, {"runs", 50},
      {"median_us", median},     {"min_us", median}, {"max_us", median},    {"rate", 1e9},
      {"of_ceiling", 0.9}};
  const Json group = {{"run", 0},
                      {"family", "softmax"},
                      {"operation", "softmax"},
                      {"problem", "softmax f16 [2, 2]"},
                      {"dtype", "f16"},
                      {"bytes", 16},
                      {"flops", 8},
                      {"bound", "memory"},
                      {"ceiling", 2e9},
                      {"ceiling_name", "copy"},
                      {"measurements", Json::array({measurement})}};
  std::ofstream(path) << Json{{"device", {{"name", "NVIDIA H200"}}},
                              {"runs", {{{"revision", "abc"}, {"date", "2026-11-22T00:00:00Z"}}}},
                              {"results", Json::array({group})}};
  return path.string();
}

TEST(Cli, CompareHoldsTwoResultsSideBySide) {
  const std::string before = result_file("before.json", 20);
  const std::string after = result_file("after.json", 10);
  const Outcome text = warpsmith({"compare", before, after});
  EXPECT_EQ(text.code, 0) << text.err;
  EXPECT_THAT(text.out, AllOf(HasSubstr("softmax f16 [2, 2]"), HasSubstr("2.000"),
                              HasSubstr("NVIDIA H200, 2026-11-22, abc")));
  const Json json = Json::parse(warpsmith({"compare", before, after, "--json"}).out);
  EXPECT_EQ(json["results"][0]["speedup"], 2.0);
  std::ofstream(after) << "[]";
  const Outcome broken = warpsmith({"compare", before, after});
  EXPECT_EQ(broken.code, 2);
  EXPECT_THAT(broken.err, HasSubstr("is no result file"));
  std::filesystem::remove(before);
  std::filesystem::remove(after);
}

TEST(Cli, ReportAndPlotWriteWhatResultsHave) {
  const std::string before = result_file("report_before.json", 20);
  const std::string after = result_file("report_after.json", 10);
  const std::string page = after + ".html";
  const Outcome report = warpsmith({"report", "--results", after, "--against", before, "-o", page});
  EXPECT_EQ(report.code, 0) << report.err;
  EXPECT_THAT(report.out, AllOf(HasSubstr("1 problem of NVIDIA H200"), HasSubstr(" KB")));
  EXPECT_THAT(read_file(page),
              AllOf(StartsWith("<!DOCTYPE html>"), HasSubstr("data-ratio=\"2\""),
                    HasSubstr("id=\"rung-softmax-naive\""), HasSubstr("sectors a request")));
  const Outcome plot = warpsmith({"plot", "ladder", "--results", after});
  EXPECT_EQ(plot.code, 0) << plot.err;
  EXPECT_THAT(plot.out, AllOf(StartsWith("<svg"), HasSubstr("data-us=\"10\"")));
  std::filesystem::remove(before);
  std::filesystem::remove(after);
  std::filesystem::remove(page);
}

TEST(Cli, ReportSaysWhatIsWrong) {
  const std::string file = result_file("report_wrong.json", 20);
  const std::string page = file + ".html";
  const auto refused = [&](std::vector<std::string> arguments, const char* why) {
    arguments.insert(arguments.end(), {"-o", page});
    const Outcome outcome = warpsmith(std::move(arguments));
    EXPECT_EQ(outcome.code, 2);
    EXPECT_THAT(outcome.err, HasSubstr(why));
    EXPECT_FALSE(std::filesystem::exists(page));
  };
  refused({"report", "softmaks"}, "did you mean 'softmax'");
  refused({"report", "gemm", "--results", file}, "has nothing of gemm; it has softmax");
  refused({"report", "--results", file + ".not"}, "cannot read");
  refused({"report", "--results", file, "--against", program()}, "is no JSON");
  refused({"report", "--results", file, "--dtype", "bf16"}, "no problem with these names");
  refused({"report", "--results", file, "--shape", "2x2"}, "--shape and --set choose what runs");
  refused({"plot", "pie"}, "KIND");
  refused({"plot", "lines"}, "lines are a rung's");
  refused({"plot", "lines", "softmax"}, "profile wants a rung such as softmax/online");
  refused({"plot", "changes", "--results", file}, "name the other one");
  const Outcome unwritable = warpsmith({"report", "--results", file, "-o", "/nowhere/x.html"});
  EXPECT_EQ(unwritable.code, 2);
  EXPECT_THAT(unwritable.err, HasSubstr("cannot write --output /nowhere/x.html"));
  std::filesystem::remove(file);
}

TEST(Cli, DoctorTellsWhatIsMissing) {
  const Json catalogue = Json::parse(warpsmith({"list", "--json"}).out);
  const std::string families = std::to_string(catalogue["families"].size()) + " families";
  const Outcome text = warpsmith({"doctor"});
  EXPECT_EQ(text.code, 0);
  EXPECT_THAT(text.out, AllOf(HasSubstr("emulated"), HasSubstr("nvcc"), HasSubstr("cuBLASLt"),
                              HasSubstr(families)));
  EXPECT_THAT(text.out, HasSubstr("shared memory a block              232448 bytes"));
  const Json findings = Json::parse(warpsmith({"doctor", "--json"}).out)["findings"];
  EXPECT_GE(findings.size(), 6U);
  const auto gpu =
      std::ranges::find(findings, Json("GPU"), [](const Json& f) { return f["what"]; });
  ASSERT_NE(gpu, findings.end());
  EXPECT_EQ((*gpu)["device"]["registers an SM"], 65536);
}

}  // namespace
