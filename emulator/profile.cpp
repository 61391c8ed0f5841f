#include "warpsmith/profile.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdlib>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "emulator/emulator.hpp"
#include "emulator/profile.hpp"

namespace ws::emulator {

constinit bool profiling = false;

std::string source_path(const char* file) {
  const std::string_view path = file;
  for (const std::string_view root : {"/include/warpsmith/", "/kernels/", "/harness/", "/tests/"}) {
    const size_t at = path.rfind(root);
    if (at != std::string_view::npos) return std::string(path.substr(at + 1));
  }
  return std::string(path.substr(path.starts_with("./") ? 2 : 0));
}

namespace profile {
namespace {

constexpr uint64_t kSector = 32;  // bytes

// ---- What one warp instruction costs -----------------------------------------------------------

// The lanes' addresses, where they take part.
struct Lanes {
  std::array<uint64_t, 32> address;
  uint32_t mask = 0;
  uint32_t idle = 0;  // execute it, and ask for nothing
};

template <class Visit>
void each_lane(uint32_t mask, Visit&& visit) {
  for (; mask != 0; mask &= mask - 1) visit(static_cast<size_t>(std::countr_zero(mask)));
}

// Passes over the banks for some lanes' accesses of up to 16 bytes: the most words that differ in
// one bank. Lanes that reach the same word are served together, but for the writes of cp.async.
int passes(const Lanes& lanes, uint32_t mask, uint64_t width, bool together = true) {
  std::array<std::array<uint64_t, 32 * 4>, 32> words;  // by bank
  std::array<uint8_t, 32> count{};
  int most = 0;
  each_lane(mask, [&](size_t lane) {
    const uint64_t last = (lanes.address[lane] + width - 1) / 4;
    for (uint64_t word = lanes.address[lane] / 4; word <= last; ++word) {
      auto& bank = words[word % 32];
      uint8_t& n = count[word % 32];
      const auto end = bank.begin() + n;
      if (together && std::find(bank.begin(), end, word) != end) continue;
      bank[n++] = word;
      most = std::max<int>(most, n);
    }
  });
  return most;
}

// Whether lanes that differ in the bits of `bits` ask for the same, wherever both take part.
bool share(const Lanes& lanes, uint32_t mask, uint32_t bits) {
  bool same = true;
  each_lane(mask, [&](size_t lane) {
    const size_t other = lane ^ bits;
    same = same && ((mask >> other & 1u) == 0 || lanes.address[lane] == lanes.address[other]);
  });
  return same;
}

// As an H200 counts them (docs/profile.md): 8 bytes are taken by half warps, 16 by quarters, rows
// of matrices too; and of loads two such parts at once where neighbours, or next neighbours, load
// the same.
struct Wavefronts {
  uint64_t taken = 0;
  uint64_t ideal = 0;
  uint32_t dearest = 0;  // of the parts, as lanes
};
Wavefronts wavefronts_of(const Lanes& lanes, uint64_t width, Space space) {
  const int group = width <= 4 ? 32 : width == 8 ? 16 : 8;
  Wavefronts sum;
  uint64_t most = 0;
  const auto part_of = [&](int first, int size) {
    return size == 32 ? lanes.mask : lanes.mask & (((1u << size) - 1) << first);
  };
  const auto take = [&](uint32_t part) {
    if (part == 0) return;
    const auto taken = static_cast<uint64_t>(passes(lanes, part, width, space != Space::kCopied));
    sum.taken += taken;
    ++sum.ideal;
    if (taken <= most) return;
    most = taken;
    sum.dearest = part;
  };
  if (group == 32) {
    take(lanes.mask);
    return sum;
  }
  for (int first = 0; first < 32; first += 2 * group) {
    const uint32_t both = part_of(first, 2 * group);
    if (space == Space::kSharedLoad && (share(lanes, both, 1) || share(lanes, both, 2))) {
      take(both);
    } else {
      take(part_of(first, group));
      take(part_of(first + group, group));
    }
  }
  return sum;
}

// Sectors, each once, sorted.
std::vector<uint64_t>& unique(std::vector<uint64_t>& sectors) {
  std::ranges::sort(sectors);
  sectors.erase(std::ranges::unique(sectors).begin(), sectors.end());
  return sectors;
}

uint64_t sectors_in(uint64_t bytes) { return (bytes + kSector - 1) / kSector; }

// Atomics of several lanes on one address take its sector as often: as an H200 counts, summed over
// the sectors the most on one of its addresses.
uint64_t repeated_sectors(const Lanes& lanes) {
  std::map<uint64_t, uint64_t> by_address;
  std::map<uint64_t, uint64_t> by_sector;
  each_lane(lanes.mask, [&](size_t lane) {
    uint64_t& most = by_sector[lanes.address[lane] / kSector];
    most = std::max(most, ++by_address[lanes.address[lane]]);
  });
  uint64_t sum = 0;
  for (const auto& [sector, most] : by_sector) sum += most;
  return sum;
}

// The distance from lane to lane, if it is the same between all that take part; else 0.
int64_t stride_of(const Lanes& lanes) {
  int64_t stride = 0;
  size_t before = 32;
  bool same = true;
  each_lane(lanes.mask, [&](size_t lane) {
    if (before != 32 && lane == before + 1) {
      const auto step = static_cast<int64_t>(lanes.address[lane] - lanes.address[before]);
      same = same && (stride == 0 || stride == step) && step != 0;
      stride = step;
    }
    before = lane;
  });
  return same ? stride : 0;
}

// Sectors of memory, each once: a bit for each, in pages.
class SectorSet {
 public:
  void add(uint64_t sector) {
    const uint64_t page = sector / kBits;
    if (page != last_page_ || last_ == nullptr) {
      last_page_ = page;
      last_ = &pages_[page];
    }
    (*last_)[sector % kBits / 64] |= uint64_t{1} << sector % 64;
  }
  void merge(const SectorSet& other) {
    for (const auto& [page, bits] : other.pages_) {
      Page& mine = pages_[page];
      for (size_t i = 0; i < bits.size(); ++i) mine[i] |= bits[i];
    }
  }
  uint64_t size() const {
    uint64_t count = 0;
    for (const auto& [page, bits] : pages_) {
      for (const uint64_t word : bits) count += static_cast<uint64_t>(std::popcount(word));
    }
    return count;
  }

