// Which rungs on which problems: the one way from what a user writes, in the program's options or
// in Python, to targets, dtypes and cases; and verify and bench over all of them.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "harness/bench.hpp"
#include "harness/fields.hpp"
#include "harness/json.hpp"
#include "harness/limits.hpp"
#include "harness/verify.hpp"

namespace ws::harness {

// One rung of one operation.
struct Target {
  const Family* family;
  const Operation* operation;
  const Rung* rung;
  DTypes dtypes;                     // that the rung takes of the operation, and a seed name allows
  std::string_view attributes = {};  // that a seed name fixes
  std::string name() const;
};

// catalogue's resolve(); a kernel of the public collections that no rung answers to yet is not
// called unknown.
Address address_of(const std::string& name);
// What names stand for: a family all of it, an operation its rungs; none stands for everything.
std::vector<Target> targets_of(std::span<const std::string> names);
// In the order in which they come first.
std::vector<const Operation*> operations_of(std::span<const Target> targets);

struct Selection {
  std::vector<std::string> names;   // families, operations, rungs, seed names; none: everything
  std::vector<std::string> dtypes;  // none: all
  std::string cases;                // "smoke", "verify" or "bench"; empty: the verb's own
  std::vector<std::vector<int64_t>> shapes;            // extents, instead of the cases
  std::vector<std::pair<std::string, Json>> settings;  // attributes, for every case
  std::vector<std::string> problems;  // of the cases those that tables call so; none: all
  bool first_case = false;            // of the list: that one alone
  size_t random = 0;  // so many cases of each dtype that the list has not: random_cases()
  uint64_t seed = 1;
  int offset = 0;  // of the shapes' pointers, in elements past a 256-byte boundary
  Limits limits{};

  // The cases: `standard`, or one for each shape; with the settings.
  std::vector<Case> of(const Operation& operation, std::span<const Case> standard) const;
  // The list that `cases` names, or `otherwise` where it is empty.
  std::span<const Case> standard(const Operation& operation, std::string_view otherwise) const;
  // Those of `available` that `dtypes` allows.
  std::vector<DType> chosen(DTypes available) const;
  // Whether `problems` has a part of what describes the problem.
  bool wants(const Problem& problem) const;
};
// From {"names", "dtypes", "cases", "shapes", "attributes": {name: value}, "problems", "seed",
// "offset", "random", "memory" in GB, "time" in seconds}, each of which may be left out. Throws
// InvalidArgument.
Selection selection_from(const Fields& options);

// Called with what is done next, and which share of all is done, for a line of progress.
using Announce = std::function<void(const std::string& what, double done)>;

// Every target on every case and dtype, all rungs on one instance after the other. An operation
// that a family's name alone stands for is left out where it has no such extents or attributes and
// another has. All problems are checked before the first runs, and what they take together. Stops
// where the GPU is lost to the process. Throws InvalidArgument for a bad selection, also one of
// nothing.
std::vector<Verification> verify_all(const Selection& selection, const Announce& announce = {});
// {"device", "seed", "failed", "skipped", "results"}
Json to_json(const Selection& selection, std::span<const Verification> results);

// The same for bench; `done` is called after each problem, so that a run that is cut short has left
// what it measured. Where the GPU is lost the error goes on to the caller.
std::vector<BenchGroup> bench_all(const Selection& selection, const BenchOptions& options,
                                  const std::function<void(const BenchGroup&)>& done = {},
                                  const Announce& announce = {});

}  // namespace ws::harness
