#include "report/results.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <utility>

#include "harness/fields.hpp"
#include "harness/readable.hpp"
#include "report/same_problem.hpp"
#include "warpsmith/runtime.hpp"

namespace ws::report {
namespace {

using harness::Fields;

// Control characters of a file are not a terminal's.
std::string text_of(const Fields& fields, const char* key) {
  return harness::readable(fields.get<std::string>(key));
}
std::string text_of(const Fields& fields, const char* key, const std::string& otherwise) {
  return harness::readable(fields.get<std::string>(key, otherwise));
}

double amount_of(const Fields& fields, const char* key) {
  const auto value = fields.get<double>(key);
  require(value >= 0 && std::isfinite(value), fields.where(), ": '", key, "' is ", value,
          ", not 0 or more");
  return value;
}
double amount_or_0(const Fields& fields, const char* key) {
  return fields.has(key) ? amount_of(fields, key) : 0;
}

Role role_of(const Fields& fields) {
  const std::string text = text_of(fields, "role");
  if (text == "rung") return Role::kRung;
  if (text == "peer") return Role::kPeer;
  require(text == "copy", fields.where(), ": role '", text, "': 'rung', 'peer' or 'copy'");
  return Role::kCopy;
}

Contender measured_from(const Fields& fields) {
  Contender contender;
  contender.name = text_of(fields, "name");
  contender.role = role_of(fields);
  contender.verdict = text_of(fields, "verdict");
  contender.reason = text_of(fields, "reason", "");
  contender.deterministic = fields.get<bool>("deterministic", true);
  contender.error = fields.get<double>("error", -1);
  if (!fields.has("median_us")) return contender;
  contender.median_us = amount_of(fields, "median_us");
  contender.min_us = amount_of(fields, "min_us");
  contender.max_us = amount_of(fields, "max_us");
  contender.rate = amount_of(fields, "rate");
  contender.of_ceiling = amount_or_0(fields, "of_ceiling");
  contender.over_peer = amount_or_0(fields, "over_peer");
  return contender;
}

std::string run_of(const Fields& group, std::span<const Fields> runs) {
  const auto number = group.get<uint64_t>("run", 0);
  require(number < runs.size(), group.where(), ": 'run' is ", number, ", and there are ",
          runs.size(), " runs, counted from 0");
  const Fields& run = runs[number];
  return fmt::format("{}, {}", text_of(run, "date").substr(0, 10), text_of(run, "revision"));
}

Ladder measured_ladder_from(const Fields& group, std::span<const Fields> runs) {
  Ladder ladder;
  ladder.family = text_of(group, "family");
  ladder.operation = text_of(group, "operation");
  ladder.problem = text_of(group, "problem");
  // Not to be held beside a burst's.
  if (text_of(group, "mode", "burst") == "sustained") ladder.problem += ", sustained";
  ladder.dtype = text_of(group, "dtype");
  ladder.bytes = amount_of(group, "bytes");
  ladder.flops = amount_of(group, "flops");
  ladder.at_most = group.get<bool>("at_most", false);
  ladder.memory_bound = text_of(group, "bound") == "memory";
  ladder.ceiling = amount_or_0(group, "ceiling");
  ladder.ceiling_name = text_of(group, "ceiling_name");
  ladder.run = run_of(group, runs);
  for (const Fields& m : group.objects("measurements")) {
    ladder.contenders.push_back(measured_from(m));
  }
  return ladder;
}

CountedLine line_from(const Fields& fields) {
  CountedLine line;
  line.file = text_of(fields, "file");
  line.line = fields.get<int>("line");
  line.operation = text_of(fields, "operation");
  line.cost = amount_of(fields, "cost");
  line.ideal_cost = amount_of(fields, "ideal_cost");
  line.source = text_of(fields, "source", "");
  line.requests = amount_or_0(fields, "requests");
  line.sectors = amount_or_0(fields, "sectors");
  line.ideal_sectors = amount_or_0(fields, "ideal_sectors");
  line.wavefronts = amount_or_0(fields, "wavefronts");
  line.ideal_wavefronts = amount_or_0(fields, "ideal_wavefronts");
  for (const std::string& remark : fields.get<std::vector<std::string>>("remarks", {})) {
    line.remarks.push_back(harness::readable(remark));
  }
  return line;
}

Counts counts_from(const Fields& profile, const Fields& counts) {
  Counts result;
  for (const char* key : {"global_load_bytes", "global_store_bytes", "async_bytes"}) {
    result.asked += amount_of(counts, key);
  }
  result.barriers = amount_of(counts, "barriers");
  result.moved = 32 * amount_of(profile, "sectors");
  result.sectors_a_request = amount_of(profile, "sectors_a_request");
  result.ideal_sectors_a_request = amount_of(profile, "ideal_sectors_a_request");
  result.ways = amount_of(profile, "ways");
  result.cost = amount_of(profile, "cost");
  if (profile.has("lines")) {
    for (const Fields& line : profile.objects("lines")) result.lines.push_back(line_from(line));
  }
  return result;
}

std::string_view family_named(const Fields& entry, const std::string& operation) {
  try {
    return family_of(operation_named(operation)).name;
  } catch (const InvalidArgument& error) {
    throw InvalidArgument(fmt::format("{}: {}", entry.where(), error.message()));
  }
}

// Of `ladder --json` in the emulator: an entry a rung, those of one problem after the other.
std::vector<Ladder> counted_ladders_from(std::span<const Fields> entries) {
  std::vector<Ladder> ladders;
  for (const Fields& entry : entries) {
    const std::string name = text_of(entry, "rung");
    const std::string problem = text_of(entry, "problem");
    const std::string operation = name.substr(0, name.find('/'));
    if (ladders.empty() || ladders.back().problem != problem ||
        ladders.back().operation != operation) {
      Ladder& ladder = ladders.emplace_back();
      ladder.family = family_named(entry, operation);
      ladder.operation = operation;
      ladder.problem = problem;
      ladder.dtype = text_of(entry, "dtype");
      ladder.bytes = amount_of(entry, "bytes");
      ladder.flops = amount_of(entry, "flops");
      ladder.counted = true;
    }
    Contender& rung = ladders.back().contenders.emplace_back();
    rung.name = name;
    rung.verdict = text_of(entry, "verdict");
    rung.reason = text_of(entry, "reason", "");
    rung.error = entry.get<double>("error", -1);
    if (entry.has("profile")) {
      rung.counts = counts_from(entry.object("profile"), entry.object("counts"));
    }
  }
  return ladders;
}

// What says of itself that it is another tool's, or of another format.
void check_format(const Fields& file) {
  constexpr int64_t kFormat = 2;
  const std::string tool = text_of(file, "tool", "warpsmith");
  require(tool == "warpsmith", file.where(), ": it is of '", tool, "'");
  const auto format = file.get<int64_t>("format", kFormat);
  require(format == kFormat, file.where(), ": its format is ", format, ", this program reads ",
          kFormat);
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

const Ladder* Results::find(const Ladder& other) const {
  const auto at = std::ranges::find(ladders, other.problem, &Ladder::problem);
  if (at != ladders.end()) return &*at;
  const std::string essence = essence_of(other);
  const auto like = std::ranges::find_if(ladders, [&](const Ladder& ladder) {
    return ladder.operation == other.operation && ladder.dtype == other.dtype &&
           essence_of(ladder) == essence;
  });
  return like == ladders.end() ? nullptr : &*like;
}

Results read(const Json& json, const std::string& origin) {
  Results results;
  results.origin = harness::readable(origin);
  const Fields file(
      json, fmt::format("{} is no result file of `bench` or `ladder --json`", results.origin));
  check_format(file);
  if (file.at("device") == "emulator") {
    results.device = "emulator";
    results.ladders = counted_ladders_from(file.objects("results"));
  } else {
    results.device = text_of(file.object("device"), "name");
    const std::vector<Fields> runs = file.objects("runs");
    for (const Fields& group : file.objects("results")) {
      results.ladders.push_back(measured_ladder_from(group, runs));
    }
  }
  require(!results.ladders.empty(), results.origin, " has no results in it");
  return results;
}

Results read_file(const std::string& path) { return read(harness::read_json_file(path), path); }

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
  struct Part {
    const Operation* operation;
    harness::Selection selection;
  };
  std::vector<Part> parts;
  double seconds = 0;  // all parts are checked before the first runs
  for (const std::string& name : names) {
    const Address address = harness::address_of(name);
    const std::string_view of =
        address.operation != nullptr ? address.operation->name : address.family->name;
    Part& part = parts.emplace_back(Part{nullptr, selection});
    part.selection.names.clear();
    part.operation = &harness::choose_ladder(std::string(of), part.selection);
    if (!runtime::kEmulated) continue;
    seconds += seconds_of(harness::ladder_problems(*part.operation, part.selection));
  }
  harness::check_time(fmt::format("counting {} ladders", parts.size()), seconds, selection.limits);
  Results all;
  for (size_t i = 0; i < parts.size(); ++i) {
    const harness::Announce of_part = [&](const std::string& what, double done) {
      const double before = static_cast<double>(i);
      if (announce) announce(what, (before + done) / static_cast<double>(parts.size()));
    };
    Results more = read(harness::ladder(*parts[i].operation, parts[i].selection, options, of_part),
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

namespace {

// Ladders of `before` and `after` on one problem: those of the same text first, then what is left.
std::map<const Ladder*, const Ladder*> pairs_of(const Results& before, const Results& after) {
  std::map<const Ladder*, const Ladder*> pairs;
  std::set<const Ladder*> taken;
  const auto pair = [&](const Ladder& ladder, const Ladder* other) {
    if (other != nullptr && taken.insert(other).second) pairs[&ladder] = other;
  };
  std::set<std::string> seen;
  std::vector<const Ladder*> unmatched;
  for (const Ladder& ladder : before.ladders) {
    if (!seen.insert(ladder.problem).second) continue;
    const auto same = std::ranges::find(after.ladders, ladder.problem, &Ladder::problem);
    if (same == after.ladders.end()) {
      unmatched.push_back(&ladder);
    } else {
      pair(ladder, &*same);
    }
  }
  for (const Ladder* ladder : unmatched) pair(*ladder, after.find(*ladder));
  return pairs;
}

}  // namespace

std::vector<Change> changes(const Results& before, const Results& after) {
  require(before.counted() == after.counted(), before.origin, " is of ", before.device, ", ",
          after.origin, " of ", after.device, ": times and counts have nothing to compare");
  const std::map<const Ladder*, const Ladder*> pairs = pairs_of(before, after);
  std::vector<Change> all;
  for (const Ladder& ladder : before.ladders) {
    const auto at = pairs.find(&ladder);
    if (at == pairs.end()) continue;
    for (const Contender& old : ladder.contenders) {
      const Contender* now = at->second->find(old.name);
      if (now == nullptr || !old.ran() || !now->ran() || ladder.find(old.name) != &old) continue;
      const double ratio =
          ladder.counted ? old.counts.cost / now->counts.cost : old.median_us / now->median_us;
      all.push_back({&ladder, at->second, &old, now, ratio});
    }
  }
  return all;
}

}  // namespace ws::report
