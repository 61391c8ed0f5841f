// The kernels of the public collections (catalogue/seed-kernels.tsv), and the rungs that answer.
#pragma once

#include <string>
#include <vector>

namespace ws::harness {

struct SeedRow {
  std::string family;
  std::string name;
  std::string dtypes;
  std::string rung;  // "softmax/warp_per_row"; empty where none does yet, or
  std::string verb;  // one of the program's does: "microbench"
};
// Of the families in the catalogue (also as FAMILY/OPERATION) and of verbs, in the list's order.
std::vector<SeedRow> seed_rows();

}  // namespace ws::harness
