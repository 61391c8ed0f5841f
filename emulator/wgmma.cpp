#include "emulator/wgmma.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <deque>
#include <memory>
#include <span>

#include "emulator/async.hpp"
#include "emulator/profile.hpp"
#include "emulator/scheduler.hpp"
#include "emulator/trace.hpp"
#include "warpsmith/ptx/convert.hpp"
#include "warpsmith/ptx/swizzle.hpp"

namespace ws::emulator {

namespace {

constexpr const char* kName = "wgmma.mma_async";
constexpr int kRows = 64;        // of A and D
constexpr int kDepthBytes = 32;  // K of a product
constexpr int kThreads = 128;

constexpr int kWarps = 4;
constexpr int kWarpRows = kRows / kWarps;

// ---- Elements ----------------------------------------------------------------------------------

constexpr int bytes_of(WgmmaElement element) {
  switch (element) {
    case WgmmaElement::kF16:
    case WgmmaElement::kBf16: return 2;
    case WgmmaElement::kTf32: return 4;
    case WgmmaElement::kE4m3:
    case WgmmaElement::kE5m2:
    case WgmmaElement::kS8: return 1;
  }
  return 0;
}
constexpr int depth_of(WgmmaElement element) { return kDepthBytes / bytes_of(element); }

// What the tensor core takes an element for, exactly: products of two are exact in f32 too.
float value_of(WgmmaElement element, const std::byte* from) {
  uint8_t byte = 0;
  uint16_t two = 0;
  uint32_t four = 0;
  std::memcpy(&byte, from, sizeof(byte));
  switch (element) {
    case WgmmaElement::kF16: std::memcpy(&two, from, sizeof(two)); return ptx::cvt_f32_f16(two);
    case WgmmaElement::kBf16: std::memcpy(&two, from, sizeof(two)); return ptx::cvt_f32_bf16(two);
    case WgmmaElement::kTf32:
      std::memcpy(&four, from, sizeof(four));
      return ptx::cut_to_tf32(std::bit_cast<float>(four));
    case WgmmaElement::kE4m3: return ptx::cvt_f32_e4m3(byte);
    case WgmmaElement::kE5m2: return ptx::cvt_f32_e5m2(byte);
    case WgmmaElement::kS8: return static_cast<float>(static_cast<int8_t>(byte));
  }
  return 0;
}

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
  WgmmaElement element;

