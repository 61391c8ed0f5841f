#include "harness/bench.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <memory>

#ifndef WS_EMULATED
#include <cuda_runtime.h>

#include "harness/kernels.hpp"
#endif

namespace ws::harness {

const Measurement* BenchGroup::fastest(Role role) const {
  const Measurement* best = nullptr;
  for (const Measurement& m : measurements) {
    if (m.role != role || m.verdict != Verdict::kPassed) continue;
    if (best == nullptr || m.median < best->median) best = &m;
  }
  return best;
}

Json to_json(const BenchGroup& group) {
  Json json = {{"operation", group.operation},
               {"problem", group.problem},
               {"dtype", to_string(group.dtype)},
               {"extents", group.extents},
               {"bytes", group.cost.bytes},
               {"flops", group.cost.flops},
               {"bound", group.memory_bound ? "memory" : "compute"},
               {"unit", group.memory_bound ? "byte/s" : "FLOP/s"},
               {"ceiling", number(group.ceiling)},
               {"ceiling_name", group.ceiling_name},
               {"floor_us", number(group.floor)},
               {"measurements", Json::array()}};
  constexpr std::array<std::string_view, 3> kRoles = {"rung", "peer", "copy"};
  const Measurement* peer = group.fastest(Role::kPeer);
  for (const Measurement& m : group.measurements) {
    Json entry = {{"name", m.name},
                  {"role", kRoles[static_cast<size_t>(m.role)]},
                  {"verdict", to_string(m.verdict)}};
    if (!m.reason.empty()) entry["reason"] = m.reason;
    if (m.runs > 0) {
      entry["runs"] = m.runs;
      entry["median_us"] = m.median;
      entry["min_us"] = m.min;
      entry["max_us"] = m.max;
      entry["rate"] = m.rate;
      entry["of_ceiling"] = number(m.of_ceiling);
      if (m.error >= 0) entry["error"] = number(m.error);
      if (m.role == Role::kRung && peer != nullptr) entry["over_peer"] = peer->median / m.median;
    }
    json["measurements"].push_back(std::move(entry));
  }
  return json;
}

Json report(const BenchOptions& options, std::span<const BenchGroup> groups) {
  Json json = header();
  json["options"] = {{"min_runs", options.min_runs},
                     {"min_milliseconds", options.min_milliseconds},
                     {"warm_up", options.warm_up},
                     {"seed", options.seed},
                     {"flush", "reads 2x the L2 before each run"}};
  json["results"] = Json::array();
  for (const BenchGroup& group : groups) json["results"].push_back(to_json(group));
  return json;
}

#ifdef WS_EMULATED

BenchGroup bench(const Operation&, std::span<const Rung* const>, const Case&, DType,
                 const BenchOptions&) {
  throw InvalidArgument(
      "timings in the emulator mean nothing; `warpsmith ladder` shows what it can count. Build the "
      "preset `cuda` and run bench on a GPU");
}

#else

namespace {

using Clock = std::chrono::steady_clock;

double microseconds_since(Clock::time_point start) {
  return std::chrono::duration<double, std::micro>(Clock::now() - start).count();
}

class Event {
 public:
  Event() { detail::check_cuda(cudaEventCreate(&event_), "cudaEventCreate"); }
  Event(Event&& other) noexcept : event_(std::exchange(other.event_, nullptr)) {}
  Event(const Event&) = delete;
  ~Event() {
    if (event_ != nullptr) cudaEventDestroy(event_);
  }
  void record(Stream stream) {
    detail::check_cuda(cudaEventRecord(event_, stream), "cudaEventRecord");
  }
  double microseconds_since(const Event& start) const {
    float milliseconds = 0;
    detail::check_cuda(cudaEventElapsedTime(&milliseconds, start.event_, event_),
                       "cudaEventElapsedTime");
    return 1e3 * milliseconds;
  }

