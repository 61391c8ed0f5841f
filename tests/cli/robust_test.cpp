// What somebody may give the program by mistake: it says so in a line, at once, and goes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "harness/readable.hpp"
#include "tests/fuzz/fuzz.hpp"
#include "tests/program.hpp"

namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;
using Json = nlohmann::ordered_json;
using ws::tests::Outcome;
using ws::tests::warpsmith;

// Bad usage, told in a line that a terminal can show.
void expect_refused(const std::vector<std::string>& arguments, const std::string& message) {
  const Outcome outcome = warpsmith(arguments);
  EXPECT_EQ(outcome.code, 2) << message;
  EXPECT_THAT(outcome.err, AllOf(StartsWith("warpsmith: "), HasSubstr(message)));
  EXPECT_EQ(ws::fuzz::fault_of_message(outcome.err), "") << outcome.err;
  EXPECT_THAT(outcome.out, IsEmpty());
}

// The program with something said to the shell about it.
Outcome in_shell(const std::string& line) {
  return ws::tests::outcome_of({"/bin/sh", "-c", line, ws::tests::program()});
}

TEST(Robust, WhatIsNoVerbOrOptionIsNamed) {
  expect_refused({"frobnicate"}, "there is no verb 'frobnicate'");
  expect_refused({"verfy", "elu"}, "there is no verb 'verfy'; did you mean 'verify'?");
  expect_refused({"--nope"}, "there is no option --nope");
  expect_refused({"verify", "--nope"}, "--nope");
  expect_refused({}, "required");
  const Outcome version = warpsmith({"--version"});
  EXPECT_EQ(version.code, 0);
  EXPECT_THAT(version.out, AllOf(StartsWith("warpsmith 0."), HasSubstr("the emulated build")));
}

TEST(Robust, NumbersAreWhatTheyMayBe) {
  for (const char* seed : {"-1", "", "18446744073709551616", "1.5", "x", "0x10"}) {
    expect_refused({"verify", "elu/scalar", "--cases", "smoke", "--seed", seed},
                   "is no whole number from 0 to 18446744073709551615");
  }
  EXPECT_EQ(
      warpsmith({"verify", "elu/scalar", "--cases", "smoke", "--seed", "18446744073709551615"})
          .code,
      0);
  expect_refused({"profile", "softmax/online", "--lines", "0"},
                 "'0' is no whole number from 1 to 1000000");
  expect_refused({"trace", "softmax/online", "--blocks", "0"}, "is no whole number from 1 to ");
  expect_refused({"run", "x.cu", "--time", "0"}, "'0' is no number above 0");
  expect_refused({"try", "x.cu", "softmax", "--time", "nan"}, "'nan' is no number above 0");
  expect_refused({"verify", "elu", "--shape", "2x2", "--offset", "2147483647"}, "from 0 to 4096");
}

TEST(Robust, AFullDiskIsNoSuccess) {
  for (const char* verb : {"list", "doctor", "--version", "--help", "show softmax/online --json"}) {
    const Outcome full = in_shell(std::string("\"$0\" ") + verb + " > /dev/full");
    EXPECT_EQ(full.code, 1) << verb;
    EXPECT_THAT(full.err, HasSubstr("No space left on device")) << verb;
  }
}

TEST(Robust, TheEmulatorsEnvironmentIsTheUsersToMend) {
  for (const char* text : {"nonsense", "seed=-1", "workers=0", "workers=99999999999", "off=dust"}) {
    const Outcome outcome =
        in_shell("WARPSMITH_EMULATOR=" + std::string(text) + " \"$0\" ladder relu --shape 2x8");
    EXPECT_EQ(outcome.code, 2) << text;
    EXPECT_THAT(outcome.err, AllOf(StartsWith("warpsmith: WARPSMITH_EMULATOR"), HasSubstr(text)));
  }
}

TEST(Robust, NothingToShowIsAnError) {
  expect_refused({"ladder", "gemm", "--dtype", "i64"}, "no rung of gemm takes these dtypes");
  expect_refused({"resources", "gemm/realigned", "--shape", "8x8x8", "--dtype", "f32"},
                 "no launch to tell of");
}

// Of the first names in a row the fault of a later one is told before anything runs.
TEST(Robust, AnAttributeThatOnlyASiblingHasIsRefusedAtOnce) {
  const auto start = std::chrono::steady_clock::now();
  expect_refused({"report", "gelu", "gemm", "elu", "--set", "approximate=tanh", "-o", "never.html"},
                 "no attribute 'approximate'");
  expect_refused({"ladder", "elementwise", "--set", "approximate=tanh"},
                 "no attribute 'approximate': add has alpha");
  expect_refused({"try", ws::tests::program(), "elu", "--set", "approximate=tanh"},
                 "no attribute 'approximate'");
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(15));
}

