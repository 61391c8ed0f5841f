// Idea: blocks of one warp, whose lanes each have a column of sums of their own: nobody else adds
// there, so that an addition is a load and a store, and the order is always the same.
// From weights: no atomics; each warp leaves its sums in the workspace, and a second launch adds
// those up in their order. The next two to four tiles are on their way while one is added.
// Traffic: every element and weight once; 4 bytes a bin and warp of workspace, written and read.
// Limits: dense elements that start at a multiple of a vector; up to 512 bins. Four elements wait
// together for what their columns hold, and those of one bin are told of each other in registers.
// Between edges a tile's searches go side by side, in a table behind the columns.
// Long: two kernels, for the columns and for what they leave.
#include "kernels/histogram/binning.hpp"
#include "kernels/histogram/private_counts.hpp"
#include "warpsmith/device_facts.hpp"
#include "warpsmith/thread/ahead.hpp"

namespace ws::histogram {
namespace {

constexpr int64_t kMostOwnBins = 512;
constexpr int kMostOwnBlocks = 6;  // of an SM, for its shared memory

template <class Call>
int64_t own_words(const Call& call) {
  return (call.bins + 1) * kWarpSize + table_words(call);
}
template <class Call>
int64_t own_blocks(const Call& call, int64_t tile) {
  const int64_t of_sm =
      std::clamp<int64_t>(227 * 1024 / (own_words(call) * 4 + 1024), 1, kMostOwnBlocks);
  return std::clamp<int64_t>(divide_up(call.count, tile), 1,
                             of_sm * device_facts().multiprocessors);
}

// kEach: each value that there may be is a bin, as of bytes in 256.
template <class Binner, bool kEach = false>
struct OwnColumnKernel {
  using T = typename Binner::Element;
  static constexpr int kThreads = kWarpSize;
  static constexpr int kMinBlocks = kMostOwnBlocks;
  static constexpr int kWidth = 4;
  static constexpr int kLoads = 4;
  static constexpr int kAhead = kEach ? 4 : sizeof(T) == 8 ? 2 : 3;      // tiles
  static constexpr int64_t kTile = int64_t{kThreads} * kLoads * kWidth;  // elements
  struct Arguments {
    Binner binner;
    const T* x;
    const float* weights;
    int64_t count;
    uint32_t bins;
    float* partials;  // [block][bin]
  };
  struct SharedStorage {
    SharedArray<uint32_t, 1> wrong;
  };

  __device__ void operator()(SharedStorage& shared, const Arguments& a) const {
    // Behind the last bin is one more, for what is none.
    const int64_t words = static_cast<int64_t>(a.bins + 1) * kWarpSize;
    const SharedSpan<float> sums = dynamic_shared<float>(shared, words);
    for (int64_t i = thread_index() * 4; i < words; i += kThreads * 4) {
      sums.template store<4>(i, Vec<float, 4>{});
    }
    if constexpr (Binner::kHasTable) {
      const int64_t size = ByTable<T>::words_of(a.binner.first_step);
      const SharedSpan<float> all = dynamic_shared<float>(shared, words + size);
      const ByTable<T> table({all.pointer(words), size}, a.binner, kThreads);
      if (has_right_edges(a.binner, shared.wrong, kThreads)) add_all(a, table, sums);
    } else {
      ptx::syncwarp();
      add_all(a, a.binner, sums);
    }
    ptx::syncwarp();
    for (uint32_t bin = lane_index(); bin < a.bins; bin += kThreads) {
      float sum = 0;
      for (int c = 0; c < kWarpSize; ++c) {  // each lane begins in its own bank
        sum += sums[bin * kWarpSize + (c + lane_index()) % kWarpSize];
      }
      thread::store(a.partials + block_index() * a.bins + bin, sum);
    }
  }

 private:
  // Bytes stay in a word, from which one instruction less takes them than from registers of each.
  using Elements = std::conditional_t<kEach, uint32_t, Vec<T, kWidth>>;
  struct Tile {
    Elements x[kLoads];
    Vec<float, kWidth> weight[kLoads];
  };

