// warpsmith resources: registers, shared memory, spills, occupancy of each rung's launches.
#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <memory>
#include <utility>

#include "cli/command.hpp"
#include "harness/resources.hpp"
#include "warpsmith/runtime.hpp"

namespace ws::cli {
namespace {

struct ResourceArguments {
  ProblemOptions problems;
  bool as_json = false;
};

std::string size_text(size_t bytes) {
  if (bytes == 0) return "-";
  return bytes < 1024 ? fmt::format("{} B", bytes)
                      : fmt::format("{:.1f} KB", static_cast<double>(bytes) / 1024);
}

// A line for each launch; registers, local memory and occupancy where the build knows them.
Table empty_table() {
  std::vector<Table::Column> columns = {{"rung"},
                                        {"blocks", true},
                                        {"threads", true},
                                        {"in clusters of", true},
                                        {"shared memory", true}};
  if (!runtime::kEmulated) {
    columns.insert(columns.end(), {{"registers", true}, {"local", true}, {"occupancy", true}});
  }
  return Table(std::move(columns));
}

std::vector<std::string> line_of(const std::string& name, const harness::KernelResources& r) {
  std::vector<std::string> line = {name, std::to_string(r.grid.blocks),
                                   std::to_string(r.grid.threads),
                                   r.grid.cluster > 1 ? std::to_string(r.grid.cluster) : "-",
                                   size_text(static_cast<size_t>(r.shared_bytes))};
  if (!runtime::kEmulated) {
    line.insert(line.end(), {std::to_string(r.registers),
                             size_text(static_cast<size_t>(std::max(r.local_bytes, 0))),
                             fmt::format("{:.0f} %", 100 * r.occupancy)});
  }
  return line;
}

// What was found, in the order in which problems came up.
struct Found {
  std::vector<std::pair<std::string, Table>> by_problem{};
  Json results = Json::array();
  std::vector<std::string> skipped{};
  bool spills = false;

  Table& table_of(const std::string& problem) {
    const auto at = std::ranges::find(by_problem, problem, &std::pair<std::string, Table>::first);
    return at != by_problem.end() ? at->second
                                  : by_problem.emplace_back(problem, empty_table()).second;
  }

  void add(const harness::Target& target, DType dtype, const std::string& problem,
           const std::vector<harness::KernelResources>& launches) {
    Json entry = {{"rung", target.name()},
                  {"dtype", to_string(dtype)},
                  {"problem", problem},
                  {"may_spill", target.rung->may_spill},
                  {"launches", Json::array()}};
    Table& table = table_of(problem);
    for (size_t i = 0; i < launches.size(); ++i) {
      entry["launches"].push_back(harness::to_json(launches[i]));
      spills = spills || (launches[i].local_bytes > 0 && !target.rung->may_spill);
      const std::string name = i == 0 ? std::string(target.rung->name)
                                      : fmt::format("{}, launch {}", target.rung->name, i + 1);
      table.add(line_of(name, launches[i]));
    }
    results.push_back(std::move(entry));
  }
};

// Rungs beside each other on a problem: its tensors may be gigabytes, and are allocated once.
void add_problem(Found& found, const std::vector<harness::Target>& targets, const Case& chosen,
                 DType dtype, const harness::Limits& limits) {
  const Operation& operation = *targets.front().operation;
  const auto unless_refused = [&](const auto& add) {
    try {
      add();
    } catch (const InvalidArgument& error) {
      found.skipped.push_back(error.message());
    }
  };
  unless_refused([&] {
    harness::check_memory(make_problem(operation, chosen, dtype), chosen.offset, limits);
    const harness::UntouchedCall call(operation, chosen, dtype);
    for (const harness::Target& target : targets) {
      unless_refused([&] {
        found.add(target, dtype, call.problem().describe(), call.resources_of(*target.rung));
      });
    }
  });
}

Found find_resources(const harness::Selection& selection) {
  Found found;
  const std::vector<harness::Target> targets = harness::targets_of(selection.names);
  for (const Operation* operation : harness::operations_of(targets)) {
    const std::vector<Case> cases = selection.of(*operation, operation->cases().bench.first(1));
    for (const DType dtype : selection.chosen(operation->dtypes)) {
      std::vector<harness::Target> takers;
      std::ranges::copy_if(targets, std::back_inserter(takers), [&](const harness::Target& target) {
        return target.operation == operation && target.dtypes.has(dtype);
      });
      if (takers.empty()) continue;
      for (const Case& chosen : cases) {
        add_problem(found, takers, chosen, dtype, selection.limits);
      }
    }
  }
  require(!found.results.empty(), "no launch to tell of: ",
          found.skipped.empty() ? "no rung named takes these dtypes" : found.skipped.front());
  return found;
}

int run_resources(const ResourceArguments& arguments) {
  runtime::require_device();
  const Found found = find_resources(arguments.problems.selection);
  if (arguments.as_json) {
    print_json(Json{{"device", runtime::kName}, {"results", found.results}});
    return found.spills ? kFailed : kOk;
  }
  for (const auto& [problem, table] : found.by_problem) {
    print(fmt::format("{}\n{}\n", problem, table.text()));
  }
  constexpr size_t kShown = 5;
  for (size_t i = 0; i < std::min(kShown, found.skipped.size()); ++i) {
    print(fmt::format("skipped: {}\n", found.skipped[i]));
  }
  if (found.skipped.size() > kShown) {
    print(fmt::format("... and {} more\n", found.skipped.size() - kShown));
  }
  if (runtime::kEmulated) {
    print("registers, local memory and occupancy are known to the CUDA build only\n");
  }
  if (found.spills) {
    print("failed: a rung uses local memory that its row does not allow (may_spill)\n");
  }
  return found.spills ? kFailed : kOk;
}

}  // namespace

void add_resources(CLI::App& app, int& exit_code) {
  CLI::App* verb =
      app.add_subcommand("resources", "Registers, shared memory, spills and occupancy of launches");
  auto arguments = std::make_shared<ResourceArguments>();
  arguments->problems.add_names_to(*verb);
  arguments->problems.add_to(*verb);
  arguments->problems.add_limits_to(*verb);
  add_device(*verb);
  verb->add_flag("--json", arguments->as_json, "As JSON");
  verb->callback([=, &exit_code] { exit_code = run_resources(*arguments); });
}

}  // namespace ws::cli