 private:
  cudaEvent_t event_ = nullptr;
};

// Host memory of the timed region: what each contender runs, and its times.
struct Contender {
  std::string name;
  Role role = Role::kRung;
  std::function<void(size_t set)> run;
  bool verifiable = false;
  Verdict verdict = Verdict::kPassed;
  std::string reason;
  double error = -1;
  double enqueue = 0;  // microseconds of host time
  double spent = 0;    // timed, microseconds
  std::vector<double> times;
  std::unique_ptr<DeviceBuffer> workspace;

  void fail(std::string why) {
    verdict = Verdict::kFailed;
    reason = std::move(why);
  }
};

class Loop {
 public:
  Loop(const Machine& machine, const BenchOptions& options, size_t sets)
      : machine_(machine), options_(options), sets_(sets), flush_(2 * machine.l2_bytes) {
    // Any bytes: zeros would do, if nothing ever looked at them.
    flush_.fill(std::byte{0x3C});
    for (int i = 0; i < kBatch; ++i) {
      starts_.emplace_back();
      stops_.emplace_back();
    }
  }

  void warm_up(Contender& contender) {
    guarded(contender, [&] {
      const Clock::time_point begin = Clock::now();
      for (int i = 0; i < std::max(options_.warm_up, 1); ++i) {
        const Clock::time_point start = Clock::now();
        contender.run(static_cast<size_t>(i) % sets_);
        contender.enqueue = microseconds_since(start);
        synchronize(options_.stream);
        // The lowest rungs take so long that one call is warm-up enough.
        if (microseconds_since(begin) > 1e5) break;
      }
    });
  }

  // A B C A B C ... until each has enough.
  void time(std::vector<Contender>& contenders) {
    std::vector<Contender*> batch;
    const auto flush_batch = [&] {
      if (batch.empty()) return;
      Contender* const current = batch.back();
      guarded(*current, [&] { synchronize(options_.stream); });
      for (size_t i = 0; i < batch.size(); ++i) {
        if (batch[i]->verdict != Verdict::kPassed) continue;
        const double time = stops_[i].microseconds_since(starts_[i]);
        batch[i]->times.push_back(time);
        batch[i]->spent += time;
      }
      batch.clear();
    };
    for (size_t round = 0;; ++round) {
      bool busy = false;
      for (Contender& contender : contenders) {
        if (contender.verdict != Verdict::kPassed || enough(contender)) continue;
        busy = true;
        guarded(contender, [&] {
          launch_flush(flush_.data(), flush_.bytes(), options_.stream);
          // While the GPU waits here the host gets both events and the call into the queue.
          const double wait = std::min(20 + 2 * contender.enqueue, 2000.0);
          launch_delay(static_cast<int64_t>(wait * machine_.clock * 1e-6), options_.stream);
          starts_[batch.size()].record(options_.stream);
          const Clock::time_point start = Clock::now();
          contender.run(round % sets_);
          contender.enqueue = microseconds_since(start);
          stops_[batch.size()].record(options_.stream);
          batch.push_back(&contender);
        });
        if (static_cast<int>(batch.size()) == kBatch) flush_batch();
      }
      if (round % 5 == 4) flush_batch();
      if (!busy) break;
    }
    flush_batch();
  }

 private:
  static constexpr int kBatch = 64;

  bool enough(const Contender& c) const {
    const auto runs = static_cast<int>(c.times.size());
    return runs >= options_.min_runs || (runs >= 3 && c.spent >= 1e3 * options_.min_milliseconds);
  }

  template <class Work>
  void guarded(Contender& contender, const Work& work) {
    try {
      work();
    } catch (const Error& error) {
      contender.fail(error.what());
      if (!device_is_usable()) throw;  // nothing after this would be true
    }
  }

