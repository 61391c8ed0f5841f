// What the verbs of the program share. Each verb is a file; add_VERB() declares its options.
#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <string>
#include <vector>

#include "catalogue/catalogue.hpp"
#include "harness/json.hpp"

namespace ws::cli {

using harness::Json;

// Exit codes: documented in `warpsmith --help`.
inline constexpr int kOk = 0;
inline constexpr int kFailed = 1;  // a check failed
inline constexpr int kUsage = 2;   // bad usage or input

#ifdef WS_EMULATED
inline constexpr bool kEmulated = true;
#else
inline constexpr bool kEmulated = false;
#endif

void add_list(CLI::App& app, int& exit_code);
void add_show(CLI::App& app, int& exit_code);
void add_verify(CLI::App& app, int& exit_code);
void add_bench(CLI::App& app, int& exit_code);
void add_ladder(CLI::App& app, int& exit_code);
void add_resources(CLI::App& app, int& exit_code);
void add_compare(CLI::App& app, int& exit_code);
void add_doctor(CLI::App& app, int& exit_code);

std::vector<std::string_view> dtype_names(DTypes dtypes);

// One rung of one operation.
struct Target {
  const Family* family;
  const Operation* operation;
  const Rung* rung;
  DTypes dtypes;  // that both take, and a seed name allows
  std::string name() const;
};
// catalogue's resolve(); a kernel of the public collections that no rung answers to yet is not
// called unknown.
Address address_of(const std::string& name);
// What names stand for: a family all of it, an operation its rungs; none stands for everything.
std::vector<Target> targets_of(const std::vector<std::string>& names);

// --dtype, --shape, --set, --seed, --offset: which problems.
struct ProblemOptions {
  std::vector<std::string> dtypes;
  std::vector<std::string> shapes;
  std::vector<std::string> attributes;
  uint64_t seed = 1;
  int offset = 0;
  void add_to(CLI::App& app);
  // `standard`, or a case for each --shape; with the attributes of --set.
  std::vector<Case> cases(const Operation& operation, std::span<const Case> standard) const;
  // Those of `available` that --dtype names.
  std::vector<DType> chosen(DTypes available) const;
};

// --device: this build runs on one kind only, so it checks more than it chooses.
void add_device(CLI::App& app);
// Throws where this build needs a GPU and there is none.
void require_device();
// --order of the emulator's threads.
void add_order(CLI::App& app);

// A line on stderr that is overwritten; nothing where stderr is no terminal.
class Progress {
 public:
  Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  ~Progress();
  void show(const std::string& text);

 private:
  bool terminal_;
};

// Columns as wide as their texts, at most 100 together: the last one goes on in the next line.
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

void print(const std::string& text);
void print_json(const Json& json);

}  // namespace ws::cli
