#include "report/results.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <set>
#include <utility>

#include "warpsmith/runtime.hpp"

namespace ws::report {
namespace {

double number_or(const Json& json, const char* key, double otherwise) {
  const auto at = json.find(key);
  return at == json.end() || at->is_null() ? otherwise : at->get<double>();
}

Role role_from(const std::string& text) {
  if (text == "rung") return Role::kRung;
  if (text == "peer") return Role::kPeer;
  require(text == "copy", "role '", text, "': 'rung', 'peer' or 'copy'");
  return Role::kCopy;
}

Contender measured_from(const Json& json) {
  Contender contender;
  json.at("name").get_to(contender.name);
  contender.role = role_from(json.at("role"));
  json.at("verdict").get_to(contender.verdict);
  contender.reason = json.value("reason", "");
  contender.deterministic = json.value("deterministic", true);
  contender.error = number_or(json, "error", -1);
  if (!json.contains("median_us")) return contender;
  json.at("median_us").get_to(contender.median_us);
  json.at("min_us").get_to(contender.min_us);
  json.at("max_us").get_to(contender.max_us);
  json.at("rate").get_to(contender.rate);
  contender.of_ceiling = number_or(json, "of_ceiling", 0);
  contender.over_peer = number_or(json, "over_peer", 0);
  return contender;
}

Ladder measured_ladder_from(const Json& group, const Json& runs) {
  Ladder ladder;
  group.at("family").get_to(ladder.family);
  group.at("operation").get_to(ladder.operation);
  group.at("problem").get_to(ladder.problem);
  // Not to be held beside a burst's.
  if (group.value("mode", "burst") == "sustained") ladder.problem += ", sustained";
  group.at("dtype").get_to(ladder.dtype);
  group.at("bytes").get_to(ladder.bytes);
  group.at("flops").get_to(ladder.flops);
  ladder.at_most = group.value("at_most", false);
  ladder.memory_bound = group.at("bound") == "memory";
  ladder.ceiling = number_or(group, "ceiling", 0);
  group.at("ceiling_name").get_to(ladder.ceiling_name);
  const Json& run = runs.at(group.value("run", size_t{0}));
  ladder.run = fmt::format("{}, {}", run.at("date").get<std::string>().substr(0, 10),
                           run.at("revision").get<std::string>());
  for (const Json& m : group.at("measurements")) ladder.contenders.push_back(measured_from(m));
  return ladder;
}

CountedLine line_from(const Json& json) {
  CountedLine line;
  json.at("file").get_to(line.file);
  json.at("line").get_to(line.line);
  json.at("operation").get_to(line.operation);
  json.at("cost").get_to(line.cost);
  json.at("ideal_cost").get_to(line.ideal_cost);
  line.source = json.value("source", "");
  line.requests = number_or(json, "requests", 0);
  line.sectors = number_or(json, "sectors", 0);
  line.ideal_sectors = number_or(json, "ideal_sectors", 0);
  line.wavefronts = number_or(json, "wavefronts", 0);
  line.ideal_wavefronts = number_or(json, "ideal_wavefronts", 0);
  if (json.contains("remarks")) json.at("remarks").get_to(line.remarks);
  return line;
}

Counts counts_from(const Json& profile, const Json& counts) {
  Counts result;
  for (const char* key : {"global_load_bytes", "global_store_bytes", "async_bytes"}) {
    result.asked += counts.at(key).get<double>();
  }
  counts.at("barriers").get_to(result.barriers);
  result.moved = 32 * profile.at("sectors").get<double>();
  profile.at("sectors_a_request").get_to(result.sectors_a_request);
  profile.at("ideal_sectors_a_request").get_to(result.ideal_sectors_a_request);
  profile.at("ways").get_to(result.ways);
  profile.at("cost").get_to(result.cost);
  if (profile.contains("lines")) {
    for (const Json& line : profile.at("lines")) result.lines.push_back(line_from(line));
  }
  return result;
}

// Of `ladder --json` in the emulator: an entry a rung, those of one problem after the other.
std::vector<Ladder> counted_ladders_from(const Json& entries) {
  std::vector<Ladder> ladders;
  for (const Json& entry : entries) {
    const auto name = entry.at("rung").get<std::string>();
    const auto problem = entry.at("problem").get<std::string>();
    const std::string operation = name.substr(0, name.find('/'));
    if (ladders.empty() || ladders.back().problem != problem ||
        ladders.back().operation != operation) {
      Ladder& ladder = ladders.emplace_back();
      ladder.family = family_of(operation_named(operation)).name;
      ladder.operation = operation;
      ladder.problem = problem;
      entry.at("dtype").get_to(ladder.dtype);
      entry.at("bytes").get_to(ladder.bytes);
      entry.at("flops").get_to(ladder.flops);
      ladder.counted = true;
    }
    Contender& rung = ladders.back().contenders.emplace_back();
    rung.name = name;
    entry.at("verdict").get_to(rung.verdict);
    rung.reason = entry.value("reason", "");
    rung.error = number_or(entry, "error", -1);
    if (entry.contains("profile")) {
      rung.counts = counts_from(entry.at("profile"), entry.at("counts"));
    }
  }
  return ladders;
}

}  // namespace

std::string Contender::short_name() const {
  return role == Role::kRung ? name.substr(name.find('/') + 1) : name;
}

const Contender* Ladder::find(std::string_view name) const {
  const auto at = std::ranges::find(contenders, name, &Contender::name);
  return at == contenders.end() ? nullptr : &*at;
}

const Contender* Ladder::fastest(Role role) const {
  const Contender* best = nullptr;
  for (const Contender& c : contenders) {
    if (c.role != role || !c.passed() || c.median_us <= 0) continue;
    if (best == nullptr || c.median_us < best->median_us) best = &c;
  }
  return best;
}

double Ladder::least_cost() const {
  double least = 0;
  for (const Contender& c : contenders) {
    if (c.counts.cost > 0 && (least == 0 || c.counts.cost < least)) least = c.counts.cost;
  }
  return least;
}

std::vector<std::string> Results::operations() const {
  std::vector<std::string> names;
  for (const Ladder& ladder : ladders) {
    if (std::ranges::find(names, ladder.operation) == names.end()) {
      names.push_back(ladder.operation);
    }
  }
  return names;
}

std::vector<const Ladder*> Results::of(std::string_view operation) const {
  std::vector<const Ladder*> found;
  for (const Ladder& ladder : ladders) {
    if (ladder.operation == operation) found.push_back(&ladder);
  }
  return found;
}

const Ladder* Results::find(std::string_view problem) const {
  const auto at = std::ranges::find(ladders, problem, &Ladder::problem);
  return at == ladders.end() ? nullptr : &*at;
}

Results read(const Json& json, const std::string& origin) {
  Results results;
  results.origin = origin;
  try {
    const Json& device = json.at("device");
    if (device == "emulator") {
      results.device = "emulator";
      results.ladders = counted_ladders_from(json.at("results"));
    } else {
      device.at("name").get_to(results.device);
      for (const Json& group : json.at("results")) {
        results.ladders.push_back(measured_ladder_from(group, json.at("runs")));
      }
    }
  } catch (const Json::exception& error) {
    throw InvalidArgument(fmt::format("{} is no result file of `bench` or `ladder --json`: {}",
                                      origin, error.what()));
  } catch (const InvalidArgument& error) {
    throw InvalidArgument(fmt::format("{}: {}", origin, error.message()));
  }
  require(!results.ladders.empty(), origin, " has no results in it");
  return results;
}

Results read_file(const std::string& path) {
  std::ifstream file(path);
  require(file.good(), "cannot read ", path);
  Json json;
  try {
    json = Json::parse(file);
  } catch (const Json::exception& error) {
    throw InvalidArgument(fmt::format("{} is no JSON: {}", path, error.what()));
  }
  return read(json, path);
}

Results read_files(std::span<const std::string> paths) {
  require(!paths.empty(), "no result file is named");
  Results all = read_file(paths.front());
  for (const std::string& path : paths.subspan(1)) {
    Results more = read_file(path);
    require(more.device == all.device, path, " is of ", more.device, ", ", paths.front(), " of ",
            all.device, ": one report is of one device");
    std::ranges::move(more.ladders, std::back_inserter(all.ladders));
  }
  if (paths.size() > 1) all.origin += fmt::format(" and {} more", paths.size() - 1);
  return all;
}

Results of_this_machine(const harness::Selection& selection, const harness::LadderOptions& options,
                        const harness::Announce& announce) {
  std::vector<std::string> names = selection.names;
  if (names.empty()) {
    for (const Family* family : families()) names.emplace_back(family->name);
  }
  Results all;
  for (const std::string& name : names) {
    const Address address = harness::address_of(name);
    const std::string_view of =
        address.operation != nullptr ? address.operation->name : address.family->name;
    harness::Selection chosen = selection;
    chosen.names.clear();
    const Operation& operation = harness::choose_ladder(std::string(of), chosen);
    Results more = read(harness::ladder(operation, chosen, options, announce),
                        runtime::kEmulated ? "the emulator" : "this machine");
    all.origin = more.origin;
    all.device = more.device;
    std::ranges::move(more.ladders, std::back_inserter(all.ladders));
  }
  return all;
}

std::vector<const Ladder*> chosen(const Results& results, const Choice& choice) {
  const auto is_of = [](const Ladder& ladder, const Address& address) {
    return address.operation == nullptr ? ladder.family == address.family->name
                                        : ladder.operation == address.operation->name;
  };
  std::vector<const Ladder*> found;
  std::vector<Address> addresses;
  for (const std::string& name : choice.names) {
    Address address = harness::address_of(name);
    // A family's name stands for all of it, also where an operation is called the same.
    if (name == address.family->name) address.operation = nullptr;
    require(std::ranges::any_of(results.ladders,
                                [&](const Ladder& ladder) { return is_of(ladder, address); }),
            results.origin, " has nothing of ", name, "; it has ",
            fmt::format("{}", fmt::join(results.operations(), ", ")));
    addresses.push_back(address);
  }
  for (const std::string& dtype : choice.dtypes) dtype_from(dtype);
  for (const Ladder& ladder : results.ladders) {
    const bool named = std::ranges::any_of(
        addresses, [&](const Address& address) { return is_of(ladder, address); });
    if (!choice.names.empty() && !named) continue;
    if (!choice.dtypes.empty() &&
        std::ranges::find(choice.dtypes, ladder.dtype) == choice.dtypes.end()) {
      continue;
    }
    if (ladder.problem.find(choice.problem) == std::string::npos) continue;
    found.push_back(&ladder);
  }
  require(!found.empty(), results.origin, " has no problem with ",
          choice.problem.empty() ? "these names and dtypes" : "'" + choice.problem + "'",
          "; its first is ", results.ladders.front().problem);
  return found;
}

std::vector<Change> changes(const Results& before, const Results& after) {
  require(before.counted() == after.counted(), before.origin, " is of ", before.device, ", ",
          after.origin, " of ", after.device, ": times and counts have nothing to compare");
  std::vector<Change> all;
  std::set<std::string> seen;
  for (const Ladder& ladder : before.ladders) {
    const Ladder* other = after.find(ladder.problem);
    if (other == nullptr || !seen.insert(ladder.problem).second) continue;
    for (const Contender& old : ladder.contenders) {
      const Contender* now = other->find(old.name);
      if (now == nullptr || !old.ran() || !now->ran()) continue;
      const double ratio =
          ladder.counted ? old.counts.cost / now->counts.cost : old.median_us / now->median_us;
      all.push_back({&ladder, other, &old, now, ratio});
    }
  }
  return all;
}

}  // namespace ws::report
