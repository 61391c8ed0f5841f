#include "harness/bench_loop.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "harness/kernels.hpp"

namespace ws::harness {
namespace {

using Clock = std::chrono::steady_clock;

double microseconds_since(Clock::time_point start) {
  return std::chrono::duration<double, std::micro>(Clock::now() - start).count();
}

}  // namespace

BenchLoop::BenchLoop(const BenchOptions& options, TensorSets& sets, size_t flush_bytes,
                     double clock)
    : options_(options), sets_(sets), clock_(clock), flush_(flush_bytes) {
  // Any bytes: zeros would do, if nothing ever looked at them.
  flush_.fill(std::byte{0x3C});
  starts_.resize(kBatch);
  stops_.resize(kBatch);
}

void BenchLoop::run(std::vector<Contender>& contenders) {
  for (Contender& contender : contenders) {
    if (contender.verdict == Verdict::kPassed) warm_up(contender);
  }
  if (options_.mode == Mode::kSustained) {
    sustain(contenders);
  } else {
    burst(contenders);
  }
}

void BenchLoop::burst(std::vector<Contender>& contenders) {
  for (size_t round = 0;; ++round) {
    bool busy = false;
    for (Contender& contender : contenders) {
      if (contender.verdict != Verdict::kPassed || enough(contender)) continue;
      busy = true;
      enqueue(contender, round % sets_.count());
      if (batch_.size() == kBatch) collect();
    }
    if (!busy) break;
    if (round % 5 == 4) collect();
  }
  collect();
}

void BenchLoop::warm_up(Contender& contender) {
  guarded(contender, [&] {
    const Clock::time_point begin = Clock::now();
    for (int i = 0; i < std::max(options_.warm_up, 1); ++i) {
      const size_t set = static_cast<size_t>(i) % sets_.count();
      sets_.restore(set, options_.stream);
      const Clock::time_point start = Clock::now();
      try {
        contender.run(set);
      } catch (const InvalidArgument& error) {
        if (!contender.may_decline || i > 0) throw;
        contender.skip(error.message());
        return;
      }
      contender.enqueue = microseconds_since(start);
      runtime::synchronize(options_.stream);
      // The lowest rungs take so long that one call is warm-up enough.
      if (microseconds_since(begin) > 1e5) break;
    }
  });
}

void BenchLoop::enqueue(Contender& contender, size_t set) {
  guarded(contender, [&] {
    // Before the flush, which leaves nothing of what this writes in the L2.
    sets_.restore(set, options_.stream);
    launch_flush(flush_.data(), flush_.bytes(), options_.stream);
    // While the GPU waits here the host gets both events and the call into the queue.
    const double wait = std::min(20 + 2 * contender.enqueue, 2000.0);
    launch_delay(static_cast<int64_t>(wait * clock_ * 1e-6), options_.stream);
    starts_[batch_.size()].record(options_.stream);
    const Clock::time_point start = Clock::now();
    contender.run(set);
    contender.enqueue = microseconds_since(start);
    stops_[batch_.size()].record(options_.stream);
    batch_.push_back(&contender);
  });
}

// Waits for the batch and takes down its times.
void BenchLoop::collect() {
  if (batch_.empty()) return;
  guarded(*batch_.back(), [&] { runtime::synchronize(options_.stream); });
  for (size_t i = 0; i < batch_.size(); ++i) {
    if (batch_[i]->verdict != Verdict::kPassed) continue;
    const double time = stops_[i].microseconds_since(starts_[i]);
    batch_[i]->times.push_back(time);
    batch_[i]->spent += time;
  }
  batch_.clear();
}

void BenchLoop::sustain(std::vector<Contender>& contenders) {
  for (int round = 0; round < options_.windows; ++round) {
    for (Contender& contender : contenders) {
      if (contender.verdict != Verdict::kPassed) continue;
      guarded(contender, [&] { window(contender); });
    }
  }
}

// A fifth of the window goes before it and is not counted: power and clocks settle from what ran
// before to this contender.
void BenchLoop::window(Contender& contender) {
  for (size_t set = 0; set < sets_.count(); ++set) sets_.restore(set, options_.stream);
  const double wanted = 1e3 * options_.window_milliseconds;
  int64_t calls = 1;
  double spent = back_to_back(contender, calls);
  // At most eightfold at a time: the first calls are the slowest, and shortest ones end at once.
  const auto lengthen_to = [&](double microseconds) {
    while (spent < microseconds) {
      const double factor = 1.05 * microseconds / std::max(spent, 1e-3);
      calls = static_cast<int64_t>(std::ceil(static_cast<double>(calls) * std::min(factor, 8.0)));
      spent = back_to_back(contender, calls);
    }
  };
  lengthen_to(wanted / 5);
  lengthen_to(wanted);
  contender.times.push_back(spent / static_cast<double>(calls));
  contender.spent += spent;
  contender.calls += calls;
}

// What so many calls take together, in microseconds. The host is ahead of the GPU, unless a call
// takes less time than its launch.
double BenchLoop::back_to_back(Contender& contender, int64_t calls) {
  starts_[0].record(options_.stream);
  for (int64_t i = 0; i < calls; ++i) contender.run(static_cast<size_t>(i) % sets_.count());
  stops_[0].record(options_.stream);
  runtime::synchronize(options_.stream);
  return stops_[0].microseconds_since(starts_[0]);
}

bool BenchLoop::enough(const Contender& contender) const {
  const auto in_flight = std::ranges::count(batch_, &contender);
  const auto runs = static_cast<int64_t>(contender.times.size()) + in_flight;
  return runs >= options_.min_runs ||
         (runs >= 3 && contender.spent >= 1e3 * options_.min_milliseconds);
}

template <class Work>
void BenchLoop::guarded(Contender& contender, const Work& work) {
  try {
    work();
  } catch (const Error& error) {
    contender.fail(error.what());
    if (!runtime::is_usable()) throw;
  }
}

}  // namespace ws::harness