 private:
  static constexpr uint64_t kBits = 2048;  // 64 KB
  using Page = std::array<uint64_t, kBits / 64>;
  std::unordered_map<uint64_t, Page> pages_;  // whose elements stay where they are
  uint64_t last_page_ = 0;
  Page* last_ = nullptr;
};

// ---- Sites: one kind of instruction at one place -----------------------------------------------

struct Key {
  const char* file;
  const char* operation;
  uint32_t line;
  uint32_t column;
  uint32_t width;  // bytes of an access: others at the same place are other instructions
  Space space;
  bool operator==(const Key&) const = default;
};
struct KeyHash {
  size_t operator()(const Key& key) const {
    size_t hash = reinterpret_cast<uintptr_t>(key.file) ^ (uint64_t{key.line} << 40) ^
                  (uint64_t{key.column} << 28) ^ (uint64_t{key.width} << 20) ^
                  (reinterpret_cast<uintptr_t>(key.operation) << 4) ^
                  static_cast<size_t>(key.space);
    hash *= 0x9E3779B97F4A7C15u;
    return hash ^ (hash >> 32);
  }
};

// A request to show for a line: the dearest, and of several the one that comes first, wherever host
// threads have seen them.
struct Example {
  uint64_t cost = 0;  // sectors or wavefronts; 0: none yet
  int64_t block = 0;
  int warp = 0;
  WarpAccess access;

