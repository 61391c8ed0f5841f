// Result files as the report reads them: what `bench` wrote on a GPU, or `ladder --json` in the
// emulator. All plots and pages are made of these, whoever measured or counted.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "harness/ladder.hpp"

namespace ws::report {

using harness::Json;

// One line of a rung's source, as the emulator counted it: a ProfileLine.
struct CountedLine {
  std::string file;
  int line = 0;
  std::string operation;
  std::string source;
  double cost = 0;
  double ideal_cost = 0;  // had its bytes lain side by side, and without bank conflicts
  double requests = 0;
  double sectors = 0;
  double ideal_sectors = 0;
  double wavefronts = 0;
  double ideal_wavefronts = 0;
  std::vector<std::string> remarks;
};

// What the emulator counted of a rung.
struct Counts {
  double asked = 0;  // bytes that its instructions ask of global memory
  double moved = 0;  // bytes of the sectors that this takes
  double sectors_a_request = 0;
  double ideal_sectors_a_request = 0;
  double ways = 0;  // of bank conflicts; 0: no shared memory
  double barriers = 0;
  double cost = 0;  // clocks of one SM's memory pipes
  std::vector<CountedLine> lines;
};

enum class Role { kRung, kPeer, kCopy };

// One that took part: a rung, a library, a copy.
struct Contender {
  std::string name;  // "softmax/warp_per_row", "cudnn", "copy"
  Role role = Role::kRung;
  std::string verdict;  // "passed", "skipped", "failed"
  std::string reason;
  bool deterministic = true;
  double error = -1;  // negative: not compared
  // Measured: 0 in the emulator, and where it did not run.
  double median_us = 0;
  double min_us = 0;
  double max_us = 0;
  double rate = 0;        // byte/s or FLOP/s
  double of_ceiling = 0;  // share
  double over_peer = 0;
  Counts counts;  // zero where it was measured

  bool passed() const { return verdict == "passed"; }
  bool ran() const { return median_us > 0 || counts.cost > 0; }
  std::string short_name() const;  // without the operation
};

// All rungs on one problem.
struct Ladder {
  std::string family;
  std::string operation;
  std::string problem;
  std::string dtype;
  double bytes = 0;  // that must move
  double flops = 0;
  bool at_most = false;
  bool counted = false;  // in the emulator
  bool memory_bound = true;
  double ceiling = 0;
  std::string ceiling_name;
  std::string run;  // "2026-11-21, 0afd3753300e"
  std::vector<Contender> contenders;

  double intensity() const { return bytes > 0 ? flops / bytes : 0; }
  const Contender* find(std::string_view name) const;
  const Contender* fastest(Role role) const;  // that was measured; null: none
  // Share of what a rung moves that has to move: 1 where it asks for every byte once.
  double useful(const Contender& rung) const {
    return rung.counts.moved > 0 ? bytes / rung.counts.moved : 0;
  }
  double least_cost() const;  // of the rungs that were counted
};

struct Results {
  std::string origin;  // the file's name, or who made them
  std::string device;  // "NVIDIA H200", "emulator"
  std::vector<Ladder> ladders;

  bool counted() const { return device == "emulator"; }
  // By operation, in the order of the file.
  std::vector<std::string> operations() const;
  std::vector<const Ladder*> of(std::string_view operation) const;
  // The first of the same problem: by its text, else by what it is; null: none.
  const Ladder* find(const Ladder& other) const;
};

// Throws InvalidArgument, which names `origin`, where the JSON is neither.
Results read(const Json& json, const std::string& origin);
Results read_file(const std::string& path);
// Several files of one device as one. Throws InvalidArgument where they are of several.
Results read_files(std::span<const std::string> paths);

// Ladders of what the selection names, or of each family's first operation: measured or counted
// now.
Results of_this_machine(const harness::Selection& selection,
                        const harness::LadderOptions& options = {},
                        const harness::Announce& announce = {});

// What of results a picture or a page is of.
struct Choice {
  std::vector<std::string> names{};   // families, operations, rungs; none: all
  std::vector<std::string> dtypes{};  // none: all
  std::string problem{};              // a part of its text; empty: any
};
// Throws InvalidArgument for what is no name, and for what the results do not have.
std::vector<const Ladder*> chosen(const Results& results, const Choice& choice);

// A rung of two results on one problem.
struct Change {
  const Ladder* before_ladder;
  const Ladder* after_ladder;
  const Contender* before;
  const Contender* after;
  // How many times faster it is now; in the emulator by the clocks of the memory pipes.
  double ratio = 1;
};
// In the order of `before`, problem by problem, each of `after` once; of several runs of one
// problem, or entries of one name, the first counts.
std::vector<Change> changes(const Results& before, const Results& after);

}  // namespace ws::report
