// Idea: a line through the edges tells which of them a number lies beside, and a comparison with
// that one is the whole search. Edges and counters lie once for each lane, in a bank of its own.
// From streamed: eight steps of a search, which met in banks, are one; the arithmetic of histc,
// rounding by rounding, is done for its edges alone, and counting is the same for both operations.
// Traffic: every element once; bins atomics a block in the L2; 8 bytes a bin of workspace.
// Limits: dense elements; bins that fit into a block's shared memory 32 times, 750 on Hopper. Of
// edges that are so uneven that two distinct ones lie in one place of the line, a table of cells
// tells where to begin, and as many steps of a search follow as its fullest cell takes.
// Long: two operations' edges, the line, cells and their proof, and the counting.
#pragma once

#include "kernels/histogram/05_streamed.cuh"
#include "warpsmith/block/reduce.hpp"
#include "warpsmith/ptx/saturate.hpp"
#include "warpsmith/row/packed.hpp"
#include "warpsmith/shared_bytes.hpp"

namespace ws::histogram {

// Where histc's edges are: the least f32 that its arithmetic puts into bin b or above.
struct HistcEdges {
  float min = 0;
  float max = 1;
  float parts = 1;

  HistcEdges() = default;
  HistcEdges(const Histc::Call& call, const char* /*rung*/)
      : min(call.min), max(call.max), parts(static_cast<float>(call.bins)) {}

#if WS_DEVICE_CODE
  __device__ __forceinline__ float edge(int64_t b) const {
    const auto bin = static_cast<float>(b);
    if (b == 0) return min;
    if (bin == parts) return max;
    const auto is_below = [&](uint32_t rank) {
      return (of_rank(rank) - min) * parts / (max - min) < bin;
    };
    // By halves: from close to where exact arithmetic would have it, or from the ends.
    const uint32_t guess = rank_of(thread::fma(bin / parts, max - min, min));
    uint32_t below = guess - 8;
    uint32_t above = guess + 8;
    if (!is_below(below) || is_below(above)) below = rank_of(min), above = rank_of(max);
    while (above - below > 1) {
      const uint32_t middle = below + (above - below) / 2;
      (is_below(middle) ? below : above) = middle;
    }
    return of_rank(above);
  }
  __device__ __forceinline__ bool are_right(int /*threads*/) const { return true; }

  // Numbers in their order, as integers.
  static __device__ __forceinline__ uint32_t rank_of(float value) {
    const auto bits = std::bit_cast<uint32_t>(value);
    return bits >> 31 != 0 ? ~bits : bits | 0x80000000;
  }
  static __device__ __forceinline__ float of_rank(uint32_t rank) {
    return std::bit_cast<float>(rank >> 31 != 0 ? rank & 0x7FFFFFFF : ~rank);
  }
#endif
};

#if WS_DEVICE_CODE

// A number's place on a line of places 0 to `places`: it never falls where the number grows, and
// what is below, or no number, is at 0.
struct Line {
  float slope = 0;
  float start = 0;
  float places = 0;

  Line() = default;
  __device__ __forceinline__ Line(float slope, float start, float places)
      : slope(slope / places), start(start / places), places(places) {
    // Of edges that no line goes through all numbers have one place.
    if (!(::fabsf(this->slope) < INFINITY && ::fabsf(this->start) < INFINITY)) {
      this->slope = 0, this->start = 0;
    }
  }
  // The place times 2^shift, plus what `origin` made of the first's.
  template <int kShift>
  __device__ __forceinline__ uint32_t operator()(float x, uint32_t origin) const {
    const float part = ptx::fma_sat_f32(x, slope, start);
    return (std::bit_cast<uint32_t>(thread::fma(part, places, 0x1p23F)) << kShift) + origin;
  }
  // The first's place is the bits of 2^23.
  template <int kShift>
  static __device__ constexpr uint32_t origin(uint32_t first) {
    return first - (0x4B000000U << kShift);
  }
  __device__ __forceinline__ uint32_t place(float x) const {
    return x != x ? ~0U : operator()<0>(x, origin<0>(0));
  }
};

// Slots 0 to bins + 1: in slot s are numbers that s edges are not above; its edge is the next one.
// The last edge is the least number above it, since the last bin has its end; behind it is NaN,
// which nothing reaches. Words of a slot: its edge for each lane, then the counters.
template <class T, class Edges, class Policy>
struct OneComparisonKernel {
  using Element = T;
  static constexpr int kThreads = Policy::kThreads;
  static constexpr int kMinBlocks = Policy::kBlocks;
  static constexpr int kLoads = Policy::kLoads;
  static constexpr int kWidth = row::kWidest<T>;
  static constexpr int kAtOnce = 8;                             // elements
  static constexpr int64_t kTile = int64_t{kThreads} * kLoads;  // vectors
  static constexpr int kSlotWords = 2 * kWarpSize;
  static constexpr int kSlotShift = 8;  // 256 bytes
  static constexpr int kCellShift = 7;
  using Packed = row::Packed<T, kWidth>;
  using Reduce = block::AllReduce<uint32_t, kThreads>;
  struct Arguments {
    Edges edges;
    const T* x;
    int64_t count;
    int bins;
    int cells;
    Totals totals;
    CountOutput output;
  };
  struct SharedStorage {
    SharedArray<uint32_t, 1> order;
    typename Reduce::Storage most;
  };
  // Slots, cells, then each edge and each cell's first once.
  static constexpr int64_t words_of(int64_t bins, int64_t cells) {
    return (bins + 2) * kSlotWords + (cells + 1) * kWarpSize + round_up(bins + 2, 4) +
           round_up(cells + 2, 4);
  }

