// What bench and ladder share: measuring targets, and the table of one problem.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "cli/command.hpp"
#include "harness/bench.hpp"

namespace ws::cli {

// Times each operation of the targets on each of its cases (or the first only) and dtype; `done` is
// called after each.
std::vector<harness::BenchGroup> measure(
    const std::vector<Target>& targets, const ProblemOptions& problems,
    const harness::BenchOptions& options, bool first_case_only,
    const std::function<void(const harness::BenchGroup&)>& done);

std::string figures(const harness::BenchGroup& group);
bool all_good(const std::vector<harness::BenchGroup>& groups);

}  // namespace ws::cli
