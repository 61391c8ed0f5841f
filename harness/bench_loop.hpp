// The loop of a bench: contenders take turns, A B C A B C ... In a burst a turn is one call, timed
// on its own; sustained, a window of calls back to back, timed as a whole.
#pragma once

#include <vector>

#include "harness/contenders.hpp"
#include "warpsmith/runtime.hpp"

namespace ws::harness {

class BenchLoop {
 public:
  // `flush_bytes` are read before each run (more than the L2 holds); `clock` is that of the
  // multiprocessors, Hz.
  BenchLoop(const BenchOptions& options, TensorSets& sets, size_t flush_bytes, double clock);

  // Times those whose verdict is kPassed until each has enough runs; one that throws has failed.
  // Throws on where the device is lost: nothing after that would be true.
  void run(std::vector<Contender>& contenders);

 private:
  static constexpr size_t kBatch = 64;  // runs that are in flight before the host waits

  void warm_up(Contender& contender);
  void burst(std::vector<Contender>& contenders);
  void sustain(std::vector<Contender>& contenders);
  void window(Contender& contender);
  double back_to_back(Contender& contender, int64_t calls);
  void enqueue(Contender& contender, size_t set);
  void collect();
  bool enough(const Contender& contender) const;
  template <class Work>
  void guarded(Contender& contender, const Work& work);

  const BenchOptions& options_;
  TensorSets& sets_;
  double clock_;
  DeviceBuffer flush_;
  std::vector<runtime::Event> starts_;
  std::vector<runtime::Event> stops_;
  std::vector<Contender*> batch_;
};

}  // namespace ws::harness