  bool comes_before(const Example& other) const {
    return std::tuple(other.cost, block, warp, access.offset) <
           std::tuple(cost, other.block, other.warp, other.access.offset);
  }
  void offer(const Lanes& lanes, uint64_t width, uint64_t its_cost, const Thread& thread,
             uint32_t part = 0) {
    if (its_cost < cost) return;
    Example other{its_cost, thread.block->index, thread.warp(), {}};
    other.access.lanes = lanes.mask;
    other.access.width = static_cast<uint32_t>(width);
    other.access.is_shared = part != 0;
    other.access.part = part;
    uint64_t first = part != 0 ? 0 : UINT64_MAX;
    if (part == 0)
      each_lane(lanes.mask, [&](size_t l) { first = std::min(first, lanes.address[l]); });
    each_lane(lanes.mask,
              [&](size_t l) { other.access.offset[l] = lanes.address[l] - first / 128 * 128; });
    if (other.comes_before(*this)) *this = other;
  }
};

// A line's numbers, and what they are counted from.
struct Sums {
  ProfileLine line;
  Example example;
  SectorSet sectors;
  bool is_read = false;
  bool is_written = false;
  std::map<int64_t, uint64_t> strides;
  std::unordered_map<uint64_t, uint64_t> atomics;  // by address
  std::set<size_t> waits_for;                      // sites
};

struct Site {
  Key key;
  Sums sums;
};

// What one warp has executed at a site since it last met, the k-th time of each lane together.
struct Pending {
  uint64_t epoch = 0;
  std::array<uint32_t, 32> executed{};  // by lane
  std::vector<Lanes> instructions;
};

struct Warp {
  std::array<uint64_t, 32> epoch{};  // meetings that a lane has been to
  std::vector<std::unique_ptr<Pending>> sites;
};

struct BlockState {
  std::vector<Warp> warps;
  std::vector<bool> written;      // sites that wrote shared memory since the last barrier
  std::array<int, 16> arrived{};  // lanes, by barrier
  std::array<std::set<size_t>, 16> at_barrier;  // the sites of these barriers
};

bool writes(std::string_view operation) {
  return !operation.starts_with("ld") &&
         operation.find("shared.global") == std::string_view::npos && operation != "cp.async";
}

// ---- Of one host thread ------------------------------------------------------------------------

class Collector {
 public:
  Collector() {
    const std::lock_guard lock(mutex());
    all().push_back(this);
  }
  Collector(const Collector&) = delete;
  Collector& operator=(const Collector&) = delete;
  ~Collector() = delete;
  static Collector& mine() {
    // What a thread has counted is asked for after its end too: of the main one as a program ends.
    thread_local Collector& collector = *new Collector;
    return collector;
  }
  static std::mutex& mutex() {
    static auto& instance = *new std::mutex;
    return instance;
  }
  static std::vector<Collector*>& all() {
    // Never destroyed, as what it lists.
    static auto& instance = *new std::vector<Collector*>;
    return instance;
  }

  void clear() {
    by_key_.clear();
    sites_.clear();
    blocks_.clear();
    barriers_.clear();
    sectors_.clear();
    cached_ = nullptr;
  }

  const std::deque<Site>& sites() const { return sites_; }

  size_t site(const char* operation, Space space, uint64_t width) {
    const Place& place = self().place;
    const Key key{place.file_name(),
                  operation,
                  place.line(),
                  place.column(),
                  static_cast<uint32_t>(width),
                  space};
    const auto [at, is_new] = by_key_.try_emplace(key, sites_.size());
    if (is_new) sites_.push_back({key, {}});
    return at->second;
  }

  // One lane's part in a warp instruction; not active, it executes it and asks for nothing.
  void execute(size_t site, uint64_t address, uint64_t asked, bool is_active = true) {
    Thread& me = self();
    Warp& warp = warp_of(me);
    if (warp.sites.size() <= site) warp.sites.resize(sites_.size());
    std::unique_ptr<Pending>& slot = warp.sites[site];
    if (slot == nullptr) slot = std::make_unique<Pending>();
    const auto lane = static_cast<size_t>(me.lane());
    if (warp.epoch[lane] > slot->epoch) {
      finish(site, *slot, me);
      slot->epoch = warp.epoch[lane];
    }
    const size_t k = slot->executed[lane]++;
    if (slot->instructions.size() <= k) slot->instructions.resize(k + 1);
    Lanes& lanes = slot->instructions[k];
    lanes.address[lane] = address;
    (is_active ? lanes.mask : lanes.idle) |= 1u << lane;
    sites_[site].sums.line.asked_bytes += asked;
    if ((lanes.mask | lanes.idle) == 0xFFFFFFFFu) {
      if (lanes.mask != 0) count(site, lanes, me);
      lanes.mask = 0;  // counted
    }
  }

