// Whether somebody's exercise.cu is solved, and if not, what is wrong with it.
#pragma once

#include <filesystem>

#include "cli/exercises.hpp"

namespace ws::cli {

struct Verdict {
  // "solved", or what is wrong: "compile", "fault", "wrong" (a result), "limit" (right, but more
  // of something than the exercise allows).
  std::string kind;
  std::string what;  // of a fault its kind, of a limit its count
  std::string text;  // for the reader
  int line = 0;      // of exercise.cu; 0 where none is to blame

  bool solved() const { return kind == "solved"; }
};

// Builds the exercise's check around the file and runs it, threads in each order.
Verdict judge(const Exercise& exercise, const std::filesystem::path& source);

Json to_json(const Verdict& verdict);

}  // namespace ws::cli
