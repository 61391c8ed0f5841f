// What a bench's times say: figures of each contender, and whether they can be true.
#pragma once

#include "harness/bench.hpp"
#include "harness/contenders.hpp"

namespace ws::harness {

// What is known of the problem before anything is timed.
BenchGroup group_of(const Machine& machine, const Instance& instance);

// Runs the contender once more on fresh poison, and compares with the reference: one that throws or
// is wrong has failed. Throws on where the device is lost.
void compare_after(Contender& contender, TensorSets& sets, Instance& instance, Stream stream);

// Figures from times; `work` is what a run does, bytes or FLOP. What took less than the group's
// floor has failed, but for copies, which do other work.
Measurement judged(const Contender& contender, const BenchGroup& group, double work);

// The group's ceiling, and each measurement as a fraction of it: the fastest copy where memory
// bounds it, else the data sheet's peak.
void find_ceiling(const Machine& machine, BenchGroup& group);

}  // namespace ws::harness
