// The exercises of learn/, which lie inside the program: each folder there is one, in the order of
// their numbers. docs/learn.md says what its files are.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/command.hpp"

namespace ws::cli {

// A bound on something that a run of the check counts: limits_of_counts() has the names.
struct Limit {
  std::string count;
  std::optional<double> at_most;
  std::optional<double> at_least;
};

struct Exercise {
  int number = 0;
  std::string name;   // of its folder: "07_vectors"
  std::string title;  // the text's first heading
  std::string_view text;
  std::string_view source;  // as given: with a hole or a bug
  std::string_view solution;
  std::string_view check;  // a program that includes exercise.cu
  std::vector<std::string> hints;
  std::vector<Limit> limits;
  Json as_given;  // what the check says of the source as given; the tests hold it to that
};

const std::vector<Exercise>& exercises();

// By number (7, 07), folder (07_vectors) or the name in it (vectors). Throws InvalidArgument.
const Exercise& exercise_named(std::string_view name);

// The header that all checks include.
std::string_view check_header();

}  // namespace ws::cli
