// Idea: the weight is wgmma's A: four warpgroups make its fragments out of codes, in registers; x
//   is its B, which tensor cores read from shared memory themselves, up to 32 rows of it.
// From row_strips: no lane loads x, half of all instructions; a launch before puts x in the order
//   of codes, once for all blocks, as halves with one unit a row. Codes and x come by the copy
//   engine, four to six stages ahead. Small weights share K among the blocks of a cluster.
// Traffic: codes, scales and zeros once; x once a block and once more to be put in order.
// Limits: sm_90a; up to 16 rows of x, f16 or bf16; K and groups of whole 64 columns; x and rows of
//   codes at multiples of 16 bytes. Elements of x below 2^-36 of their row's largest lose bits.
// Long: x in order, a ring of stages, fragments of four formats, the sums of a cluster.
#include <algorithm>
#include <bit>
#include <utility>

#include "kernels/quantized/planes.hpp"
#include "warpsmith/block/reduce.hpp"
#include "warpsmith/device_facts.hpp"
#include "warpsmith/ptx/grid.hpp"
#include "warpsmith/ptx/setmaxnreg.hpp"
#include "warpsmith/ptx/tensor.hpp"
#include "warpsmith/ptx/tensor_prefetch.hpp"
#include "warpsmith/ptx/wgmma.hpp"
#include "warpsmith/tile/pipeline.hpp"

namespace ws::quantized {
namespace {

constexpr int kUnit = 64;               // columns of which a lane has 16, side by side
constexpr int kUnitSteps = kUnit / 16;  // products
constexpr int kRowBytes = 128;          // of a row's codes, a stage
constexpr int kMostRowsOfX = 16;

// How x lies in the workspace and in a stage: for each unit, each product, each half of its K, the
// rows of x, 16 bytes each; after all units of a stage, of each chain the sum of each row.
template <Format kFormat>
struct OrderOfX {
  using Of = HalfPlanes<kFormat>;
  static constexpr int kOfWord = Levels<kFormat>::kOfWord;
  static constexpr int kStageColumns = kRowBytes / 4 * kOfWord;
  static constexpr int kUnits = kStageColumns / kUnit;
  // Of a word of eight codes the second plane counts a sixteenth: x of the first counts 16 times
  // instead, so that both add up to one sum.
  static constexpr bool kTwoPlanes = Of::kPlanes == 2;
  static constexpr int kMostExponent = kTwoPlanes ? 11 : 15;  // of x as halves
  static constexpr float kUnitOfSums = kTwoPlanes ? Of::kUnit / 16 : Of::kUnit;

  __host__ __device__ static constexpr int words_of_units(int rows_of_x) {
    return kUnits * kUnit * rows_of_x / 2;
  }
  __host__ __device__ static constexpr int words_of_stage(int rows_of_x, int chain) {
    return words_of_units(rows_of_x) + (Of::kHasOffset ? kStageColumns / chain * rows_of_x : 0);
  }
  // Of a lane's 16 columns, the one whose code is element `e` of register r of product `step`.
  __host__ __device__ static constexpr int column_of(int step, int r, int e) {
    if constexpr (kOfWord == 8) return step / 2 * 8 + Of::place_of(step % 2 * 4 + r * 2 + e);
    return step * 4 + Of::place_of(r * 2 + e);
  }
};

// A block a row of x, 16 columns a thread.
template <class T, Format kFormat>
struct OrderXKernel {
  using Order = OrderOfX<kFormat>;
  static constexpr int kThreads = 1024;
  struct Arguments {
    Matrix x;
    int rows;     // of x; those beyond are 0
    int columns;  // of x
    int items;    // of 16 columns, with those that are 0
    int rows_of_stage;
    int chain;
    uint32_t* to;
    float* units;
  };
  using AllReduce = block::AllReduceOfLaunch<float, kThreads>;
  struct SharedStorage {
    typename AllReduce::Storage most;
  };

