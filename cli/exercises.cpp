#include "cli/exercises.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "harness/embedded.hpp"
#include "harness/sources.hpp"

namespace ws::cli {
namespace {

constexpr std::string_view kFolder = "learn/";

std::optional<double> bound(const Json& limit, const char* name) {
  return limit.contains(name) ? std::optional(limit[name].get<double>()) : std::nullopt;
}

Exercise read_exercise(const std::string& name) {
  const std::string folder = fmt::format("{}{}/", kFolder, name);
  Exercise exercise;
  exercise.number = std::stoi(name);
  exercise.name = name;
  exercise.text = harness::text_of(folder + "README.md");
  exercise.source = harness::text_of(folder + "exercise.cu");
  exercise.solution = harness::text_of(folder + "solution.cu");
  exercise.check = harness::text_of(folder + "check.cu");
  const size_t end = exercise.text.find('\n');
  require(exercise.text.starts_with("# ") && end != std::string_view::npos, folder,
          "README.md does not begin with a heading");
  exercise.title = exercise.text.substr(2, end - 2);
  const Json json = Json::parse(harness::text_of(folder + "exercise.json"));
  exercise.hints = json["hints"].get<std::vector<std::string>>();
  exercise.as_given = json["as_given"];
  for (const Json& limit : json.value("limits", Json::array())) {
    exercise.limits.push_back(
        {limit["count"].get<std::string>(), bound(limit, "at_most"), bound(limit, "at_least")});
  }
  return exercise;
}

// What of a name a user may leave out: "07_vectors" is "vectors" too.
std::string_view short_name(std::string_view name) { return name.substr(name.find('_') + 1); }

}  // namespace

const std::vector<Exercise>& exercises() {
  static const std::vector<Exercise> all = [] {
    std::vector<Exercise> found;
    for (const EmbeddedFile& file : embedded_files()) {
      constexpr std::string_view kMark = "/exercise.json";
      if (!file.path.starts_with(kFolder) || !file.path.ends_with(kMark)) continue;
      const size_t length = file.path.size() - kFolder.size() - kMark.size();
      found.push_back(read_exercise(std::string(file.path.substr(kFolder.size(), length))));
    }
    std::ranges::sort(found, {}, &Exercise::name);
    return found;
  }();
  return all;
}

const Exercise& exercise_named(std::string_view name) {
  const bool is_number =
      !name.empty() && name.size() < 6 && name.find_first_not_of("0123456789") == name.npos;
  const int number = is_number ? std::stoi(std::string(name)) : 0;
  for (const Exercise& exercise : exercises()) {
    if (is_number ? exercise.number == number
                  : exercise.name == name || short_name(exercise.name) == name) {
      return exercise;
    }
  }
  throw InvalidArgument(fmt::format(
      "there is no exercise {}: they are 1 to {}; `warpsmith learn list` has their names", name,
      exercises().back().number));
}

std::string_view check_header() { return harness::text_of("learn/check.hpp"); }

}  // namespace ws::cli