  template <class BinOf>
  __device__ __forceinline__ static void add_all(const Arguments& a, const BinOf& bin_of,
                                                 const SharedSpan<float>& sums) {
    const SharedSpan<float> column(sums.pointer(lane_index()), sums.size() - lane_index());
    const int64_t whole = a.count / kTile;
    const auto load_tile = [&](int64_t tile) { return load(a, tile, whole); };
    const auto add_tile = [&](const Tile& here, int64_t tile) {
      Vec<uint32_t, kWidth> rows[kLoads];
      if constexpr (Binner::kHasTable) {
        find_rows(bin_of, here, rows);
      }
      uint32_t worst = 0;
#pragma unroll
      for (int i = 0; i < kLoads; ++i) {
        if constexpr (kEach) {
          rows[i] = rows_of_bytes(here.x[i]);
        } else if constexpr (!Binner::kHasTable) {
#pragma unroll
          for (int e = 0; e < kWidth; ++e) {
            const uint32_t bin = bin_of(here.x[i][e]);
            worst = bin > worst ? bin : worst;
            rows[i][e] = (bin < a.bins ? bin : a.bins) * kWarpSize;
          }
        }
        add(column, rows[i], here.weight[i]);
      }
      if constexpr (Binner::kReports && !kEach) {
        if (worst >= a.bins) look_for_wrong_ones(a, tile);
      }
    };
    thread::each_ahead<kAhead>(block_index(), whole, grid_blocks(), load_tile, add_tile);
    if (whole % grid_blocks() != block_index()) return;
    for (int64_t i = whole * kTile + lane_index(); i < a.count; i += kThreads) {  // what is no tile
      const T value = thread::load(a.x + i);
      uint32_t bin;
      if constexpr (Binner::kHasTable) {
        bin = bin_of(Vec<T, 1>{{value}})[0];
      } else {
        if (!a.binner.check(static_cast<int64_t>(value), i)) continue;
        bin = bin_of(value);
      }
      add<1>(column, {{bin * kWarpSize}}, {{thread::load(a.weights + i)}});
    }
  }
  // The searches of a tile side by side.
  template <class Table>
  __device__ __forceinline__ static void find_rows(const Table& table, const Tile& here,
                                                   Vec<uint32_t, kWidth> (&rows)[kLoads]) {
    Vec<T, kLoads * kWidth> x;
#pragma unroll
    for (int i = 0; i < kLoads * kWidth; ++i) x[i] = here.x[i / kWidth][i % kWidth];
    const Vec<uint32_t, kLoads * kWidth> bins = table(x);
#pragma unroll
    for (int i = 0; i < kLoads * kWidth; ++i) rows[i / kWidth][i % kWidth] = bins[i] * kWarpSize;
  }
  __device__ __forceinline__ static int64_t place_of(int64_t tile, int i) {
    return tile * kTile + (i * kThreads + lane_index()) * kWidth;
  }
  __device__ __forceinline__ static Tile load(const Arguments& a, int64_t tile, int64_t whole) {
    Tile loaded{};
    if (tile >= whole) return loaded;
#pragma unroll
    for (int i = 0; i < kLoads; ++i) {
      const T* x = a.x + place_of(tile, i);
      if constexpr (kEach) {
        loaded.x[i] = thread::load(reinterpret_cast<const uint32_t*>(x));
      } else {
        loaded.x[i] = thread::load<kWidth>(x);
      }
      loaded.weight[i] = thread::load<kWidth>(a.weights + place_of(tile, i));
    }
    return loaded;
  }
  // Where the words of each byte's bin begin: moved there before it is taken out.
  __device__ __forceinline__ static Vec<uint32_t, kWidth> rows_of_bytes(uint32_t word) {
    Vec<uint32_t, kWidth> rows;
#pragma unroll
    for (int e = 0; e < kWidth; ++e) rows[e] = (word >> 8 * e & 0xFF) * kWarpSize;
    return rows;
  }
  // As if one after the other.
  template <int N>
  __device__ __forceinline__ static void add(const SharedSpan<float>& column,
                                             const Vec<uint32_t, N>& rows,
                                             const Vec<float, N>& weights) {
    float sum[N];
#pragma unroll
    for (int e = 0; e < N; ++e) sum[e] = column[rows[e]];
#pragma unroll
    for (int e = 0; e < N; ++e) {
#pragma unroll
      for (int before = 0; before < e; ++before) {
        if (rows[before] == rows[e]) sum[e] = sum[before];
      }
      sum[e] += weights[e];
    }
#pragma unroll
    for (int e = 0; e < N; ++e) column[rows[e]] = sum[e];
  }
  __device__ static void look_for_wrong_ones(const Arguments& a, int64_t tile) {
#pragma unroll 1
    for (int i = 0; i < kLoads * kWidth; ++i) {
      const int64_t place = place_of(tile, i / kWidth) + i % kWidth;
      a.binner.check(static_cast<int64_t>(thread::load(a.x + place)), place);
    }
  }
};

// Adds up what the warps left: 32 bins a block, a warp every 32nd of their sums.
struct MergeSumsKernel {
  static constexpr int kThreads = 1024;
  struct Arguments {
    const float* partials;
    int64_t parts;
    int64_t bins;
    CountOutput output;
  };
  struct SharedStorage {
    SharedArray<float, kThreads> sums;
  };

