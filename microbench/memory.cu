// Rates of the whole device: its memory, its L2, and atomics there.
#include <algorithm>
#include <array>

#include "harness/kernels.hpp"
#include "harness/memory.hpp"
#include "microbench/probe.hpp"
#include "microbench/timed.hpp"
#include "warpsmith/launch.hpp"
#include "warpsmith/ptx/atomic.hpp"
#include "warpsmith/thread/divide.hpp"
#include "warpsmith/thread/memory.hpp"

namespace ws::microbench {
namespace {

constexpr uint32_t kWord = 0x9E3779B9;  // what all memory here is filled with
using Words = Vec<uint32_t, 4>;

// Each block reads `count` vectors, from block `b`'s first, b * apart, around the end. Threads that
// find another word than kWord count themselves.
struct ReadKernel {
  static constexpr int kThreads = 512;
  static constexpr int kAtOnce = 4;  // loads in flight, a thread
  struct Arguments {
    const uint32_t* words;
    int64_t vectors;
    int64_t apart;
    int64_t count;  // a multiple of kThreads * kAtOnce
    uint32_t* wrong;
  };
  struct SharedStorage {};

  __device__ void operator()(SharedStorage&, const Arguments& a) const {
    uint32_t differences = 0;
    int64_t at = block_index() * a.apart + thread_index();
    for (int64_t i = 0; i < a.count; i += kThreads * kAtOnce) {
      Words loaded[kAtOnce];
#pragma unroll
      for (Words& words : loaded) {
        if (at >= a.vectors) at -= a.vectors;
        words = thread::load<4>(a.words + 4 * at);
        at += kThreads;
      }
#pragma unroll
      for (const Words& words : loaded) {
#pragma unroll
        for (int j = 0; j < 4; ++j) differences |= words[j] ^ kWord;
      }
    }
    if (differences != 0) ptx::red_global_add(a.wrong, 1);
  }
};
constexpr int64_t kTile = ReadKernel::kThreads * ReadKernel::kAtOnce;  // vectors

struct WriteKernel {
  static constexpr int kThreads = 256;
  struct Arguments {
    uint32_t* words;
    int64_t vectors;
  };
  struct SharedStorage {};

  __device__ void operator()(SharedStorage&, const Arguments& a) const {
    const int64_t at = block_index() * kThreads + thread_index();
    if (at < a.vectors) thread::store(a.words + 4 * at, Words{{kWord, kWord, kWord, kWord}});
  }
};

// Each thread adds 1 so many times to its word.
struct AddKernel {
  static constexpr int kThreads = 256;
  struct Arguments {
    uint32_t* words;
    int stride;  // words from thread to thread; 0: one for all
    int times;
  };
  struct SharedStorage {};

  __device__ void operator()(SharedStorage&, const Arguments& a) const {
    uint32_t* word = a.words + (block_index() * kThreads + thread_index()) * a.stride;
    for (int i = 0; i < a.times; ++i) ptx::red_global_add(word, 1);
  }
};

// Memory full of kWord, after a first WriteKernel.
class Filled {
 public:
  explicit Filled(int64_t vectors) : vectors_(vectors), buffer_(bytes()), wrong_(sizeof(uint32_t)) {
    wrong_.fill(std::byte{0});
    write();
  }

  size_t bytes() const { return static_cast<size_t>(vectors_) * sizeof(Words); }
  std::byte* data() const { return buffer_.data(); }
  void write() const {
    constexpr int kThreads = WriteKernel::kThreads;
    launch<WriteKernel>({.blocks = divide_up(vectors_, int64_t{kThreads}), .threads = kThreads},
                        nullptr, {words(), vectors_});
  }
  // By so many blocks, each all of it or its part.
  void read(int64_t blocks, int64_t count) const {
    launch<ReadKernel>(
        {.blocks = blocks, .threads = ReadKernel::kThreads}, nullptr,
        {words(), vectors_, vectors_ / blocks, count, reinterpret_cast<uint32_t*>(wrong_.data())});
  }
  void read() const { read(vectors_ / kTile, kTile); }
  // Throws where a thread has read something else.
  void check() const {
    uint32_t wrong = 0;
    wrong_.download(std::as_writable_bytes(std::span(&wrong, 1)));
    if (wrong != 0) throw Error(concatenate(wrong, " threads read what was not written"));
  }

 private:
  uint32_t* words() const { return reinterpret_cast<uint32_t*>(buffer_.data()); }

