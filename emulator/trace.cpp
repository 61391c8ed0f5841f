#include "warpsmith/trace.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <map>
#include <string_view>
#include <utility>

#include "emulator/emulator.hpp"
#include "emulator/profile.hpp"
#include "emulator/scheduler.hpp"
#include "emulator/trace.hpp"

namespace ws::emulator {

constinit thread_local bool tracing = false;

namespace trace {
namespace {

using Kind = TraceEvent::Kind;

constexpr size_t kNone = ~size_t{0};
constexpr int kFirstWarp = 1;         // tracks
constexpr int kFirstMbarrier = 1000;  // ... by the shared byte, so that a ring's lie in a row

// A wait of a warp. The k-th time of each lane is one wait: those who come after others have left
// belong to it, too.
struct OpenWait {
  uint64_t id;
  Waited waited;
  Place place;
  uint32_t lanes;
  uint32_t left;
  uint64_t begin;  // the last lane's, of those before the first one left
  size_t event = kNone;
};

struct Warp {
  uint64_t run = 0;  // it runs since, or has its last wait behind it since
  uint64_t end = 0;  // of its last lane
  int begun = 0;     // lanes
  int ended = 0;
  size_t instant = kNone;  // the last event, if it is one
  std::vector<OpenWait> waits;
  std::array<uint64_t, 32> waits_in{};  // by lane: an id, 0 for none
  std::array<uint64_t, 32> switches{};  // ... and of the group, when it has had its turn
};

// Groups of what a warp (copies) or a warpgroup (products) has in flight.
struct Groups {
  std::vector<size_t> events;           // by group, kNone: there is nothing in it
  size_t landed = 0;                    // groups
  std::array<size_t, 128> committed{};  // by thread
};

struct Mbarrier {
  uint32_t count = 0;
  bool has_copies = false;
  uint64_t begin = 0;  // of its phase
  uint64_t phase = 0;
};

struct BlockTrace {
  int process = 0;
  std::vector<Warp> warps;
  std::vector<Groups> copies;    // by warp
  std::vector<Groups> products;  // by warpgroup
  std::map<uint32_t, Mbarrier> mbarriers;
};

struct Process {
  int launch;
  int64_t block;
};

class Recorder {
 public:
  static Recorder& mine() {
    thread_local Recorder recorder;
    return recorder;
  }

  void begin(const TraceOptions& chosen) {
    *this = {};
    chosen_ = chosen;
    trace_.order = to_string(options().order);
    // One host thread: events have one order, and a trace comes out the same again.
    workers_ = std::exchange(options().workers, 1);
  }

  Trace end() {
    end_launch();
    options().workers = workers_;
    for (size_t p = 0; p < processes_.size(); ++p) {
      std::string name = concatenate("block ", processes_[p].block);
      if (launches_ > 1) name += concatenate(" of launch ", processes_[p].launch);
      trace_.tracks.push_back({static_cast<int>(p), -1, name});
    }
    return std::exchange(trace_, {});
  }

  void begin_launch(const LaunchShape& shape) {
    end_launch();
    ++launches_;
    blocks_here_ = std::min(chosen_.blocks > 0 ? chosen_.blocks : shape.cluster, shape.blocks);
    trace_.blocks += blocks_here_;
    trace_.blocks_of_run += shape.blocks;
  }

  // The block's state; null if it is not traced.
  BlockTrace* find(const Block& block) {
    if (block.index >= blocks_here_) return nullptr;
    if (blocks_.empty()) {  // what others have executed before is not told
      base_ = last_;
      instructions_before_ = instructions();
    }
    BlockTrace& mine = blocks_[block.index];
    if (mine.warps.empty()) {
      mine.process = static_cast<int>(processes_.size());
      processes_.push_back({launches_, block.index});
      mine.warps.resize(static_cast<size_t>((block.threads + 31) / 32));
      mine.copies.resize(mine.warps.size());
      mine.products.resize(static_cast<size_t>((block.threads + 127) / 128));
      for (size_t w = 0; w < mine.warps.size(); ++w) {
        trace_.tracks.push_back(
            {mine.process, kFirstWarp + static_cast<int>(w), concatenate("warp ", w)});
      }
    }
    return &mine;
  }

