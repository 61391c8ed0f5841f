// warpsmith learn: the exercises one after another, in a folder of the user's.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <memory>
#include <thread>

#include "cli/exercises.hpp"
#include "cli/judge.hpp"
#include "harness/sources.hpp"

namespace ws::cli {
namespace {

namespace fs = std::filesystem;

constexpr const char* kUsualFolder = "warpsmith-learn";

// What the user has done so far, kept beside the user's files.
class Course {
 public:
  explicit Course(fs::path folder) : folder_(std::move(folder)) {
    std::ifstream file(state_path());
    if (!file) return;
    state_ = Json::parse(file, nullptr, /*allow_exceptions=*/false);
    const bool is_ours = state_.is_object() && state_.value("current", Json()).is_string() &&
                         state_.value("exercises", Json()).is_object();
    require(is_ours, state_path().string(),
            " is not what `warpsmith learn` wrote: move it away; your exercises stay");
  }

  bool begun() const { return !state_.is_null(); }
  const fs::path& folder() const { return folder_; }
  // What to type: "`warpsmith learn hint`", with the folder where it is not the usual one.
  std::string call(std::string_view verb) const {
    return fmt::format("`warpsmith learn {}{}`", verb,
                       folder_ == kUsualFolder ? "" : " --dir " + folder_.string());
  }
  fs::path source(const Exercise& exercise) const {
    return folder_ / exercise.name / "exercise.cu";
  }
  bool solved(const Exercise& exercise) const { return value(exercise, "solved", false); }
  int hints(const Exercise& exercise) const { return value(exercise, "hints", 0); }
  size_t solved_count() const {
    return static_cast<size_t>(
        std::ranges::count_if(exercises(), [&](const Exercise& e) { return solved(e); }));
  }

  // The one that is being worked on: started last.
  const Exercise& current() const {
    require(begun(), "nothing is started in ", folder_.string(), " yet: ", call("start"),
            " puts the first exercise there");
    return exercise_named(state_["current"].get<std::string>());
  }
  // Named, or else the current one; it must have been started.
  const Exercise& started(const std::string& name) const {
    const Exercise& exercise = name.empty() ? current() : exercise_named(name);
    require(fs::exists(source(exercise)), source(exercise).string(), " is not there: `warpsmith ",
            "learn start ", exercise.number, "` puts it there");
    return exercise;
  }
  // The first that is not solved, from the one behind the current one on; null: all are.
  const Exercise* next() const {
    const auto all = std::span(exercises());
    const size_t first = begun() ? static_cast<size_t>(&current() - all.data()) + 1 : 0;
    for (size_t i = 0; i < all.size(); ++i) {
      const Exercise& exercise = all[(first + i) % all.size()];
      if (!solved(exercise)) return &exercise;
    }
    return nullptr;
  }

  // Puts the exercise there and makes it the current one. What is there already stays.
  void start(const Exercise& exercise) {
    fs::create_directories(folder_ / exercise.name);
    write_new(folder_ / exercise.name / "README.md", exercise.text);
    write_new(source(exercise), exercise.source);
    if (!begun()) state_ = {{"current", ""}, {"exercises", Json::object()}};
    state_["current"] = exercise.name;
    write();
  }
  void set(const Exercise& exercise, const char* what, const Json& value) {
    state_["exercises"][exercise.name][what] = value;
    write();
  }

 private:
  fs::path state_path() const { return folder_ / "state.json"; }

  template <class T>
  T value(const Exercise& exercise, const char* what, T otherwise) const {
    if (!begun()) return otherwise;
    return state_["exercises"].value(exercise.name, Json::object()).value(what, otherwise);
  }

  static void write_new(const fs::path& path, std::string_view text) {
    if (fs::exists(path)) return;
    std::ofstream file(path);
    file << text;
    file.close();
    require(!file.fail(), path.string(), " cannot be written");
  }

  // By way of a second file, so that an interrupted write loses nothing.
  void write() const {
    const fs::path fresh = state_path().string() + ".new";
    std::ofstream file(fresh);
    file << state_.dump(2) << "\n";
    file.close();
    require(!file.fail(), fresh.string(), " cannot be written");
    fs::rename(fresh, state_path());
  }