  void wrote_shared(size_t site) {
    std::vector<bool>& written = block_of(*self().block).written;
    if (written.size() <= site) written.resize(sites_.size());
    written[site] = true;
  }

  // The caller's warp has met: what comes next is another instruction.
  void met() {
    Thread& me = self();
    ++warp_of(me).epoch[static_cast<size_t>(me.lane())];
  }

  // The last lane to come to a barrier of the block says what all have waited for.
  void barrier(size_t site, int id, int threads) {
    const Block& block = *self().block;
    BlockState& state = block_of(block);
    const auto i = static_cast<size_t>(id);
    state.at_barrier[i].insert(site);
    if (++state.arrived[i] < std::min(threads, block.threads)) return;
    state.arrived[i] = 0;
    for (const size_t at : state.at_barrier[i]) {
      for (size_t s = 0; s < state.written.size(); ++s) {
        if (state.written[s]) sites_[at].sums.waits_for.insert(s);
      }
    }
    state.at_barrier[i].clear();
    state.written.assign(state.written.size(), false);
  }

  void arrive(const void* barrier, size_t site) { barriers_[barrier].insert(site); }
  void wait(const void* barrier, size_t site) {
    const auto at = barriers_.find(barrier);
    if (at != barriers_.end())
      sites_[site].sums.waits_for.insert(at->second.begin(), at->second.end());
  }

  // A copy by one thread, of these sectors.
  void copy(size_t site, uint64_t bytes, int swizzle) {
    Sums& sums = sites_[site].sums;
    unique(sectors_);
    ++sums.line.warp_instructions;
    ++sums.line.active_lanes;
    sums.line.by_one_thread = true;
    sums.line.swizzle = swizzle;
    add_sectors(site, bytes);
    sums.line.asked_bytes += bytes;
    sectors_.clear();
  }
  void add_bytes(const void* global, uint64_t bytes) {
    const auto address = reinterpret_cast<uint64_t>(global);
    if (bytes == 0) return;
    for (uint64_t s = address / kSector; s <= (address + bytes - 1) / kSector; ++s) {
      if (sectors_.empty() || sectors_.back() != s) sectors_.push_back(s);
    }
    box_bytes_ += bytes;
  }
  uint64_t take_bytes() { return std::exchange(box_bytes_, 0); }

  // Rows of an operand's core matrices: eight of 16 bytes each are read in one pass, at best.
  void chunk(const void* pointer, bool of_b, int mn, int k) {
    Lanes& matrix = matrices_[{of_b, mn / 8, k / 8}];
    const auto lane = static_cast<size_t>(std::popcount(matrix.mask));
    matrix.address[lane] = offset_of(pointer);
    matrix.mask |= 1u << lane;
  }
  void product(size_t site, int swizzle) {
    ProfileLine& line = sites_[site].sums.line;
    line.warp_instructions += 4;
    line.active_lanes += 128;
    ++line.shared_requests;
    line.swizzle = swizzle;
    for (const auto& [at, matrix] : matrices_) {
      line.wavefronts += static_cast<uint64_t>(passes(matrix, matrix.mask, 16));
      ++line.ideal_wavefronts;
      line.shared_bytes += 16 * static_cast<uint64_t>(std::popcount(matrix.mask));
    }
    matrices_.clear();
  }

  // Bank = offset in the block's own window, which begins at bank 0.
  static uint64_t offset_of(const void* shared) { return shared_address(shared) & 0xFFFFFF; }

