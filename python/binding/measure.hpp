// verify and bench for callers outside C++: options and results as JSON text.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "harness/bench.hpp"

namespace ws::binding {

// Options are those of harness::selection_from(); results as `warpsmith verify --json` has them.
std::string verify(const std::string& options);

// Further options: "min_runs", "min_milliseconds", "warm_up", "peers" (those of C++ too),
// "packages" {name: version}. A result file, as `warpsmith bench --json`; `done` gets one of what
// there is so far after each problem.
std::string bench(const std::string& options, std::vector<harness::CallbackPeer> peers,
                  Stream stream, const std::function<void(const std::string&)>& done = {});

}  // namespace ws::binding
