// Idea: two counters of 16 bits a word, so that 2^16 bins fit into a block's shared memory; who
// fills a counter's lower half carries 2^15 over to global memory.
// From streamed: the addition returns what was there, and whoever sees the top bit turn to 1 takes
// it away; between two barriers a block adds 2^14, so that none runs over. The middle one of three
// values of a warp's tile it counts in registers: what comes most costs least.
// Traffic: every element once; 2 bytes a bin and block of workspace, written and read by a second
// launch, which adds them up.
// Limits: dense i32, i64; bins that fit into shared memory, 115200 on Hopper. One copy: values in
// one bank wait for each other.
// Long: whole tiles, tiles with what is no bin, the carry, and the sum of what blocks leave.
#include "kernels/histogram/05_streamed.cuh"
#include "warpsmith/ptx/grid.hpp"
#include "warpsmith/ptx/vote.hpp"
#include "warpsmith/warp/shuffle.hpp"

namespace ws::histogram {
namespace {

template <class T>
struct PackedCountersKernel {
  static constexpr int kThreads = 1024;
  static constexpr int kLoads = 4;
  static constexpr int kWidth = row::kWidest<T>;
  static constexpr int64_t kTile = int64_t{kThreads} * kLoads;  // vectors
  static constexpr uint32_t kHalf = 0x8000;
  static_assert(kTile * kWidth < kHalf, "a counter that is half full takes a tile more");
  struct Arguments {
    const T* x;
    int64_t count;
    uint32_t bins;
    uint64_t* totals;
    uint32_t* partials;  // [block][word]
    IndexCheck check;
  };
  struct SharedStorage {};

  __device__ void operator()(SharedStorage& shared, const Arguments& a) const {
    const SharedSpan<uint32_t> counts =
        dynamic_shared<uint32_t>(shared, words_of(a.bins) + kWarpSize);
    for (int64_t i = thread_index() * 4; i < counts.size(); i += kThreads * 4) {
      counts.template store<4>(i, Vec<uint32_t, 4>{});
    }
    ptx::barrier_sync();

    const row::Cut<kWidth> cut(a.x, a.count);
    const int64_t tiles = divide_up(cut.vectors, kTile);
    Tile next = load(a, cut, block_index());
#pragma unroll 1
    for (int64_t tile = block_index(); tile < tiles; tile += grid_blocks()) {
      const Tile here = next;
      next = load(a, cut, tile + grid_blocks());
      add(a, counts, cut, here, tile);
      ptx::barrier_sync();  // what this tile filled has been carried over
    }
    if (block_index() == 0 && thread_index() < cut.edges) {
      const int64_t place = cut.edge(thread_index());
      const T value = thread::load(a.x + place);
      if (a.check(value, place)) ptx::red_global_add(a.totals + value, 1);
    }
    uint32_t* mine = a.partials + block_index() * words_of(a.bins);
    for (int64_t i = thread_index() * 4; i < words_of(a.bins); i += kThreads * 4) {
      thread::store(mine + i, counts.template load<4>(i));
    }
  }

  static __host__ __device__ constexpr int64_t words_of(int64_t bins) {
    return round_up(divide_up(bins, 2), int64_t{4});
  }

 private:
  // A thread's part of a tile.
  struct Tile {
    Vec<T, kWidth> x[kLoads];
  };
  __device__ __forceinline__ static int64_t vector_of(int64_t tile, int i) {
    return tile * kTile + thread_index() + i * kThreads;
  }
  // Beyond the end it is what is no bin.
  __device__ __forceinline__ static Tile load(const Arguments& a, const row::Cut<kWidth>& cut,
                                              int64_t tile) {
    Tile loaded;
#pragma unroll
    for (int i = 0; i < kLoads; ++i) {
#pragma unroll
      for (int e = 0; e < kWidth; ++e) loaded.x[i][e] = T{-1};
      const int64_t at = vector_of(tile, i);
      if (at < cut.vectors) loaded.x[i] = thread::load<kWidth>(a.x + cut.at(at));
    }
    return loaded;
  }

