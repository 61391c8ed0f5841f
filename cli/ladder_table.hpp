// The ladder in the emulator, as text: what each rung costs on one problem.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "catalogue/catalogue.hpp"
#include "warpsmith/profile.hpp"

namespace ws::cli {

struct LadderRow {
  std::string name;
  std::string error{};  // of all rows or of none
  std::map<std::string, uint64_t> counts{};
  std::optional<Profile> profile;
  std::string idea;
  bool stands_out = false;  // somebody's own among the rungs
};

// Bytes moved, of those that must.
double traffic_of(const LadderRow& row, const Cost& cost);

// A table, and below it a bar for each row.
std::string ladder_text(const Cost& cost, const std::vector<LadderRow>& rows);

// "1234", "15k", "3M"
std::string compact(double value);

}  // namespace ws::cli