  int64_t vectors_;
  harness::DeviceBuffer buffer_;
  harness::DeviceBuffer wrong_;
};

// Of memory so large that the L2 holds next to nothing of it.
int64_t large() {
  constexpr size_t kMost = size_t{1} << 32;
  const size_t bytes = runtime::kEmulated ? 0 : std::min(kMost, runtime::memory_info().free / 4);
  return std::max<int64_t>(2, static_cast<int64_t>(bytes / sizeof(Words)) / kTile) * kTile;
}

// 10^9 of them a second.
std::optional<double> giga(double number, const std::optional<double>& microseconds) {
  return microseconds ? std::optional(number / *microseconds * 1e-3) : std::nullopt;
}

// GB/s; none of a device whose data sheet is not known.
std::optional<double> sheet(const harness::Machine& machine) {
  return machine.memory_rate > 0 ? std::optional(machine.memory_rate * 1e-9) : std::nullopt;
}

Measurement dram_read(const harness::Machine& machine) {
  const Filled memory(large());
  const auto time = microseconds([&] { memory.read(); });
  memory.check();
  return {giga(static_cast<double>(memory.bytes()), time), sheet(machine)};
}

Measurement dram_write(const harness::Machine& machine) {
  const Filled memory(large());
  const auto time = microseconds([&] { memory.write(); });
  memory.read();
  memory.check();
  return {giga(static_cast<double>(memory.bytes()), time), sheet(machine)};
}

Measurement dram_copy(const harness::Machine& machine) {
  const int64_t half = large() / 2 / kTile * kTile;
  const Filled from(half);
  const Filled to(half);
  runtime::synchronize();
  runtime::fill(to.data(), std::byte{0}, to.bytes());
  // By the faster of the two that everything else is compared with.
  std::optional<double> best;
  for (const auto copy : {harness::launch_copy, runtime::copy_async}) {
    const auto time = microseconds([&] { copy(to.data(), from.data(), from.bytes(), nullptr); });
    to.read();
    to.check();
    if (time) best = std::min(*time, best.value_or(*time));
  }
  return {giga(2 * static_cast<double>(from.bytes()), best), sheet(machine)};
}

// Every block reads all of a quarter of the L2's size, from another place on: an L1 has it not.
Measurement l2_read(const harness::Machine& machine) {
  const size_t bytes = runtime::kEmulated ? 0 : machine.l2_bytes / 4;
  const int64_t vectors =
      std::max<int64_t>(2, static_cast<int64_t>(bytes / sizeof(Words)) / kTile) * kTile;
  const int64_t blocks = runtime::kEmulated ? 2 : int64_t{4} * machine.multiprocessors;
  const Filled memory(vectors);
  const auto time = microseconds([&] { memory.read(blocks, vectors); });
  memory.check();
  return {giga(static_cast<double>(memory.bytes()) * static_cast<double>(blocks), time)};
}

template <int kStride>
Measurement atomics(const harness::Machine& machine) {
  constexpr int kThreads = AddKernel::kThreads;
  const int64_t blocks = runtime::kEmulated ? 2 : int64_t{8} * machine.multiprocessors;
  const int times = runtime::kEmulated ? 2 : 64;
  const int64_t threads = blocks * kThreads;
  std::vector<uint32_t> counts(static_cast<size_t>(kStride == 0 ? 1 : threads));
  harness::DeviceBuffer words(counts.size() * sizeof(uint32_t));
  words.fill(std::byte{0});
  uint32_t launched = 0;
  const auto time = microseconds([&] {
    launch<AddKernel>({.blocks = blocks, .threads = kThreads}, nullptr,
                      {reinterpret_cast<uint32_t*>(words.data()), kStride, times});
    ++launched;
  });
  words.download(std::as_writable_bytes(std::span(counts)));
  const auto sharers = static_cast<uint32_t>(kStride == 0 ? threads : 1);
  for (const uint32_t count : counts) {
    const uint32_t expected = launched * static_cast<uint32_t>(times) * sharers;
    if (count != expected) {
      throw Error(concatenate("a word has ", count, " of ", expected, " additions"));
    }
  }
  return {giga(static_cast<double>(threads) * times, time)};
}

constexpr std::array kMemory = {
    Probe{"dram_read_rate", "reading memory", "GB/s", Arch::kSm80, dram_read},
    Probe{"dram_write_rate", "writing memory", "GB/s", Arch::kSm80, dram_write},
    Probe{"dram_copy_rate", "copying memory, both directions counted", "GB/s", Arch::kSm80,
          dram_copy},
    Probe{"l2_read_rate", "reading what the L2 has", "GB/s", Arch::kSm80, l2_read},
    Probe{"global_atomic_rate", "additions, a word of global memory for each thread", "10^9/s",
          Arch::kSm80, atomics<1>},
    Probe{"global_atomic_rate_one", "... one word for all threads", "10^9/s", Arch::kSm80,
          atomics<0>},
};

}  // namespace

std::span<const Probe> memory() { return kMemory; }

}  // namespace ws::microbench
