// A ladder: all rungs of an operation on one problem, measured on a GPU or counted in the emulator.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "harness/profile.hpp"
#include "harness/selection.hpp"

namespace ws::harness {

// Whose ladder a name asks for, and the rungs of it in `selection.names`, in one dtype unless it
// has some: f16 where the operation takes it, since the top rungs are about that. Throws
// InvalidArgument for a rung's name.
const Operation& choose_ladder(const std::string& name, Selection& selection);

// A problem of a ladder in the emulator, and the rungs that take its dtype.
struct LadderProblem {
  Case chosen;
  DType dtype;
  std::vector<Target> targets;
  double seconds;  // roughly
};
// Those of a selection that choose_ladder() has filled. Throws InvalidArgument where there are
// none, and for what takes more memory or time than the selection's limits.
std::vector<LadderProblem> ladder_problems(const Operation& operation, const Selection& selection);
double seconds_of(std::span<const LadderProblem> problems);

// One rung in the emulator: verified, and where it is right counted.
struct CountedRung {
  Verification verification;
  std::optional<Profile> profile;
};
CountedRung count(const Rung& rung, Instance& instance);
// As an entry of a result file; without the profile's lines unless asked.
Json to_json(const CountedRung& rung, const Cost& cost, bool with_lines);

struct LadderOptions {
  bool lines = false;  // in the emulator also what each line of the source costs
};

// The result file of a ladder: of `bench` on a GPU, of its first case; in the emulator {"device",
// "results"}, an entry for each rung. `selection` as choose_ladder() leaves it.
Json ladder(const Operation& operation, Selection selection, const LadderOptions& options = {},
            const Announce& announce = {});

// The same of one rung in the emulator, on the ladder's problem or the selection's, with its lines.
// Throws InvalidArgument in a CUDA build.
Json counted_rung(const std::string& rung, const Selection& selection);

}  // namespace ws::harness
