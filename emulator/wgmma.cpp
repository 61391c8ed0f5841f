#include "emulator/wgmma.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <deque>
#include <memory>

#include "emulator/async.hpp"
#include "warpsmith/ptx/convert.hpp"
#include "warpsmith/ptx/swizzle.hpp"

namespace ws::emulator {

namespace {

constexpr const char* kName = "wgmma.mma_async";
constexpr int kRows = 64;  // of A and D
constexpr int kDepth = 16;
constexpr int kThreads = 128;

// What accumulator registers hold while a product is in flight: a NaN that nobody else writes.
constexpr uint32_t kInFlightBits = 0x7FDEAD00u;

// ---- Operands in shared memory -----------------------------------------------------------------

// Finds the 16-byte chunks of an operand (PTX ISA, "Matrix Descriptor Format", "Canonical
// Layouts").
struct Operand {
  uint32_t address;
  uint32_t leading;
  uint32_t stride;
  ptx::Swizzle swizzle;
  bool mn_major;
  int extent;  // of mn

  Operand(uint64_t descriptor, bool is_mn_major, int mn_extent)
      : address(field(descriptor, 0)),
        leading(field(descriptor, 16)),
        stride(field(descriptor, 32)),
        mn_major(is_mn_major),
        extent(mn_extent) {
    constexpr ptx::Swizzle kTypes[] = {ptx::Swizzle::kNone, ptx::Swizzle::k128, ptx::Swizzle::k64,
                                       ptx::Swizzle::k32};
    swizzle = kTypes[descriptor >> 62];
    if ((descriptor >> 49 & 7) != 0) {
      fail(Fault::kInvalidUse, concatenate(kName, ": a descriptor with a base offset"));
    }
    const auto period = static_cast<uint32_t>(ptx::swizzle_period(swizzle));
    if (swizzle != ptx::Swizzle::kNone && address % period >= 128) {
      fail(Fault::kMisaligned,
           concatenate(kName, ": the tile starts ", address % period,
                       " bytes after a multiple of its swizzle's ", period, " bytes"));
    }
  }

  static uint32_t field(uint64_t descriptor, int bit) {
    return static_cast<uint32_t>(descriptor >> bit & 0x3FFF) << 4;
  }

  // Calls visit(chunk pointer, mn, k) for each chunk: 8 elements from (mn, k) along the major
  // dimension.
  template <class Visit>
  void for_each_chunk(Visit&& visit) const {
    const auto row_bytes = static_cast<uint32_t>(ptx::swizzle_row_bytes(swizzle));
    const uint32_t row_chunks = row_bytes / 16;
    const bool plain = swizzle == ptx::Swizzle::kNone;
    const auto at = [&](uint32_t offset) {
      // The swizzle acts on addresses, so a tile may start anywhere in the first row of a pattern.
      return shared_pointer(ptx::swizzled(swizzle, address + offset));
    };
    if (!mn_major) {
      for (int mn = 0; mn < extent; ++mn) {
        const uint32_t row =
            static_cast<uint32_t>(mn) % 8 * row_bytes + static_cast<uint32_t>(mn) / 8 * stride;
        visit(at(row), mn, 0);
        visit(at(row + (plain ? leading : 16)), mn, 8);
      }
    } else {
      for (int k = 0; k < kDepth; ++k) {
        const uint32_t row = static_cast<uint32_t>(k) % 8 * row_bytes +
                             static_cast<uint32_t>(k) / 8 * (plain ? leading : stride);
        for (int mn = 0; mn < extent; mn += 8) {
          const auto chunk = static_cast<uint32_t>(mn) / 8;
          visit(at(row + (plain ? chunk * stride
                                : chunk % row_chunks * 16 + chunk / row_chunks * leading)),
                mn, k);
        }
      }
    }
  }

  // The hardware may read as soon as the product is issued and until it is waited for.
  void hold() const {
    for_each_chunk([](const std::byte* chunk, int, int) {
      read_shared_async(chunk, 16, kName);
      hold_shared(chunk, 16);
    });
  }