  __device__ void operator()(SharedStorage& shared, const Arguments& a) const {
    ptx::griddepcontrol_launch_dependents();  // codes may be on their way
    const auto row = static_cast<int>(block_index());
    const auto largest = [](float p, float q) { return thread::max(p, q); };
    float most = 0;
    for (int item = thread_index(); item < a.items; item += block_threads()) {
      Item x(a, row, item);
#pragma unroll
      for (int i = 0; i < 16; ++i) most = thread::max(most, fabsf(x[i]));
    }
    most = AllReduce::of_warps(shared.most, warp::all_reduce(most, largest), 0, largest);
    // The largest becomes 2^kMostExponent to twice that. The least normal unit is 2^-126.
    constexpr uint32_t kMost = Order::kMostExponent;
    const uint32_t exponent = std::bit_cast<uint32_t>(most) >> 23;
    const uint32_t of_unit = exponent <= kMost ? 1 : (exponent < 255 ? exponent : 254) - kMost;
    const float inverse = std::bit_cast<float>((254 - of_unit) << 23);
    if (thread_index() == 0) a.units[row] = std::bit_cast<float>(of_unit << 23);
    const int first = thread_index() - lane_index();
    for (int item = first; item < a.items; item += block_threads()) {
      put(a, row, item + lane_index(), inverse);
    }
  }

 private:
  struct Item {
    Vec<uint32_t, 4> words[2] = {};
    __device__ __forceinline__ Item(const Arguments& a, int row, int item) {
      if (row >= a.rows || int64_t{item} * 16 >= a.columns) return;
      const auto* from =
          reinterpret_cast<const uint32_t*>(a.x.template as<const T>() + row * a.x.row + item * 16);
      words[0] = thread::load<4>(from);
      words[1] = thread::load<4>(from + 4);
    }
    __device__ __forceinline__ float operator[](int i) const {
      return element_of<T>(words[i / 8], i % 8);
    }
  };

  static __device__ __forceinline__ void put(const Arguments& a, int row, int item, float inverse) {
    const Item x(a, row, item);
    float values[16];
    float sum = 0;
#pragma unroll
    for (int i = 0; i < 16; ++i) {
      values[i] = x[i] * inverse;
      sum += values[i];
      if (Order::kTwoPlanes && i % 2 == 1) values[i] *= 16;
    }
    const int unit = item / 4;
    const int place = item % 4;
    const int stage = unit / Order::kUnits;
    const int words_of_stage = Order::words_of_stage(a.rows_of_stage, a.chain);
    uint32_t* to = a.to + int64_t{stage} * words_of_stage;
    if constexpr (Order::Of::kHasOffset) {
      sum += warp::shuffle_xor(sum, 1);
      sum += warp::shuffle_xor(sum, 2);
      const float other = warp::shuffle_xor(sum, 4);
      if (a.chain == 2 * kUnit) sum += other;
      const int lanes = a.chain / 16;
      if (item < a.items && item % lanes == 0) {
        const int chain = item / lanes % (Order::kStageColumns / a.chain);
        thread::store(to + Order::words_of_units(a.rows_of_stage) + chain * a.rows_of_stage + row,
                      std::bit_cast<uint32_t>(sum / Order::kUnitOfSums));
      }
    }
    if (item >= a.items) return;
    to += unit % Order::kUnits * (kUnit / 2) * a.rows_of_stage + row * 4 + place;
#pragma unroll
    for (int step = 0; step < kUnitSteps; ++step) {
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        thread::store(to + (step * 2 + r) * 4 * a.rows_of_stage,
                      ptx::cvt_rn_f16x2_f32(values[Order::column_of(step, r, 0)],
                                            values[Order::column_of(step, r, 1)]));
      }
    }
  }
};

// kN: rows of x, a multiple of 8. kChain: columns that are summed before they are scaled.
template <Format kFormat, int kN, int kChain>
struct WgmmaCodesKernel {
  static constexpr Arch kArch = Arch::kSm90a;
  using Of = HalfPlanes<kFormat>;
  using Order = OrderOfX<kFormat>;
  static constexpr int kWarpgroups = 4;  // that multiply; a warp of one more copies
  static constexpr int kUsers = kWarpgroups * 128;
  static constexpr int kThreads = kUsers + 128;
  static constexpr int kMinBlocks = 1;
  static constexpr int kRegisters = 112;              // of those who multiply
  static constexpr int kMostRows = kWarpgroups * 64;  // of the weight, a block
  static constexpr int kOfWord = Order::kOfWord;
  static constexpr int kWords = 16 / kOfWord;  // of a lane and row, a unit
  static constexpr int kStageColumns = Order::kStageColumns;
  static constexpr int kChainUnits = kChain / kUnit;
  static constexpr int kChains = kStageColumns / kChain;
  static constexpr int kTurn = 4;  // chains: a lane of four has the scales of one
  static constexpr int kTurnStages = kTurn / kChains;
  // That scales are asked for: memory that is busy may take longer than a turn. Of two more of them
  // int4's registers would spill with 16 rows of x.
  static constexpr int kTurnsAhead = Of::kHasOffset && kN == 16 && kChain == 128 ? 1 : 2;