  Operand(uint64_t descriptor, bool is_mn_major, int mn_extent, WgmmaElement of)
      : address(field(descriptor, 0)),
        leading(field(descriptor, 16)),
        stride(field(descriptor, 32)),
        mn_major(is_mn_major),
        extent(mn_extent),
        element(of) {
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

  // Calls visit(chunk pointer, mn, k) for each chunk of mn in [first, last): the elements of 16
  // bytes from (mn, k) along the major dimension, which is K where they are not of 16 bits.
  template <class Visit>
  void for_each_chunk(int first, int last, Visit&& visit) const {
    const auto row_bytes = static_cast<uint32_t>(ptx::swizzle_row_bytes(swizzle));
    const uint32_t row_chunks = row_bytes / 16;
    const bool plain = swizzle == ptx::Swizzle::kNone;
    const auto at = [&](uint32_t offset) {
      // The swizzle acts on addresses, so a tile may start anywhere in the first row of a pattern.
      return shared_pointer(ptx::swizzled(swizzle, address + offset));
    };
    if (!mn_major) {
      for (int mn = first; mn < last; ++mn) {
        const uint32_t row =
            static_cast<uint32_t>(mn) % 8 * row_bytes + static_cast<uint32_t>(mn) / 8 * stride;
        visit(at(row), mn, 0);
        visit(at(row + (plain ? leading : 16)), mn, depth_of(element) / 2);
      }
    } else {
      for (int k = 0; k < depth_of(element); ++k) {
        const uint32_t row = static_cast<uint32_t>(k) % 8 * row_bytes +
                             static_cast<uint32_t>(k) / 8 * (plain ? leading : stride);
        for (int mn = first; mn < last; mn += 8) {
          const auto chunk = static_cast<uint32_t>(mn) / 8;
          visit(at(row + (plain ? chunk * stride
                                : chunk % row_chunks * 16 + chunk / row_chunks * leading)),
                mn, k);
        }
      }
    }
  }

  // All of them.
  template <class Visit>
  void for_each_chunk(Visit&& visit) const {
    for_each_chunk(0, extent, visit);
  }

  // What the running thread's warp may have read, from its issue until it is waited for.
  void use(int first, int last, const ProductRead& how) const {
    for_each_chunk(first, last,
                   [&](const std::byte* chunk, int, int) { product_reads(chunk, 16, how, kName); });
  }

  // Writes element (mn, k) to out[mn * mn_step + k * k_step], and lets the bytes go.
  void gather(float* out, int mn_step, int k_step) const {
    const int step = mn_major ? mn_step : k_step;
    const int size = bytes_of(element);
    for_each_chunk([&](const std::byte* chunk, int mn, int k) {
      float* to = out + mn * mn_step + k * k_step;
      for (int i = 0; i < 16 / size; ++i) to[i * step] = value_of(element, chunk + i * size);
      release_shared(chunk, 16);
    });
  }
};

Operand operand_a(const WgmmaProduct& call) {
  return {call.a, call.a_mn_major, kRows, call.a_element};
}
Operand operand_b(const WgmmaProduct& call) {
  return {call.b, call.b_mn_major, call.n, call.b_element};
}

// ---- Products in flight ------------------------------------------------------------------------

// Row, of its warp's 16, and column of accumulator i of a lane; of A's registers, which have
// `wide` elements each, of element i of all four.
constexpr int fragment_row(int lane, int i, int wide = 2) { return lane / 4 + i / wide % 2 * 8; }
constexpr int fragment_column(int lane, int i, int wide = 2) {
  return i / (2 * wide) * 4 * wide + wide * (lane % 4) + i % wide;
}

// The accumulators of a warp while products on them are in flight.
struct Accumulator {
  int n;
  std::array<void*, kWarpSize> registers;
  std::vector<uint32_t> sum;  // [16, n], of f32 or s32
  int64_t last_product = 0;   // on it
  std::array<bool, kWarpSize> delivered{};
  int deliveries = 0;
};

// One wgmma.mma_async, which four warps issue, each when it comes there.
struct Product {
  WgmmaProduct call;                                // as the first one did
  std::array<Accumulator*, kWarps> accumulators{};  // null: not yet issued by that warp
  std::vector<float> a;                             // [64, K] if from registers
  Clock checked;                                    // what the first one came after
  int issued = 0;                                   // by warps
};

// Registers as they were.
struct Registers {
  const void* at;
  int64_t product;  // that reads them
  std::vector<std::byte> bytes;
};

struct Lane {
  bool fenced = false;
  std::vector<Registers> ready;  // as wgmma.fence found them
  std::vector<Registers> read;   // of A, by products in flight
  int64_t issued = 0;
  int64_t done = 0;               // products that it has waited for
  std::deque<int64_t> committed;  // by group: products issued at its commit
  int64_t commits = 0;            // so far
};

struct Warpgroup {
  std::array<Lane, kThreads> lanes;
  std::array<int64_t, kWarps> issued{};  // products, by warp
  std::array<std::vector<std::unique_ptr<Accumulator>>, kWarps> accumulators;
  std::deque<Product> products;  // not yet computed
  int64_t computed = 0;
  std::array<Clock, kWarps> done;  // has seen what the warp has waited for
  Clock all_done;                  // ... what any of them has
};

}  // namespace

struct WgmmaBlock {
  std::array<Warpgroup, 8> warpgroups;
};

namespace {

Warpgroup& warpgroup_of(const Thread& thread) {
  std::shared_ptr<WgmmaBlock>& state = async_of(*thread.block).wgmma;
  if (state == nullptr) state = std::make_shared<WgmmaBlock>();
  return state->warpgroups[static_cast<size_t>(thread.index / kThreads)];
}

Lane& lane_of(Warpgroup& group, const Thread& thread) {
  return group.lanes[static_cast<size_t>(thread.index % kThreads)];
}

size_t warp_of(const Thread& thread) { return static_cast<size_t>(thread.index % kThreads / 32); }

Accumulator* find(Warpgroup& group, size_t warp, size_t lane, const void* d) {
  for (const auto& accumulator : group.accumulators[warp]) {
    if (accumulator->registers[lane] == d && !accumulator->delivered[lane])
      return accumulator.get();
  }
  return nullptr;
}

// Registers that have gone out of scope may be read here, and are, to see whether they still hold
// the same.
[[gnu::no_sanitize_address]] bool same_bytes(const void* registers,
                                             std::span<const std::byte> bytes) {
  const auto* now = static_cast<const volatile std::byte*>(registers);
  bool same = true;
  for (size_t i = 0; i < bytes.size(); ++i) same = same && now[i] == bytes[i];
  return same;
}

// sum[16, n] += a[16, depth] * b[depth, n]
void multiply(const float* a, const float* b, uint32_t* sum, int n, int depth) {
  constexpr int kWidth = 8;
  for (int column = 0; column < n; column += kWidth) {
    for (int m = 0; m < kWarpRows; ++m) {
      float total[kWidth];
      std::memcpy(total, sum + m * n + column, sizeof(total));
      for (int k = 0; k < depth; ++k) {
        for (int i = 0; i < kWidth; ++i) total[i] += a[m * depth + k] * b[k * n + column + i];
      }
      std::memcpy(sum + m * n + column, total, sizeof(total));
    }
  }
}

// The same of s8: 32 products are exact in f32, and sums wrap.
void multiply_integers(const float* a, const float* b, uint32_t* sum, int n, int depth) {
  std::vector<uint32_t> products(static_cast<size_t>(kWarpRows * n), 0);  // f32 zeros
  multiply(a, b, products.data(), n, depth);
  for (size_t i = 0; i < products.size(); ++i) {
    sum[i] += static_cast<uint32_t>(static_cast<int32_t>(std::bit_cast<float>(products[i])));
  }
}

void compute(const Product& product) {
  const WgmmaProduct& call = product.call;
  const int n = call.n;
  const int depth = depth_of(call.a_element);
  std::vector<float> from_shared;
  const float* a = product.a.data();
  if (call.a_registers == nullptr) {
    from_shared.resize(static_cast<size_t>(kRows * depth));
    operand_a(call).gather(from_shared.data(), depth, 1);
    a = from_shared.data();
  }
  std::vector<float> b(static_cast<size_t>(depth * n));  // [depth, n]
  operand_b(call).gather(b.data(), 1, n);
  for (Accumulator* accumulator : product.accumulators) {
    if (!call.accumulate) std::ranges::fill(accumulator->sum, 0u);
    const auto add = call.a_element == WgmmaElement::kS8 ? multiply_integers : multiply;
    add(a, b.data(), accumulator->sum.data(), n, depth);
    a += kWarpRows * depth;
  }
}

// Gives a thread its accumulators. Fails if it has written to them while they were in flight.
void deliver(Accumulator& accumulator, size_t lane, bool checks) {
  auto* registers = static_cast<std::byte*>(accumulator.registers[lane]);
  for (int i = 0; i < accumulator.n / 2; ++i) {
    std::byte* const mine = registers + i * sizeof(kInFlightBits);
    if (checks && std::memcmp(mine, &kInFlightBits, sizeof(kInFlightBits)) != 0) {
      fail(Fault::kInvalidUse,
           concatenate("wgmma: accumulator ", i, " was written before the wait that covers it"));
    }
    const auto thread = static_cast<int>(lane);
    const auto at =
        static_cast<size_t>(fragment_row(thread, i) * accumulator.n + fragment_column(thread, i));
    std::memcpy(mine, &accumulator.sum[at], sizeof(uint32_t));
  }
  accumulator.delivered[lane] = true;
  ++accumulator.deliveries;
}

bool checks_registers() { return uses(Detector::kRegisters); }

// What a lane brings to a product.
struct Issue {
  const WgmmaProduct* call;
  Lane* lane;
};

bool have_same_operands(const WgmmaProduct& x, const WgmmaProduct& y) {
  return x.n == y.n && x.a_element == y.a_element && x.b_element == y.b_element && x.a == y.a &&
         x.b == y.b && x.a_mn_major == y.a_mn_major && x.b_mn_major == y.b_mn_major &&
         x.accumulate == y.accumulate && (x.a_registers == nullptr) == (y.a_registers == nullptr);
}

// The accumulators that the warp's lanes name: in flight already, or from now on.
Accumulator& accumulator_of(Warpgroup& group, size_t warp,
                            std::span<Issue* const, kWarpSize> lanes) {
  const int n = lanes[0]->call->n;
  Accumulator* accumulator = find(group, warp, 0, lanes[0]->call->d);
  for (size_t t = 1; t < kWarpSize; ++t) {
    if (find(group, warp, t, lanes[t]->call->d) != accumulator) {
      fail(Fault::kDivergence,
           concatenate(kName, ": lanes 0 and ", t, " of the warp give accumulators of ",
                       "which one is in flight, or both in different products"));
    }
  }
  if (accumulator != nullptr) {
    if (accumulator->n != n) {
      fail(Fault::kInvalidUse, concatenate(kName, ": n = ", n, " on accumulators of n = ",
                                           accumulator->n, " in flight"));
    }
    return *accumulator;
  }
  accumulator = group.accumulators[warp].emplace_back(std::make_unique<Accumulator>()).get();
  accumulator->n = n;
  accumulator->sum.resize(static_cast<size_t>(kWarpRows * n));
  for (size_t t = 0; t < kWarpSize; ++t) {
    accumulator->registers[t] = lanes[t]->call->d;
    auto* registers = static_cast<std::byte*>(lanes[t]->call->d);
    const auto lane = static_cast<int>(t);
    for (int i = 0; i < n / 2; ++i) {
      std::byte* const mine = registers + i * sizeof(kInFlightBits);
      const auto at = static_cast<size_t>(fragment_row(lane, i) * n + fragment_column(lane, i));
      std::memcpy(&accumulator->sum[at], mine, sizeof(uint32_t));
      std::memcpy(mine, &kInFlightBits, sizeof(kInFlightBits));
    }
  }
  return *accumulator;
}

// All lanes of the warp have arrived.
void issue(Warpgroup& group, std::span<Issue* const, kWarpSize> lanes) {
  const Thread& me = self();
  const size_t warp = warp_of(me);
  const WgmmaProduct& call = *lanes[0]->call;
  for (size_t t = 1; t < kWarpSize; ++t) {
    if (lanes[t]->lane->issued != lanes[0]->lane->issued ||
        lanes[t]->lane->commits != lanes[0]->lane->commits) {
      fail(Fault::kDivergence,
           concatenate(kName, ": lanes 0 and ", t, " of the warp have issued or committed ",
                       "different numbers of products"));
    }
    if (!have_same_operands(call, *lanes[t]->call)) {
      fail(Fault::kDivergence,
           concatenate(kName, ": lanes 0 and ", t, " of the warp give different operands"));
    }
  }

  const auto stream = kProductStreams + static_cast<uint32_t>(me.warp());
  const int64_t number = group.issued[warp]++;
  trace_issue(trace::Flight::kProducts);
  const auto place = static_cast<size_t>(number - group.computed);
  const bool first = place == group.products.size();
  if (first) {
    count(Count::kMma);
    me.block->multiplies = true;
    if (profiling) {
      profile_product(call.a_registers == nullptr, operand_a(call), operand_b(call), call.b);
    }
    Product& made = group.products.emplace_back();
    made.call = call;
    if (call.a_registers != nullptr)
      made.a.resize(static_cast<size_t>(kRows * depth_of(call.a_element)));
  }
  Product& product = group.products[place];
  if (!have_same_operands(product.call, call)) {
    fail(Fault::kDivergence,
         concatenate(kName, ": two warps of the warpgroup give different operands"));
  }
  // What the warp's products read is read until the warp has waited for them.
  const uint32_t epoch = ++me.block->streams[stream];

  const int first_row = static_cast<int>(warp) * kWarpRows;
  if (call.a_registers == nullptr) {
    operand_a(call).use(first_row, first_row + kWarpRows, {true, true, true, stream, epoch});
  }
  const Operand b = operand_b(call);
  // Of four readers two are enough: one of them is not the next writer.
  const bool notes = first || product.issued == kWarps - 1;
  const bool checks = first || !me.clock.covers(product.checked);
  if (notes || checks) b.use(0, call.n, {checks, first, notes, stream, epoch});
  if (first) product.checked = me.clock;
  ++product.issued;

  Accumulator& accumulator = accumulator_of(group, warp, lanes);
  accumulator.last_product = number;
  product.accumulators[warp] = &accumulator;
  for (size_t t = 0; t < kWarpSize; ++t) {
    Lane& lane = *lanes[t]->lane;
    lane.issued = number + 1;
    if (call.a_registers == nullptr) continue;
    const uint32_t* registers = lanes[t]->call->a_registers;
    const auto* bytes = reinterpret_cast<const std::byte*>(registers);
    lane.read.push_back({registers, number, {bytes, bytes + 16}});
    const int size = bytes_of(call.a_element);
    const int wide = 4 / size;
    for (int i = 0; i < 4 * wide; ++i) {
      const auto thread = static_cast<int>(t);
      const int at = (first_row + fragment_row(thread, i, wide)) * depth_of(call.a_element) +
                     fragment_column(thread, i, wide);
      product.a[static_cast<size_t>(at)] = value_of(call.a_element, bytes + size * i);
    }
  }
}

// Registers that a product reads or adds to have not changed since the fence that named them.
void require_unchanged(const Lane& lane, const void* registers, const char* what) {
  for (const Registers& ready : lane.ready) {
    if (ready.at != registers || same_bytes(registers, ready.bytes)) continue;
    fail(Fault::kInvalidUse,
         concatenate(kName, ": ", what, " changed between wgmma.fence and the product"));
  }
}

// The products up to a number, of which the warps issue one after another.
class Issued final : public Condition {
 public:
  Issued(const Warpgroup& group, int64_t products)
      : group_(group),
        first_(self().block->first + self().index / kThreads * kThreads),
        products_(products) {}
  bool holds() override {
    bool all = true;
    for (size_t warp = 0; warp < kWarps; ++warp) {
      if (group_.issued[warp] >= products_) continue;
      all = false;
      const Thread* const lanes = first_ + warp * kWarpSize;
      if (std::any_of(lanes, lanes + kWarpSize, [](const Thread& t) { return t.finished; })) {
        fail(Fault::kDivergence,
             concatenate(kName, ": warp ", lanes->warp(), " has exited after ", group_.issued[warp],
                         " products, another has issued ", products_));
      }
    }
    return all;
  }
  std::string describe() const override {
    std::string text = concatenate(products_, " products; its warps have issued");
    for (const int64_t issued : group_.issued) text += concatenate(" ", issued);
    return text;
  }