  const Machine& machine_;
  const BenchOptions& options_;
  size_t sets_;
  DeviceBuffer flush_;
  std::vector<Event> starts_;
  std::vector<Event> stops_;
};

size_t set_count(const Machine& machine, size_t bytes) {
  size_t free = 0;
  size_t total = 0;
  detail::check_cuda(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
  const size_t wanted = 2 + 2 * machine.l2_bytes / std::max<size_t>(bytes, 1);
  const size_t fits = free / 2 / std::max<size_t>(2 * bytes, 1);  // a copy's buffers too
  return std::clamp<size_t>(std::min<size_t>(wanted, 16), 1, std::max<size_t>(fits, 1));
}

double median_of(std::vector<double> values) {
  std::ranges::sort(values);
  const size_t n = values.size();
  return n % 2 == 1 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

// Once more on fresh poison, against the reference.
void verify_after(Contender& contender, DeviceInstance& device, Instance& instance, Stream stream,
                  size_t set) {
  device.poison_outputs(std::byte{0xFF});
  Verification result;
  result.tolerance = instance.operation().tolerance(instance.problem());
  try {
    contender.run(set);
    synchronize(stream);
    compare_outputs(device, instance, result);
  } catch (const Error& error) {
    contender.fail(error.what());
    if (!device_is_usable()) throw;
    return;
  }
  contender.error = result.error;
  if (result.verdict == Verdict::kFailed) contender.fail("after timing: " + result.reason);
}

}  // namespace

BenchGroup bench(const Operation& operation, std::span<const Rung* const> rungs, const Case& chosen,
                 DType dtype, const BenchOptions& options) {
  const Machine machine = harness::machine();
  Instance instance(operation, chosen, dtype, options.seed,
                    {.flops = 1e9, .elements = int64_t{1} << 22});
  const Problem& problem = instance.problem();

  BenchGroup group;
  group.operation = operation.name;
  group.problem = problem.describe();
  group.dtype = dtype;
  group.extents.assign(
      chosen.extents.begin(),
      chosen.extents.begin() + static_cast<std::ptrdiff_t>(operation.extent_names.size()));
  group.cost = operation.cost(problem);
  group.memory_bound =
      group.cost.bytes / machine.memory_rate > group.cost.flops / peak_flops(machine, dtype);
  group.floor = floor_microseconds(machine, problem, group.cost);

  size_t bytes = 0;
  for (const Tensor& tensor :
       std::span(problem.tensors).first(static_cast<size_t>(problem.tensor_count))) {
    bytes += footprint(tensor);
  }
  const size_t sets = set_count(machine, bytes);
  std::vector<DeviceInstance> devices;
  devices.reserve(sets);
  for (size_t s = 0; s < sets; ++s) {
    devices.emplace_back(instance, s == 0 ? nullptr : &devices.front());
  }

  std::vector<Contender> contenders;
  for (const Rung* rung : rungs) {
    Contender& c = contenders.emplace_back();
    c.name = fmt::format("{}/{}", operation.name, rung->name);
    c.verifiable = true;
    c.reason = supports(*rung, devices[0].problem(), machine.capability);
    if (!c.reason.empty()) {
      c.verdict = Verdict::kSkipped;
      continue;
    }
    void* workspace = nullptr;
    if (const size_t size = rung->workspace(devices[0].problem()); size > 0) {
      c.workspace = std::make_unique<DeviceBuffer>(size);
      workspace = c.workspace->data();
    }
    c.run = [&devices, rung, workspace, stream = options.stream](size_t set) {
      run(*rung, devices[set].problem(), {stream, workspace});
    };
  }
  for (const Peer& peer : operation.peers) {
    if (!options.peers) break;
    Contender& c = contenders.emplace_back();
    c.name = peer.name;
    c.role = Role::kPeer;
    c.verifiable = true;
    c.reason = peer.supports(devices[0].problem());
    if (!c.reason.empty()) {
      c.verdict = Verdict::kSkipped;
      continue;
    }
    void* workspace = nullptr;
    if (const size_t size = peer.workspace == nullptr ? 0 : peer.workspace(devices[0].problem());
        size > 0) {
      c.workspace = std::make_unique<DeviceBuffer>(size);
      workspace = c.workspace->data();
    }
    c.run = [&devices, &peer, workspace, stream = options.stream](size_t set) {
      peer.run(devices[set].problem(), {stream, workspace});
    };
  }
  for (const CallbackPeer& callback : options.callbacks) {
    Contender& c = contenders.emplace_back();
    c.name = callback.name;
    c.role = Role::kPeer;
    c.run = [&callback, &devices, stream = options.stream](size_t set) {
      callback.run(devices[set].problem(), stream);
    };
  }

  // Copies of as many bytes: half of them read, half written. Whole 16-byte pieces.
  const auto half = static_cast<size_t>(group.cost.bytes / 2) / 16 * 16;
  std::vector<DeviceBuffer> sources;
  std::vector<DeviceBuffer> targets;
  if (group.memory_bound && half > 0) {
    for (size_t s = 0; s < sets; ++s) {
      DeviceBuffer& source = sources.emplace_back(half);
      targets.emplace_back(half);
      // The input's data over and over: random as what is timed.
      const std::span<const std::byte> data = instance.inputs()[0].bytes();
      for (size_t at = 0; at < half && !data.empty(); at += data.size()) {
        detail::check_cuda(cudaMemcpy(source.data() + at, devices[s].buffer(0).data(),
                                      std::min(data.size(), half - at), cudaMemcpyDeviceToDevice),
                           "cudaMemcpy");
      }
    }
    Contender& ours = contenders.emplace_back();
    ours.name = "copy";
    ours.role = Role::kCopy;
    ours.run = [&, stream = options.stream](size_t set) {
      launch_copy(targets[set].data(), sources[set].data(), half, stream);
    };
    Contender& runtime = contenders.emplace_back();
    runtime.name = "cudaMemcpyAsync";
    runtime.role = Role::kCopy;
    runtime.run = [&, stream = options.stream](size_t set) {
      detail::check_cuda(cudaMemcpyAsync(targets[set].data(), sources[set].data(), half,
                                         cudaMemcpyDeviceToDevice, stream),
                         "cudaMemcpyAsync");
    };
  }

  Loop loop(machine, options, sets);
  for (Contender& c : contenders) {
    if (c.verdict == Verdict::kPassed) loop.warm_up(c);
  }
  loop.time(contenders);
  for (Contender& c : contenders) {
    if (c.verifiable && c.verdict == Verdict::kPassed) {
      verify_after(c, devices[sets - 1], instance, options.stream, sets - 1);
    }
  }

  const double work = group.memory_bound ? group.cost.bytes : group.cost.flops;
  for (Contender& c : contenders) {
    Measurement& m = group.measurements.emplace_back();
    m.name = c.name;
    m.role = c.role;
    m.verdict = c.verdict;
    m.reason = c.reason;
    m.error = c.error;
    m.runs = static_cast<int>(c.times.size());
    if (m.runs == 0) continue;
    m.median = median_of(c.times);
    m.min = *std::ranges::min_element(c.times);
    m.max = *std::ranges::max_element(c.times);
    m.rate = (c.role == Role::kCopy ? 2.0 * static_cast<double>(half) : work) / (m.median * 1e-6);
    if (c.role != Role::kCopy && m.median < group.floor && m.verdict == Verdict::kPassed) {
      m.verdict = Verdict::kFailed;
      m.reason = fmt::format(
          "a median of {:.3f} us is below the physical floor of {:.3f} us: it cannot have done the "
          "work",
          m.median, group.floor);
    }
  }
  if (group.memory_bound) {
    for (const Measurement& m : group.measurements) {
      if (m.role != Role::kCopy || m.rate <= group.ceiling) continue;
      group.ceiling = m.rate;
      group.ceiling_name = m.name;
    }
  } else {
    group.ceiling = peak_flops(machine, dtype);
    group.ceiling_name = "data sheet";
  }
  for (Measurement& m : group.measurements) {
    if (m.runs > 0 && group.ceiling > 0) m.of_ceiling = m.rate / group.ceiling;
  }
  return group;
}

#endif

}  // namespace ws::harness