  // Writes element (mn, k) to out[mn * mn_step + k * k_step], and lets the bytes go.
  void gather(bool bf16, float* out, int mn_step, int k_step) const {
    const int step = mn_major ? mn_step : k_step;
    for_each_chunk([&](const std::byte* chunk, int mn, int k) {
      read_shared_async(chunk, 16, kName);
      uint16_t bits[8];
      std::memcpy(bits, chunk, sizeof(bits));
      float* to = out + mn * mn_step + k * k_step;
      for (int i = 0; i < 8; ++i) {
        to[i * step] = bf16 ? ptx::cvt_f32_bf16(bits[i]) : ptx::cvt_f32_f16(bits[i]);
      }
      release_shared(chunk, 16);
    });
  }
};

// ---- Products in flight ------------------------------------------------------------------------

// Row and column of accumulator i of a thread (and, with two elements a register, of A's
// registers).
constexpr int fragment_row(int thread, int i) {
  return 16 * (thread / 32) + thread % 32 / 4 + i / 2 % 2 * 8;
}
constexpr int fragment_column(int thread, int i) { return i / 4 * 8 + 2 * (thread % 4) + i % 2; }

// The accumulators of a warpgroup while products on them are in flight.
struct Accumulator {
  int n;
  std::array<float*, kThreads> registers;
  std::vector<float> sum;  // [64, n]
  int64_t last_group = 0;  // the youngest with a product on it
  int products = 0;        // not yet computed
  std::array<bool, kThreads> delivered{};
  int deliveries = 0;
};

struct PendingProduct {
  WgmmaProduct call;
  std::vector<float> a;  // [64, 16] if from registers
  Accumulator* accumulator;
  int64_t group;
};

struct Warpgroup {
  struct ThreadState {
    int64_t commits = 0;  // groups that this thread has closed
    bool fenced = false;
  };
  std::array<ThreadState, kThreads> threads;
  std::vector<std::unique_ptr<Accumulator>> accumulators;
  std::deque<PendingProduct> products;
};

}  // namespace

struct WgmmaBlock {
  std::array<Warpgroup, 8> warpgroups;
};

namespace {

Warpgroup& warpgroup() {
  const Thread& me = self();
  std::shared_ptr<WgmmaBlock>& state = async_of(*me.block).wgmma;
  if (state == nullptr) state = std::make_shared<WgmmaBlock>();
  return state->warpgroups[static_cast<size_t>(me.index / kThreads)];
}

Accumulator* find(Warpgroup& group, int thread, const float* d) {
  for (const auto& accumulator : group.accumulators) {
    const auto t = static_cast<size_t>(thread);
    if (accumulator->registers[t] == d && !accumulator->delivered[t]) return accumulator.get();
  }
  return nullptr;
}

// sum[64, n] += a[64, 16] * b[16, n]
void multiply(const float* a, const float* b, float* sum, int n) {
  constexpr int kWidth = 8;
  for (int column = 0; column < n; column += kWidth) {
    for (int m = 0; m < kRows; ++m) {
      float total[kWidth];
      std::memcpy(total, sum + m * n + column, sizeof(total));
      for (int k = 0; k < kDepth; ++k) {
        for (int i = 0; i < kWidth; ++i) total[i] += a[m * kDepth + k] * b[k * n + column + i];
      }
      std::memcpy(sum + m * n + column, total, sizeof(total));
    }
  }
}

void compute(const PendingProduct& product) {
  const WgmmaProduct& call = product.call;
  const int n = call.n;
  Accumulator& accumulator = *product.accumulator;
  std::vector<float> from_shared;
  const float* a = product.a.data();
  if (call.a_registers == nullptr) {
    from_shared.resize(kRows * kDepth);
    Operand(call.a, call.a_mn_major, kRows).gather(call.bf16, from_shared.data(), kDepth, 1);
    a = from_shared.data();
  }
  std::vector<float> b(static_cast<size_t>(kDepth * n));  // [16, n]
  Operand(call.b, call.b_mn_major, n).gather(call.bf16, b.data(), 1, n);
  if (!call.accumulate) std::ranges::fill(accumulator.sum, 0.0f);
  multiply(a, b.data(), accumulator.sum.data(), n);
  --accumulator.products;
}

// Gives a thread its accumulators. Fails if it has written to them while they were in flight.
void deliver(Accumulator& accumulator, int thread) {
  float* registers = accumulator.registers[static_cast<size_t>(thread)];
  for (int i = 0; i < accumulator.n / 2; ++i) {
    if (std::bit_cast<uint32_t>(registers[i]) != kInFlightBits) {
      fail(Fault::kInvalidUse,
           concatenate("wgmma: accumulator ", i, " was written before the wait that covers it"));
    }
    registers[i] = accumulator.sum[static_cast<size_t>(fragment_row(thread, i) * accumulator.n +
                                                       fragment_column(thread, i))];
  }
  accumulator.delivered[static_cast<size_t>(thread)] = true;
  ++accumulator.deliveries;
}

// All threads have arrived with `calls`.
void issue(Warpgroup& group, std::span<const WgmmaProduct* const, kThreads> calls) {
  const WgmmaProduct& call = *calls[0];
  for (size_t t = 1; t < kThreads; ++t) {
    const WgmmaProduct& other = *calls[t];
    if (other.n != call.n || other.bf16 != call.bf16 || other.a != call.a || other.b != call.b ||
        other.a_mn_major != call.a_mn_major || other.b_mn_major != call.b_mn_major ||
        other.accumulate != call.accumulate ||
        (other.a_registers == nullptr) != (call.a_registers == nullptr)) {
      fail(Fault::kDivergence,
           concatenate(kName, ": threads 0 and ", t, " of the warpgroup give different operands"));
    }
  }
  count(Count::kMma);

  Accumulator* accumulator = find(group, 0, call.d);
  for (size_t t = 1; t < kThreads; ++t) {
    if (find(group, static_cast<int>(t), calls[t]->d) != accumulator) {
      fail(Fault::kDivergence,
           concatenate(kName, ": threads 0 and ", t, " of the warpgroup give accumulators of ",
                       "which one is in flight, or both in different products"));
    }
  }
  if (accumulator == nullptr) {
    group.accumulators.push_back(std::make_unique<Accumulator>());
    accumulator = group.accumulators.back().get();
    accumulator->n = call.n;
    accumulator->sum.resize(static_cast<size_t>(kRows * call.n));
    for (int t = 0; t < kThreads; ++t) {
      float* registers = calls[static_cast<size_t>(t)]->d;
      accumulator->registers[static_cast<size_t>(t)] = registers;
      for (int i = 0; i < call.n / 2; ++i) {
        accumulator->sum[static_cast<size_t>(fragment_row(t, i) * call.n + fragment_column(t, i))] =
            registers[i];
        registers[i] = std::bit_cast<float>(kInFlightBits);
      }
    }
  } else if (accumulator->n != call.n) {
    fail(Fault::kInvalidUse, concatenate(kName, ": n = ", call.n,
                                         " on accumulators of n = ", accumulator->n, " in flight"));
  }

  PendingProduct product{call, {}, accumulator, group.threads[0].commits};
  if (call.a_registers == nullptr) {
    Operand(call.a, call.a_mn_major, kRows).hold();
  } else {
    product.a.resize(kRows * kDepth);
    for (int t = 0; t < kThreads; ++t) {
      for (int i = 0; i < 8; ++i) {
        const uint32_t pair = calls[static_cast<size_t>(t)]->a_registers[i / 2];
        const auto bits = static_cast<uint16_t>(pair >> (i % 2 * 16));
        product.a[static_cast<size_t>(fragment_row(t, i) * kDepth + fragment_column(t, i))] =
            call.bf16 ? ptx::cvt_f32_bf16(bits) : ptx::cvt_f32_f16(bits);
      }
    }
  }
  Operand(call.b, call.b_mn_major, call.n).hold();
  ++accumulator->products;
  accumulator->last_group = product.group;
  group.products.push_back(std::move(product));
}

}  // namespace

void wgmma_check_descriptor(uint32_t address, uint32_t leading_bytes, uint32_t stride_bytes) {
  for (const uint32_t bytes : {address, leading_bytes, stride_bytes}) {
    if (bytes % 16 != 0) {
      fail(Fault::kMisaligned, concatenate("wgmma descriptor: ", bytes,
                                           " as an address or offset is not a multiple of 16"));
    }
  }
  if (address >> kSharedRankShift != 0) {
    fail(Fault::kOutOfRange, "wgmma descriptor: shared memory of another block");
  }
  if (leading_bytes >= 1u << 18 || stride_bytes >= 1u << 18) {
    fail(Fault::kOutOfRange, concatenate("wgmma descriptor: offsets ", leading_bytes, " and ",
                                         stride_bytes, " do not fit into 18 bits"));
  }
}

void wgmma_fence() {
  check_warpgroup("wgmma.fence");
  warpgroup().threads[static_cast<size_t>(self().index % kThreads)].fenced = true;
}

void wgmma_mma_async(const WgmmaProduct& product) {
  check_warpgroup(kName);
  Warpgroup& group = warpgroup();
  const int thread = self().index % kThreads;
  if (!group.threads[static_cast<size_t>(thread)].fenced &&
      find(group, thread, product.d) == nullptr) {
    fail(Fault::kInvalidUse,
         concatenate(kName, ": no wgmma.fence since the thread could touch the accumulators"));
  }
  converge_warpgroup(kName, product, [&group](auto calls) { issue(group, calls); });
}

void wgmma_commit_group() {
  check_warpgroup("wgmma.commit_group");
  ++warpgroup().threads[static_cast<size_t>(self().index % kThreads)].commits;
}

void wgmma_wait_group(int pending) {
  check_warpgroup("wgmma.wait_group");
  Warpgroup& group = warpgroup();
  const int thread = self().index % kThreads;
  Warpgroup::ThreadState& state = group.threads[static_cast<size_t>(thread)];
  const int64_t covered = state.commits - pending;  // groups below this number
  while (!group.products.empty() && group.products.front().group < covered) {
    const PendingProduct product = std::move(group.products.front());
    group.products.pop_front();
    compute(product);
  }
  for (size_t i = 0; i < group.accumulators.size();) {
    Accumulator& accumulator = *group.accumulators[i];
    if (accumulator.products == 0 && accumulator.last_group < covered &&
        !accumulator.delivered[static_cast<size_t>(thread)]) {
      deliver(accumulator, thread);
      state.fenced = false;  // the thread may now touch them
    }
    if (accumulator.deliveries == kThreads) {
      group.accumulators.erase(group.accumulators.begin() + static_cast<ptrdiff_t>(i));
    } else {
      ++i;
    }
  }
}

}  // namespace ws::emulator
