#include "python/binding/measure.hpp"

#include <optional>
#include <utility>

#include "harness/ladder.hpp"
#include "harness/selection.hpp"
#include "report/page.hpp"
#include "report/plots.hpp"

namespace ws::binding {
namespace {

using harness::Json;

Json parse(const std::string& text) {
  try {
    return Json::parse(text);
  } catch (const Json::exception& error) {
    throw InvalidArgument(concatenate("options are no JSON: ", error.what()));
  }
}

harness::BenchOptions bench_options_from(const Json& given) {
  try {
    harness::BenchOptions options;
    if (given.value("sustained", false)) options.mode = harness::Mode::kSustained;
    options.windows = given.value("windows", options.windows);
    require(options.windows > 0, "windows is 1 or more, not ", options.windows);
    options.min_runs = given.value("min_runs", options.min_runs);
    options.min_milliseconds = given.value("min_milliseconds", options.min_milliseconds);
    options.warm_up = given.value("warm_up", options.warm_up);
    options.seed = given.value("seed", options.seed);
    options.peers = given.value("peers", options.peers);
    options.packages = given.value("packages", options.packages);
    return options;
  } catch (const Json::exception& error) {
    throw InvalidArgument(concatenate("the options are not as they must be: ", error.what()));
  }
}

// Paths of result files, or what is in one.
report::Results results_from(const Json& given) {
  if (given.is_object()) return report::read(given, "the results");
  return report::read_files(given.get<std::vector<std::string>>());
}

// What a picture or a page is of.
struct Shown {
  Json given;
  std::optional<report::Results> results;
  std::optional<report::Results> against;
  report::Choice choice;
  const report::Results& read() const {
    if (!results) throw InvalidArgument("no results are given");
    return *results;
  }
  const report::Results* other() const { return against ? &*against : nullptr; }
};

template <class Body>
std::string with_shown(const std::string& options, const Body& body) {
  Shown shown{.given = parse(options), .results = {}, .against = {}, .choice = {}};
  const Json& given = shown.given;
  try {
    if (given.contains("results")) shown.results = results_from(given.at("results"));
    if (given.contains("against")) shown.against = results_from(given.at("against"));
    shown.choice = {.names = given.value("names", std::vector<std::string>()),
                    .dtypes = given.value("dtypes", std::vector<std::string>()),
                    .problem = given.value("problem", "")};
  } catch (const Json::exception& error) {
    throw InvalidArgument(concatenate("the options are not as they must be: ", error.what()));
  }
  return body(shown);
}

}  // namespace

std::string verify(const std::string& options) {
  const harness::Selection selection = harness::selection_from(parse(options));
  return to_json(selection, harness::verify_all(selection)).dump();
}

std::string bench(const std::string& options, std::vector<harness::CallbackPeer> peers,
                  Stream stream, const std::function<void(const std::string&)>& done) {
  const Json given = parse(options);
  harness::BenchOptions chosen = bench_options_from(given);
  chosen.stream = stream;
  chosen.callbacks = std::move(peers);
  std::vector<harness::BenchGroup> groups;
  const auto text = [&] { return harness::report_text(harness::report(chosen, groups)); };
  harness::bench_all(harness::selection_from(given), chosen, [&](const harness::BenchGroup& group) {
    groups.push_back(group);
    if (done) done(text());
  });
  return text();
}

std::string ladder(const std::string& options) {
  const Json given = parse(options);
  harness::Selection selection = harness::selection_from(given);
  require(selection.names.size() == 1, "a ladder is of one name, not ", selection.names.size());
  const std::string name = std::exchange(selection.names, {}).front();
  const Operation& operation = harness::choose_ladder(name, selection);
  return harness::ladder(operation, selection, {.lines = given.value("lines", false)}).dump();
}

std::string profile(const std::string& options) {
  const harness::Selection selection = harness::selection_from(parse(options));
  require(selection.names.size() == 1, "a profile is of one rung, not of ", selection.names.size());
  return harness::counted_rung(selection.names.front(), selection).dump();
}

std::string plot(const std::string& kind, const std::string& options) {
  return with_shown(options, [&](const Shown& shown) {
    return report::plot(kind, shown.read(), shown.choice, shown.other(),
                        {.standalone = shown.given.value("standalone", true)});
  });
}

std::string source(const std::string& options) {
  return with_shown(options, [&](const Shown& shown) {
    const report::Ladder& ladder = *report::chosen(shown.read(), shown.choice).front();
    const Address address = harness::address_of(shown.choice.names.at(0));
    require(address.rung != nullptr, "a source is a rung's, not that of ", shown.choice.names[0]);
    const std::string name = concatenate(ladder.operation, "/", address.rung->name);
    return concatenate(
        "<style>", report::source_style(), "</style>",
        report::source_with_counts(*address.family, *address.rung, ladder.find(name)));
  });
}

std::string page(const std::string& options) {
  return with_shown(options, [&](Shown& shown) {
    const bool with_counts = shown.given.value("with_counts", true);
    if (!shown.results) {
      shown.results =
          report::of_this_machine(harness::selection_from(shown.given), {.lines = with_counts});
    }
    return report::page({.results = *shown.results,
                         .ladders = report::chosen(*shown.results, shown.choice),
                         .against = shown.other(),
                         .with_counts = with_counts});
  });
}

}  // namespace ws::binding