  __device__ void operator()(SharedStorage& shared, const Arguments& a) const {
    const int slots = a.bins + 2;
    const SharedSpan<uint32_t> words = dynamic_shared<uint32_t>(shared, words_of(a.bins, a.cells));
    const SharedSpan<uint32_t> cells(words.pointer(slots * kSlotWords),
                                     int64_t{a.cells + 1} * kWarpSize);
    const SharedSpan<float> edges(
        reinterpret_cast<float*>(cells.pointer(int64_t{a.cells + 1} * kWarpSize)), slots);
    Reduce reduce(shared.most);
    const auto largest = [&](uint32_t value) {
      return reduce(value, [](uint32_t p, uint32_t q) { return p < q ? q : p; });
    };

    for (int i = thread_index(); i < slots; i += kThreads) {
      float edge = i <= a.bins ? a.edges.edge(i) : NAN;
      if (i == a.bins) edge = above(edge);
      edges[i] = edge;
    }
    ptx::barrier_sync();
    fill_slots(words, edges, slots);
    const bool right = a.edges.are_right(kThreads);
    const float first = edges[0];
    const float width = edges[a.bins] - first;
    const auto parts = static_cast<float>(a.bins);
    const Line line(parts / width, -first * (parts / width), parts + 1);
    const uint32_t verdict = largest(!right ? 2 : is_direct(edges, line, a.bins) ? 0 : 1);
    if (verdict == 0) {
      const uint32_t origin = Line::origin<kSlotShift>(lane_index() * 4);
      count(
          a,
          [&](const Vec<float, kAtOnce>& x, Vec<uint32_t, kAtOnce>& at) {
#pragma unroll
            for (int e = 0; e < kAtOnce; ++e) at[e] = line.operator()<kSlotShift>(x[e], origin);
            step_up(words, x, at);
          },
          words);
    }
    if (verdict == 1) {
      const Line fine = line_of_cells(edges, a);
      const uint32_t most = largest(fill_cells(cells, edges, fine, a));
      uint32_t step = 1;
      while (step * 2 <= most) step *= 2;
      const uint32_t origin = Line::origin<kCellShift>(lane_index() * 4);
      const uint32_t last = (slots - 1) * (kSlotWords * 4) + lane_index() * 4;
      count(
          a,
          [&](const Vec<float, kAtOnce>& x, Vec<uint32_t, kAtOnce>& at) {
#pragma unroll
            for (int e = 0; e < kAtOnce; ++e) {
              at[e] = at_byte(cells, fine.operator()<kCellShift>(x[e], origin));
            }
#pragma unroll 1
            for (uint32_t s = step << kSlotShift; s > 1U << kSlotShift; s /= 2) {
#pragma unroll
              for (int e = 0; e < kAtOnce; ++e) {
                const uint32_t before = at[e] + s - (1U << kSlotShift);
                const float edge =
                    std::bit_cast<float>(at_byte(words, before < last ? before : last));
                if (x[e] >= edge) at[e] += s;
              }
            }
            step_up(words, x, at);
          },
          words);
    }
    const auto is_empty = [&](int64_t bin) {
      const float begin = edges[bin];
      const float end = edges[bin + 1];
      return begin == end;
    };
    hand_over<kThreads>(a.totals, a.output, a.bins, shared.order, [&](int64_t bin) -> uint32_t {
      if (is_empty(bin)) return 0;
      uint32_t sum = of_slot(words, bin + 1);
      while (bin > 0 && is_empty(bin - 1)) sum += of_slot(words, bin--);
      return sum;
    });
  }

