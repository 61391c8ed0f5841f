// Runs the program and looks at what it prints and returns.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;
using Json = nlohmann::json;

struct Outcome {
  int code = -1;
  std::string out;
  std::string err;
};

std::string read_file(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

// The program lies beside this test.
std::string program() {
  return (std::filesystem::read_symlink("/proc/self/exe").parent_path() / "warpsmith").string();
}

// Calls program ARGUMENTS... with both outputs in files.
Outcome warpsmith(std::vector<std::string> arguments) {
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / ("warpsmith_cli_" + std::to_string(getpid()));
  std::filesystem::create_directories(folder);
  const std::string out = folder / "out";
  const std::string err = folder / "err";
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  constexpr int kFlags = O_WRONLY | O_CREAT | O_TRUNC;
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, out.c_str(), kFlags, 0600);
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, err.c_str(), kFlags, 0600);
  arguments.insert(arguments.begin(), program());
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  pid_t pid = 0;
  Outcome outcome;
  if (posix_spawn(&pid, argv[0], &actions, nullptr, argv.data(), environ) == 0) {
    int status = 0;
    waitpid(pid, &status, 0);
    outcome.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128;
  }
  posix_spawn_file_actions_destroy(&actions);
  outcome.out = read_file(out);
  outcome.err = read_file(err);
  std::filesystem::remove_all(folder);
  return outcome;
}

size_t longest_line(const std::string& text) {
  size_t longest = 0;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) longest = std::max(longest, line.size());
  return longest;
}

TEST(Cli, HelpNamesTheVerbsAndExitCodes) {
  const Outcome help = warpsmith({"--help"});
  EXPECT_EQ(help.code, 0);
  for (const char* verb :
       {"list", "show", "verify", "bench", "ladder", "resources", "compare", "doctor"}) {
    EXPECT_THAT(help.out, HasSubstr(verb));
  }
  EXPECT_THAT(help.out, HasSubstr("Exit codes: 0"));
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
      {{"verify", "hgemm_sliced_k_f16"}, "is a gemm kernel of the public collections that no rung"},
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
                              HasSubstr("what changed from softmax/safe"), HasSubstr("@@")));
  const Outcome seed = warpsmith({"show", "sgemm_naive_f32", "--json"});
  EXPECT_EQ(seed.code, 0) << seed.err;
  const Json json = Json::parse(seed.out);
  EXPECT_EQ(json["rung"], "gemm/naive");
  EXPECT_TRUE(json["from"].is_null());
  EXPECT_EQ(json["deterministic"], true);
  EXPECT_THAT(json["source"].get<std::string>(), StartsWith("// Idea:"));
  EXPECT_FALSE(json["resources"]["launches"].empty());
}

TEST(Cli, LadderCountsInTheEmulator) {
  for (const char* name : {"softmax", "gemm", "elementwise"}) {
    const Outcome ladder = warpsmith({"ladder", name});
    EXPECT_EQ(ladder.code, 0) << ladder.err;
    EXPECT_THAT(ladder.out, AllOf(HasSubstr("in the emulator"), HasSubstr("traffic")));
    EXPECT_LE(longest_line(ladder.out), 100U) << ladder.out;
    EXPECT_THAT(ladder.err, IsEmpty()) << "progress is for terminals";
  }
  const Json json = Json::parse(warpsmith({"ladder", "relu", "--json"}).out);
  for (const Json& rung : json["results"]) EXPECT_THAT(rung["verdict"], Not("failed"));
}

TEST(Cli, ResourcesListsLaunches) {
  const Outcome text = warpsmith({"resources", "softmax", "--dtype", "f16"});
  EXPECT_EQ(text.code, 0) << text.err;
  EXPECT_THAT(text.out, HasSubstr("softmax/warp_per_row"));
  const Json json = Json::parse(warpsmith({"resources", "relu", "--json"}).out);
  EXPECT_GE(json["results"].size(), 3U);
  EXPECT_GE(json["results"][0]["launches"][0]["threads"].get<int>(), 1);
}

TEST(Cli, CompareHoldsTwoResultsSideBySide) {
  const std::filesystem::path folder = std::filesystem::temp_directory_path();
  const auto write = [&](const char* name, double median) {
    const std::filesystem::path path = folder / (std::to_string(getpid()) + name);
    const Json measurement = {{"name", "softmax/a"}, {"median_us", median}, {"of_ceiling", 0.9}};
    const Json group = {{"problem", "softmax f16 [2, 2]"},
                        {"measurements", Json::array({measurement})}};
    std::ofstream(path) << Json{{"device", {{"name", "NVIDIA H200"}}},
                                {"runs", {{{"revision", "abc"}, {"date", "today"}}}},
                                {"results", Json::array({group})}};
    return path.string();
  };
  const std::string before = write("before.json", 20);
  const std::string after = write("after.json", 10);
  const Outcome text = warpsmith({"compare", before, after});
  EXPECT_EQ(text.code, 0) << text.err;
  EXPECT_THAT(text.out, AllOf(HasSubstr("softmax f16 [2, 2]"), HasSubstr("2.000")));
  const Json json = Json::parse(warpsmith({"compare", before, after, "--json"}).out);
  EXPECT_EQ(json["results"][0]["speedup"], 2.0);
  std::ofstream(after) << "[]";
  const Outcome broken = warpsmith({"compare", before, after});
  EXPECT_EQ(broken.code, 2);
  EXPECT_THAT(broken.err, HasSubstr("is no result file"));
  std::filesystem::remove(before);
  std::filesystem::remove(after);
}

TEST(Cli, DoctorTellsWhatIsMissing) {
  const Json catalogue = Json::parse(warpsmith({"list", "--json"}).out);
  const std::string families = std::to_string(catalogue["families"].size()) + " families";
  const Outcome text = warpsmith({"doctor"});
  EXPECT_EQ(text.code, 0);
  EXPECT_THAT(text.out, AllOf(HasSubstr("emulated"), HasSubstr("nvcc"), HasSubstr("cuBLASLt"),
                              HasSubstr(families)));
  EXPECT_GE(Json::parse(warpsmith({"doctor", "--json"}).out)["findings"].size(), 6U);
}

}  // namespace
