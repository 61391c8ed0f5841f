// A problem for the emulator, where nobody names one.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "harness/selection.hpp"

namespace ws::harness {

struct CaseLimits {
  double flops = 1e8;
  double bytes = 1.5e6;
};

// Of the family's verify list a plain problem that the emulator runs in a moment: the one that most
// of the targets' rungs take, and of those the largest.
Case emulated_case(const Operation& operation, std::span<const Target> targets, DType dtype,
                   const CaseLimits& limits = {});
// The same of another list; `otherwise` where none of it is small.
Case emulated_case(const Operation& operation, std::span<const Case> cases, const Case& otherwise,
                   std::span<const Target> targets, DType dtype, const CaseLimits& limits = {});

// A small problem with work for whole warps in every direction, 128 of each extent, if that is
// small and the rung takes it: else one of the verify list.
Case square_case(const Target& target, DType dtype);

// One dtype unless asked: f16 where the operation has it, since the top rungs are about it.
DType usual_dtype(DTypes dtypes, const Selection& selection);

// One rung on one problem: that of the command line, or else the ladder's own. `verb` says who asks
// where there is none.
struct ChosenRun {
  Target target;
  DType dtype;
  Case problem;
};
ChosenRun chosen_run(const std::string& rung, const Selection& selection, std::string_view verb);

}  // namespace ws::harness
