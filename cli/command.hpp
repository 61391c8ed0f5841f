// What the verbs of the program share. Each verb is a file; add_VERB() declares its options.
#pragma once

#include <CLI/CLI.hpp>
#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "catalogue/catalogue.hpp"
#include "harness/json.hpp"
#include "harness/selection.hpp"

namespace ws::cli {

using harness::Json;

// Exit codes: documented in `warpsmith --help`.
inline constexpr int kOk = 0;
inline constexpr int kFailed = 1;  // a check failed
inline constexpr int kUsage = 2;   // bad usage or input

void add_list(CLI::App& app, int& exit_code);
void add_show(CLI::App& app, int& exit_code);
void add_verify(CLI::App& app, int& exit_code);
void add_bench(CLI::App& app, int& exit_code);
void add_ladder(CLI::App& app, int& exit_code);
void add_try(CLI::App& app, int& exit_code);
void add_resources(CLI::App& app, int& exit_code);
void add_profile(CLI::App& app, int& exit_code);
void add_trace(CLI::App& app, int& exit_code);
void add_compare(CLI::App& app, int& exit_code);
void add_report(CLI::App& app, int& exit_code);
void add_plot(CLI::App& app, int& exit_code);
void add_learn(CLI::App& app, int& exit_code);
void add_microbench(CLI::App& app, int& exit_code);
void add_doctor(CLI::App& app, int& exit_code);
void add_run(CLI::App& app, int& exit_code);

std::vector<std::string_view> dtype_names(DTypes dtypes);

// --dtype, --shape, --set, --seed, --offset: which problems. They fill `selection`; so may NAMES,
// --cases and --problem.
struct ProblemOptions {
  harness::Selection selection;
  void add_to(CLI::App& app);
  void add_limits_to(CLI::App& app);  // --memory, --time
  void add_names_to(CLI::App& app);
  void add_problems_to(CLI::App& app);  // --problem
};

// Of an option: whole numbers in this range; numbers above 0.
CLI::Validator whole_number(uint64_t least, uint64_t most);
CLI::Validator positive_number();

// --device: this build runs on one kind only, so it checks more than it chooses.
void add_device(CLI::App& app);
// --order of the emulator's threads.
void add_order(CLI::App& app);

// Words for the reader of a rung: "f16 f32, from sm_80, not deterministic".
std::string remarks_on(const Rung& rung);
// Its idea, and in brackets what it does otherwise than most: "(not deterministic)".
std::string idea_of(const Rung& rung);

// A line on stderr that is overwritten; nothing where stderr is no terminal.
class Progress {
 public:
  Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  ~Progress();
  // `done`: of the work, where that is known; tells how long the rest will take.
  void show(const std::string& text, double done = 0);
  void clear();
  harness::Announce announce();  // shows what it is called with, while this lives

 private:
  bool terminal_;
  std::chrono::steady_clock::time_point start_;
};

// Columns as wide as their texts, together at most as wide as the terminal, or 100: the last one
// goes on in the next line.
class Table {
 public:
  struct Column {
    std::string title;
    bool right = false;
  };
  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}
  void add(std::vector<std::string> row) { rows_.push_back(std::move(row)); }
  std::string text() const;

 private:
  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

// Cuts a text between words into lines of at most `width`; longer words stay whole.
std::vector<std::string> wrap(const std::string& text, size_t width);

void print(const std::string& text);
void print_json(const Json& json);

}  // namespace ws::cli
