// verify, bench, ladders, profiles and pictures for callers outside C++: options and results as
// JSON text.
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

// Options are those of harness::selection_from() with one name, and "lines": a result file of the
// ladder, as `warpsmith ladder --json`.
std::string ladder(const std::string& options);

// The same of one rung, in the emulator.
std::string profile(const std::string& options);

// One of report::plot()'s pictures, as SVG. Options: "results" and, of two, "against", each the
// paths of result files or what is in one; of "names", "dtypes" and "problem" those that choose;
// "standalone": false for a page that holds plot_style().
std::string plot(const std::string& kind, const std::string& options);

// The source of the rung that "names" has, with what its lines cost by "results", as HTML with its
// style.
std::string source(const std::string& options);

// The report, as HTML; without "results" of what "names" has, or of each family's first operation,
// measured or counted now. "with_counts": see report::PageContent.
std::string page(const std::string& options);

}  // namespace ws::binding