 private:
  const Warpgroup& group_;
  const Thread* first_;
  int64_t products_;
};

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

void wgmma_fence(std::initializer_list<std::pair<const void*, size_t>> registers) {
  const Thread& me = self();
  check_in_warpgroup("wgmma.fence");
  Warpgroup& group = warpgroup_of(me);
  Lane& lane = lane_of(group, me);
  lane.fenced = true;
  lane.ready.clear();
  if (!checks_registers()) return;
  for (const auto& [at, size] : registers) {
    // What is in flight is the product's, whoever names it.
    if (find(group, warp_of(me), static_cast<size_t>(me.lane()), at) != nullptr) {
      continue;
    }
    const auto* bytes = static_cast<const std::byte*>(at);
    lane.ready.push_back({at, 0, {bytes, bytes + size}});
  }
}

void wgmma_mma_async(const WgmmaProduct& product) {
  const Thread& me = self();
  check_in_warpgroup(kName);
  Warpgroup& group = warpgroup_of(me);
  Lane& lane = lane_of(group, me);
  const bool in_flight =
      find(group, warp_of(me), static_cast<size_t>(me.lane()), product.d) != nullptr;
  if (!lane.fenced && !in_flight) {
    fail(Fault::kInvalidUse,
         concatenate(kName, ": no wgmma.fence since the thread could touch the accumulators"));
  }
  if (checks_registers()) {
    if (!in_flight) require_unchanged(lane, product.d, "the accumulators");
    if (product.a_registers != nullptr) {
      require_unchanged(lane, product.a_registers, "the registers of A");
    }
  }
  Issue mine{&product, &lane};
  converge_aligned(kName, mine, [&group](auto lanes) { issue(group, lanes); });
}

void wgmma_commit_group() {
  check_in_warpgroup("wgmma.commit_group");
  Lane& lane = lane_of(warpgroup_of(self()), self());
  lane.committed.push_back(lane.issued);
  ++lane.commits;
  trace_commit(trace::Flight::kProducts);
}

void wgmma_wait_group(int pending) {
  constexpr const char* kWait = "wgmma.wait_group";
  const TracedWait traced({kWait, -1, trace::Flight::kProducts, pending});
  Thread& me = self();
  check_in_warpgroup(kWait);
  Warpgroup& group = warpgroup_of(me);
  Lane& lane = lane_of(group, me);
  int nothing = 0;
  converge_aligned(kWait, nothing, [](auto) {});
  int64_t covered = lane.done;  // products below this number
  while (static_cast<int>(lane.committed.size()) > pending) {
    covered = lane.committed.front();
    lane.committed.pop_front();
  }
  if (covered > group.computed) {
    Issued all(group, covered);
    wait_until(kWait, static_cast<Condition&>(all));
  }
  while (group.computed < covered) {
    compute(group.products.front());
    group.products.pop_front();
    ++group.computed;
  }
  if (covered > lane.done) {
    // A warp issues one product an epoch. Its own are over; those of the others too, for copies.
    const auto epoch = me.block->group->first_epoch + static_cast<uint32_t>(covered);
    const auto stream = kProductStreams + static_cast<uint32_t>(me.warp());
    const size_t warp = warp_of(me);
    group.done[warp].see(me.block->index, stream, epoch);
    acquire_from(group.done[warp]);
    for (uint32_t w = 0; w < kWarps; ++w) {
      group.all_done.see(me.block->index, stream - static_cast<uint32_t>(warp) + w, epoch);
    }
    me.ordering().reads.join(group.all_done);
  }
  lane.done = covered;
  const bool checks = checks_registers();
  std::erase_if(lane.read, [&](const Registers& read) {
    if (read.product >= covered) return false;
    if (checks && !same_bytes(read.at, read.bytes)) {
      fail(Fault::kInvalidUse,
           "wgmma: registers of A changed before the wait that covers their product");
    }
    return true;
  });
  auto& accumulators = group.accumulators[warp_of(me)];
  for (size_t i = 0; i < accumulators.size();) {
    Accumulator& accumulator = *accumulators[i];
    const auto index = static_cast<size_t>(me.lane());
    if (accumulator.last_product < covered && !accumulator.delivered[index]) {
      deliver(accumulator, index, checks);
      lane.fenced = false;  // the thread may now touch them
      lane.ready.clear();
    }
    if (accumulator.deliveries == kWarpSize) {
      accumulators.erase(accumulators.begin() + static_cast<ptrdiff_t>(i));
    } else {
      ++i;
    }
  }
}

void finish_products(const Thread& thread) {
  const Lane& lane = lane_of(warpgroup_of(thread), thread);
  if (lane.done < lane.issued) {
    fail(Fault::kInvalidUse, concatenate("the thread exits with ", lane.issued - lane.done,
                                         " products (wgmma) that it has not waited for"));
  }
}

void finish_products(const Block& block) {
  for (const Warpgroup& group : block.async->wgmma->warpgroups) {
    const auto [least, most] = std::ranges::minmax(group.issued);
    if (least == most) continue;
    fail(Fault::kDivergence, concatenate(kName, ": one warp of a warpgroup has issued ", most,
                                         " products, another ", least));
  }
}

}  // namespace ws::emulator