  void end_group(std::span<const Block> ended) {
    for (const Block& of_group : ended) {
      const auto found = blocks_.find(&of_group);
      if (found == blocks_.end()) continue;
      const Block* const block = found->first;
      BlockState& state = found->second;
      for (size_t w = 0; w < state.warps.size(); ++w) {
        Warp& warp = state.warps[w];
        for (size_t s = 0; s < warp.sites.size(); ++s) {
          if (warp.sites[s]) finish(s, *warp.sites[s], block->first[w * 32]);
        }
      }
      blocks_.erase(found);
    }
    if (blocks_.empty()) barriers_.clear();
    cached_ = nullptr;
  }

 private:
  BlockState& block_of(const Block& block) {
    if (cached_ == &block) return *cached_state_;
    BlockState& state = blocks_[&block];
    if (state.warps.empty()) state.warps.resize(static_cast<size_t>((block.threads + 31) / 32));
    cached_ = &block;
    cached_state_ = &state;
    return state;
  }
  Warp& warp_of(const Thread& thread) {
    return block_of(*thread.block).warps[static_cast<size_t>(thread.warp())];
  }

  void finish(size_t site, Pending& pending, const Thread& thread) {
    for (const Lanes& lanes : pending.instructions) {
      if (lanes.mask != 0) count(site, lanes, thread);
    }
    pending.instructions.clear();
    pending.executed.fill(0);
  }

  // A warp instruction with all of its lanes.
  void count(size_t site, const Lanes& lanes, const Thread& thread) {
    const Key& key = sites_[site].key;
    Sums& sums = sites_[site].sums;
    ProfileLine& line = sums.line;
    const auto active = static_cast<uint64_t>(std::popcount(lanes.mask));
    if (key.space != Space::kMatrix && key.space != Space::kCopySource) {
      const int there = std::min(32, thread.block->threads - thread.warp() * 32);
      ++line.warp_instructions;
      line.active_lanes += active;
      line.divergent += active < static_cast<uint64_t>(there) ? 1 : 0;
    }
    switch (key.space) {
      case Space::kGlobal:
      case Space::kCopySource:
      case Space::kAtomic: {
        // Where some lanes of a cp.async only fill, the sector that they name is looked up too.
        each_lane(lanes.mask | lanes.idle, [&](size_t lane) {
          const uint64_t address = lanes.address[lane];
          const uint64_t sector = address / kSector;
          if (sectors_.empty() || sectors_.back() != sector) sectors_.push_back(sector);
          if (key.space == Space::kAtomic) ++sums.atomics[address];
        });
        std::array<uint64_t, 32> distinct;
        const auto end =
            std::ranges::copy_if(lanes.address, distinct.begin(), [&, i = 0](auto) mutable {
              return (lanes.mask >> i++ & 1u) != 0;
            }).out;
        std::sort(distinct.begin(), end);
        const auto count =
            static_cast<uint64_t>(std::unique(distinct.begin(), end) - distinct.begin());
        unique(sectors_);
        add_sectors(site, count * key.width);
        sums.example.offer(lanes, key.width, sectors_.size(), thread);
        if (key.space == Space::kAtomic) line.sectors += repeated_sectors(lanes) - sectors_.size();
        sectors_.clear();
        const int64_t stride = stride_of(lanes);
        if (stride != 0 && std::abs(stride) != static_cast<int64_t>(key.width)) {
          ++line.strided;
          ++sums.strides[stride];
        }
        break;
      }
      case Space::kSharedLoad:
      case Space::kSharedStore:
      case Space::kMatrix:
      case Space::kCopied: {
        const Wavefronts w = wavefronts_of(lanes, key.width, key.space);
        sums.example.offer(lanes, key.width, w.taken, thread, w.dearest);
        ++line.shared_requests;
        line.wavefronts += w.taken;
        line.ideal_wavefronts += w.ideal;
        line.shared_bytes += active * key.width;
        break;
      }
      case Space::kCollective: break;
    }
  }

  // sectors_, of an instruction that asks for so many bytes that differ.
  void add_sectors(size_t site, uint64_t bytes) {
    Sums& sums = sites_[site].sums;
    ++sums.line.requests;
    sums.line.sectors += sectors_.size();
    sums.line.ideal_sectors += sectors_in(bytes);
    for (const uint64_t sector : sectors_) sums.sectors.add(sector);
  }

