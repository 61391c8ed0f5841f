// warpsmith show: one rung, and what changed from the one it grew from.
#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "cli/command.hpp"
#include "cli/line_text.hpp"
#include "harness/emulated_case.hpp"
#include "harness/resources.hpp"
#include "harness/sources.hpp"
#include "warpsmith/runtime.hpp"

namespace ws::cli {
namespace {

using harness::differences;
using harness::header_comment;
using harness::path_of;
using harness::text_of;

struct Shown {
  const Family* family;
  const Operation* operation;
  const Rung* rung;
  const Rung* from;  // null: the bottom of a ladder
  DTypes dtypes;
};

Shown find_rung(const std::string& name) {
  const Address address = harness::address_of(name);
  if (address.rung == nullptr) {
    std::string rungs;
    for (const Rung* rung : address.family->rungs) {
      if (address.operation != nullptr && rung->of(*address.operation) == nullptr) continue;
      rungs.append(rungs.empty() ? "" : ", ").append(rung->name);
    }
    throw InvalidArgument(fmt::format("show wants a rung, {} has: {}", name, rungs));
  }
  // Of the family's operations the first that the rung computes, unless one is named.
  const Operation* operation = address.operation;
  for (const Operation& other : address.family->operations) {
    if (operation == nullptr && address.rung->of(other) != nullptr) operation = &other;
  }
  if (operation == nullptr) operation = &address.family->operations.front();
  const Rung* from =
      address.rung->from.empty() ? nullptr : rung_named(*address.family, address.rung->from);
  return {address.family, operation, address.rung, from, dtypes_of(*address.rung, *operation)};
}

std::string difference_of(const Shown& shown) {
  if (shown.from == nullptr) return {};
  const std::string_view mine = path_of(*shown.family, *shown.rung);
  const std::string_view other = path_of(*shown.family, *shown.from);
  if (mine == other) return {};
  return fmt::format("--- {}\n+++ {}\n{}", other, mine, differences(text_of(other), text_of(mine)));
}

// The launches on the first problem of the family's lists that the rung takes.
Json resources_on_some_case(const Shown& shown) {
  const Cases all = shown.operation->cases();
  // 16 bits first: what most rungs are about.
  std::vector<DType> dtypes = {DType::kF16};
  std::ranges::copy(kAllDTypes, std::back_inserter(dtypes));
  for (const std::span<const Case> cases : {all.bench, all.verify}) {
    for (const Case& chosen : cases) {
      for (const DType dtype : dtypes) {
        if (!shown.dtypes.has(dtype)) continue;
        const Problem problem = make_problem(*shown.operation, chosen, dtype);
        try {
          Json launches = Json::array();
          for (const auto& r :
               harness::resources_of(*shown.rung, *shown.operation, chosen, dtype)) {
            launches.push_back(harness::to_json(r));
          }
          return {{"problem", problem.describe()}, {"launches", launches}};
        } catch (const Error&) {
          // Not this one; and none at all where the CUDA build finds no GPU.
        }
      }
    }
  }
  return nullptr;
}

std::string resources_text(const Json& resources) {
  if (resources.is_null()) return {};
  std::string text = fmt::format("launches for {}:\n", resources["problem"].get<std::string>());
  for (const Json& launch : resources["launches"]) {
    text +=
        fmt::format("  {} blocks of {} threads, {} bytes shared", launch["blocks"].get<int64_t>(),
                    launch["threads"].get<int>(), launch["shared_bytes"].get<size_t>());
    if (launch["cluster"] != 1)
      text += fmt::format(", clusters of {}", launch["cluster"].get<int>());
    if (launch["cooperative"] == true) text += ", cooperative";
    if (launch.contains("registers")) {
      text += fmt::format(", {} registers, {} bytes local, occupancy {:.0f} %",
                          launch["registers"].get<int>(), launch["local_bytes"].get<int>(),
                          100 * launch["occupancy"].get<double>());
    }
    text += "\n";
  }
  return text;
}

// What a small problem costs a rung by line: in the emulator, which sees it in a moment.
Worst worst_of(const Shown& shown, const Rung& rung) {
  const DTypes dtypes = dtypes_of(rung, *shown.operation);
  if (!runtime::kEmulated || dtypes.empty()) return {};
  // f32 where it can be: a word a lane, as the figures in books have it.
  const DType dtype = dtypes.has(DType::kF32) ? DType::kF32 : harness::usual_dtype(dtypes, {});
  return worst_lines({shown.family, shown.operation, &rung, dtypes}, dtype);
}

// A warp's requests at the dearest lines, and beside them that of the rung it grew from.
std::string pictures_text(const Shown& shown, const Worst& worst) {
  const std::string mine = pictures_of(worst, 3);
  if (mine.empty()) return {};
  std::string text =
      "\na warp's dearest requests there: █ asked for, ░ comes along, · not touched\n" + mine;
  if (shown.from == nullptr) return text;
  const std::string theirs = pictures_of(worst_of(shown, *shown.from), 1);
  if (theirs.empty() || mine.starts_with(theirs)) return text;
  return text + fmt::format("of {}/{}, which it grew from:\n{}", shown.operation->name,
                            shown.from->name, theirs);
}

// A library has no source here, and no launches that are ours.
void show_peer(const Shown& shown, bool as_json) {
  const std::string address = fmt::format("{}/{}", shown.operation->name, shown.rung->name);
  const std::vector<std::string> seeds = seeds_of(*shown.rung, *shown.operation);
  if (as_json) {
    print_json(Json{{"rung", address},
                    {"idea", shown.rung->idea},
                    {"dtypes", dtype_names(shown.dtypes)},
                    {"seeds", seeds}});
    return;
  }
  print(fmt::format("{}: {}\n{}\n", address, shown.rung->idea,
                    fmt::join(dtype_names(shown.dtypes), " ")));
  if (!seeds.empty()) print(fmt::format("also called {}\n", fmt::join(seeds, ", ")));
}

void run_show(const std::string& name, bool as_json, bool with_source) {
  const Shown shown = find_rung(name);
  if (shown.rung->peer != nullptr) return show_peer(shown, as_json);
  const std::string_view path = path_of(*shown.family, *shown.rung);
  const std::string address = fmt::format("{}/{}", shown.operation->name, shown.rung->name);
  const std::string from =
      shown.from == nullptr ? "" : fmt::format("{}/{}", shown.operation->name, shown.from->name);
  const std::string difference = difference_of(shown);
  const Json resources = resources_on_some_case(shown);
  const Worst worst = worst_of(shown, *shown.rung);
  const std::vector<std::string> seeds = seeds_of(*shown.rung, *shown.operation);
  if (as_json) {
    print_json(Json{{"rung", address},
                    {"idea", shown.rung->idea},
                    {"file", path},
                    {"arch", to_string(shown.rung->arch)},
                    {"dtypes", dtype_names(shown.dtypes)},
                    {"deterministic", shown.rung->deterministic},
                    {"accumulate", to_string(shown.rung->accumulate)},
                    {"seeds", seeds},
                    {"header", header_comment(text_of(path))},
                    {"from", from.empty() ? Json(nullptr) : Json(from)},
                    {"diff", difference},
                    {"resources", resources},
                    {"worst", to_json(worst)},
                    {"source", text_of(path)}});
    return;
  }
  print(fmt::format("{}: {}\n", address, shown.rung->idea));
  print(fmt::format("{}, {}, {}\n", path, fmt::join(dtype_names(shown.dtypes), " "),
                    remarks_on(*shown.rung)));
  if (!seeds.empty()) print(fmt::format("also called {}\n", fmt::join(seeds, ", ")));
  print("\n" + header_comment(text_of(path)) + "\n" + resources_text(resources) + text_of(worst) +
        pictures_text(shown, worst));
  if (with_source) {
    print("\n" + marked(std::string(text_of(path)), path, worst));
  } else if (shown.from == nullptr) {
    print("\nthe bottom of its ladder; --source prints it\n");
  } else if (difference.empty()) {
    print(fmt::format("\nthe same file as {}; --source prints it\n", from));
  } else {
    print(fmt::format("\nwhat changed from {}:\n{}", from, marked(difference, path, worst)));
  }
}

}  // namespace

void add_show(CLI::App& app, int&) {
  CLI::App* verb = app.add_subcommand(
      "show", "A rung: its idea, its cost, what changed from the one it grew from");
  auto name = std::make_shared<std::string>();
  auto as_json = std::make_shared<bool>(false);
  auto with_source = std::make_shared<bool>(false);
  verb->add_option("RUNG", *name, "Such as softmax/warp_per_row, or a seed name")->required();
  verb->add_flag("--source", *with_source, "The whole source instead of the difference");
  verb->add_flag("--json", *as_json, "As JSON");
  verb->callback([=] { run_show(*name, *as_json, *with_source); });
}

}  // namespace ws::cli
