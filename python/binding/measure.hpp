// verify and bench for callers outside C++: options and results as JSON.
#pragma once

#include <string>
#include <vector>

#include "harness/bench.hpp"

namespace ws::binding {

// What both take: {"names": [...] (families, operations, rungs, seed names; none: everything),
// "dtypes": [...] (none: all), "cases": "smoke" | "verify" | "bench", "shapes": [[...], ...]
// (extents, instead of the cases), "attributes": {name: value}, "seed": n}.

// {"device", "seed", "failed", "skipped", "results": [...]}, as `warpsmith verify --json`.
std::string verify(const std::string& options);

// A result file, as `warpsmith bench --json`. Further options: "min_runs", "min_milliseconds",
// "warm_up", "peers" (those of C++ too).
std::string bench(const std::string& options, std::vector<harness::CallbackPeer> peers,
                  Stream stream);

}  // namespace ws::binding
