// The report: one HTML file of results, without scripts and without anything from elsewhere.
#pragma once

#include <span>
#include <string>

#include "harness/selection.hpp"
#include "report/results.hpp"

namespace ws::report {

struct PageContent {
  const Results& results;
  std::span<const Ladder* const> ladders;  // those of the results that are to be told
  const Results* against = nullptr;        // another result to compare with
  bool with_counts = true;                 // what the sources' lines cost, where the emulator can
};
// Measured results have no counts: the emulated build counts then, and announces that.
std::string page(const PageContent& content, const harness::Announce& announce = {});

// A rung's source with what its lines cost, for a page that holds source_style(). `counted` may be
// null: the source alone.
std::string source_with_counts(const Family& family, const Rung& rung, const Contender* counted);
std::string_view source_style();

}  // namespace ws::report