  __device__ __forceinline__ static void add(const Arguments& a, const SharedSpan<uint32_t>& counts,
                                             const row::Cut<kWidth>& cut, const Tile& tile,
                                             int64_t index) {
    const ByValue<T> bin_of;
    uint32_t worst = 0;
#pragma unroll
    for (int i = 0; i < kLoads * kWidth; ++i) {
      const uint32_t bin = bin_of(tile.x[i / kWidth][i % kWidth]);
      worst = bin > worst ? bin : worst;
    }
    const uint32_t one = warp::shuffle(bin_of(tile.x[0][0]), 0);
    const uint32_t two = warp::shuffle(bin_of(tile.x[0][0]), 1);
    const uint32_t three = warp::shuffle(bin_of(tile.x[0][0]), 2);
    const uint32_t often = std::max(std::min(one, two), std::min(std::max(one, two), three));
    uint32_t times = 0;
    if (worst < a.bins) {
#pragma unroll
      for (int i = 0; i < kLoads; ++i) times += add(a, counts, tile.x[i], often);
    } else {
      add_right_ones(a, counts, cut, index);
    }
    times = ptx::redux_sync_add(kFullMask, times);
    if (lane_index() == 0 && times > 0) add(a, counts, often, times);
  }

  // Returns how many are `often`, which are left out: a lane adds nothing to a word of its own for
  // them, which is less than a branch.
  __device__ __forceinline__ static uint32_t add(const Arguments& a,
                                                 const SharedSpan<uint32_t>& counts,
                                                 const Vec<T, kWidth>& x, uint32_t often) {
    uint32_t* const aside = counts.pointer(counts.size() - kWarpSize + lane_index());
    const auto more = [&](int e) {
      const auto bin = static_cast<uint32_t>(x[e]);
      return bin == often ? 0 : in_word(bin, 1);
    };
    uint32_t before[kWidth];
    uint32_t times = 0;
    uint32_t any_full = 0;
#pragma unroll
    for (int e = 0; e < kWidth; ++e) {
      const auto bin = static_cast<uint32_t>(x[e]);
      before[e] = ptx::atom_shared_add(bin == often ? aside : counts.pointer(bin / 2), more(e));
      times += bin == often ? 1 : 0;
    }
#pragma unroll
    for (int e = 0; e < kWidth; ++e) any_full |= filled(before[e], more(e));
    if (any_full != 0) {
#pragma unroll
      for (int e = 0; e < kWidth; ++e) {
        if (filled(before[e], more(e)) != 0) carry_over(a, counts, static_cast<uint32_t>(x[e]));
      }
    }
    return times;
  }

  __device__ __forceinline__ static void add(const Arguments& a, const SharedSpan<uint32_t>& counts,
                                             uint32_t bin, uint32_t times) {
    const uint32_t more = in_word(bin, times);
    const uint32_t before = ptx::atom_shared_add(counts.pointer(bin / 2), more);
    if (filled(before, more) != 0) carry_over(a, counts, bin);
  }

  // Of a tile that has one that is no bin, or ends before the tile does: from memory again.
  __device__ static void add_right_ones(const Arguments& a, const SharedSpan<uint32_t>& counts,
                                        const row::Cut<kWidth>& cut, int64_t index) {
#pragma unroll 1
    for (int i = 0; i < kLoads * kWidth; ++i) {
      const int64_t vector = vector_of(index, i / kWidth);
      if (vector >= cut.vectors) return;
      const int64_t place = cut.at(vector) + i % kWidth;
      const T value = thread::load(a.x + place);
      if (a.check(value, place)) add(a, counts, static_cast<uint32_t>(value), 1);
    }
  }

  __device__ __forceinline__ static uint32_t in_word(uint32_t bin, uint32_t count) {
    return bin % 2 == 0 ? count : count << 16;
  }
  // The top bit of the counter that this addition turned to 1, if it did.
  __device__ __forceinline__ static uint32_t filled(uint32_t before, uint32_t more) {
    return (before ^ (before + more)) & (kHalf | kHalf << 16);
  }
  __device__ __forceinline__ static void carry_over(const Arguments& a,
                                                    const SharedSpan<uint32_t>& counts,
                                                    uint32_t bin) {
    ptx::red_shared_add(counts.pointer(bin / 2), 0U - in_word(bin, kHalf));
    ptx::red_global_add(a.totals + bin, kHalf);
  }
};

// Adds up what the blocks left, and the carries: a thread four words of every kSlices-th block.
struct MergePackedKernel {
  static constexpr int kThreads = 256;
  static constexpr int kSlices = kThreads / kWarpSize;
  struct Arguments {
    const uint32_t* partials;
    int64_t parts;
    int64_t words;  // of a part
    int64_t bins;
    uint64_t* totals;
    CountOutput output;
  };
  struct SharedStorage {
    SharedArray<uint32_t, 8 * kThreads> sums;  // [bin of a thread][slice][lane]
  };