  std::unordered_map<Key, size_t, KeyHash> by_key_;
  std::deque<Site> sites_;
  std::unordered_map<const Block*, BlockState> blocks_;
  std::unordered_map<const void*, std::set<size_t>> barriers_;  // sites that arrive at an mbarrier
  std::map<std::tuple<bool, int, int>, Lanes> matrices_;        // of the product being counted
  std::vector<uint64_t> sectors_;                               // of the instruction being counted
  uint64_t box_bytes_ = 0;
  const Block* cached_ = nullptr;
  BlockState* cached_state_ = nullptr;
};

}  // namespace

// ---- The hooks ---------------------------------------------------------------------------------

void access(Space space, const char* operation, const void* address, size_t bytes) {
  Collector& mine = Collector::mine();
  const bool is_global = space == Space::kGlobal || space == Space::kAtomic;
  // One instruction, where the address allows it: what nvcc makes of structs too.
  const auto place = reinterpret_cast<uintptr_t>(address) | bytes | 16;
  const size_t each = place & (~place + 1);
  const size_t site = mine.site(operation, space, each);
  for (size_t at = 0; at < bytes; at += each) {
    const void* piece = static_cast<const std::byte*>(address) + at;
    mine.execute(site, is_global ? reinterpret_cast<uint64_t>(piece) : Collector::offset_of(piece),
                 is_global ? each : 0);
  }
  if (!is_global && writes(operation)) mine.wrote_shared(site);
}

void copy_async(const void* shared, const void* global, size_t bytes, size_t source_bytes) {
  Collector& mine = Collector::mine();
  constexpr const char* kOperation = "cp.async";
  // The write and the read are one instruction, which the write counts: it always happens.
  const size_t to = mine.site(kOperation, Space::kCopied, bytes);
  mine.execute(to, Collector::offset_of(shared), 0);
  mine.wrote_shared(to);
  const size_t from = mine.site(kOperation, Space::kCopySource, bytes);
  mine.execute(from, reinterpret_cast<uint64_t>(global), source_bytes, source_bytes > 0);
}

void bulk(const char* operation, const void* global, size_t bytes) {
  Collector& mine = Collector::mine();
  mine.add_bytes(global, bytes);
  mine.copy(mine.site(operation, Space::kGlobal, 0), mine.take_bytes(), -1);
}

void box_piece(const void* global, size_t bytes) { Collector::mine().add_bytes(global, bytes); }
void end_box(const char* operation, size_t swizzle_span) {
  Collector& mine = Collector::mine();
  mine.copy(mine.site(operation, Space::kGlobal, 0), mine.take_bytes(),
            static_cast<int>(swizzle_span));
}

void operand_chunk(const void* chunk, bool of_b, int mn, int k) {
  Collector::mine().chunk(chunk, of_b, mn, k);
}
void end_product(uint64_t descriptor_b) {
  Collector& mine = Collector::mine();
  constexpr std::array kSpans = {0, 128, 64, 32};
  mine.product(mine.site("wgmma", Space::kMatrix, 0), kSpans[descriptor_b >> 62]);
}

void collective(const char* operation, uint32_t mask) {
  Collector& mine = Collector::mine();
  if (mask == 0) return mine.met();  // its place, if it has one, is that of the product
  mine.execute(mine.site(operation, Space::kCollective, 0), 0, 0);
  const Thread& me = self();
  const int there = std::min(32, me.block->threads - me.warp() * 32);
  if (std::popcount(mask) == there) mine.met();
}

void block_barrier(const char* operation, int id, int threads) {
  Collector& mine = Collector::mine();
  const size_t site = mine.site(operation, Space::kCollective, 0);
  mine.execute(site, 0, 0);
  mine.barrier(site, id, threads);
  mine.met();
}

void arrive(const void* barrier, const char* operation) {
  Collector& mine = Collector::mine();
  mine.arrive(barrier, mine.site(operation, Space::kCollective, 0));
}
void wait(const void* barrier, const char* operation) {
  Collector& mine = Collector::mine();
  const size_t site = mine.site(operation, Space::kCollective, 0);
  mine.execute(site, 0, 0);
  mine.wait(barrier, site);
}

void end_group(std::span<const Block> ended) { Collector::mine().end_group(ended); }

}  // namespace profile
}  // namespace ws::emulator