  // Events so far, and instructions of warps between them, so that long runs look longer: shuffles,
  // products and the like, and the loads and stores of 32 threads.
  uint64_t now() {
    last_ = base_ + instructions() - instructions_before_;
    return last_;
  }
  uint64_t tick() {
    ++base_;
    return now();
  }

  size_t add(TraceEvent event) {
    if (std::cmp_greater_equal(trace_.events.size(), chosen_.events)) {
      ++trace_.left_out;
      return kNone;
    }
    trace_.events.push_back(std::move(event));
    return trace_.events.size() - 1;
  }
  TraceEvent& event(size_t index) { return trace_.events[index]; }

  // An event of the running thread, here and now.
  TraceEvent here(const BlockTrace& block, Kind kind, std::string name) {
    const Thread& me = self();
    TraceEvent event;
    event.kind = kind;
    event.name = std::move(name);
    event.process = block.process;
    event.track = kFirstWarp + me.warp();
    event.begin = event.end = tick();
    event.place = text_of(me.place);
    event.threads = 1;
    return event;
  }

  void instant(BlockTrace& block, TraceEvent event) {
    Warp& warp = block.warps[static_cast<size_t>(self().warp())];
    if (warp.instant != kNone) {
      TraceEvent& last = trace_.events[warp.instant];
      if (last.name == event.name && last.place == event.place && last.mbarrier == event.mbarrier &&
          last.mbarrier_block == event.mbarrier_block && last.phase == event.phase &&
          last.threads < 32) {
        ++last.threads;
        return;
      }
    }
    warp.instant = add(std::move(event));
  }

  // The warp has run until `until`, and waited from there to now if `wait` is one.
  void end_run(BlockTrace& block, size_t w, uint64_t until, bool is_open = false) {
    Warp& warp = block.warps[w];
    if (until > warp.run) {
      TraceEvent run;
      run.kind = Kind::kRun;
      run.name = "runs";
      run.process = block.process;
      run.track = kFirstWarp + static_cast<int>(w);
      run.begin = warp.run;
      run.end = until;
      run.is_open = is_open;
      add(std::move(run));
    }
    warp.run = std::max(warp.run, until);
    warp.instant = kNone;
  }
  size_t add_wait(BlockTrace& block, size_t w, const OpenWait& wait, uint64_t end, bool is_open,
                  bool is_turn = false) {
    // Waits of lanes that have parted may overlap: a track has one thing at a time.
    const uint64_t begin = std::max(wait.begin, block.warps[w].run);
    end_run(block, w, begin);
    TraceEvent event;
    event.kind = is_turn ? Kind::kTurn : Kind::kWait;
    event.name = wait.waited.operation;
    if (wait.waited.number >= 0) event.name += concatenate(" ", wait.waited.number);
    if (wait.waited.block != nullptr) {
      event.name = concatenate("mbarrier ", wait.waited.offset);
      event.mbarrier = wait.waited.offset;
      event.mbarrier_block = wait.waited.block->index;
      event.phase = static_cast<int64_t>(wait.waited.phase);
    }
    if (is_turn) event.name = "passes " + event.name;
    event.process = block.process;
    event.track = kFirstWarp + static_cast<int>(w);
    event.begin = begin;
    event.end = std::max(end, begin);
    event.place = text_of(wait.place);
    event.threads = std::popcount(wait.lanes);
    event.pending = wait.waited.pending;
    event.is_open = is_open;
    block.warps[w].run = event.end;
    return add(std::move(event));
  }