  static constexpr int kCodeBytes = kMostRows * kRowBytes;
  static constexpr int kXWords = Order::words_of_stage(kN, kChain);
  static constexpr int kStageBytes = kCodeBytes + kXWords * 4;
  static constexpr int kTables =
      std::is_same_v<typename Of::Tables, Table> ? 64 : sizeof(typename Of::Tables);
  static constexpr int kRoom = 227 * 1024 - 2048 - kTables;
  static constexpr int kStages = std::min(6, kRoom / kStageBytes);
  using Position = tile::PipelinePosition<kStages>;
  // Sums as rows of y, in the place of codes; a warp's stores are to other banks.
  static constexpr int kPitch = kMostRows + 4;
  static_assert(kN * kPitch * 4 <= kStages * kCodeBytes);

  struct Arguments {
    ptx::TensorMap codes;
    Weight weight;
    const uint32_t* x;   // in order
    const float* units;  // of its rows
    Matrix y;
    const void* bias;
    int64_t bias_step;
    thread::Divider chains_of_group;
    thread::Divider parts;
    thread::Divider rows_of_part;
    int scales_row;
    int zeros_row;
    int rows_of_x;
    int block_rows;
    int chains;  // of K
    int turns;
    bool is_bf16;
  };
  struct SharedStorage {
    SharedArray<uint32_t, kStages * kCodeBytes / 4, 1024> codes;
    SharedArray<uint32_t, kStages * kXWords, 128> x;
    typename Of::Tables tables;
    tile::Pipeline<kStages> pipeline;
  };

  __device__ void operator()(SharedStorage& shared, const Arguments& a) const {
    const int warp = warp::shuffle(warp_index(), 0);
    const auto cluster = static_cast<int>(a.parts.quotient(static_cast<uint32_t>(block_index())));
    const int first_row = cluster * a.block_rows;
    const auto turns_before = [&](int part) {
      return static_cast<int>(a.parts.quotient(static_cast<uint32_t>(a.turns * part)));
    };
    const int first = turns_before(cluster_rank());
    const int last = turns_before(cluster_rank() + 1);
    if (warp == kUsers / kWarpSize && lane_index() == 0) {
      ptx::prefetch_tensor_map(a.codes);
      shared.pipeline.init(kUsers / kWarpSize);
      ptx::fence_mbarrier_init();
      // Nobody has to have ended for that.
      const int ahead = std::min(first * kTurnStages + kStages, last * kTurnStages);
      for (int stage = first * kTurnStages; stage < ahead; ++stage) {
        ptx::tensor_prefetch_2d(a.codes, stage * kRowBytes, first_row);
      }
    }
    if constexpr (kFormat == Format::kNf4) Of::fill(shared.tables);
    ptx::barrier_sync();
    ptx::griddepcontrol_wait();
    const bool is_shared = cluster_size() > 1;
    if (warp >= kUsers / kWarpSize) {
      ptx::setmaxnreg_dec<24>();
      if (warp == kUsers / kWarpSize && ptx::elect_sync()) {
        produce(shared, a, first_row, first * kTurnStages, last * kTurnStages);
      }
      ptx::syncwarp();
      if (is_shared) ptx::cluster_sync();
    } else {
      ptx::setmaxnreg_inc<kRegisters>();
      float sums[kN / 2] = {};
      multiply(shared, a, first_row, first, last, sums);
      ptx::barrier_sync(1, kUsers);  // all have used their stages, where sums go
      keep(shared, a, sums);
      is_shared ? ptx::cluster_sync() : ptx::barrier_sync(1, kUsers);
      write(shared, a, first_row);
    }
    if (is_shared) ptx::cluster_sync();  // others may still read this block's sums
  }