  __device__ void operator()(SharedStorage& shared, const Arguments& a) const {
    const int64_t bin = block_index() * kWarpSize + lane_index();
    float sum = 0;
    if (bin < a.bins) {
#pragma unroll 8
      for (int64_t p = warp_index(); p < a.parts; p += kWarpSize) {
        sum += thread::load(a.partials + p * a.bins + bin);
      }
    }
    shared.sums[thread_index()] = sum;
    ptx::barrier_sync();
    if (warp_index() != 0 || bin >= a.bins) return;
    float total = 0;
    for (int w = 0; w < kWarpSize; ++w) total += shared.sums[w * kWarpSize + lane_index()];
    a.output.store(bin, total);
  }
};

struct WeightsOwnColumn {
  static constexpr int64_t kTile = OwnColumnKernel<ByValue<int32_t>>::kTile;
  static const char* name(const SumBins::Call& /*call*/) { return "sum_bins/weights_own_column"; }
  static const char* name(const SumBetween::Call& /*call*/) {
    return "sum_between/weights_own_column";
  }

  template <class Call>
  static bool supports(const Call& call, Why& why) {
    const size_t vector = std::min<size_t>(4 * size_of(call.dtype), 16);
    return why.unless(call.is_dense(), "takes elements that lie side by side") &&
           why.unless(call.bins <= kMostOwnBins, "keeps up to ", kMostOwnBins, " bins, not ",
                      call.bins) &&
           why.unless(reinterpret_cast<uintptr_t>(call.x) % vector == 0 &&
                          reinterpret_cast<uintptr_t>(call.weights) % 16 == 0,
                      "reads four elements at a time, from a multiple of four on");
  }
  template <class Call>
  static Workspace workspace(const Call& call) {
    return {.bytes = static_cast<size_t>(own_blocks(call, kTile) * call.bins) * sizeof(float)};
  }
  template <class Call>
  static void run(const Call& call, const Context& context) {
    auto* partials = static_cast<float*>(context.workspace);
    const int64_t blocks = own_blocks(call, kTile);
    with_binner(call, name(call), [&]<class Binner>(const Binner& binner) {
      using T = typename Binner::Element;
      const auto add = [&]<bool kEach>() {
        using Kernel = OwnColumnKernel<Binner, kEach>;
        static_assert(Kernel::kTile == kTile);
        launch<Kernel>({.blocks = blocks,
                        .threads = Kernel::kThreads,
                        .dynamic_shared = static_cast<size_t>(own_words(call)) * sizeof(float)},
                       context.stream,
                       {binner, static_cast<const T*>(call.x), call.weights, call.count,
                        static_cast<uint32_t>(call.bins), partials});
      };
      if constexpr (sizeof(T) == 1) {
        if (call.bins >= 256) return add.template operator()<true>();
      }
      add.template operator()<false>();
    });
    launch<MergeSumsKernel>(
        {.blocks = divide_up(call.bins, int64_t{kWarpSize}), .threads = MergeSumsKernel::kThreads},
        context.stream, {partials, blocks, call.bins, CountOutput(call)});
  }
};

}  // namespace

extern const Rung kWeightsOwnColumn;
const Rung kWeightsOwnColumn = rung_of<WeightsOwnColumn, SumBins, SumBetween>(
    {.name = "weights_own_column",
     .from = "weights",
     .idea = "a column of sums for each lane of a warp: no atomics, the same bits every time"});

}  // namespace ws::histogram