  void add_phase(const BlockTrace& block, uint32_t offset, const Mbarrier& mbarrier,
                 std::string place, bool is_open) {
    TraceEvent event;
    event.kind = Kind::kPhase;
    event.name = concatenate("phase ", mbarrier.phase);
    event.process = block.process;
    event.track = kFirstMbarrier + static_cast<int>(offset / 8);
    event.begin = mbarrier.begin;
    event.end = is_open ? last_ : tick();
    event.place = std::move(place);
    event.phase = static_cast<int64_t>(mbarrier.phase);
    event.is_open = is_open;
    add(std::move(event));
  }

  Groups& groups_of(BlockTrace& block, Flight flight, const Thread& thread) {
    return flight == Flight::kProducts ? block.products[static_cast<size_t>(thread.index / 128)]
                                       : block.copies[static_cast<size_t>(thread.warp())];
  }
  // All but the youngest `pending` groups of the thread have landed.
  void land(Groups& groups, const Thread& thread, int64_t pending) {
    const auto committed =
        static_cast<int64_t>(groups.committed[static_cast<size_t>(thread.index % 128)]);
    for (; static_cast<int64_t>(groups.landed) < committed - pending; ++groups.landed) {
      if (groups.landed < groups.events.size()) end_flight(groups.events[groups.landed]);
    }
  }
  void end_flight(size_t index) {
    if (index == kNone) return;
    TraceEvent& event = trace_.events[index];
    if (!event.is_open) return;
    event.end = tick();
    event.is_open = false;
  }

  static std::string text_of(const Place& place) {
    return place.line() == 0 ? std::string()
                             : concatenate(source_path(place.file_name()), ":", place.line());
  }

  uint64_t new_id() { return ++ids_; }

 private:
  static uint64_t instructions() {
    const auto of = [](Count count) { return local_counts[static_cast<size_t>(count)]; };
    return of(Count::kWarpInstructions) +
           (of(Count::kGlobalLoads) + of(Count::kGlobalStores) + of(Count::kAtomics)) / 32;
  }

  // What is still open ends here.
  void end_launch() {
    base_ = ++last_;
    for (auto& [index, block] : blocks_) {
      for (size_t w = 0; w < block.warps.size(); ++w) {
        Warp& warp = block.warps[w];
        if (warp.begun == 0) continue;
        for (const OpenWait& wait : warp.waits) {
          if (wait.left == 0) add_wait(block, w, wait, base_, true);
        }
        const bool is_open = warp.ended < warp.begun;
        end_run(block, w, is_open ? std::max(base_, warp.run) : warp.end, is_open);
      }
      for (const auto& [offset, mbarrier] : block.mbarriers) {
        add_phase(block, offset, mbarrier, {}, true);
        trace_.tracks.push_back(
            {block.process, kFirstMbarrier + static_cast<int>(offset / 8),
             concatenate("mbarrier ", offset, mbarrier.has_copies ? ": copies and " : ": ",
                         mbarrier.count, mbarrier.count == 1 ? " arrival" : " arrivals")});
      }
    }
    blocks_.clear();
    for (TraceEvent& event : trace_.events) {
      if (event.is_open && event.end < event.begin + 1) event.end = base_;
    }
  }

  TraceOptions chosen_;
  Trace trace_;
  std::map<int64_t, BlockTrace> blocks_;  // of the launch
  std::vector<Process> processes_;
  int launches_ = 0;
  int64_t blocks_here_ = 0;
  uint64_t base_ = 0;                 // the clock, less ...
  uint64_t instructions_before_ = 0;  // ... what the launch has executed since this
  uint64_t last_ = 0;                 // the clock, when it was last looked at
  uint64_t ids_ = 0;
  int workers_ = 0;
};

// Lets the others come to their waits.
class Turn final : public Condition {
 public:
  bool holds() override { return asked_++ > 0; }

