// A peer gets its own best: of the ways that a library has of computing a problem the fastest.
#pragma once

#include <functional>
#include <vector>

#include "harness/contenders.hpp"

namespace ws::harness {

// Times contenders in turns, and fails one that throws.
using Timing = std::function<void(std::vector<Contender>&)>;
// Fails a contender whose outputs are wrong.
using OutputCheck = std::function<void(Contender&)>;

// Of `options` those for a look at variants: a few runs, or short windows, of the same mode.
BenchOptions brief(const BenchOptions& options);

// Makes the fastest variant whose outputs are right the `run` of each contender that has variants.
// Where there is none it has failed, for its own choice's reason. Others are left alone: our own
// rungs have been tuned before, on other problems too, or not at all.
void choose_variants(std::vector<Contender>& contenders, const Timing& time,
                     const OutputCheck& compare);

}  // namespace ws::harness