 private:
  // One thread.
  static __device__ __forceinline__ void produce(SharedStorage& shared, const Arguments& a,
                                                 int first_row, int stage, int last) {
    const auto bytes = static_cast<uint32_t>(a.block_rows * kRowBytes + kXWords * 4);
    Position at;
    for (; stage < last; ++stage) {
      ptx::Mbarrier& full = shared.pipeline.acquire(at, bytes);
      ptx::tensor_load_2d(shared.codes.pointer(at.stage * (kCodeBytes / 4)), a.codes, full,
                          stage * kRowBytes, first_row);
      ptx::bulk_load(shared.x.pointer(at.stage * kXWords), a.x + int64_t{stage} * kXWords,
                     kXWords * 4, full);
      at.advance();
    }
  }

  // The two rows of the block that a lane multiplies, 8 apart. A warpgroup has a quarter of the
  // block's; where that is less than 64, its first ones are multiplied once more, for nobody.
  struct Rows {
    int row[2];
    int from[2];  // words to the codes of unit 0
    bool is_there[2];

    __device__ __forceinline__ explicit Rows(int block_rows) {
      const int of_group = block_rows / kWarpgroups;
      const int group = warp_index() / 4;
      const int first = warp_index() % 4 * 16;
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        is_there[h] = first + 8 * h < of_group;
        row[h] = group * of_group + (is_there[h] ? first + 8 * h : 0) + of_eight();
        from[h] = row[h] * (kRowBytes / 4) + (lane_index() % 4 * kWords ^ of_eight() * 4);
      }
    }
    // Of the eight rows of a fragment, so that what lanes read at once lies in all banks: of four
    // that follow each other by 8 bytes, and of two that follow each other by 16.
    __device__ __forceinline__ static int of_eight() {
      const int g = lane_index() / 4;
      return (g & 1) * 4 + (g & 2) + g / 4;
    }
  };

