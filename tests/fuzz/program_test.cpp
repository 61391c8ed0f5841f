// Random arguments for the program: it says what is wrong, and returns.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "tests/fuzz/fuzz.hpp"
#include "tests/program.hpp"

namespace {

using Json = nlohmann::ordered_json;
using ws::fuzz::Chance;
using ws::tests::Outcome;
using ws::tests::warpsmith;

constexpr const char* kNames = "NAMES";  // instead of an option: what the catalogue has

struct Verb {
  std::string name;
  std::vector<std::string> options;
  bool runs = false;  // takes --time
};

const std::vector<Verb>& verbs() {
  static const std::vector<std::string> kProblem = {"--dtype", "--shape",  "--set",
                                                    "--seed",  "--offset", kNames};
  const auto with = [](std::vector<std::string> more) {
    more.insert(more.end(), kProblem.begin(), kProblem.end());
    return more;
  };
  static const std::vector<Verb> kVerbs = {
      {"list", {"--json", kNames}},
      {"show", {"--json", kNames}},
      {"verify",
       with({"--cases", "--problem", "--order", "--verbose", "--json", "--memory", "--device"}),
       true},
      {"bench",
       with({"--runs", "--problem", "--windows", "--sustained", "--milliseconds", "--best"}), true},
      {"ladder", with({"--json", "--order"}), true},
      {"profile", with({"--json", "--lines", "--resources"}), true},
      {"trace", with({"--blocks", "--events", "--output"}), true},
      {"resources", with({"--json", "--memory"}), true},
      {"compare", {"--json", kNames, kNames}},
      {"report", with({"--results", "--against", "--output", "--no-counts"}), true},
      {"plot", with({"--problem", "--results"}), true},
      {"learn", {"list", "--json", "--dir"}},
      {"try", {"--template", kNames}},
      {"doctor", {"--json"}},
      {"frobnicate", {"--json"}},
      {"--version", {}},
      {"--nope", {}},
  };
  return kVerbs;
}

// Families, operations, rungs, seed names, and a few that are none of them.
const std::vector<std::string>& names() {
  static const auto kNamesOfAll = [] {
    std::vector<std::string> all = {"softmx", "naive", "gemm/cublasLt"};
    const Json catalogue = Json::parse(warpsmith({"list", "--json"}).out);
    for (const Json& family : catalogue["families"]) {
      all.push_back(family["name"]);
      for (const Json& operation : family["operations"]) {
        all.push_back(operation["name"]);
        for (const Json& rung : family["rungs"]) {
          all.push_back(operation["name"].get<std::string>() + "/" +
                        rung["name"].get<std::string>());
        }
      }
    }
    return all;
  }();
  return kNamesOfAll;
}

std::string plausible(Chance& chance, const std::string& option) {
  if (option == "--dtype") return chance.of<std::string>({"f32", "f16", "bf16", "i64", "f16,f32"});
  if (option == "--cases") return "smoke";
  if (option == "--order") return chance.of<std::string>({"forward", "reverse", "random"});
  if (option == "--device") return chance.of<std::string>({"emulator", "cuda"});
  if (option == "--set") {
    return chance.of<std::string>({"alpha=0.5", "bounded=true", "layout=nt", "k=1", "dim=0"});
  }
  if (option == "--shape") {
    std::string shape;
    for (int64_t rank = chance.between(1, 5); rank > 0; --rank) {
      shape += (shape.empty() ? "" : "x") + std::to_string(chance.between(0, 9));
    }
    return shape;
  }
  if (option == "--output" || option == "--dir") return "written";
  return std::to_string(chance.between(0, 9));
}

std::vector<std::string> arguments_of(Chance& chance) {
  const Verb& verb = chance.of(verbs());
  std::vector<std::string> arguments = {verb.name};
  bool has_name = false;
  for (int64_t count = chance.between(0, 4); count > 0 && !verb.options.empty(); --count) {
    const std::string& option = chance.of(verb.options);
    const bool is_nasty = chance.one_in(3);
    if (option == kNames) {
      arguments.push_back(is_nasty ? chance.of(ws::fuzz::nasty_texts()) : chance.of(names()));
      has_name = true;
      continue;
    }
    arguments.push_back(option);
    if (option == "--json" || option == "list" || chance.one_in(20)) continue;
    arguments.push_back(is_nasty ? chance.of(ws::fuzz::nasty_texts()) : plausible(chance, option));
  }
  if (!has_name && !chance.one_in(4)) arguments.push_back(chance.of(names()));
  if (verb.runs) arguments.insert(arguments.begin() + 1, {"--time", "0.05"});
  return arguments;
}

std::string joined(const std::vector<std::string>& arguments) {
  std::string text;
  for (const std::string& argument : arguments) text += " '" + argument.substr(0, 100) + "'";
  return text;
}

std::string fault_of(const std::vector<std::string>& arguments, const Outcome& outcome) {
  if (outcome.code < 0 || outcome.code > 2) return "it ended by a signal";
  std::string told = ws::fuzz::fault_of_message(outcome.err);
  if (!told.empty()) return told;
  if (outcome.code == 2 && !outcome.err.starts_with("warpsmith: ")) return "it says nothing";
  if (outcome.code == 0 && !outcome.err.empty()) return "it complains, and is content";
  for (const char c : outcome.out) {
    if (static_cast<unsigned char>(c) < 0x20 && c != '\n' && c != '\t') {
      return "it prints control characters";
    }
  }
  const bool as_json = std::ranges::find(arguments, "--json") != arguments.end();
  const bool is_help = std::ranges::find(arguments, "--help") != arguments.end();
  if (as_json && !is_help && outcome.code == 0 && !Json::accept(outcome.out)) {
    return "what it prints is no JSON";
  }
  return {};
}

// The program with limits: a loop without end becomes a signal, and memory without end an error.
// Addresses that a sanitizer reserves are no memory; but it writes an eighth of what is allocated,
// so that `resources` of all rungs, which touches nothing of its gigabytes, takes minutes.
Outcome limited(const std::vector<std::string>& arguments) {
#ifdef __SANITIZE_ADDRESS__
  const std::string limits = "ulimit -t 600";
#else
  const std::string limits = "ulimit -t 60; ulimit -v 8000000";
#endif
  std::vector<std::string> words = {"/bin/sh", "-c", limits + "; exec \"$0\" \"$@\"",
                                    ws::tests::program()};
  words.insert(words.end(), arguments.begin(), arguments.end());
  return ws::tests::outcome_of(std::move(words));
}

// Where what is written without a name lies, and is thrown away.
class Folder {
 public:
  Folder() : before_(std::filesystem::current_path()) {
    path_ = std::filesystem::temp_directory_path() / ("warpsmith_fuzz_" + std::to_string(getpid()));
    std::filesystem::create_directories(path_);
    std::filesystem::current_path(path_);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  ~Folder() {
    std::filesystem::current_path(before_);
    std::filesystem::remove_all(path_);
  }

 private:
  std::filesystem::path before_;
  std::filesystem::path path_;
};

TEST(Fuzz, Program) {
  const Folder folder;
  const uint64_t seed = ws::fuzz::seed_of_environment();
  ASSERT_GT(names().size(), 100U);
  ws::fuzz::repeat_for(ws::fuzz::seconds_of_environment(12), [&](uint64_t number) {
    Chance chance(seed, number);
    const std::vector<std::string> arguments = arguments_of(chance);
    const Outcome outcome = limited(arguments);
    const std::string fault = fault_of(arguments, outcome);
    EXPECT_EQ(fault, "") << "WARPSMITH_FUZZ_SEED=" << seed << ", case " << number << ": warpsmith"
                         << joined(arguments) << "\nreturns " << outcome.code << " and says\n"
                         << outcome.err.substr(0, 2000);
  });
}

}  // namespace