 private:
  static __device__ __forceinline__ float above(float edge) {
    if (!(edge < INFINITY)) return NAN;
    return HistcEdges::of_rank(HistcEdges::rank_of(edge == 0 ? 0.0F : edge) + 1);
  }

  static __device__ __forceinline__ void fill_slots(const SharedSpan<uint32_t>& words,
                                                    const SharedSpan<float>& edges, int slots) {
    for (int i = thread_index(); i < slots * kSlotWords / 4; i += kThreads) {
      const bool is_edge = i % (kSlotWords / 4) < kWarpSize / 4;
      const float edge = edges[i / (kSlotWords / 4)];
      const uint32_t word = is_edge ? std::bit_cast<uint32_t>(edge) : 0;
      words.template store<4>(i * 4, Vec<uint32_t, 4>{{word, word, word, word}});
    }
  }

  // Whether a number in place k of the line lies in slot k or, if it reaches the edge of that, in
  // the next one or behind it in the first that is not empty. So no edge lies in a place above its
  // own, and only those that equal the one before them in one below.
  static __device__ __forceinline__ bool is_direct(const SharedSpan<float>& edges, const Line& line,
                                                   int bins) {
    bool direct = true;
    for (int i = thread_index(); i <= bins; i += kThreads) {
      const float edge = edges[i];
      const uint32_t place = line.place(edge);
      const float before = i == 0 ? NAN : static_cast<float>(edges[i - 1]);
      direct = direct && place <= static_cast<uint32_t>(i) &&
               (place == static_cast<uint32_t>(i) || before == edge);
    }
    return direct;
  }

  // Between the outermost edges that are finite.
  static __device__ __forceinline__ Line line_of_cells(const SharedSpan<float>& edges,
                                                       const Arguments& a) {
    const float first = edges[0];
    const float second = edges[1];
    const float last = edges[a.bins];
    const float before = edges[a.bins - 1];
    const float begin = first > -INFINITY ? first : second;
    const float end = last < INFINITY ? last : before;
    const auto parts = static_cast<float>(a.cells);
    return {parts / (end - begin), -begin * (parts / (end - begin)), parts};
  }