  // Scales and zeros of a turn, of the lane's chain.
  class Scales {
   public:
    __device__ __forceinline__ Scales(const Arguments& a, const Rows& rows, int first_row) : a_(a) {
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        const int n = first_row + rows.row[h];
        n_[h] = rows.is_there[h] && n < a.weight.rows ? n : -1;
      }
    }
    struct Turn {
      float scale[2] = {};
      uint32_t zero[2] = {};  // bytes, each in a register: to pack them nvcc would wait for them
    };
    // Of rows and chains that are not there 0.
    __device__ __forceinline__ Turn load(int turn) const {
      const int chain = turn * kTurn + lane_index() % 4;
      const auto group =
          static_cast<int>(a_.chains_of_group.quotient(static_cast<uint32_t>(chain)));
      const auto* scales = a_.weight.scales.template as<const float>();
      const auto* zeros = a_.weight.zeros.template as<const uint8_t>();
      Turn loaded;
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        if (n_[h] < 0 || chain >= a_.chains) continue;
        loaded.scale[h] = thread::load(scales + (n_[h] * a_.scales_row + group));
        if constexpr (has_zeros(kFormat)) {
          if (zeros != nullptr) {
            loaded.zero[h] = thread::load(zeros + (n_[h] * a_.zeros_row + group));
          }
        }
      }
      return loaded;
    }
    // What is taken off a code that counts from 0.
    __device__ __forceinline__ float offset(uint32_t zero) const {
      const int level = a_.weight.zeros.data != nullptr
                            ? zero_of(kFormat, static_cast<uint8_t>(zero))
                            : middle_of(kFormat);
      return static_cast<float>(level - least_of(kFormat));
    }

   private:
    const Arguments& a_;
    int n_[2];  // row, -1: none
  };

  // While the tensor cores multiply a unit, the next one's fragments are made.
  static __device__ __forceinline__ void multiply(SharedStorage& shared, const Arguments& a,
                                                  int first_row, int first, int last,
                                                  float (&sums)[kN / 2]) {
    const Rows rows(a.block_rows);
    Scales scales(a, rows, first_row);
    typename Scales::Turn next[kTurnsAhead];
#pragma unroll
    for (int i = 0; i < kTurnsAhead; ++i) next[i] = scales.load(first + i);
    Words words[2][2];
    uint32_t of_w[2][kUnitSteps][4] = {};
    float partial[kN / 2] = {};
    Factors factors;
    constexpr int kCoreBytes = 128;  // eight rows of x, 8 columns
    const uint64_t first_x = ptx::wgmma_descriptor(shared.x.pointer(), kN / 8 * kCoreBytes,
                                                   kCoreBytes, ptx::Swizzle::kNone);
    Position at;
    int previous = 0;  // stage
    for (int turn = first; turn < last; ++turn) {
      float scale[2];
      float offset[2];
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        scale[h] = next[0].scale[h];
        offset[h] = Of::kHasOffset ? scales.offset(next[0].zero[h]) : 0;
      }
      if constexpr (kTurnsAhead == 2) next[0] = next[1];
      next[kTurnsAhead - 1] = scales.load(turn + kTurnsAhead);
#pragma unroll
      for (int unit = 0; unit < kTurn * kChainUnits; ++unit) {
        const int of_stage = unit % Order::kUnits;
        if (of_stage == 0) {
          shared.pipeline.wait(at);
          load(shared, rows, at.stage, 0, words[0]);
        }
        if (of_stage + 1 < Order::kUnits) {
          load(shared, rows, at.stage, of_stage + 1, words[(of_stage + 1) % 2]);
        }
        make_fragments(shared, words[of_stage % 2], of_w[unit % 2]);
        wait(of_w[(unit + 1) % 2], partial);
        if (unit % kChainUnits == 0) factors.add(partial, sums);
        if (of_stage == 0 && (unit > 0 || turn > first)) release(shared, previous);
        issue(first_x, at.stage, of_stage, unit % kChainUnits > 0, of_w[unit % 2], partial);
        if ((unit + 1) % kChainUnits == 0) {
          factors.load(shared, at.stage, of_stage / kChainUnits, unit / kChainUnits, scale, offset);
        }
        if (of_stage == Order::kUnits - 1) {
          previous = at.stage;
          at.advance();
        }
      }
    }
    wait(of_w[1], partial);
    if (last > first) factors.add(partial, sums);
  }
  static __device__ __forceinline__ void release(SharedStorage& shared, int stage) {
    ptx::syncwarp();
    if (lane_index() == 0) shared.pipeline.release(stage);
  }

  // What a lane has of a unit: of each of its rows.
  using Words = Vec<uint32_t, kWords>;
  static __device__ __forceinline__ void load(SharedStorage& shared, const Rows& rows, int stage,
                                              int unit, Words (&words)[2]) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      words[h] = shared.codes.template load<kWords>(stage * (kCodeBytes / 4) +
                                                    (rows.from[h] ^ unit * 4 * kWords));
    }
  }
  static __device__ __forceinline__ void make_fragments(SharedStorage& shared,
                                                        const Words (&words)[2],
                                                        uint32_t (&of_w)[kUnitSteps][4]) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