 private:
  int asked_ = 0;
};

bool is_same(const Waited& a, const Waited& b) {
  return std::string_view(a.operation) == b.operation && a.number == b.number &&
         a.pending == b.pending && a.block == b.block && a.offset == b.offset && a.phase == b.phase;
}

}  // namespace

// ---- The hooks ---------------------------------------------------------------------------------

void begin_launch(const LaunchShape& shape) { Recorder::mine().begin_launch(shape); }

void begin_thread() {
  Recorder& mine = Recorder::mine();
  const Thread& me = self();
  BlockTrace* block = mine.find(*me.block);
  if (block == nullptr) return;
  Warp& warp = block->warps[static_cast<size_t>(me.warp())];
  if (warp.begun++ == 0) warp.run = mine.tick();
}

void end_thread() {
  Recorder& mine = Recorder::mine();
  const Thread& me = self();
  BlockTrace* block = mine.find(*me.block);
  if (block == nullptr) return;
  Warp& warp = block->warps[static_cast<size_t>(me.warp())];
  ++warp.ended;
  warp.end = mine.tick();
}

bool begin_wait(const Waited& waited) {
  Recorder& mine = Recorder::mine();
  Thread& me = self();
  BlockTrace* block = mine.find(*me.block);
  if (block == nullptr) return false;
  Warp& warp = block->warps[static_cast<size_t>(me.warp())];
  uint64_t& in = warp.waits_in[static_cast<size_t>(me.lane())];
  if (in != 0) return false;  // a part of that wait
  const uint32_t lane = 1u << me.lane();
  auto at = std::ranges::find_if(warp.waits, [&](const OpenWait& wait) {
    return (wait.lanes & lane) == 0 && is_same(wait.waited, waited) &&
           wait.place.line() == me.place.line();
  });
  if (at == warp.waits.end()) {
    at = warp.waits.insert(at, {mine.new_id(), waited, me.place, 0, 0, mine.tick()});
  }
  at->lanes |= lane;
  if (at->left == 0) at->begin = mine.now();
  if (at->event != kNone) ++mine.event(at->event).threads;
  in = at->id;
  if (waited.takes_turn) {
    Turn turn;
    wait_until(waited.operation, static_cast<Condition&>(turn));
    warp.switches[static_cast<size_t>(me.lane())] = me.block->group->switches;
  }
  return true;
}

void end_wait() {
  Recorder& mine = Recorder::mine();
  const Thread& me = self();
  BlockTrace& block = *mine.find(*me.block);
  const auto w = static_cast<size_t>(me.warp());
  Warp& warp = block.warps[w];
  const uint64_t id = std::exchange(warp.waits_in[static_cast<size_t>(me.lane())], 0);
  const auto at = std::ranges::find(warp.waits, id, &OpenWait::id);
  const Waited waited = at->waited;
  if (at->left == 0) {
    // Nobody has run since its turn. What is in flight a GPU would wait for.
    const bool is_turn = waited.takes_turn && waited.pending < 0 &&
                         warp.switches[static_cast<size_t>(me.lane())] == me.block->group->switches;
    at->event = mine.add_wait(block, w, *at, mine.tick(), false, is_turn);
  }
  at->left |= 1u << me.lane();
  // Where not all lanes come, the others are not waited for without end.
  constexpr size_t kMostWaits = 64;
  if (at->left == 0xFFFFFFFFu) {
    warp.waits.erase(at);
  } else if (warp.waits.size() > kMostWaits) {
    std::erase_if(warp.waits, [](const OpenWait& wait) { return wait.left == wait.lanes; });
  }
  if (waited.flight != Flight::kNone) {
    mine.land(mine.groups_of(block, waited.flight, me), me, waited.pending);
  }
}

void arrive(const Block* of, uint32_t offset, uint64_t phase, const char* operation) {
  Recorder& mine = Recorder::mine();
  BlockTrace* block = mine.find(*self().block);
  if (block == nullptr) return;
  TraceEvent event = mine.here(*block, Kind::kInstant, operation);
  event.mbarrier = offset;
  event.mbarrier_block = of->index;
  event.phase = static_cast<int64_t>(phase);
  mine.instant(*block, std::move(event));
}

void arrive(int barrier, const char* operation) {
  Recorder& mine = Recorder::mine();
  BlockTrace* block = mine.find(*self().block);
  if (block == nullptr) return;
  std::string name = operation;
  if (barrier >= 0) name += concatenate(" ", barrier);
  mine.instant(*block, mine.here(*block, Kind::kInstant, std::move(name)));
}

void init(const Block& of, uint32_t offset, uint32_t count) {
  Recorder& mine = Recorder::mine();
  BlockTrace* block = mine.find(of);
  if (block == nullptr) return;
  Mbarrier& mbarrier = block->mbarriers[offset];
  mbarrier = {.count = count, .has_copies = mbarrier.has_copies, .begin = mine.tick(), .phase = 0};
}

void complete(const Block& of, uint32_t offset, uint64_t phase) {
  Recorder& mine = Recorder::mine();
  BlockTrace* block = mine.find(of);
  if (block == nullptr) return;
  Mbarrier& mbarrier = block->mbarriers[offset];
  mbarrier.phase = phase;
  mine.add_phase(*block, offset, mbarrier, Recorder::text_of(self().place), false);
  mbarrier.begin = mine.now();
  mbarrier.phase = phase + 1;
}

void issue(Flight flight, uint64_t bytes) {
  Recorder& mine = Recorder::mine();
  const Thread& me = self();
  BlockTrace* block = mine.find(*me.block);
  if (block == nullptr) return;
  Groups& groups = mine.groups_of(*block, flight, me);
  const size_t group = groups.committed[static_cast<size_t>(me.index % 128)];
  if (groups.events.size() <= group) groups.events.resize(group + 1, kNone);
  const bool multiplies = flight == Flight::kProducts;
  size_t& index = groups.events[group];
  if (index == kNone) {
    TraceEvent event = mine.here(*block, multiplies ? Kind::kProducts : Kind::kCopy,
                                 multiplies ? concatenate("wgmma of warpgroup ", me.index / 128)
                                            : concatenate("cp.async of warp ", me.warp()));
    event.threads = 0;
    event.is_open = true;
    index = mine.add(std::move(event));
    if (index == kNone) return;
  }
  TraceEvent& event = mine.event(index);
  event.bytes += bytes;
  // Each of four warps issues its part of a product.
  if (multiplies && me.index % 128 / 32 == event.track - kFirstWarp - me.index / 128 * 4) {
    ++event.products;
  }
}

void commit(Flight flight) {
  Recorder& mine = Recorder::mine();
  const Thread& me = self();
  BlockTrace* block = mine.find(*me.block);
  if (block == nullptr) return;
  ++mine.groups_of(*block, flight, me).committed[static_cast<size_t>(me.index % 128)];
}

uint64_t begin_copy(const char* operation, uint64_t bytes, const Block* of, uint32_t offset) {
  Recorder& mine = Recorder::mine();
  BlockTrace* target = of != nullptr ? mine.find(*of) : nullptr;
  if (target != nullptr) target->mbarriers[offset].has_copies = true;
  BlockTrace* block = mine.find(*self().block);
  if (block == nullptr) return kNone;
  TraceEvent event = mine.here(*block, Kind::kCopy, operation);
  event.threads = 0;
  event.bytes = bytes;
  if (of != nullptr) {
    event.mbarrier = offset;
    event.mbarrier_block = of->index;
  }
  event.is_open = true;
  return mine.add(std::move(event));
}

void end_copy(uint64_t copy) {
  // What a launch leaves behind it lands when nobody looks any more.
  if (tracing) Recorder::mine().end_flight(copy);
}

}  // namespace trace
}  // namespace ws::emulator

// ---- warpsmith/trace.hpp -----------------------------------------------------------------------

namespace ws {

using emulator::trace::Recorder;

void begin_trace(const TraceOptions& options) {
  require(!emulator::tracing, "a trace has begun already");
  require(options.blocks >= 0 && options.events > 0, "a trace of ", options.blocks,
          " blocks and at most ", options.events, " events");
  Recorder::mine().begin(options);
  emulator::tracing = true;
}

Trace end_trace() {
  emulator::tracing = false;
  return Recorder::mine().end();
}

}  // namespace ws
