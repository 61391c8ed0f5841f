// Result files that somebody has broken: what reads them says what is wrong, or compares.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "harness/fields.hpp"
#include "harness/readable.hpp"
#include "report/plots.hpp"
#include "report/results.hpp"
#include "tests/fuzz/fuzz.hpp"
#include "tests/program.hpp"

namespace ws {
namespace {

using fuzz::Chance;
using harness::Json;

Json measurement(const std::string& name, const std::string& role, double median) {
  return {{"name", name},        {"role", role},        {"verdict", "passed"}, {"runs", 50},
          {"median_us", median}, {"min_us", median},    {"max_us", median},    {"rate", 1e9},
          {"of_ceiling", 0.9},   {"over_peer", nullptr}};
}

Json group(const std::string& problem, double median) {
  return {{"run", 0},
          {"family", "softmax"},
          {"operation", "softmax"},
          {"problem", problem},
          {"dtype", "f16"},
          {"mode", "burst"},
          {"bytes", 16},
          {"flops", 8},
          {"bound", "memory"},
          {"ceiling", 2e9},
          {"ceiling_name", "copy"},
          {"measurements", Json::array({measurement("softmax/naive", "rung", median),
                                        measurement("cudnn", "peer", 2 * median),
                                        measurement("copy", "copy", 3 * median)})}};
}

// As bench writes it, and as the emulator's ladder does.
Json measured() {
  return {{"tool", "warpsmith"},
          {"format", 2},
          {"device", {{"name", "NVIDIA H200"}}},
          {"runs", {{{"revision", "abc"}, {"date", "2026-11-22T00:00:00Z"}}}},
          {"results", Json::array({group("softmax f16 [2, 2]", 20),
                                   group("softmax f16 [3, 3] bounded=true", 30)})}};
}

Json counted() {
  const Json profile = {{"requests", 8},
                        {"sectors", 32},
                        {"sectors_a_request", 4.0},
                        {"ideal_sectors_a_request", 4.0},
                        {"ways", 1.0},
                        {"cost", 64}};
  const Json entry = {
      {"rung", "softmax/naive"},
      {"problem", "softmax f16 [2, 2]"},
      {"dtype", "f16"},
      {"verdict", "passed"},
      {"error", 1e-4},
      {"counts",
       {{"barriers", 0}, {"global_load_bytes", 8}, {"global_store_bytes", 8}, {"async_bytes", 0}}},
      {"bytes", 16},
      {"flops", 8},
      {"profile", profile}};
  return {{"device", "emulator"}, {"results", Json::array({entry})}};
}

Json nasty_value(Chance& chance) {
  switch (chance.between(0, 7)) {
    case 0: return nullptr;
    case 1: return -1;
    case 2: return chance.of<double>({0, -0.0, 1e308, 5e-324, -1e308, 0.5});
    case 3: return INT64_MIN;
    case 4: return UINT64_MAX;
    case 5: return Json::array();
    case 6: return Json::object();
    // A file is UTF-8 where it is JSON at all.
    default: return harness::readable(chance.of(fuzz::nasty_texts())) + "\x1b\n";
  }
}

// Changes one value, somewhere.
void break_somewhere(Chance& chance, Json& json) {
  if (!json.is_structured() || json.empty() || chance.one_in(6)) {
    json = nasty_value(chance);
    return;
  }
  auto at = json.begin();
  std::advance(at, chance.between(0, static_cast<int64_t>(json.size()) - 1));
  if (chance.one_in(8)) {
    json.erase(at);
  } else if (json.is_array() && chance.one_in(4)) {
    json.push_back(Json(*at));  // repeated
  } else {
    break_somewhere(chance, *at);
  }
}

Json broken(Chance& chance) {
  Json json = chance.one_in(3) ? counted() : measured();
  for (int64_t i = chance.between(0, 3); i > 0; --i) break_somewhere(chance, json);
  return json;
}

// What readers make of two files; "" where they are content.
std::string told(const Json& before, const Json& after) {
  try {
    const report::Results a = report::read(before, "a.json");
    const report::Results b = report::read(after, "b.json");
    const size_t of_a = changes(a, a).size();
    const size_t of_b = changes(b, b).size();
    const size_t common = changes(a, b).size();
    EXPECT_LE(common, std::min(of_a, of_b)) << "what is only in one of them is a negative number";
    for (const char* kind : {"ladder", "roofline", "changes"}) report::plot(kind, a, {}, &b);
    return {};
  } catch (const InvalidArgument& error) {
    return error.what();
  }
}

TEST(Fuzz, ResultsOfTheWrongForm) {
  const uint64_t seed = fuzz::seed_of_environment();
  ASSERT_EQ(told(measured(), measured()), "");
  ASSERT_EQ(told(counted(), counted()), "");
  fuzz::repeat_for(fuzz::seconds_of_environment(4), [&](uint64_t number) {
    Chance chance(seed, number);
    const Json before = broken(chance);
    const Json after = broken(chance);
    EXPECT_EQ(fuzz::fault_of_message(told(before, after)), "")
        << "WARPSMITH_FUZZ_SEED=" << seed << ", case " << number << "\n"
        << before << "\n"
        << after;
  });
}

// Bytes that are changed, cut off or put in.
std::string damaged(Chance& chance, std::string text) {
  for (int64_t i = chance.between(1, 4); i > 0 && !text.empty(); --i) {
    const auto at = static_cast<size_t>(chance.between(0, static_cast<int64_t>(text.size()) - 1));
    switch (chance.between(0, 3)) {
      case 0: text[at] = static_cast<char>(chance.between(0, 255)); break;
      case 1: text.resize(at); break;
      case 2: text.insert(at, chance.of(fuzz::nasty_texts())); break;
      default: text.erase(at, static_cast<size_t>(chance.between(1, 20))); break;
    }
  }
  return text;
}

TEST(Fuzz, FilesOfDamagedBytes) {
  const uint64_t seed = fuzz::seed_of_environment();
  const std::filesystem::path path =
      std::filesystem::temp_directory_path() / ("warpsmith_damaged_" + std::to_string(getpid()));
  fuzz::repeat_for(fuzz::seconds_of_environment(3), [&](uint64_t number) {
    Chance chance(seed, number);
    std::ofstream(path, std::ios::binary) << damaged(chance, measured().dump());
    std::vector<std::string> arguments = {"compare", path, path};
    if (chance.one_in(3)) arguments = {"plot", "ladder", "--results", path};
    const tests::Outcome outcome = tests::warpsmith(arguments);
    EXPECT_TRUE(outcome.code == 0 || outcome.code == 2) << outcome.code;
    EXPECT_EQ(fuzz::fault_of_message(outcome.err), "")
        << "WARPSMITH_FUZZ_SEED=" << seed << ", case " << number << "\n"
        << outcome.err;
  });
  std::filesystem::remove(path);
}

}  // namespace
}  // namespace ws
