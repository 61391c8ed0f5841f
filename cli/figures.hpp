// What bench, ladder and try share: the table of one problem.
#pragma once

#include <string>
#include <vector>

#include "harness/bench.hpp"

namespace ws::cli {

std::string figures(const harness::BenchGroup& group);
// A bar for each contender's rate, beside the fastest peer's and the ceiling.
std::string bars(const harness::BenchGroup& group);
bool all_good(const std::vector<harness::BenchGroup>& groups);

}  // namespace ws::cli
