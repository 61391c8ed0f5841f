#include "harness/contenders.hpp"

#include <algorithm>

#include "harness/kernels.hpp"
#include "warpsmith/runtime.hpp"

namespace ws::harness {
namespace {

// Memory for one contender alone; its first bytes are zero, as the contract of Workspace wants them
// before the first call, and each call leaves them so.
void* allocate_workspace(const Workspace& wanted, Contender& contender) {
  if (wanted.bytes == 0) return nullptr;
  contender.workspace = std::make_unique<DeviceBuffer>(wanted.bytes);
  contender.workspace->fill(std::byte{0});
  return contender.workspace->data();
}

Contender contender_of(const Rung& rung, TensorSets& sets, Stream stream) {
  const AnyCall& call = sets[0].call();
  Contender c;
  c.name = concatenate(call.operation().name, "/", rung.name);
  c.rung = &rung;
  c.comparable = true;
  if (Reason reason = why_not(rung, call, runtime::capability()); !reason.empty()) {
    c.skip(std::move(reason));
    return c;
  }
  void* workspace = allocate_workspace(workspace_of(rung, call), c);
  c.run = [&sets, &rung, workspace, stream](size_t set) {
    run(rung, sets[set].call(), {stream, workspace});
  };
  return c;
}

Contender contender_of(const Peer& peer, TensorSets& sets, Stream stream) {
  const Problem& problem = sets[0].problem();
  Contender c;
  c.name = peer.name;
  c.role = Role::kPeer;
  c.comparable = true;
  if (Reason reason = peer.supports(problem); !reason.empty()) {
    c.skip(std::move(reason));
    return c;
  }
  const size_t bytes = peer.workspace == nullptr ? 0 : peer.workspace(problem);
  void* workspace = allocate_workspace({.bytes = bytes}, c);
  c.run = [&sets, &peer, workspace, stream](size_t set) {
    peer.run(sets[set].problem(), {stream, workspace});
  };
  const int variants = peer.variants == nullptr ? 1 : peer.variants(problem);
  for (int variant = 0; variant < variants && variants > 1; ++variant) {
    c.variants.emplace_back([&sets, &peer, workspace, stream, variant](size_t set) {
      peer.run_variant(sets[set].problem(), {stream, workspace}, variant);
    });
  }
  return c;
}

Contender contender_of(const CallbackPeer& callback, TensorSets& sets, Stream stream) {
  Contender c;
  c.name = callback.name;
  c.role = Role::kPeer;
  c.may_decline = true;
  c.run = [&sets, &callback, stream](size_t set) { callback.run(sets[set].problem(), stream); };
  return c;
}

size_t bytes_of(const Problem& problem) {
  size_t bytes = 0;
  for (size_t i = 0; i < problem.operation->parameters.size(); ++i) {
    if (holder_of(problem, i) == i) bytes += footprint(problem.tensors[i]);
  }
  return bytes;
}

// Of a cache of one part that evicts at random, tensors of n parts that take turns find the share h
// again where h = exp(-n (1 - h)): of 2 parts a fifth, of 4 a fiftieth.
size_t set_count(size_t l2_bytes, size_t bytes, Mode mode) {
  const bool is_burst = mode == Mode::kBurst;
  const size_t parts = is_burst ? 2 : 4;
  const size_t most = is_burst ? 16 : 256;
  const size_t wanted = 2 + parts * l2_bytes / std::max<size_t>(bytes, 1);
  // Half of what is free, and a copy's buffers are as large again.
  const size_t fits = runtime::memory_info().free / 2 / std::max<size_t>(2 * bytes, 1);
  return std::clamp<size_t>(std::min<size_t>(wanted, most), 1, std::max<size_t>(fits, 1));
}

}  // namespace

void Contender::skip(std::string why) {
  verdict = Verdict::kSkipped;
  reason = std::move(why);
}

void Contender::fail(std::string why) {
  verdict = Verdict::kFailed;
  reason = std::move(why);
}

double Contender::median() const {
  std::vector<double> sorted = times;
  std::ranges::sort(sorted);
  const size_t n = sorted.size();
  return n % 2 == 1 ? sorted[n / 2] : (sorted[n / 2 - 1] + sorted[n / 2]) / 2;
}

TensorSets::TensorSets(const Instance& instance, size_t l2_bytes, Mode mode) {
  const size_t sets = set_count(l2_bytes, bytes_of(instance.problem()), mode);
  devices_.reserve(sets);
  for (size_t s = 0; s < sets; ++s) {
    devices_.emplace_back(instance, s == 0 ? nullptr : &devices_.front());
  }
}

double TensorSets::bytes() const {
  return static_cast<double>(count()) * static_cast<double>(bytes_of(devices_[0].problem()));
}

Copies::Copies(TensorSets& sets, double bytes) : half_(static_cast<size_t>(bytes / 2) / 16 * 16) {
  if (half_ == 0) return;
  for (size_t s = 0; s < sets.count(); ++s) {
    DeviceBuffer& source = sources_.emplace_back(half_);
    targets_.emplace_back(half_);
    const DeviceBuffer& data = sets[s].buffer(0);  // random as what is timed
    for (size_t at = 0; at < half_ && data.bytes() > 0; at += data.bytes()) {
      runtime::copy(source.data() + at, data.data(), std::min(data.bytes(), half_ - at));
    }
  }
}

std::vector<Contender> contenders_of(const Operation& operation, std::span<const Rung* const> rungs,
                                     TensorSets& sets, const BenchOptions& options) {
  std::vector<Contender> all;
  for (const Rung* rung : rungs) all.push_back(contender_of(*rung, sets, options.stream));
  if (options.peers && operation.peers != nullptr) {
    for (const Peer& peer : operation.peers()) {
      if (std::ranges::find(rungs, &peer, &Rung::peer) != rungs.end()) continue;  // asked for so
      all.push_back(contender_of(peer, sets, options.stream));
    }
  }
  for (const CallbackPeer& callback : options.callbacks) {
    all.push_back(contender_of(callback, sets, options.stream));
  }
  return all;
}

std::vector<Contender> copiers(const Copies& copies, Stream stream) {
  std::vector<Contender> all;
  if (copies.half() == 0) return all;
  Contender& ours = all.emplace_back();
  ours.name = "copy";
  ours.role = Role::kCopy;
  ours.run = [&copies, stream](size_t set) {
    launch_copy(copies.target(set), copies.source(set), copies.half(), stream);
  };
  Contender& runtimes = all.emplace_back();
  runtimes.name = "cudaMemcpyAsync";
  runtimes.role = Role::kCopy;
  runtimes.run = [&copies, stream](size_t set) {
    runtime::copy_async(copies.target(set), copies.source(set), copies.half(), stream);
  };
  return all;
}

}  // namespace ws::harness