TEST(Robust, WhatCannotBeHeldOrWouldNotEndIsRefusedWithTheEstimate) {
  const std::string huge = "300000x300000";
  for (const char* verb : {"verify", "ladder", "profile", "trace", "resources"}) {
    const std::string name = verb == std::string("ladder") ? "softmax" : "softmax/online";
    const Outcome memory = warpsmith({verb, name, "--shape", huge});
    EXPECT_EQ(memory.code, 2) << verb;
    EXPECT_THAT(memory.err, AllOf(HasSubstr("[300000, 300000]"), HasSubstr("GB of the host's"),
                                  HasSubstr("--memory sets another")))
        << verb;
    EXPECT_EQ(ws::fuzz::fault_of_message(memory.err), "") << memory.err;
  }
  for (const char* verb : {"verify", "ladder", "profile", "trace"}) {
    const std::string name = verb == std::string("ladder") ? "gemm" : "gemm/naive";
    const Outcome time = warpsmith({verb, name, "--shape", "9000x9000x9000", "--time", "60"});
    EXPECT_EQ(time.code, 2) << verb;
    EXPECT_THAT(time.err, AllOf(HasSubstr("takes about"), HasSubstr("the limit is 60 s"),
                                HasSubstr("--time sets another")))
        << verb << time.err;
  }
  expect_refused({"verify", "--cases", "bench"}, "sets another");  // memory, or time
  expect_refused(
      {"verify", "add/scalar", "--shape", "6000x6000", "--dtype", "f32", "--memory", "0.01"},
      "the limit is 0.01 GB");
  expect_refused({"verify", "add/scalar", "--shape", "200x200", "--time", "0.0001"},
                 "the limit is 0 s");
  EXPECT_EQ(warpsmith({"verify", "add/scalar", "--shape", "20x20", "--time", "5"}).code, 0);
}

TEST(Robust, ALongNameTakesNoTimeAndAShortMessage) {
  const std::string name(120000, 'a');
  const auto start = std::chrono::steady_clock::now();
  const Outcome outcome = warpsmith({"verify", name + "/b"});
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(3));
  EXPECT_EQ(outcome.code, 2);
  EXPECT_LT(outcome.err.size(), 400U);
  EXPECT_THAT(outcome.err, HasSubstr("bytes more"));
  expect_refused({"verify", "so\033[31mft\nmax"}, "'so\\x1b[31mft\\x0amax'");
}

TEST(Robust, AMessageKeepsWhatATerminalCanShow) {
  using ws::harness::readable;
  EXPECT_EQ(readable("gr\u00fcn \u2588 'a b'\n  rung: x"), "gr\u00fcn \u2588 'a b'\n  rung: x");
  EXPECT_EQ(readable("\U0001f680 \u0800 \u00a0"), "\U0001f680 \u0800 \u00a0") << "the shortest";
  EXPECT_EQ(readable("\U00010000\U0010ffff"), "\U00010000\U0010ffff") << "the longest";
  EXPECT_EQ(readable("\xf0\x9f\x9a"), "\\xf0\\x9f\\x9a");
  EXPECT_EQ(readable("a\nb\tc\033\177"), "a\\x0ab\\x09c\\x1b\\x7f");
  EXPECT_EQ(readable("\xff\xc3("), "\\xff\\xc3(");
  EXPECT_EQ(readable("\xc2\x9b"
                     "31m"),
            "\\xc2\\x9b"
            "31m")
      << "a control character of UTF-8";
  EXPECT_EQ(readable("\xed\xa0\x80 \xc0\x80 \xf4\x90\x80\x80"),
            "\\xed\\xa0\\x80 \\xc0\\x80 \\xf4\\x90\\x80\\x80");
  EXPECT_EQ(readable("a " + std::string(201, 'b') + " c"),
            "a " + std::string(80, 'b') + "...(121 bytes more) c");
  EXPECT_EQ(readable(std::string(200, 'b')), std::string(200, 'b'));
  EXPECT_EQ(readable(""), "");
}

// ---- Result files -------------------------------------------------------------------------------

// A file that goes with the test.
class File {
 public:
  explicit File(const std::string& text) {
    static int number = 0;
    path_ = std::filesystem::temp_directory_path() /
            ("warpsmith_" + std::to_string(getpid()) + "_" + std::to_string(number++) + ".json");
    std::ofstream(path_, std::ios::binary) << text;
  }
  explicit File(const Json& json) : File(json.dump()) {}
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  ~File() { std::filesystem::remove(path_); }
  std::string path() const { return path_; }

 private:
  std::filesystem::path path_;
};

