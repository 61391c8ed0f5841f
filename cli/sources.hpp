// The kernels' sources inside the program.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "catalogue/catalogue.hpp"

namespace ws::cli {

// A rung's file: "kernels/softmax/04_warp_per_row.cuh". Throws where the build has none.
std::string_view path_of(const Family& family, const Rung& rung);
std::string_view text_of(std::string_view path);

// The comment at the top of a file, without its slashes.
std::string header_comment(std::string_view text);

// Unified differences between two texts, line by line; empty where they are equal.
std::string differences(std::string_view before, std::string_view after);

// A row of seed-kernels.tsv and the rung that answers to it.
struct SeedRow {
  std::string family;
  std::string name;
  std::string dtypes;
  std::string rung;  // "softmax/warp_per_row"; empty where none does yet
};
// Of the families in the catalogue (also as FAMILY/OPERATION), in the list's order.
std::vector<SeedRow> seed_rows();

}  // namespace ws::cli
