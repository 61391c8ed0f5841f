#include "harness/bench.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "harness/bench_loop.hpp"
#include "harness/contenders.hpp"
#include "harness/judgement.hpp"
#include "harness/variants.hpp"
#include "warpsmith/runtime.hpp"

namespace ws::harness {
namespace {

// Four significant digits of what was measured.
Json short_number(double value) {
  if (!std::isfinite(value)) return nullptr;
  const double rounded = std::stod(fmt::format("{:.4g}", value));
  if (rounded == std::floor(rounded) && std::abs(rounded) < 0x1p53) {
    return static_cast<int64_t>(rounded);
  }
  return rounded;
}

// What is known exactly: whole where it is.
Json whole_number(double value) {
  const bool is_whole = value == std::floor(value) && std::abs(value) < 0x1p53;
  return is_whole ? Json(static_cast<int64_t>(value)) : short_number(value);
}

Json to_json(const Measurement& m, const BenchGroup& group) {
  constexpr std::array<std::string_view, 3> kRoles = {"rung", "peer", "copy"};
  Json entry = {{"name", m.name},
                {"role", kRoles[static_cast<size_t>(m.role)]},
                {"verdict", to_string(m.verdict)}};
  if (!m.deterministic) entry["deterministic"] = false;
  if (!m.reason.empty()) entry["reason"] = m.reason;
  if (m.runs == 0) return entry;
  if (m.variants > 0) {
    entry["variant"] = m.variant;
    entry["variants"] = m.variants;
  }
  entry["runs"] = m.runs;
  if (m.calls > 0) entry["calls"] = m.calls;
  entry["median_us"] = short_number(m.median);
  entry["min_us"] = short_number(m.min);
  entry["max_us"] = short_number(m.max);
  entry["rate"] = short_number(m.rate);
  entry["of_ceiling"] = short_number(m.of_ceiling);
  if (m.error >= 0) entry["error"] = short_number(m.error);
  if (m.role != Role::kRung) return entry;
  if (const double ratio = group.over_from(m); ratio > 0) {
    entry["from"] = m.from;
    entry["over_from"] = short_number(ratio);
  }
  if (const Measurement* peer = group.fastest(Role::kPeer)) {
    entry["over_peer"] = short_number(peer->median / m.median);
  }
  return entry;
}

Json to_json(const BenchOptions& options) {
  Json json = {{"mode", to_string(options.mode)}};
  if (options.mode == Mode::kSustained) {
    json["windows"] = options.windows;
    json["window_milliseconds"] = whole_number(options.window_milliseconds);
    json["flush"] = "none: calls take sets of tensors in turns";
  } else {
    json["min_runs"] = options.min_runs;
    json["min_milliseconds"] = whole_number(options.min_milliseconds);
    json["flush"] = "reads 2x the L2 before each run";
  }
  json["warm_up"] = options.warm_up;
  json["seed"] = options.seed;
  return json;
}

}  // namespace

std::string_view to_string(Mode mode) { return mode == Mode::kBurst ? "burst" : "sustained"; }

std::string Measurement::title() const {
  return variants == 0 ? name : fmt::format("{} ({} of {})", name, variant, variants);
}

const Measurement* BenchGroup::fastest(Role role) const {
  const Measurement* best = nullptr;
  for (const Measurement& m : measurements) {
    if (m.role != role || m.verdict != Verdict::kPassed) continue;
    if (best == nullptr || m.median < best->median) best = &m;
  }
  return best;
}

double BenchGroup::over_from(const Measurement& rung) const {
  const auto from = std::ranges::find(measurements, rung.from, &Measurement::name);
  if (rung.from.empty() || from == measurements.end()) return 0;
  return from->verdict == Verdict::kPassed && rung.median > 0 ? from->median / rung.median : 0;
}

void require_times() {
  require(!runtime::kEmulated,
          "timings in the emulator mean nothing; `warpsmith ladder` shows what it can count. Build "
          "the preset `cuda` and run bench on a GPU");
}

BenchGroup bench(const Operation& operation, std::span<const Rung* const> rungs, const Case& chosen,
                 DType dtype, const BenchOptions& options) {
  require_times();
  const Machine machine = harness::machine();
  Instance instance(operation, chosen, dtype, options.seed,
                    {.flops = 1e9, .elements = int64_t{1} << 22}, options.limits);
  BenchGroup group = group_of(machine, instance);

  TensorSets sets(instance, machine.l2_bytes, options.mode);
  group.mode = options.mode;
  group.sets = sets.count();
  group.rotated = sets.bytes();
  const Rung* const chosen_rung =
      options.only_best ? &best(sets[0].call(), machine.capability) : nullptr;
  if (chosen_rung != nullptr) rungs = {&chosen_rung, 1};
  std::vector<Contender> contenders = contenders_of(operation, rungs, sets, options);
  const Copies copies(sets, group.memory_bound ? group.cost.bytes : 0);
  std::ranges::move(copiers(copies, options.stream), std::back_inserter(contenders));

  const auto time = [&](const BenchOptions& how, std::vector<Contender>& timed) {
    BenchLoop(how, sets, 2 * machine.l2_bytes, machine.clock).run(timed);
  };
  const auto compare = [&](Contender& contender) {
    compare_after(contender, sets, instance, options.stream);
  };
  const BenchOptions few = brief(options);
  choose_variants(
      contenders, [&](std::vector<Contender>& variants) { time(few, variants); }, compare);
  time(options, contenders);
  for (Contender& c : contenders) {
    if (c.comparable && c.verdict == Verdict::kPassed) compare(c);
  }

  const double copied = 2.0 * static_cast<double>(copies.half());
  const double work = group.memory_bound ? group.cost.bytes : group.cost.flops;
  for (const Contender& c : contenders) {
    group.measurements.push_back(judged(c, group, c.role == Role::kCopy ? copied : work));
  }
  find_ceiling(machine, group);
  return group;
}

Json to_json(const BenchGroup& group) {
  Json json = {{"family", group.family},
               {"operation", group.operation},
               {"problem", group.problem},
               {"dtype", to_string(group.dtype)},
               {"mode", to_string(group.mode)},
               {"extents", group.extents},
               {"bytes", whole_number(group.cost.bytes)},
               {"flops", whole_number(group.cost.flops)}};
  if (group.mode == Mode::kSustained) {
    json["sets"] = group.sets;
    json["rotated_bytes"] = whole_number(group.rotated);
  }
  if (group.cost.at_most) json["at_most"] = true;
  json["bound"] = group.memory_bound ? "memory" : "compute";
  json["unit"] = group.memory_bound ? "byte/s" : "FLOP/s";
  json["ceiling"] = short_number(group.ceiling);
  json["ceiling_name"] = group.ceiling_name;
  json["floor_us"] = short_number(group.floor);
  json["measurements"] = Json::array();
  for (const Measurement& m : group.measurements) {
    json["measurements"].push_back(to_json(m, group));
  }
  return json;
}

Json report(const BenchOptions& options, std::span<const BenchGroup> groups) {
  Json json = {{"tool", "warpsmith"}, {"format", 2}, {"device", to_json(machine())}};
  Json run = provenance();
  run["options"] = to_json(options);
  if (!options.packages.empty()) run["packages"] = options.packages;
  json["runs"] = Json::array({run});
  json["results"] = Json::array();
  for (const BenchGroup& group : groups) {
    Json entry = {{"run", 0}};
    entry.update(to_json(group));
    json["results"].push_back(std::move(entry));
  }
  return json;
}

std::string report_text(const Json& report) {
  std::string text = "{\n";
  for (const auto& [key, value] : report.items()) {
    if (key == "runs" || key == "results") continue;
    text += fmt::format(" \"{}\": {},\n", key, value.dump());
  }
  const auto lines = [](const Json& list, std::string_view indent) {
    std::string joined;
    for (const Json& entry : list) {
      joined += fmt::format("{}\n{}{}", joined.empty() ? "" : ",", indent, entry.dump());
    }
    return joined;
  };
  text += fmt::format(" \"runs\": [{}],\n \"results\": [", lines(report.at("runs"), "  "));
  std::string_view comma;
  for (Json group : report.at("results")) {
    const Json measurements = group.at("measurements");
    group.erase("measurements");
    const std::string facts = group.dump();
    text += fmt::format("{}\n  {},\"measurements\":[{}]}}", comma,
                        std::string_view(facts).substr(0, facts.size() - 1),
                        lines(measurements, "   "));
    comma = ",";
  }
  return text + "]\n}\n";
}

}  // namespace ws::harness
