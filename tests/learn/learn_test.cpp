// The exercises: as given each fails for the reason that it is about, its solution passes; and what
// `warpsmith learn` keeps of a user's work.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "catalogue/catalogue.hpp"
#include "harness/embedded.hpp"
#include "harness/selection.hpp"
#include "tests/program.hpp"

namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;
using Json = nlohmann::json;
using ws::tests::longest_line;
using ws::tests::Outcome;
using ws::tests::warpsmith;
namespace fs = std::filesystem;

// ---- The exercises -----------------------------------------------------------------------------

std::vector<std::string> names() {
  std::vector<std::string> found;
  for (const ws::EmbeddedFile& file : ws::embedded_files()) {
    const fs::path path(file.path);
    if (file.path.starts_with("learn/") && path.filename() == "check.cu") {
      found.push_back(path.parent_path().filename());
    }
  }
  std::ranges::sort(found);
  return found;
}

std::string text_of(const std::string& name, const char* file) {
  const std::string path = "learn/" + name + "/" + file;
  for (const ws::EmbeddedFile& embedded : ws::embedded_files()) {
    if (embedded.path == path) return std::string(embedded.text);
  }
  ADD_FAILURE() << path << " is missing";
  return {};
}

// "a|b": one of them.
std::vector<std::string> alternatives(const std::string& text) {
  std::vector<std::string> parts;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, '|');) parts.push_back(part);
  return parts;
}

