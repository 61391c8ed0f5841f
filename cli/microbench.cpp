// warpsmith microbench: latencies and rates of the device's parts, beside what is known of them.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>

#include "cli/command.hpp"
#include "harness/machine.hpp"
#include "microbench/probe.hpp"
#include "warpsmith/runtime.hpp"

namespace ws::cli {
namespace {

using microbench::Measurement;
using microbench::Probe;

struct MicrobenchArguments {
  std::vector<std::string> names;
  bool as_json = false;
};

bool is_among(const std::vector<std::string>& names, std::string_view name) {
  return std::ranges::find(names, name) != names.end();
}

// Those named, as they are told; all where none is.
std::vector<Probe> chosen_probes(const std::vector<std::string>& names) {
  std::vector<Probe> all = microbench::probes();
  std::vector<std::string> known;
  for (const Probe& probe : all) known.emplace_back(probe.name);
  for (const std::string& name : names) {
    if (is_among(known, name)) continue;
    const std::vector<std::string> near = near_names(name, known);
    throw InvalidArgument(
        fmt::format("there is no probe '{}'{}; `warpsmith microbench --list` shows them", name,
                    near.empty() ? "" : fmt::format("; did you mean '{}'?", near.front())));
  }
  if (!names.empty()) {
    std::erase_if(all, [&](const Probe& probe) { return !is_among(names, probe.name); });
  }
  return all;
}

int list_probes(const std::vector<Probe>& probes) {
  Table table({{"probe"}, {"unit"}, {"of what"}});
  for (const Probe& probe : probes) {
    table.add({std::string(probe.name), std::string(probe.unit), std::string(probe.what)});
  }
  print(table.text());
  return kOk;
}

// Three digits; "-" of what nobody knows.
std::string digits(const std::optional<double>& value) {
  if (!value) return "-";
  return *value < 100 ? fmt::format("{:.3g}", *value) : fmt::format("{:.0f}", *value);
}

std::optional<double> percent(const Measurement& m) {
  return m.value && m.known ? std::optional(100 * *m.value / *m.known) : std::nullopt;
}

int run_microbench(const MicrobenchArguments& arguments) {
  const std::vector<Probe> chosen = chosen_probes(arguments.names);
  const harness::Machine machine = harness::machine();
  Progress progress;
  Table table({{"probe"}, {"measured", true}, {"known", true}, {"%", true}, {"unit"}, {"of what"}});
  Json rows = Json::array();
  for (const Probe& probe : chosen) {
    const std::string name(probe.name);
    progress.show(name);
    const bool runs = runs_on(probe.arch, machine.capability);
    const Measurement m = runs ? microbench::measure(probe, machine) : Measurement{};
    table.add({name, digits(m.value), digits(m.known), digits(percent(m)), std::string(probe.unit),
               runs ? std::string(probe.what) : fmt::format("needs {}", to_string(probe.arch))});
    const auto json = [](const std::optional<double>& value) {
      return value ? harness::number(*value) : Json(nullptr);
    };
    rows.push_back({{"name", name},
                    {"what", probe.what},
                    {"unit", probe.unit},
                    {"ran", runs},
                    {"value", json(m.value)},
                    {"known", json(m.known)}});
  }
  progress.clear();
  if (arguments.as_json) {
    Json json = {{"machine", harness::to_json(machine)}};
    json.update(harness::provenance());
    json["microbench"] = std::move(rows);
    print_json(json);
    return kOk;
  }
  print(fmt::format("{}\n\n{}", machine.device, table.text()));
  if (runtime::kEmulated) {
    print(
        "\nThe emulator has no clock of a device: the kernels ran and computed what they must, "
        "and\nthe CUDA build measures them.\n");
  }
  return kOk;
}

}  // namespace

void add_microbench(CLI::App& app, int& exit_code) {
  CLI::App* verb = app.add_subcommand(
      "microbench", "Latencies and rates of the device's parts, beside its data sheet");
  auto arguments = std::make_shared<MicrobenchArguments>();
  auto only_list = std::make_shared<bool>(false);
  verb->add_option("NAMES", arguments->names, "Probes, such as shared_latency; none: all");
  verb->add_flag("--list", *only_list, "What there is to measure, and nothing else");
  add_device(*verb);
  add_order(*verb);
  verb->add_flag("--json", arguments->as_json, "As JSON");
  verb->callback([=, &exit_code] {
    exit_code =
        *only_list ? list_probes(chosen_probes(arguments->names)) : run_microbench(*arguments);
  });
}

}  // namespace ws::cli
