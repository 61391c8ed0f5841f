#include "python/binding/measure.hpp"

#include <utility>

#include "harness/selection.hpp"

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

}  // namespace ws::binding