  fs::path folder_;
  Json state_;
};

std::string heading(const Exercise& exercise) {
  return fmt::format("{} of {}: {} ({})", exercise.number, exercises().size(), exercise.title,
                     exercise.name);
}

// The text's line that says which rung has the idea in earnest.
std::string in_earnest(const Exercise& exercise) {
  const size_t at = exercise.text.find("\nIn earnest: ");
  if (at == std::string_view::npos) return {};
  const size_t end = std::min(exercise.text.find('\n', at + 1), exercise.text.size());
  return std::string(exercise.text.substr(at + 1, end - at - 1)) + "\n";
}

Json to_json(const Course& course, const Exercise& exercise) {
  return {{"number", exercise.number},
          {"name", exercise.name},
          {"title", exercise.title},
          {"file", course.source(exercise).string()},
          {"started", fs::exists(course.source(exercise))},
          {"solved", course.solved(exercise)},
          {"hints_taken", course.hints(exercise)},
          {"hints", exercise.hints.size()}};
}

// ---- What one can ask for ----------------------------------------------------------------------

struct Asked {
  std::string folder = kUsualFolder;
  std::string name;
  bool as_json = false;
  bool watch = false;
};

void show_status(const Asked& asked) {
  const Course course(asked.folder);
  const Exercise* next = course.next();
  if (asked.as_json) {
    print_json({{"folder", course.folder().string()},
                {"exercises", exercises().size()},
                {"solved", course.solved_count()},
                {"current", course.begun() ? to_json(course, course.current()) : Json()},
                {"next", next != nullptr ? to_json(course, *next) : Json()}});
    return;
  }
  if (!course.begun()) {
    print(
        fmt::format("{} exercises, from y = a x + y to a small FlashAttention; no GPU needed.\n"
                    "{} puts the first into {}/: a file to mend, and a page of text.\n",
                    exercises().size(), course.call("start"), course.folder().string()));
    return;
  }
  print(fmt::format("{} of {} solved\n", course.solved_count(), exercises().size()));
  const Exercise& current = course.current();
  print(fmt::format("{}, {}\n", heading(current),
                    course.solved(current) ? "solved" : "not solved yet"));
  if (!course.solved(current)) {
    print(fmt::format("mend {}, then {}; `learn hint` helps\n", course.source(current).string(),
                      course.call("check")));
  } else if (next != nullptr) {
    print(fmt::format("{} starts {}\n", course.call("next"), heading(*next)));
  } else {
    print("that was the last one: the ladders are next, `warpsmith list`\n");
  }
}

void show_list(const Asked& asked) {
  const Course course(asked.folder);
  if (asked.as_json) {
    Json list = Json::array();
    for (const Exercise& exercise : exercises()) list.push_back(to_json(course, exercise));
    print_json({{"folder", course.folder().string()}, {"exercises", list}});
    return;
  }
  Table table({{"", true}, {"name"}, {"state"}, {"what it is about"}});
  for (const Exercise& exercise : exercises()) {
    const char* state = course.solved(exercise)               ? "solved"
                        : fs::exists(course.source(exercise)) ? "started"
                                                              : "";
    table.add({std::to_string(exercise.number), exercise.name.substr(3), state, exercise.title});
  }
  print(table.text());
}

void start(Course& course, const Exercise& exercise, bool as_json) {
  const bool was_there = fs::exists(course.source(exercise));
  course.start(exercise);
  if (as_json) {
    print_json(to_json(course, exercise));
    return;
  }
  print(fmt::format("{}\n", exercise.text));
  print(fmt::format("{} {}; mend it, then {}\n", course.source(exercise).string(),
                    was_there ? "is there already, as you left it" : "is yours now",
                    course.call("check")));
}

void start_named(const Asked& asked) {
  Course course(asked.folder);
  if (!asked.name.empty()) {
    start(course, exercise_named(asked.name), asked.as_json);
  } else {  // where one is
    start(course, course.begun() ? course.current() : exercises().front(), asked.as_json);
  }
}

void start_next(const Asked& asked) {
  Course course(asked.folder);
  const Exercise* next = course.next();
  if (next != nullptr) {
    start(course, *next, asked.as_json);
  } else if (asked.as_json) {
    print_json(nullptr);
  } else {
    print(fmt::format("all {} are solved\n", exercises().size()));
  }
}

bool check_once(Course& course, const Exercise& exercise, bool as_json) {
  const Verdict verdict = judge(exercise, course.source(exercise));
  if (verdict.solved()) course.set(exercise, "solved", true);
  const Exercise* next = course.next();
  if (as_json) {
    Json json = to_json(verdict);
    json["exercise"] = exercise.name;
    json["next"] = next != nullptr ? Json(next->name) : Json();
    print_json(json);
    return verdict.solved();
  }
  print(fmt::format("{}\n{}", heading(exercise), verdict.text));
  if (!verdict.text.ends_with("\n")) print("\n");
  if (!verdict.solved()) {
    print(course.hints(exercise) < static_cast<int>(exercise.hints.size())
              ? fmt::format("not solved yet; {} helps\n", course.call("hint"))
              : fmt::format("not solved yet; {} shows one\n", course.call("solution")));
    return false;
  }
  print("solved\n" + in_earnest(exercise));
  print(next != nullptr ? fmt::format("{} starts {}\n", course.call("next"), heading(*next))
                        : "that was the last one\n");
  return true;
}

void check(const Asked& asked, int& exit_code) {
  Course course(asked.folder);
  const Exercise& exercise = course.started(asked.name);
  const fs::path source = course.source(exercise);
  for (;;) {
    const fs::file_time_type checked = fs::last_write_time(source);
    const bool solved = check_once(course, exercise, asked.as_json);
    exit_code = solved ? kOk : kFailed;
    if (solved || !asked.watch) return;
    print(fmt::format("watching {}; Ctrl-C ends\n\n", source.string()));
    std::fflush(stdout);
    // An editor may be writing the file anew, and it is not there for a moment.
    std::error_code ignored;
    while (!fs::exists(source) || fs::last_write_time(source, ignored) == checked) {
      std::this_thread::sleep_for(std::chrono::milliseconds(200));
    }
  }
}

void show_hint(const Asked& asked) {
  Course course(asked.folder);
  const Exercise& exercise = course.started(asked.name);
  const auto count = static_cast<int>(exercise.hints.size());
  const int number = std::min(course.hints(exercise) + 1, count);
  course.set(exercise, "hints", number);
  const std::string& hint = exercise.hints[static_cast<size_t>(number - 1)];
  if (asked.as_json) {
    print_json({{"exercise", exercise.name}, {"hint", number}, {"of", count}, {"text", hint}});
    return;
  }
  print(fmt::format("hint {} of {}: {}\n", number, count, hint));
  if (number == count) {
    print(fmt::format("that is the last one; {} shows a solution\n", course.call("solution")));
  }
}

void show_solution(const Asked& asked) {
  Course course(asked.folder);
  const Exercise& exercise = course.started(asked.name);
  course.set(exercise, "solution_shown", true);
  const std::string changes = harness::differences(exercise.source, exercise.solution);
  if (asked.as_json) {
    print_json({{"exercise", exercise.name}, {"solution", exercise.solution}, {"diff", changes}});
    return;
  }
  print(fmt::format("{}\nwhat changes from the exercise as given:\n{}\n{}", exercise.solution,
                    changes, in_earnest(exercise)));
}

}  // namespace

void add_learn(CLI::App& app, int& exit_code) {
  CLI::App* verb = app.add_subcommand(
      "learn", "Exercises, one after another: kernels to mend, checked with no GPU");
  auto asked = std::make_shared<Asked>();
  verb->add_option("--dir", asked->folder, "Where your exercises are")->capture_default_str();
  verb->add_flag("--json", asked->as_json, "As JSON");
  verb->require_subcommand(0, 1);
  verb->callback([=] {
    if (verb->get_subcommands().empty()) show_status(*asked);
  });
  const auto add = [&](const char* name, const char* what, bool takes_name, auto run) {
    CLI::App* action = verb->add_subcommand(name, what)->fallthrough();
    if (takes_name) action->add_option("EXERCISE", asked->name, "7, vectors or 07_vectors");
    action->callback([asked, run] { run(*asked); });
    return action;
  };
  add("list", "All exercises, and which are solved", false, show_list);
  add("start", "Put an exercise into your folder; what is there stays", true, start_named);
  CLI::App* checked = add("check", "Is it solved? 0 yes, 1 no, 2 bad usage", true,
                          [&exit_code](const Asked& a) { check(a, exit_code); });
  checked->add_flag("--watch", asked->watch, "Again whenever the file changes, until it is solved");
  add("hint", "The next hint", true, show_hint);
  add("solution", "A solution, and what changes", true, show_solution);
  add("next", "Start the next one that is not solved", false, start_next);
}

}  // namespace ws::cli