#pragma unroll
      for (int w = 0; w < kWords; ++w) {
        const Of levels(words[h][w], 0, shared.tables);
#pragma unroll
        for (int p = 0; p < Of::kCount; ++p) {
          of_w[(w * Of::kCount + p) / 2][p % 2 * 2 + h] = levels.pairs[p];
        }
      }
    }
  }

  static __device__ __forceinline__ void issue(uint64_t first_x, int stage, int unit, bool adds,
                                               uint32_t (&of_w)[kUnitSteps][4],
                                               float (&partial)[kN / 2]) {
    const uint64_t x = ptx::wgmma_advance(
        first_x, static_cast<uint32_t>(stage * kXWords + unit * (kUnit / 2) * kN) * 4);
    ptx::wgmma_fence(partial, of_w[0], of_w[1], of_w[2], of_w[3]);
#pragma unroll
    for (int step = 0; step < kUnitSteps; ++step) {
      ptx::wgmma_m64k16<kN, half>(partial, of_w[step],
                                  ptx::wgmma_advance(x, static_cast<uint32_t>(step * kN * 32)),
                                  adds || step > 0);
    }
    ptx::wgmma_commit_group();
  }
  static __device__ __forceinline__ void wait(uint32_t (&of_w)[kUnitSteps][4],
                                              float (&partial)[kN / 2]) {
    ptx::wgmma_wait_group<0>(partial, of_w[0], of_w[1], of_w[2], of_w[3]);
  }

  // What the sums of a chain meet: of the lane's two rows, and of its columns of x.
  struct Factors {
    float scales[2] = {};
    float offsets[2] = {};
    Vec<float, 2> sums_of_x[kN / 8] = {};

    __device__ __forceinline__ void load(SharedStorage& shared, int stage, int of_stage, int chain,
                                         const float (&scale)[2], const float (&offset)[2]) {
      const int from = lane_index() / 4 * 4 + chain;
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        scales[h] = warp::shuffle(scale[h], from);
        if constexpr (Of::kHasOffset) offsets[h] = warp::shuffle(offset[h], from);
      }
      if constexpr (Of::kHasOffset) {
#pragma unroll
        for (int j = 0; j < kN / 8; ++j) {
          sums_of_x[j] = std::bit_cast<Vec<float, 2>>(
              shared.x.template load<2>(stage * kXWords + Order::words_of_units(kN) +
                                        of_stage * kN + j * 8 + lane_index() % 4 * 2));
        }
      }
    }
    __device__ __forceinline__ void add(const float (&partial)[kN / 2],
                                        float (&sums)[kN / 2]) const {
#pragma unroll
      for (int i = 0; i < kN / 2; ++i) {
        float sum = partial[i];
        if constexpr (Of::kHasOffset) {
          sum = thread::fma(-offsets[i / 2 % 2], sums_of_x[i / 4][i % 2], sum);
        }
        sums[i] = thread::fma(scales[i / 2 % 2], sum, sums[i]);
      }
    }
  };

  static __device__ __forceinline__ SharedSpan<float> sums_of(SharedStorage& shared) {
    return {reinterpret_cast<float*>(shared.codes.pointer()), kN * kPitch};
  }
  static __device__ __forceinline__ void keep(SharedStorage& shared, const Arguments& a,
                                              const float (&sums)[kN / 2]) {
    const Rows rows(a.block_rows);
    const SharedSpan<float> all = sums_of(shared);
#pragma unroll
    for (int i = 0; i < kN / 2; ++i) {
      const int h = i / 2 % 2;
      const int column = i / 4 * 8 + lane_index() % 4 * 2 + i % 2;
      if (rows.is_there[h]) all[column * kPitch + rows.row[h]] = sums[i];
    }
  }

  // A block's share of the cluster's rows, of all parts of K.
  static __device__ __forceinline__ void write(SharedStorage& shared, const Arguments& a,
                                               int first_row) {
    const SharedSpan<float> all = sums_of(shared);
    const int parts = cluster_size();
    const int rows = a.block_rows / parts;
    const int begin = cluster_rank() * rows;
    // Rows side by side, then the next of x.
    for (int i = thread_index(); i < rows * a.rows_of_x; i += kUsers) {
      const auto m = static_cast<int>(a.rows_of_part.quotient(static_cast<uint32_t>(i)));
      const int row = begin + i - m * rows;
      const int64_t n = first_row + row;
      if (n >= a.weight.rows) continue;
      float sum = 0;
      for (int part = 0; part < parts; ++part) {
        const int from = m * kPitch + row;
        sum += parts == 1
                   ? static_cast<float>(all[from])
                   : ptx::ld_shared_cluster<float>(ptx::map_shared_rank(all.pointer(from), part));
      }
      const float bias = a.bias != nullptr ? element_at(a, a.bias, n * a.bias_step) : 0;
      const float y = thread::fma(sum * Order::kUnitOfSums, thread::load(a.units + m), bias);
      const int64_t to = m * a.y.row + n * a.y.column;
      if (a.is_bf16) {
        thread::store(a.y.template as<bf16>() + to, from_float<bf16>(y));
      } else {
        thread::store(a.y.template as<half>() + to, from_float<half>(y));
      }
    }
  }
  static __device__ __forceinline__ float element_at(const Arguments& a, const void* from,
                                                     int64_t at) {
    return a.is_bf16 ? to_float(thread::load(static_cast<const bf16*>(from) + at))
                     : to_float(thread::load(static_cast<const half*>(from) + at));
  }
};

