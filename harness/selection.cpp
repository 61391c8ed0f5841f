#include "harness/selection.hpp"

#include <algorithm>
#include <exception>
#include <functional>
#include <memory>
#include <sstream>

#include "catalogue/catalogue_json.hpp"
#include "harness/random_cases.hpp"
#include "harness/seeds.hpp"
#include "warpsmith/runtime.hpp"

namespace ws::harness {
namespace {

template <class Names>  // of std::string or std::string_view
std::string joined(const Names& names, std::string_view by) {
  std::string text;
  for (const std::string_view name : names) text.append(text.empty() ? "" : by).append(name);
  return text;
}

std::string joined(std::span<const int64_t> extents) {
  std::string text;
  for (const int64_t extent : extents) {
    text.append(text.empty() ? "" : "x").append(std::to_string(extent));
  }
  return text;
}

Case case_of(const Operation& operation, std::span<const int64_t> extents, int offset) {
  const size_t most = operation.extent_names.size();
  const auto optional = static_cast<size_t>(operation.optional_extents);
  require(extents.size() <= most && extents.size() + optional >= most, "shape ", joined(extents),
          " has ", extents.size(), extents.size() == 1 ? " extent, " : " extents, ", operation.name,
          " has ", most, ": ", joined(operation.extent_names, "x"),
          optional > 0 ? concatenate(", of which the last ", optional, " may be left out") : "");
  for (const int64_t extent : extents) {
    require(extent >= 0, "shape ", joined(extents), ": an extent is 0 or more");
  }
  constexpr int kMostOffset = 4096;  // one boundary is like another
  require(offset >= 0 && offset <= kMostOffset, "offset ", offset, ": from 0 to ", kMostOffset);
  Case chosen{.offset = offset};
  std::ranges::copy(extents, chosen.extents.begin());
  return chosen;
}

void set(const Operation& operation, const std::string& name, const Json& value, Case& chosen) {
  std::vector<std::string_view> known;
  for (size_t i = 0; i < operation.attributes.size(); ++i) {
    const Attribute& attribute = operation.attributes[i];
    if (attribute.name == name) {
      chosen.attributes[i] = value_from(attribute, value);
      return;
    }
    known.push_back(attribute.name);
  }
  throw InvalidArgument(
      concatenate("no attribute '", name, "': ", operation.name,
                  known.empty() ? " has none" : concatenate(" has ", joined(known, ", "))));
}

// One problem, and the rungs that are wanted on it.
struct Job {
  const Operation* operation;
  Case chosen;
  DType dtype;
  size_t number;  // of the case
  size_t count;
  std::vector<const Rung*> rungs;
  double seconds;  // roughly, of all rungs
};

double seconds_of(std::span<const Job> jobs) {
  double all = 0;
  for (const Job& job : jobs) all += job.seconds;
  return all;
}

// Whether an operation is meant by more than its family's name.
bool is_named(const Selection& selection, const Operation& operation) {
  return selection.names.empty() ||
         std::ranges::any_of(selection.names, [&](const std::string& name) {
           const Address address = address_of(name);
           return address.operation == &operation && name != address.family->name;
         });
}

// Attributes that the seed names of all targets of an operation fix alike, each as a setting.
std::vector<std::pair<std::string, Json>> fixed_by(std::span<const Target> targets,
                                                   const Operation& operation) {
  std::vector<std::string_view> texts;
  for (const Target& target : targets) {
    if (target.operation == &operation) texts.push_back(target.attributes);
  }
  if (std::ranges::adjacent_find(texts, std::not_equal_to{}) != texts.end()) return {};
  std::vector<std::pair<std::string, Json>> settings;
  std::istringstream parts{std::string(texts.empty() ? "" : texts.front())};
  for (std::string part; std::getline(parts, part, ',');) {
    const size_t equals = part.find('=');
    settings.emplace_back(part.substr(0, equals), part.substr(equals + 1));
  }
  return settings;
}

// "verify of 39 rungs on gemm f32 [4096, 4096] x [4096, 4096] and 3 problems more"
std::string summary_of(std::span<const Job> jobs, std::string_view list) {
  const Job& longest = *std::ranges::max_element(jobs, {}, &Job::seconds);
  std::string text = concatenate(
      list, " of ", longest.rungs.size(), longest.rungs.size() == 1 ? " rung on " : " rungs on ",
      make_problem(*longest.operation, longest.chosen, longest.dtype).describe());
  if (jobs.size() > 1) text += concatenate(" and ", jobs.size() - 1, " problems more");
  return text;
}

// Checked, all of them: what no memory holds, or would take too long, is refused before anything
// runs. `runs` of each rung are what the list's verb does.
std::vector<Job> jobs_of(const Selection& selection, std::string_view list, double runs) {
  const std::vector<Target> targets = targets_of(selection.names);
  std::vector<Job> jobs;
  std::exception_ptr unfit;  // what the first operation said that was left out
  for (const Operation* operation : operations_of(targets)) {
    std::vector<Case> cases;
    Selection set = selection;  // what is written beside a name says more than the name
    set.settings = fixed_by(targets, *operation);
    const bool fixed = !set.settings.empty();
    set.settings.insert(set.settings.end(), selection.settings.begin(), selection.settings.end());
    try {
      cases = set.of(*operation, set.standard(*operation, list));
      if (fixed) {  // cases that differed in nothing else are one now
        std::vector<Case> all;
        for (Case& chosen : cases) {
          chosen.dtypes = {};
          if (std::ranges::find(all, chosen) == all.end()) all.push_back(chosen);
        }
        cases = std::move(all);
      }
    } catch (const InvalidArgument&) {
      // A family's operations have not all the same extents and attributes: those that have them.
      if (is_named(selection, *operation)) throw;
      if (unfit == nullptr) unfit = std::current_exception();
      continue;
    }
    for (const DType dtype : selection.chosen(operation->dtypes)) {
      std::vector<const Rung*> rungs;
      for (const Target& target : targets) {
        if (target.operation == operation && target.dtypes.has(dtype)) {
          rungs.push_back(target.rung);
        }
      }
      if (rungs.empty()) continue;
      const std::vector<Case> of_dtype =
          selection.random == 0
              ? cases
              : random_cases(*operation, dtype, cases, selection.random, selection.seed);
      for (size_t c = 0; c < of_dtype.size(); ++c) {
        if (!of_dtype[c].is_of(dtype)) continue;
        const AnyCall checked(make_problem(*operation, of_dtype[c], dtype));
        if (!selection.wants(checked.problem())) continue;
        check_memory(checked.problem(), of_dtype[c].offset, selection.limits);
        const double seconds =
            estimated_seconds(checked.problem(), runs * static_cast<double>(rungs.size()));
        jobs.push_back({operation, of_dtype[c], dtype, c, of_dtype.size(), rungs, seconds});
      }
    }
  }
  if (jobs.empty() && unfit != nullptr) std::rethrow_exception(unfit);
  require(!jobs.empty(), "nothing to ", list, ": no rung named takes these dtypes",
          selection.random > 0 ? ", or the shapes leave no other between them" : "",
          selection.problems.empty() ? ""
                                     : concatenate(", or no problem is called '",
                                                   joined(selection.problems, "' or '"), "'"));
  check_time(summary_of(jobs, list), seconds_of(jobs), selection.limits);
  return jobs;
}

}  // namespace

std::string Target::name() const { return concatenate(operation->name, "/", rung->name); }

Address address_of(const std::string& name) {
  try {
    return resolve(name);
  } catch (const InvalidArgument&) {
    for (const SeedRow& seed : seed_rows()) {
      if (seed.name != name || !seed.rung.empty()) continue;
      require(seed.verb.empty(), "'", name, "' is no rung: `warpsmith ", seed.verb,
              "` answers to it");
      throw InvalidArgument(
          concatenate("'", name, "' is a ", seed.family,
                      " kernel of the public collections that no rung answers to yet; ",
                      "`warpsmith list ", seed.family, "` shows the rungs there are"));
    }
    throw;
  }
}

std::vector<Target> targets_of(std::span<const std::string> names) {
  std::vector<Target> targets;
  const auto add_rung = [&](const Address& address, const Operation& operation, const Rung* rung) {
    const DTypes taken = dtypes_of(*rung, operation);
    const bool known = std::ranges::any_of(
        targets, [&](const Target& t) { return t.operation == &operation && t.rung == rung; });
    if (known || taken.empty()) return;
    targets.push_back({address.family, &operation, rung,
                       address.dtypes.empty() ? taken : taken & address.dtypes,
                       address.attributes});
  };
  const auto add = [&](const Address& address, bool whole) {
    for (const Operation& operation : address.family->operations) {
      if (!whole && address.operation != nullptr && address.operation != &operation) continue;
      if (address.rung != nullptr) {
        add_rung(address, operation, address.rung);
        continue;
      }
      for (const Rung* rung : address.family->rungs) add_rung(address, operation, rung);
    }
  };
  for (const std::string& name : names) {
    const Address address = address_of(name);
    // A family's name stands for all of it, also where an operation is called the same.
    add(address, name == address.family->name);
  }
  if (names.empty()) {
    for (const Family* family : families()) add({.family = family}, true);
  }
  return targets;
}

std::vector<const Operation*> operations_of(std::span<const Target> targets) {
  std::vector<const Operation*> operations;
  for (const Target& target : targets) {
    if (std::ranges::find(operations, target.operation) == operations.end()) {
      operations.push_back(target.operation);
    }
  }
  return operations;
}

// ---- Selections -------------------------------------------------------------------------------

std::vector<Case> Selection::of(const Operation& operation,
                                std::span<const Case> standard_cases) const {
  std::vector<Case> all;
  for (const std::vector<int64_t>& shape : shapes) {
    all.push_back(case_of(operation, shape, offset));
  }
  if (shapes.empty()) all.assign(standard_cases.begin(), standard_cases.end());
  if (shapes.empty() && first_case) all.resize(1);
  for (Case& chosen : all) {
    for (const auto& [name, value] : settings) set(operation, name, value, chosen);
  }
  return all;
}

std::span<const Case> Selection::standard(const Operation& operation,
                                          std::string_view otherwise) const {
  const std::string_view list = cases.empty() ? otherwise : std::string_view(cases);
  const Cases all = operation.cases();
  if (list == "smoke") return all.smoke;
  if (list == "bench") return all.bench;
  require(list == "verify", "cases '", list, "': 'smoke', 'verify' or 'bench'");
  return all.verify;
}

std::vector<DType> Selection::chosen(DTypes available) const {
  std::vector<DType> all;
  for (const std::string& name : dtypes) {
    const DType dtype = dtype_from(name);
    if (available.has(dtype)) all.push_back(dtype);
  }
  if (!dtypes.empty()) return all;
  std::ranges::copy_if(kAllDTypes, std::back_inserter(all),
                       [&](DType dtype) { return available.has(dtype); });
  return all;
}

bool Selection::wants(const Problem& problem) const {
  if (problems.empty()) return true;
  const std::string described = problem.describe();
  return std::ranges::any_of(
      problems, [&](const std::string& part) { return described.find(part) != std::string::npos; });
}

Selection selection_from(const Fields& options) {
  Selection selection;
  selection.names = options.get("names", selection.names);
  selection.dtypes = options.get("dtypes", selection.dtypes);
  selection.cases = options.get("cases", selection.cases);
  selection.shapes = options.get("shapes", selection.shapes);
  selection.problems = options.get("problems", selection.problems);
  selection.seed = options.get("seed", selection.seed);
  selection.offset = options.get("offset", selection.offset);
  selection.random = options.get("random", uint64_t{selection.random});
  selection.limits = {.gigabytes = options.get("memory", selection.limits.gigabytes),
                      .seconds = options.get("time", selection.limits.seconds)};
  if (options.has("attributes")) {
    const Json& attributes = options.at("attributes");
    if (!attributes.is_object()) throw_is_not(attributes, "an object of attributes");
    for (const auto& [name, value] : attributes.items())
      selection.settings.emplace_back(name, value);
  }
  return selection;
}

// ---- Over all of it ---------------------------------------------------------------------------

std::vector<Verification> verify_all(const Selection& selection, const Announce& announce) {
  std::vector<Verification> results;
  const auto runs = static_cast<double>(runtime::orders_to_check().size());
  const std::vector<Job> jobs = jobs_of(selection, "verify", runs);
  const double all = std::max(seconds_of(jobs), 1e-9);
  double done = 0;
  for (const Job& job : jobs) {
    Instance instance(*job.operation, job.chosen, job.dtype, selection.seed + job.number, {},
                      selection.limits);
    for (const Rung* rung : job.rungs) {
      if (announce) {
        announce(concatenate("verify ", job.operation->name, "/", rung->name, " ",
                             to_string(job.dtype), ": case ", job.number + 1, " of ", job.count),
                 done / all);
      }
      done += job.seconds / static_cast<double>(job.rungs.size());
      results.push_back(verify(*rung, instance));
      // A fault in a kernel takes the process's GPU context with it: the rest would only echo.
      if (results.back().defect == Defect::kError && !runtime::is_usable()) {
        results.back().reason += "\n  the GPU is lost to this process: the rest was not run";
        return results;
      }
    }
  }
  return results;
}

Json to_json(const Selection& selection, std::span<const Verification> results) {
  Json json = {{"device", runtime::kName},
               {"seed", selection.seed},
               {"failed", std::ranges::count(results, Verdict::kFailed, &Verification::verdict)},
               {"skipped", std::ranges::count(results, Verdict::kSkipped, &Verification::verdict)},
               {"results", Json::array()}};
  for (const Verification& result : results) json["results"].push_back(to_json(result));
  return json;
}

std::vector<BenchGroup> bench_all(const Selection& selection, const BenchOptions& options,
                                  const std::function<void(const BenchGroup&)>& done,
                                  const Announce& announce) {
  require_times();
  constexpr double kRuns = 10;  // at least, with those that warm up and the one that is compared
  std::vector<BenchGroup> groups;
  const std::vector<Job> jobs = jobs_of(selection, "bench", kRuns);
  BenchOptions limited = options;
  limited.limits = selection.limits;
  for (const Job& job : jobs) {
    if (announce) {
      // Each contender gets its time, whatever the problem takes.
      announce(concatenate("bench ", job.operation->name, " ", to_string(job.dtype), ": ",
                           job.rungs.size(), " rungs, case ", job.number + 1, " of ", job.count),
               static_cast<double>(groups.size()) / static_cast<double>(jobs.size()));
    }
    groups.push_back(bench(*job.operation, job.rungs, job.chosen, job.dtype, limited));
    groups.back().family = family_of(*job.operation).name;
    if (done) done(groups.back());
  }
  return groups;
}

}  // namespace ws::harness