// ---- warpsmith/profile.hpp ---------------------------------------------------------------------

namespace ws {

using emulator::profile::Collector;
using emulator::profile::Sums;

void begin_profile() {
  require(!emulator::profiling, "a profile has begun already");
  const std::lock_guard lock(Collector::mutex());
  for (Collector* collector : Collector::all()) collector->clear();
  emulator::profiling = true;
}

Profile end_profile() {
  emulator::profiling = false;
  const std::lock_guard lock(Collector::mutex());
  using Name = std::tuple<std::string, int, std::string>;
  std::map<Name, Sums> lines;
  for (const Collector* collector : Collector::all()) {
    std::vector<ProfilePlace> places;
    for (const auto& site : collector->sites()) {
      places.push_back({emulator::source_path(site.key.file), static_cast<int>(site.key.line),
                        site.key.operation});
    }
    for (size_t i = 0; i < places.size(); ++i) {
      const Sums& from = collector->sites()[i].sums;
      const std::string_view operation = places[i].operation;
      Sums& to = lines[{places[i].file, places[i].line, places[i].operation}];
      ProfileLine& line = to.line;
      const ProfileLine& more = from.line;
      line.place = places[i];
      line.warp_instructions += more.warp_instructions;
      line.active_lanes += more.active_lanes;
      line.divergent += more.divergent;
      line.by_one_thread = line.by_one_thread || more.by_one_thread;
      line.requests += more.requests;
      line.sectors += more.sectors;
      line.ideal_sectors += more.ideal_sectors;
      line.asked_bytes += more.asked_bytes;
      line.strided += more.strided;
      line.shared_requests += more.shared_requests;
      line.wavefronts += more.wavefronts;
      line.ideal_wavefronts += more.ideal_wavefronts;
      line.shared_bytes += more.shared_bytes;
      line.swizzle = std::max(line.swizzle, more.swizzle);
      if (from.example.comes_before(to.example)) to.example = from.example;
      for (const size_t site : from.waits_for) {
        if (std::ranges::find(line.waits_for, places[site]) == line.waits_for.end()) {
          line.waits_for.push_back(places[site]);
        }
      }
      for (const auto& [stride, count] : from.strides) to.strides[stride] += count;
      for (const auto& [address, count] : from.atomics) to.atomics[address] += count;
      const bool is_read = operation.starts_with("ld") ||
                           operation.find("shared.global") != std::string_view::npos ||
                           operation == "cp.async";
      to.is_read = to.is_read || is_read || !from.atomics.empty();
      to.is_written = to.is_written || !is_read;
      to.sectors.merge(from.sectors);
    }
  }
  Profile profile;
  emulator::profile::SectorSet read;
  emulator::profile::SectorSet written;
  for (auto& [name, sums] : lines) {
    if (sums.is_read) read.merge(sums.sectors);
    if (sums.is_written) written.merge(sums.sectors);
    sums.line.unique_sectors = sums.sectors.size();
    for (const auto& [stride, count] : sums.strides) {
      if (sums.line.stride == 0 || count > sums.strides[sums.line.stride])
        sums.line.stride = stride;
    }
    for (const auto& [address, count] : sums.atomics) {
      sums.line.most_on_one_address = std::max(sums.line.most_on_one_address, count);
    }
    if (sums.line.warp_instructions > 0 || sums.line.shared_requests > 0) {
      std::ranges::sort(sums.line.waits_for, {}, [](const ProfilePlace& place) {
        return std::tuple(place.file, place.line, place.operation);
      });
      sums.line.access = sums.example.access;
      profile.lines.push_back(std::move(sums.line));
    }
  }
  profile.unique_read_sectors = read.size();
  profile.unique_written_sectors = written.size();
  std::ranges::stable_sort(profile.lines, std::greater{}, &ProfileLine::cost);
  return profile;
}

}  // namespace ws
