// Results for the verbs that draw: read from files, or measured or counted now.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/command.hpp"
#include "report/results.hpp"

namespace ws::cli {

// NAMES, --results, --against, and which problems.
struct ResultOptions {
  std::vector<std::string> files;
  std::string other_file;
  ProblemOptions problems;

  void add_to(CLI::App& app);
  // Those of the files, else ladders of this machine: of the names, or of each family's first
  // operation. `with_lines`: in the emulator, what each line costs too.
  report::Results results(bool with_lines) const;
  std::optional<report::Results> against() const;
  report::Choice choice() const;
};

}  // namespace ws::cli