// A folder of exercises for one test.
class Folder {
 public:
  Folder() : path_(fs::temp_directory_path() / ("warpsmith-learn-" + std::to_string(getpid()))) {
    fs::remove_all(path_);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  ~Folder() { fs::remove_all(path_); }

  Outcome learn(std::vector<std::string> arguments) const {
    arguments.insert(arguments.begin(), "learn");
    arguments.insert(arguments.end(), {"--dir", path_.string()});
    return warpsmith(arguments);
  }
  Json learn_json(std::vector<std::string> arguments) const {
    arguments.emplace_back("--json");
    return Json::parse(learn(arguments).out);
  }
  fs::path source(const std::string& name) const { return path_ / name / "exercise.cu"; }
  void write(const std::string& name, const std::string& text) const {
    std::ofstream(source(name)) << text;
  }
  std::string read(const fs::path& path) const { return ws::tests::read_file(path_ / path); }
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

// Checks build programs, which are linked with the library of this build: not where that asks for
// AddressSanitizer's.
#ifdef __SANITIZE_ADDRESS__
constexpr bool kChecks = false;
#else
constexpr bool kChecks = true;
#endif

class EachExercise : public ::testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Learn, EachExercise, ::testing::ValuesIn(names()),
                         [](const auto& each) { return each.param; });

TEST_P(EachExercise, FailsAsGivenForTheReasonThatItIsAbout) {
  if (!kChecks) GTEST_SKIP();
  const Folder folder;
  ASSERT_EQ(folder.learn({"start", GetParam()}).code, 0);
  const Json verdict = folder.learn_json({"check"});
  const Json as_given = Json::parse(text_of(GetParam(), "exercise.json"))["as_given"];
  ASSERT_EQ(as_given.size(), 1U);
  const std::string kind = as_given.begin().key();
  const std::vector<std::string> expected = alternatives(as_given.begin().value());
  EXPECT_EQ(verdict["kind"], kind) << verdict["text"];
  const std::string what = verdict["what"];
  const std::string text = verdict["text"];
  EXPECT_TRUE(std::ranges::any_of(expected,
                                  [&](const std::string& one) {
                                    return kind == "wrong" ? text.find(one) != text.npos
                                                           : what == one;
                                  }))
      << what << ": " << text;
  EXPECT_FALSE(folder.learn_json({})["current"]["solved"]);
}

TEST_P(EachExercise, IsSolvedByItsSolution) {
  if (!kChecks) GTEST_SKIP();
  const Folder folder;
  ASSERT_EQ(folder.learn({"start", GetParam()}).code, 0);
  folder.write(GetParam(), text_of(GetParam(), "solution.cu"));
  const Outcome check = folder.learn({"check"});
  EXPECT_EQ(check.code, 0) << check.out << check.err;
  EXPECT_THAT(check.out, AllOf(HasSubstr("solved"), HasSubstr("In earnest: ")));
  // The folder's name is the test's.
  EXPECT_LE(longest_line(check.out), 100U + folder.path().string().size()) << check.out;
}

TEST_P(EachExercise, IsTold) {
  const std::string text = text_of(GetParam(), "README.md");
  EXPECT_THAT(text, StartsWith("# "));
  EXPECT_LE(std::ranges::count(text, '\n'), 45) << "at most a page";
  EXPECT_THAT(text, AllOf(HasSubstr("\n**Task.** "), HasSubstr("\n**The check** ")));
  // The rung that shows it is one.
  std::smatch match;
  ASSERT_TRUE(std::regex_search(text, match, std::regex("\nIn earnest: `warpsmith show (.*?)`")));
  const ws::Address address = ws::harness::address_of(match[1].str());
  EXPECT_NE(address.rung, nullptr) << match[1];
  // An exercise that is called as a family is: that family's.
  for (const ws::Family* family : ws::families()) {
    if (GetParam().find(family->name) == std::string::npos) continue;
    EXPECT_EQ(address.family->name, family->name) << match[1];
  }
  const Json json = Json::parse(text_of(GetParam(), "exercise.json"));
  EXPECT_GE(json["hints"].size(), 2U);
  EXPECT_NE(text_of(GetParam(), "exercise.cu"), text_of(GetParam(), "solution.cu"));
}

TEST(Learn, ExercisesAreNumberedFromOne) {
  const std::vector<std::string> all = names();
  EXPECT_GE(all.size(), 32U);
  for (size_t i = 0; i < all.size(); ++i) EXPECT_EQ(std::stoul(all[i]), i + 1) << all[i];
}

// ---- What is kept of a user's work -------------------------------------------------------------

TEST(Learn, WalksFromOneExerciseToTheNext) {
  if (!kChecks) GTEST_SKIP();
  const Folder folder;
  EXPECT_THAT(folder.learn({}).out, HasSubstr("warpsmith learn start"));
  const Outcome start = folder.learn({"start"});
  EXPECT_EQ(start.code, 0) << start.err;
  EXPECT_THAT(start.out, HasSubstr("# A thread an element"));
  EXPECT_EQ(folder.read("01_axpy/README.md"), text_of("01_axpy", "README.md"));

  const Outcome unsolved = folder.learn({"check"});
  EXPECT_EQ(unsolved.code, 1) << unsolved.err;
  EXPECT_THAT(unsolved.out, HasSubstr("not solved yet; `warpsmith learn hint --dir "));
  folder.write("01_axpy", text_of("01_axpy", "solution.cu"));
  const Outcome solved = folder.learn({"check"});
  EXPECT_EQ(solved.code, 0) << solved.out;
  EXPECT_THAT(solved.out, HasSubstr("` starts 2 of "));
  EXPECT_THAT(folder.learn({}).out, StartsWith("1 of "));

  EXPECT_EQ(folder.learn_json({"next"})["name"], "02_tail");
  const Json status = folder.learn_json({});
  EXPECT_EQ(status["solved"], 1);
  EXPECT_EQ(status["current"]["name"], "02_tail");
  const Json list = folder.learn_json({"list"});
  EXPECT_EQ(list["exercises"].size(), names().size());
  EXPECT_TRUE(list["exercises"][0]["solved"]);
  EXPECT_TRUE(list["exercises"][1]["started"]);
  EXPECT_FALSE(list["exercises"][2]["started"]);
  const Outcome table = folder.learn({"list"});
  EXPECT_THAT(table.out, AllOf(HasSubstr("solved"), HasSubstr("flash_attention")));
  EXPECT_LE(longest_line(table.out), 100U);
}

TEST(Learn, NextSkipsWhatIsSolved) {
  const Folder folder;
  ASSERT_EQ(folder.learn({"start", "1"}).code, 0);
  EXPECT_EQ(folder.learn_json({"next"})["name"], "02_tail");
  // As if 3 were solved.
  Json state = Json::parse(folder.read("state.json"));
  state["exercises"]["03_grid_stride"]["solved"] = true;
  std::ofstream(folder.path() / "state.json") << state;
  EXPECT_EQ(folder.learn_json({"next"})["name"], "04_two_dimensions");
  for (const std::string& name : names()) state["exercises"][name]["solved"] = true;
  std::ofstream(folder.path() / "state.json") << state;
  EXPECT_THAT(folder.learn({"next"}).out, HasSubstr("are solved"));
}

TEST(Learn, NeverOverwritesWork) {
  const Folder folder;
  ASSERT_EQ(folder.learn({"start", "tail"}).code, 0);
  folder.write("02_tail", "// mine\n");
  for (const std::vector<std::string>& arguments :
       {std::vector<std::string>{"start", "2"}, {"start"}, {"solution"}, {"hint"}, {"check"}}) {
    folder.learn(arguments);
    EXPECT_EQ(folder.read("02_tail/exercise.cu"), "// mine\n") << arguments[0];
  }
  EXPECT_THAT(folder.learn({"start"}).out, HasSubstr("is there already, as you left it"));
}

TEST(Learn, HintsComeOneAtATime) {
  const Folder folder;
  ASSERT_EQ(folder.learn({"start", "5"}).code, 0);
  const Json hints = Json::parse(text_of("05_coalesced", "exercise.json"))["hints"];
  for (size_t i = 0; i < hints.size(); ++i) {
    const Json hint = folder.learn_json({"hint"});
    EXPECT_EQ(hint["hint"], i + 1);
    EXPECT_EQ(hint["text"], hints[i]);
  }
  EXPECT_THAT(folder.learn({"hint"}).out, HasSubstr("that is the last one"));
  const Outcome solution = folder.learn({"solution"});
  EXPECT_EQ(solution.code, 0);
  EXPECT_THAT(solution.out, AllOf(HasSubstr(text_of("05_coalesced", "solution.cu")),
                                  HasSubstr("\n@@ "), HasSubstr("In earnest: ")));
}

TEST(Learn, RightButSlowNamesTheLine) {
  if (!kChecks) GTEST_SKIP();
  const Folder folder;
  ASSERT_EQ(folder.learn({"start", "5"}).code, 0);
  const Outcome check = folder.learn({"check"});
  EXPECT_EQ(check.code, 1) << check.out << check.err;
  EXPECT_THAT(check.out, AllOf(HasSubstr("right, but 8 times the sectors"),
                               HasSubstr("exercise.cu:7: y[i] = a * x[i];"),
                               HasSubstr("32.0 sectors a request where 4.0 would do: lanes are 64 "
                                         "bytes apart")));
}

TEST(Learn, WhatDoesNotCompileIsToldWithItsLine) {
  if (!kChecks) GTEST_SKIP();
  const Folder folder;
  ASSERT_EQ(folder.learn({"start"}).code, 0);
  folder.write("01_axpy", "\n__global__ void axpy_kernel( {\n");
  const Outcome check = folder.learn({"check"});
  EXPECT_EQ(check.code, 1);
  EXPECT_THAT(check.out, AllOf(HasSubstr("it does not compile"), HasSubstr("exercise.cu:2")));
}

TEST(Learn, WatchEndsWhenItIsSolved) {
  if (!kChecks) GTEST_SKIP();
  const Folder folder;
  ASSERT_EQ(folder.learn({"start"}).code, 0);
  folder.write("01_axpy", text_of("01_axpy", "solution.cu"));
  EXPECT_EQ(folder.learn({"check", "--watch"}).code, 0);
}

TEST(Learn, BadUsageIsTwo) {
  const Folder folder;
  for (const char* verb : {"check", "hint", "solution"}) {
    const Outcome early = folder.learn({verb});
    EXPECT_EQ(early.code, 2) << verb;
    EXPECT_THAT(early.err, HasSubstr("warpsmith learn start")) << verb;
  }
  EXPECT_FALSE(fs::exists(folder.path())) << "nothing is written before `start`";
  for (const char* name : {"0", "99", "999999999999", "nothing"}) {
    const Outcome unknown = folder.learn({"start", name});
    EXPECT_EQ(unknown.code, 2) << name;
    EXPECT_THAT(unknown.err, HasSubstr("there is no exercise")) << name;
  }
  EXPECT_EQ(folder.learn({"frobnicate"}).code, 2);
  ASSERT_EQ(folder.learn({"start"}).code, 0);
  EXPECT_EQ(folder.learn({"check", "7"}).code, 2) << "not started";
  for (const char* broken : {"", "[]", "{\"current\": 3}", "{\"current\": \"x\"}"}) {
    std::ofstream(folder.path() / "state.json") << broken;
    const Outcome outcome = folder.learn({});
    EXPECT_EQ(outcome.code, 2) << broken;
    EXPECT_THAT(outcome.err, HasSubstr("state.json")) << broken;
  }
}

}  // namespace
