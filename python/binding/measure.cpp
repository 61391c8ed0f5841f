#include "python/binding/measure.hpp"

#include <optional>
#include <utility>

#include "harness/fields.hpp"
#include "harness/ladder.hpp"
#include "harness/selection.hpp"
#include "report/page.hpp"
#include "report/plots.hpp"

namespace ws::binding {
namespace {

using harness::Fields;
using harness::Json;

Json parse(const std::string& text) { return harness::parse_json(text, "the text of the options"); }

// Of the caller's JSON; each function refuses what is left over when it has asked for its own.
Fields options_of(const Json& given) { return {given, "the options"}; }

harness::BenchOptions bench_options_from(const Fields& given) {
  harness::BenchOptions options;
  if (given.get("sustained", false)) options.mode = harness::Mode::kSustained;
  options.windows = given.get("windows", options.windows);
  require(options.windows > 0, "windows is 1 or more, not ", options.windows);
  options.min_runs = given.get("min_runs", options.min_runs);
  options.min_milliseconds = given.get("min_milliseconds", options.min_milliseconds);
  options.warm_up = given.get("warm_up", options.warm_up);
  options.seed = given.get("seed", options.seed);
  options.peers = given.get("peers", options.peers);
  options.packages = given.get("packages", options.packages);
  return options;
}

// Paths of result files, or what is in one.
std::optional<report::Results> results_from(const Fields& given, const std::string& key) {
  if (!given.has(key)) return std::nullopt;
  if (given.at(key).is_object()) return report::read(given.at(key), "the results");
  return report::read_files(given.get<std::vector<std::string>>(key));
}

// What a picture or a page is of.
struct Shown {
  harness::Selection selection{};
  std::optional<report::Results> results{};
  std::optional<report::Results> against{};
  report::Choice choice{};
  bool standalone = true;
  bool with_counts = true;
  const report::Results& read() const {
    if (!results) throw InvalidArgument("no results are given");
    return *results;
  }
  const report::Results* other() const { return against ? &*against : nullptr; }
};

Shown shown_by(const std::string& options) {
  const Json json = parse(options);
  const Fields given = options_of(json);
  Shown shown;
  shown.selection = harness::selection_from(given);
  shown.results = results_from(given, "results");
  shown.against = results_from(given, "against");
  shown.choice = {.names = shown.selection.names,
                  .dtypes = shown.selection.dtypes,
                  .problem = given.get<std::string>("problem", "")};
  shown.standalone = given.get("standalone", true);
  shown.with_counts = given.get("with_counts", true);
  given.refuse_others();
  return shown;
}

}  // namespace

std::string verify(const std::string& options) {
  const Json json = parse(options);
  const Fields given = options_of(json);
  const harness::Selection selection = harness::selection_from(given);
  given.refuse_others();
  return to_json(selection, harness::verify_all(selection)).dump();
}

std::string bench(const std::string& options, std::vector<harness::CallbackPeer> peers,
                  Stream stream, const std::function<void(const std::string&)>& done) {
  const Json json = parse(options);
  const Fields given = options_of(json);
  const harness::Selection selection = harness::selection_from(given);
  harness::BenchOptions chosen = bench_options_from(given);
  given.refuse_others();
  chosen.stream = stream;
  chosen.callbacks = std::move(peers);
  std::vector<harness::BenchGroup> groups;
  const auto text = [&] { return harness::report_text(harness::report(chosen, groups)); };
  harness::bench_all(selection, chosen, [&](const harness::BenchGroup& group) {
    groups.push_back(group);
    if (done) done(text());
  });
  return text();
}

std::string ladder(const std::string& options) {
  const Json json = parse(options);
  const Fields given = options_of(json);
  harness::Selection selection = harness::selection_from(given);
  const bool with_lines = given.get("lines", false);
  given.refuse_others();
  require(selection.names.size() == 1, "a ladder is of one name, not ", selection.names.size());
  const std::string name = std::exchange(selection.names, {}).front();
  const Operation& operation = harness::choose_ladder(name, selection);
  return harness::ladder(operation, selection, {.lines = with_lines}).dump();
}

std::string profile(const std::string& options) {
  const Json json = parse(options);
  const Fields given = options_of(json);
  const harness::Selection selection = harness::selection_from(given);
  require(given.get("lines", true), "a profile has its lines");
  given.refuse_others();
  require(selection.names.size() == 1, "a profile is of one rung, not of ", selection.names.size());
  return harness::counted_rung(selection.names.front(), selection).dump();
}

std::string plot(const std::string& kind, const std::string& options) {
  const Shown shown = shown_by(options);
  return report::plot(kind, shown.read(), shown.choice, shown.other(),
                      {.standalone = shown.standalone});
}

std::string source(const std::string& options) {
  const Shown shown = shown_by(options);
  const report::Ladder& ladder = *report::chosen(shown.read(), shown.choice).front();
  require(!shown.choice.names.empty(), "a source is a rung's: name one");
  const Address address = harness::address_of(shown.choice.names.front());
  require(address.rung != nullptr, "a source is a rung's, not that of ", shown.choice.names[0]);
  const std::string name = concatenate(ladder.operation, "/", address.rung->name);
  return concatenate("<style>", report::source_style(), "</style>",
                     report::source_with_counts(*address.family, *address.rung, ladder.find(name)));
}

std::string page(const std::string& options) {
  Shown shown = shown_by(options);
  if (!shown.results) {
    shown.results = report::of_this_machine(shown.selection, {.lines = shown.with_counts});
  }
  return report::page({.results = *shown.results,
                       .ladders = report::chosen(*shown.results, shown.choice),
                       .against = shown.other(),
                       .with_counts = shown.with_counts});
}

}  // namespace ws::binding