  __device__ void operator()(SharedStorage& shared, const Arguments& a) const {
    ptx::griddepcontrol_wait();
    const int64_t first = (block_index() * kWarpSize + lane_index()) * 4;
    Vec<uint32_t, 8> sums{};
    if (first < a.words) {
#pragma unroll 8
      for (int64_t p = warp_index(); p < a.parts; p += kSlices) {
        const Vec<uint32_t, 4> word = thread::load<4>(a.partials + p * a.words + first);
#pragma unroll
        for (int i = 0; i < 8; ++i) sums[i] += word[i / 2] >> (i % 2 * 16) & 0xFFFF;
      }
    }
#pragma unroll
    for (int i = 0; i < 8; ++i) shared.sums[i * kThreads + thread_index()] = sums[i];
    ptx::barrier_sync();
    const int64_t bin = block_index() * kThreads + thread_index();
    if (bin >= a.bins) return;
    uint64_t total = thread::load(a.totals + bin);
    const int from = thread_index() % 8 * kThreads + thread_index() / 8;
    for (int slice = 0; slice < kSlices; ++slice) total += shared.sums[from + slice * kWarpSize];
    a.output.store(bin, total);
    thread::store(a.totals + bin, uint64_t{0});
  }
};

struct PackedCounters {
  static bool supports(const CountBins::Call& call, Why& why) {
    const int64_t room = device_facts().shared_bytes - 2048;
    return why.unless(call.is_dense(), "takes elements that lie side by side") &&
           why.unless(call.bins * 2 <= room, "keeps up to ", room / 2, " bins, not ", call.bins);
  }
  // Totals, which only carries reach, then what the blocks leave.
  static Workspace workspace(const CountBins::Call& call) {
    const Workspace totals = Totals::workspace(call.bins);
    return {.bytes = totals.bytes + static_cast<size_t>(blocks_of(call) * words_of(call)) * 4,
            .zeroed = totals.zeroed};
  }
  static void run(const CountBins::Call& call, const Context& context) {
    const Totals totals(context.workspace, call.bins);
    auto* partials = reinterpret_cast<uint32_t*>(static_cast<std::byte*>(context.workspace) +
                                                 Totals::workspace(call.bins).bytes);
    const int64_t blocks = blocks_of(call);
    const int64_t words = words_of(call);
    with_type<kWords>(call.dtype, [&]<class T>() {
      using Kernel = PackedCountersKernel<T>;
      launch<Kernel>(
          {.blocks = blocks,
           .threads = Kernel::kThreads,
           .dynamic_shared = static_cast<size_t>(words + kWarpSize) * 4},
          context.stream,
          {static_cast<const T*>(call.x), call.count, static_cast<uint32_t>(call.bins),
           totals.of_bin, partials, IndexCheck("count_bins/packed_counters", "x", call.bins)});
    });
    launch<MergePackedKernel>(
        {.blocks = divide_up(call.bins, MergePackedKernel::kThreads),
         .threads = MergePackedKernel::kThreads,
         .overlaps = true},
        context.stream, {partials, blocks, words, call.bins, totals.of_bin, CountOutput(call)});
  }

 private:
  static int64_t words_of(const CountBins::Call& call) {
    return PackedCountersKernel<int32_t>::words_of(call.bins);
  }
  static int64_t blocks_of(const CountBins::Call& call) {
    const auto width = static_cast<int64_t>(16 / size_of(call.dtype));
    const int64_t tiles = divide_up(call.count, PackedCountersKernel<int32_t>::kTile * width);
    return std::clamp<int64_t>(tiles, 1, device_facts().multiprocessors);
  }
};

}  // namespace

extern const Rung kPackedCounters;
const Rung kPackedCounters = rung_of<PackedCounters, kWords, CountBins>(
    {.name = "packed_counters",
     .from = "streamed",
     .idea = "two counters of 16 bits a word; who fills half of one carries it over: 2^16 bins"});

}  // namespace ws::histogram