  // Each cell's first slot, as the offset of its lane's edge; returns how many edges a search from
  // it may have to pass, but for those that equal the one before them at the cell's end.
  static __device__ __forceinline__ uint32_t fill_cells(const SharedSpan<uint32_t>& cells,
                                                        const SharedSpan<float>& edges,
                                                        const Line& line, const Arguments& a) {
    const SharedSpan<uint32_t> firsts(
        reinterpret_cast<uint32_t*>(edges.pointer(round_up(a.bins + 2, 4))), a.cells + 2);
    uint32_t most = 1;
    for (int k = thread_index(); k <= a.cells; k += kThreads) {
      const int first = count_below(edges, line, static_cast<uint32_t>(k), a.bins + 1);
      int end = count_below(edges, line, static_cast<uint32_t>(k) + 1, a.bins + 1);
      firsts[k] = static_cast<uint32_t>(first);
      const auto repeats = [&](int i) {
        const float before = edges[i - 1];
        const float edge = edges[i];
        return before == edge;
      };
      while (end - 1 > first && repeats(end - 1)) --end;
      const auto passed = static_cast<uint32_t>(end - first);
      most = passed > most ? passed : most;
    }
    ptx::barrier_sync();
    for (int i = thread_index(); i < (a.cells + 1) * kWarpSize / 4; i += kThreads) {
      const uint32_t first = firsts[i / (kWarpSize / 4)];
      const uint32_t at = (first << kSlotShift) + i % (kWarpSize / 4) * 16;
      cells.template store<4>(i * 4, Vec<uint32_t, 4>{{at, at + 4, at + 8, at + 12}});
    }
    return most;
  }
  // Edges, of `count`, in places below `place`.
  static __device__ __forceinline__ int count_below(const SharedSpan<float>& edges,
                                                    const Line& line, uint32_t place, int count) {
    int low = 0;
    int high = count;
    while (low < high) {
      const int middle = (low + high) / 2;
      const float edge = edges[middle];
      if (line.place(edge) < place) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    return low;
  }

  // The last step of all searches: from a slot to the next, where the number reaches its edge.
  static __device__ __forceinline__ void step_up(const SharedSpan<uint32_t>& words,
                                                 const Vec<float, kAtOnce>& x,
                                                 Vec<uint32_t, kAtOnce>& at) {
#pragma unroll
    for (int e = 0; e < kAtOnce; ++e) {
      const float edge = std::bit_cast<float>(at_byte(words, at[e]));
      if (x[e] >= edge) at[e] += 1U << kSlotShift;
    }
  }

  template <class Search>
  static __device__ __forceinline__ void count(const Arguments& a, const Search& search,
                                               const SharedSpan<uint32_t>& words) {
    const row::Cut<kWidth> cut(a.x, a.count);
    const int64_t step = grid_blocks() * kTile;
    const auto add = [&](const Vec<float, kAtOnce>& x) {
      Vec<uint32_t, kAtOnce> at;
      search(x, at);
#pragma unroll
      for (int e = 0; e < kAtOnce; ++e) {
        constexpr int kCounter = 4 * kWarpSize;  // behind the edge
        ptx::red_shared_increment(reinterpret_cast<uint32_t*>(
            reinterpret_cast<std::byte*>(words.pointer()) + at[e] + kCounter));
      }
    };
    constexpr int kVectors = kAtOnce / kWidth;
    int64_t v = block_index() * kTile + thread_index();
#pragma unroll 1
    for (; v + (kLoads - 1) * kThreads < cut.vectors; v += step) {
      Packed x[kLoads];
#pragma unroll
      for (int i = 0; i < kLoads; ++i) x[i] = Packed::load(a.x + cut.at(v + i * kThreads));
#pragma unroll
      for (int i = 0; i < kLoads; i += kVectors) {
        Vec<float, kAtOnce> numbers;
#pragma unroll
        for (int e = 0; e < kAtOnce; ++e) numbers[e] = x[i + e / kWidth][e % kWidth];
        add(numbers);
      }
    }
    // What is left of a tile, and the edges of the array; in their place NaN, which no bin has.
    Vec<float, kAtOnce> few;
#pragma unroll 1
    for (int i = 0; i < kLoads && v < cut.vectors; ++i, v += kThreads) {
      const Packed x = Packed::load(a.x + cut.at(v));
#pragma unroll
      for (int e = 0; e < kAtOnce; ++e) few[e] = e < kWidth ? x[e % kWidth] : NAN;
      add(few);
    }
    if (block_index() > 0 || thread_index() >= cut.edges) return;
#pragma unroll
    for (int e = 0; e < kAtOnce; ++e) few[e] = NAN;
    few[0] = to_float(thread::load(a.x + cut.edge(thread_index())));
    add(few);
  }

  static __device__ __forceinline__ uint32_t of_slot(const SharedSpan<uint32_t>& words,
                                                     int64_t slot) {
    uint32_t sum = 0;
#pragma unroll
    for (int c = 0; c < kWarpSize; ++c) {
      sum += words[slot * kSlotWords + kWarpSize + (c + lane_index()) % kWarpSize];
    }
    return sum;
  }
};
#endif

template <class Policy>
struct OneComparison {
  static int64_t words_of(int64_t bins, int64_t cells) {
    return OneComparisonKernel<float, HistcEdges, Policy>::words_of(bins, cells);
  }
  // The more cells the fewer edges in one.
  static int64_t cells_of(int64_t bins) {
    const int64_t words = (device_facts().shared_bytes / Policy::kBlocks - 2048) / 4;
    int64_t cells = 1024;
    while (cells >= 256 && words_of(bins, cells) > words) cells /= 2;
    return cells;
  }
  template <class Call>
  static bool supports(const Call& call, Why& why) {
    return why.unless(call.is_dense(), "takes elements that lie side by side") &&
           why.unless(call.bins < 4096 && cells_of(call.bins) >= 256, "keeps ", call.bins,
                      " bins for each lane in a block's shared memory: too many");
  }
  template <class Call>
  static Workspace workspace(const Call& call) {
    return Totals::workspace(call.bins);
  }
  template <class Call>
  static void run(const Call& call, const Context& context) {
    with_type<kFloats>(call.dtype, [&]<class T>() {
      using Edges = std::conditional_t<std::is_same_v<Call, Histc::Call>, HistcEdges, ByEdges<T>>;
      using Kernel = OneComparisonKernel<T, Edges, Policy>;
      const int64_t cells = cells_of(call.bins);
      launch<Kernel>({.blocks = blocks_of<Policy>(call.count, Kernel::kTile * Kernel::kWidth),
                      .threads = Kernel::kThreads,
                      .dynamic_shared = static_cast<size_t>(words_of(call.bins, cells)) * 4},
                     context.stream,
                     {Edges(call, "count_between/one_comparison"), static_cast<const T*>(call.x),
                      call.count, static_cast<int>(call.bins), static_cast<int>(cells),
                      Totals(context.workspace, call.bins), CountOutput(call)});
    });
  }
};

}  // namespace ws::histogram
