#include "harness/variants.hpp"

#include <algorithm>

namespace ws::harness {
namespace {

void choose_variant(Contender& peer, const Timing& time, const OutputCheck& compare) {
  std::vector<Contender> trials;
  for (const auto& run : peer.variants) {
    Contender& trial = trials.emplace_back();
    trial.name = peer.name;
    trial.role = peer.role;
    trial.run = run;
    trial.comparable = peer.comparable;
  }
  time(trials);
  std::vector<Contender*> in_order;
  for (Contender& trial : trials) {
    if (trial.verdict == Verdict::kPassed && !trial.times.empty()) in_order.push_back(&trial);
  }
  std::ranges::stable_sort(in_order, {}, &Contender::median);
  for (Contender* trial : in_order) {
    compare(*trial);
    if (trial->verdict != Verdict::kPassed) continue;
    peer.run = trial->run;
    peer.variant = static_cast<size_t>(trial - trials.data());
    return;
  }
  peer.fail(trials.front().reason);
}

}  // namespace

BenchOptions brief(const BenchOptions& options) {
  BenchOptions few = options;
  few.min_runs = std::min(options.min_runs, 11);
  few.min_milliseconds = std::min(options.min_milliseconds, 50.0);
  few.window_milliseconds = std::min(options.window_milliseconds, 100.0);
  few.warm_up = 1;
  return few;
}

void choose_variants(std::vector<Contender>& contenders, const Timing& time,
                     const OutputCheck& compare) {
  for (Contender& contender : contenders) {
    if (contender.verdict == Verdict::kPassed && !contender.variants.empty()) {
      choose_variant(contender, time, compare);
    }
  }
}

}  // namespace ws::harness