// How a call is cut.
struct Cut {
  int rows_of_x;  // with those that are 0
  int chain;
  int parts;       // of K, blocks of a cluster
  int block_rows;  // of a cluster
  int turns;       // of four chains
  bool overlaps = true;

  explicit Cut(const LinearCall& call, int most_parts = 2)
      : rows_of_x(call.m <= 8 ? 8 : kMostRowsOfX),
        // int8 has instructions to spare, but no registers for more factors.
        chain(call.weight.format != Format::kInt8 && call.weight.columns % 128 == 0 &&
                      call.weight.group % 128 == 0
                  ? 128
                  : 64),
        parts(1),
        turns(static_cast<int>(divide_up(call.weight.columns, int64_t{4} * chain))) {
    const int64_t sms = device_facts().multiprocessors;
    const int64_t rows = call.weight.rows;
    while (parts < most_parts && parts * 2 <= turns && rows * parts * 2 <= 256 * sms) parts *= 2;
    const int64_t waves = divide_up(rows * parts, 256 * sms);
    block_rows = static_cast<int>(round_up(divide_up(rows * parts, waves * sms), int64_t{32}));
  }
};

template <Format kFormat, class F>
decltype(auto) with_cut(const Cut& cut, const F& f) {
  const auto of_rows = [&]<int kN>() {
    if constexpr (bits_of(kFormat) == 4 || kFormat == Format::kFp8) {
      if (cut.chain == 128) return f.template operator()<WgmmaCodesKernel<kFormat, kN, 128>>();
    }
    return f.template operator()<WgmmaCodesKernel<kFormat, kN, 64>>();
  };
  return cut.rows_of_x == 8 ? of_rows.template operator()<8>() : of_rows.template operator()<16>();
}