Json results_of(const std::string& problem, const std::string& name = "softmax/online") {
  const Json measurement = {{"name", name},    {"role", "rung"},   {"verdict", "passed"},
                            {"median_us", 20}, {"min_us", 19},     {"max_us", 21},
                            {"rate", 1e9},     {"of_ceiling", 0.9}};
  const Json group = {{"run", 0},
                      {"family", "softmax"},
                      {"operation", "softmax"},
                      {"problem", problem},
                      {"dtype", "f16"},
                      {"bytes", 16},
                      {"flops", 8},
                      {"bound", "memory"},
                      {"ceiling", 2e9},
                      {"ceiling_name", "copy"},
                      {"measurements", Json::array({measurement})}};
  return {{"tool", "warpsmith"},
          {"format", 2},
          {"device", {{"name", "NVIDIA H200"}}},
          {"runs", {{{"revision", "abc"}, {"date", "2026-11-22T00:00:00Z"}}}},
          {"results", Json::array({group})}};
}

Json compared(const Json& before, const Json& after) {
  const File a(before);
  const File b(after);
  const Outcome outcome = warpsmith({"compare", a.path(), b.path(), "--json"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  return Json::parse(outcome.out);
}

// bounded=true promises something of the inputs and changes nothing of what comes out; another dim
// does, and so does another shape.
TEST(Robust, ProblemsAreComparedByWhatTheyAre) {
  const std::string plain = "softmax f16 [2, 2]";
  const Json listed = results_of(plain + " bounded=true");
  const Json same = compared(listed, results_of(plain));
  EXPECT_EQ(same["results"].size(), 1U);
  EXPECT_EQ(same["results"][0]["after_problem"], plain);
  EXPECT_EQ(same["only_before"], 0);
  EXPECT_EQ(compared(listed, results_of("softmax f16 [2, 3]"))["results"].size(), 0U);
  const Json scaled = results_of(plain + " scale=0.5");  // of no attribute of softmax: text alone
  EXPECT_EQ(compared(scaled, results_of(plain))["results"].size(), 0U);
  // With both at hand each goes to its own.
  Json both = results_of(plain);
  both["results"].push_back(listed["results"][0]);
  const Json one = compared(both, listed);
  EXPECT_EQ(one["results"].size(), 1U);
  EXPECT_EQ(one["results"][0]["problem"], plain + " bounded=true");
  EXPECT_EQ(one["only_before"], 1);
}

TEST(Robust, WhatIsRepeatedCountsOnce) {
  Json twice = results_of("softmax f16 [2, 2]");
  twice["results"].push_back(twice["results"][0]);
  Json& measurements = twice["results"][0]["measurements"];
  measurements.push_back(measurements[0]);
  for (const auto& [a, b] : {std::pair(twice, results_of("softmax f16 [2, 2]")),
                             std::pair(results_of("softmax f16 [2, 2]"), twice)}) {
    const Json result = compared(a, b);
    EXPECT_EQ(result["results"].size(), 1U);
    EXPECT_EQ(result["only_before"], 0);
    EXPECT_EQ(result["only_after"], 0);
  }
}

TEST(Robust, AFileThatIsNoResultSaysWhereAndWhat) {
  const File good(results_of("softmax f16 [2, 2]"));
  const auto refused = [&](const auto& content, const std::string& message) {
    const File bad(content);
    expect_refused({"compare", good.path(), bad.path()}, message);
  };
  const auto changed = [&](const char* pointer, const Json& value) {
    Json json = results_of("softmax f16 [2, 2]");
    json[Json::json_pointer(pointer)] = value;
    return json;
  };
  refused(changed("/results/0/run", -1),
          "results[0]: 'run' is -1, not a whole number from 0 to 18446744073709551615");
  refused(changed("/results/0/run", 5), "results[0]: 'run' is 5, and there are 1 runs");
  refused(changed("/results", nullptr), "'results' is null, not a list");
  refused(changed("/results/0/measurements/0/median_us", "fast"),
          "results[0]: measurements[0]: 'median_us' is \"fast\", not a number");
  refused(changed("/results/0/measurements/0/median_us", -5), "'median_us' is -5, not 0 or more");
  refused(changed("/format", 3), "its format is 3, this program reads 2");
  refused(changed("/tool", "other"), "it is of 'other'");
  refused(Json(nullptr), "null, not an object");
  refused(std::string("{"), "is no JSON: parse error at line 1");
  expect_refused({"compare", good.path(), "/proc/self/mem"}, "cannot read /proc/self/mem");
  refused(std::string("\x1b[31m"), "is no JSON");
  refused(std::string("{\"a\": \"\xff\"}"), "is no JSON");
  expect_refused({"compare", good.path(), "/tmp"}, "cannot read /tmp: it is a directory");
  expect_refused({"compare", good.path(), "no\nsuch\033file"}, "cannot read no\\x0asuch\\x1bfile");
}

TEST(Robust, WhatAFileSaysDoesNotSteerTheTerminal) {
  Json json = results_of("softmax f16 [2, 2]", "softmax/\033[31mred\007");
  json["device"]["name"] = "\033]0;title\007";
  const File a(json);
  const Outcome outcome = warpsmith({"compare", a.path(), a.path()});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("softmax/\\x1b[31mred"), Not(HasSubstr("\033"))));
}

}  // namespace