struct WgmmaCodes {
  static bool supports(const LinearCall& call, Why& why) {
    const Weight& w = call.weight;
    return why.unless(call.m <= kMostRowsOfX, "takes up to ", kMostRowsOfX, " rows of x, not ",
                      call.m) &&
           takes_whole_reads(call, why) && codes_are_runs(w, 64, 16, why) &&
           why.unless(w.columns > 0 && w.rows > 0 && call.m > 0,
                      "takes rows of at least a column") &&
           why.unless(w.rows < (int64_t{1} << 30) && (w.codes.row > 0 || w.rows == 1),
                      "takes up to 2^30 rows, one behind the other") &&
           rows_are_near(w, why);
  }

  static int64_t words_of_x(const LinearCall& call, const Cut& cut) {
    return with_format(call.weight.format, [&]<Format kFormat>() {
      using Order = OrderOfX<kFormat>;
      const int64_t stages = int64_t{cut.turns} * 4 * cut.chain / Order::kStageColumns;
      return stages * Order::words_of_stage(cut.rows_of_x, cut.chain);
    });
  }
  static Workspace workspace(const LinearCall& call) {
    const Cut cut(call);
    return {.bytes = static_cast<size_t>(words_of_x(call, cut) + cut.rows_of_x) * 4};
  }

  static void run(const LinearCall& call, const Context& context) { run(call, context, Cut(call)); }
  static void run(const LinearCall& call, const Context& context, const Cut& cut) {
    const Weight& w = call.weight;
    auto* const x = static_cast<uint32_t*>(context.workspace);
    auto* const units = reinterpret_cast<float*>(x + words_of_x(call, cut));
    with_format(w.format, [&]<Format kFormat>() {
      const int items = cut.turns * 4 * cut.chain / 16;
      with_type<kHalves>(call.dtype, [&]<class T>() {
        using Kernel = OrderXKernel<T, kFormat>;
        launch<Kernel>({.blocks = cut.rows_of_x,
                        .threads = std::min<int>(Kernel::kThreads, round_up(items, kWarpSize))},
                       context.stream,
                       {.x = call.x,
                        .rows = static_cast<int>(call.m),
                        .columns = static_cast<int>(w.columns),
                        .items = items,
                        .rows_of_stage = cut.rows_of_x,
                        .chain = cut.chain,
                        .to = x,
                        .units = units});
      });
      with_cut<kFormat>(cut, [&]<class Kernel>() {
        launch<Kernel>(
            {.blocks = divide_up(w.rows, int64_t{cut.block_rows}) * cut.parts,
             .threads = Kernel::kThreads,
             .cluster = cut.parts,
             .overlaps = cut.overlaps},
            context.stream,
            {.codes = ptx::make_tensor_map_2d(w.codes.as<const uint8_t>(), w.rows,
                                              w.columns * bits_of(kFormat) / 8, w.codes.row,
                                              cut.block_rows, kRowBytes, ptx::Swizzle::k128),
             .weight = w,
             .x = x,
             .units = units,
             .y = call.y,
             .bias = call.bias,
             .bias_step = call.bias_step,
             .chains_of_group = thread::Divider(std::min<int64_t>(w.group, w.columns) / cut.chain),
             .parts = thread::Divider(cut.parts),
             .rows_of_part = thread::Divider(cut.block_rows / cut.parts),
             .scales_row = static_cast<int>(w.scales.row),
             .zeros_row = static_cast<int>(w.zeros.row),
             .rows_of_x = static_cast<int>(call.m),
             .block_rows = cut.block_rows,
             .chains = static_cast<int>(w.columns / cut.chain),
             .turns = cut.turns,
             .is_bf16 = call.dtype == DType::kBf16});
      });
    });
  }
};

}  // namespace

extern const Rung kWgmmaCodes;
const Rung kWgmmaCodes = rung_of<WgmmaCodes, kHalves, QuantizedLinear>({
    .name = "wgmma_codes",
    .from = "row_strips",
    .idea = "codes become wgmma's A in registers; x, put in order once, is its B in shared memory",
    .arch = Arch::kSm90a,
});

}  // namespace ws::quantized
