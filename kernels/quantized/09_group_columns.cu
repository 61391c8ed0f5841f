// Idea: with one row of x a product has seven idle columns: here its eight columns are eight runs
//   of K. A lane's x is 0 in the columns of other runs, so that each run has a sum of its own,
//   which meets its scale and its zero once, when all eight are done.
// From code_ring: a lane copies what it reads itself, 8 KB of a warp on their way (of 4 bits to
//   registers, 4 KB), and no warp waits for another; zeros are taken off by sums of x; x of bf16
//   becomes halves.
// Traffic: codes, scales and zeros once; x once a block, from then on from shared memory.
// Limits: one row of x, f16 or bf16, that fits in shared memory; whole runs of 64 codes of 4 bits
//   or 32 of 8; x and rows of codes at multiples of 16 bytes.
// Long: a warp's walk over its stretches, x in order, nf4's table, the sums of a block.
#include <algorithm>

#include "kernels/quantized/planes.hpp"
#include "warpsmith/device_facts.hpp"
#include "warpsmith/ptx/cp_async.hpp"
#include "warpsmith/ptx/mma.hpp"
#include "warpsmith/warp/reduce.hpp"

namespace ws::quantized {
namespace {

template <class T, Format kFormat>
struct GroupColumnsKernel {
  using Of = HalfPlanes<kFormat>;
  static constexpr int kMostWarps = 15;  // of a block, each with a barrier of its own
  static constexpr int kWarpsOfSm = 16;  // that have registers
  static constexpr int kThreads = kMostWarps * kWarpSize;
  static constexpr int kRows = 16;  // of the weight, a tile
  static constexpr int kOfWord = Levels<kFormat>::kOfWord;
  static constexpr int kWords = 4;  // of a lane, a load
  static constexpr int kLoads = 4;  // of a lane, from each of its two rows, a stretch
  // Codes of 8 bits wait in shared memory, in a ring of the lane that copies and reads them (H200
  // 2026-11-28, 28672 x 8192: fp8 63.2 us, 67.6 without). Those of 4 in registers: a ring takes the
  // room of nf4's table, and int4 42.2 us for 38.5. They are loads whose registers are asked for
  // again as soon as they are free, before the others are used (one more spills).
  static constexpr bool kHasRing = bits_of(kFormat) == 8;
  static constexpr int kAhead = 2;  // stretches of a ring
  static constexpr int kLoadWords = 2 * kWarpSize * kWords;
  static constexpr int kRingWords = kHasRing ? kAhead * kLoads * kLoadWords : 0;
  static constexpr int kEarly = kFormat == Format::kInt4 ? 2 : 3;
  // Of x a lane needs what its column has in one load, 0 in the others. nf4's lookups leave the
  // pipe of loads no time for the noughts: a lane keeps its own in registers, and chooses.
  static constexpr bool kHoldsX = kFormat == Format::kNf4;
  static constexpr int kRunBytes = 2 * kWords * 4;  // two lanes' words of a row: a column
  static constexpr int kRuns = 2 * kLoads;          // columns of the product
  static constexpr int kStretchBytes = kRuns * kRunBytes;
  static constexpr int kRun = kRunBytes / 4 * kOfWord;
  static constexpr int kStretch = kRuns * kRun;  // columns of the weight
  // Of x, 8 elements: what a lane needs for one word of 8 codes or two of 4.
  static constexpr int kPieces = kWords * kOfWord / 8;  // of a load
  static constexpr int kPiecesOfStretch = kStretch / 8;
  static constexpr int kPieceWords = 4;
  // Before x, words that are 0, for lanes of other columns: in banks that x of the same piece is
  // not in.
  static constexpr int kNoughtsAt = 4 * kPieceWords;
  static constexpr int kNoughts = 2 * kNoughtsAt + 4 * kPieces * kPieceWords;
  static constexpr bool kIsScaled = std::is_same_v<T, bf16>;

  // Whole numbers that fit a word, as operands of instructions.
  struct Arguments : LinearCall {
    thread::Divider runs_of_group;
    int rows;
    int tiles;
    int stretches;
    int runs;   // of a row, that there are
    int bytes;  // of a row's codes
    uint32_t codes_row;
    int scales_row;
    int zeros_row;
    explicit Arguments(const LinearCall& call)
        : LinearCall(call),
          runs_of_group(call.weight.group / kRun),
          rows(static_cast<int>(call.weight.rows)),
          tiles(static_cast<int>(divide_up(call.weight.rows, kRows))),
          stretches(static_cast<int>(stretches_of(call.weight))),
          runs(static_cast<int>(call.weight.columns / kRun)),
          bytes(runs * kRunBytes),
          codes_row(static_cast<uint32_t>(call.weight.codes.row)),
          scales_row(static_cast<int>(call.weight.scales.row)),
          zeros_row(static_cast<int>(call.weight.zeros.row)) {}
  };
  struct SharedStorage {
    typename Of::Tables tables;
    SharedArray<float, kMostWarps * kMostWarps * kRows> sums;  // of so many tiles
  };
  // Of x, what a thread puts in order at once.
  static constexpr int kPiecesAtOnce = 4;
  struct Pieces {
    Vec<uint32_t, kPieceWords> words[kPiecesAtOnce];
  };
  // What a run of x has beside its elements.
  struct RunOfX {
    float sum;   // in units of codes
    float unit;  // of elements
  };

  __host__ __device__ static int64_t stretches_of(const Weight& w) {
    return divide_up(w.columns, kStretch);
  }
  static int64_t bytes_of_x(const Weight& w) {
    return 4 * kNoughts + stretches_of(w) * (kStretch * 2 + kRuns * int64_t{sizeof(RunOfX)});
  }
  static int64_t dynamic_bytes(const Weight& w, int64_t warps) {
    return bytes_of_x(w) + warps * kRingWords * 4;
  }
  struct Shape {
    int64_t warps;   // of a block
    int64_t blocks;  // of an SM; 0: x has no room
  };
  // Eight warps a block, or as few as take the same number of turns; where an SM has room for one
  // block only, as many as there are, or as have a ring beside x.
  static Shape shape_of(const Weight& w) {
    constexpr int64_t kReserved = 1024;  // of a block, for the system
    const int64_t stretches = std::max<int64_t>(stretches_of(w), 1);
    const auto shape_up_to = [&](int64_t most) {
      const int64_t warps = divide_up(stretches, divide_up(stretches, most));
      const int64_t bytes =
          static_cast<int64_t>(sizeof(SharedStorage)) + dynamic_bytes(w, warps) + kReserved;
      const int64_t room = (device_facts().shared_bytes + kReserved) / bytes;
      return Shape{warps, std::min(room, kWarpsOfSm / warps)};
    };
    const Shape two = shape_up_to(kWarpsOfSm / 2);
    if (two.blocks > 1) return two;
    Shape one{0, 0};
    for (const int64_t most : {kMostWarps, kWarpsOfSm / 2, 4, 2}) {
      if (one.blocks == 0) one = shape_up_to(most);
    }
    return one;
  }

  __device__ void operator()(SharedStorage& shared, const Arguments& a) const {
    const int warps = block_threads() / kWarpSize;
    const int words_of_x = a.stretches * kPiecesOfStretch * kPieceWords;
    const int runs = a.stretches * kRuns;
    const int before_rings = kNoughts + words_of_x + runs * 2;
    const auto all = dynamic_shared<uint32_t>(shared, before_rings + warps * kRingWords);
    const SharedSpan<RunOfX> of_runs(reinterpret_cast<RunOfX*>(all.pointer(kNoughts + words_of_x)),
                                     runs);

    // The same in all lanes, as the compiler can see: loops that depend on it do not diverge.
    const int warp = warp::shuffle(warp_index(), 0);
    const Ring ring(all.pointer(before_rings + warp * kRingWords), kRingWords);
    Reader reader(a, warp);
    Reader ahead(a, warp);
    Pieces pieces;  // before all codes, which nobody waits for yet
    load(a, pieces, thread_index());
    Held held;
    if constexpr (kHasRing) {
      for (int slot = 0; slot < kAhead; ++slot) {
#pragma unroll
        for (int i = 0; i < kLoads; ++i) ahead.copy(ring, slot, i);
        if (slot + 1 < kAhead) ahead.next();
      }
    } else {
#pragma unroll
      for (int i = 0; i < kEarly; ++i) reader.load_whole(held, i);
    }
    reader.load_rest(held);
    if constexpr (kFormat == Format::kNf4) Of::fill(shared.tables);
    for (int i = thread_index(); i < kNoughts; i += block_threads()) all[i] = 0;
    order(a, pieces, all, of_runs, a.stretches * kPiecesOfStretch);
    ptx::barrier_sync();

    int turn = 0;
    int slot = 0;
    for (int tile = block_index(); tile < a.tiles; tile += grid_blocks()) {
      float sums[2] = {};
      for (int stretch = warp; stretch < a.stretches; stretch += warps) {
        reader.next();
        if constexpr (kHasRing) ahead.next();
        multiply(shared, a, all, of_runs, reader, held, ahead, ring, slot, stretch, sums);
        slot = slot + 1 == kAhead ? 0 : slot + 1;
      }
      add_up(shared, a, tile, warp, turn, sums);
      turn = turn + 1 == warps ? 0 : turn + 1;
    }
    if constexpr (kHasRing) ptx::cp_async_wait_group<0>();  // those of what is not there
  }

 private:
  // Of a warp: by stretch, load and half, 16 bytes of each lane, which nobody else reads.
  using Ring = SharedSpan<uint32_t>;
  static __device__ __forceinline__ int place_in_ring(int slot, int i, int h) {
    return (slot * kLoads + i) * kLoadWords + (h * kWarpSize + lane_index()) * kWords;
  }

  // A stretch of 16 rows: what a lane has of it in registers.
  struct Held {
    Vec<uint32_t, kWords> codes[kHasRing ? 1 : kLoads][2];
    float scales[2][2];
    uint8_t zeros[2][2];
  };

  // Walks a warp's stretches of all of the block's tiles, ahead of their use. Rows that are not
  // there are the last one again, columns that are not there the last ones of the row: x is 0.
  class Reader {
   public:
    __device__ __forceinline__ Reader(const Arguments& a, int warp)
        : a_(a), warp_(warp), tile_(block_index()) {
      begin_tile();
      left_ = is_there() ? left() : 0;
    }

    __device__ __forceinline__ void next() {
      const int warps = block_threads() / kWarpSize;
      stretch_ += warps;
      const int further = warps * kStretchBytes;
      codes_[0] += further;
      codes_[1] += further;
      if (stretch_ >= a_.stretches) {
        tile_ += grid_blocks();
        begin_tile();
      }
      left_ = is_there() ? left() : 0;
    }

    // A load of codes, a group of copies; of what is not there 0, for which nothing is read.
    __device__ __forceinline__ void copy(const Ring& ring, int slot, int i) const {
      const int bytes = i * kLoadBytes < left_ ? 16 : 0;
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        ptx::cp_async<16>(ring.pointer(place_in_ring(slot, i, h)), codes_[h] + i * kLoadBytes,
                          bytes);
      }
      ptx::cp_async_commit_group();
    }

    // Of a stretch that lies in K as a whole, codes by load; then what else there is of any.
    __device__ __forceinline__ void load_whole(Held& held, int i) const {
      if (is_there() && is_whole()) {
#pragma unroll
        for (int h = 0; h < 2; ++h) held.codes[i][h] = load(codes_[h] + i * kLoadBytes);
      }
    }
    __device__ __forceinline__ void load_rest(Held& held) const {
      if (!is_there()) return;
      load_scales(held);
      if constexpr (kHasRing) return;
      if (is_whole()) {
#pragma unroll
        for (int i = kEarly; i < kLoads; ++i) load_whole(held, i);
        return;
      }
      const int last = left() - 16;
#pragma unroll
      for (int i = 0; i < kLoads; ++i) {
        const int at = i * kLoadBytes < last ? i * kLoadBytes : last;
#pragma unroll
        for (int h = 0; h < 2; ++h) held.codes[i][h] = load(codes_[h] + at);
      }
    }

   private:
    static constexpr int kLoadBytes = 2 * kRunBytes;

    __device__ __forceinline__ bool is_there() const { return tile_ < a_.tiles; }
    // Of a lane's part of the row, from the stretch on.
    __device__ __forceinline__ int left() const {
      return a_.bytes - stretch_ * kStretchBytes - lane_index() % 4 * 16;
    }
    __device__ __forceinline__ bool is_whole() const {
      return stretch_ * kStretchBytes <= a_.bytes - kStretchBytes;
    }
    __device__ __forceinline__ static Vec<uint32_t, kWords> load(const uint8_t* from) {
      return thread::load<kWords>(reinterpret_cast<const uint32_t*>(from));
    }

    __device__ __forceinline__ void begin_tile() {
      stretch_ = warp_;
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        const int row = tile_ * kRows + lane_index() / 4 + h * 8;
        const int n = row < a_.rows ? row : a_.rows - 1;
        codes_[h] = a_.weight.codes.template as<const uint8_t>() +
                    uint64_t{static_cast<uint32_t>(n)} * a_.codes_row +
                    (stretch_ * kStretchBytes + lane_index() % 4 * 16);
        rows_[h] = n;
      }
    }
    // Of the two runs whose sums the lane has; of one that is not there, those of the last.
    __device__ __forceinline__ void load_scales(Held& held) const {
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        const int run = stretch_ * kRuns + lane_index() % 4 * 2 + e;
        const auto group = static_cast<int>(
            a_.runs_of_group.quotient(static_cast<uint32_t>(run < a_.runs ? run : a_.runs - 1)));
#pragma unroll
        for (int h = 0; h < 2; ++h) {
          held.scales[h][e] = thread::load(a_.weight.scales.template as<const float>() +
                                           (rows_[h] * a_.scales_row + group));
          if (has_zeros(kFormat) && a_.weight.zeros.data != nullptr) {
            held.zeros[h][e] = thread::load(a_.weight.zeros.template as<const uint8_t>() +
                                            (rows_[h] * a_.zeros_row + group));
          }
        }
      }
    }

    const Arguments& a_;
    int warp_;
    int tile_;
    int stretch_ = 0;
    int left_ = 0;                  // as left(), 0 where nothing is there
    const uint8_t* codes_[2] = {};  // of the stretch
    int rows_[2] = {};
  };

  // x as pieces: of a load, of a piece of four lanes, in the order of codes. Columns beyond K are
  // 0.
  static __device__ __forceinline__ void order(const Arguments& a, Pieces& held,
                                               const SharedSpan<uint32_t>& x,
                                               const SharedSpan<RunOfX>& of_runs, int pieces) {
    for (int first = thread_index();; first += kPiecesAtOnce * block_threads()) {
#pragma unroll
      for (int i = 0; i < kPiecesAtOnce; ++i) {
        const int at = first + i * block_threads();
        if (at < pieces) put(held.words[i], at, x, of_runs);
      }
      if (first + kPiecesAtOnce * block_threads() >= pieces) break;
      load(a, held, first + kPiecesAtOnce * block_threads());
    }
  }
  static __device__ __forceinline__ void load(const Arguments& a, Pieces& held, int first) {
#pragma unroll
    for (int i = 0; i < kPiecesAtOnce; ++i) {
      const int at = first + i * block_threads();
      held.words[i] = {};
      if (at * 8 < static_cast<int>(a.weight.columns)) {
        held.words[i] = thread::load<4>(a.x.template as<const uint32_t>() + at * 4);
      }
    }
  }
  // By all lanes of a warp: `at` of the first is a multiple of 32.
  static __device__ __forceinline__ void put(Vec<uint32_t, 4> words, int at,
                                             const SharedSpan<uint32_t>& x,
                                             const SharedSpan<RunOfX>& of_runs) {
    constexpr int kPiecesOfRun = kRun / 8;
    const float unit = become_halves<T, kPiecesOfRun>(words);
    float sum = 0;
    if constexpr (Of::kHasOffset) {
#pragma unroll
      for (int i = 0; i < 8; ++i) sum += element_of<half>(words, i);
      sum = warp::all_reduce<kPiecesOfRun>(sum, [](float p, float q) { return p + q; });
    }
    const int load = at / (4 * kPieces);
    const int to = (load * kPieces + at % kPieces) * 4 + at / kPieces % 4;
    x.template store<4>(kNoughts + to * kPieceWords, in_order<Of, kOfWord>(words));
    if (at % kPiecesOfRun == 0) of_runs[at / kPiecesOfRun] = RunOfX{sum / Of::kUnit, unit};
  }

  // The stretch that is held; of the next one, if there is one, each register is asked for as soon
  // as it is free.
  static __device__ __forceinline__ void multiply(SharedStorage& shared, const Arguments& a,
                                                  const SharedSpan<uint32_t>& x,
                                                  const SharedSpan<RunOfX>& of_runs,
                                                  const Reader& reader, Held& held,
                                                  const Reader& ahead, const Ring& ring, int slot,
                                                  int stretch, float (&sums)[2]) {
    const int column = lane_index() / 4;
    const int place = lane_index() % 4;
    // Column c is the run of load c / 2 and of places c % 2 * 2 and one more.
    const int mine = place / 2 == column % 2 ? column / 2 : -1;
    const int from =
        kNoughts + ((stretch * kLoads + column / 2) * kPieces * 4 + place) * kPieceWords;
    Vec<uint32_t, kPieceWords> own_x[kPieces];
    if constexpr (kHoldsX) {
#pragma unroll
      for (int piece = 0; piece < kPieces; ++piece) {
        own_x[piece] = x.template load<4>(from + piece * 4 * kPieceWords);
      }
    }
    float partial[Of::kPlanes][4] = {};
#pragma unroll
    for (int i = 0; i < kLoads; ++i) {
      [[maybe_unused]] const int at = i == mine ? from : kNoughtsAt;
      Vec<uint32_t, kWords> codes[2];
      if constexpr (kHasRing) ptx::cp_async_wait_group<kAhead * kLoads - 1>();
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        if constexpr (kHasRing) {
          codes[h] = ring.template load<kWords>(place_in_ring(slot, i, h));
        } else {
          codes[h] = held.codes[i][h];
        }
      }
#pragma unroll
      for (int piece = 0; piece < kPieces; ++piece) {
        Vec<uint32_t, kPieceWords> of_x = {};
        if constexpr (kHoldsX) {
          if (i == mine) of_x = own_x[piece];
        } else {
          of_x = x.template load<4>(at + piece * 4 * kPieceWords);
        }
#pragma unroll
        for (int word = 0; word < kWords / kPieces; ++word) {
          const Of upper(codes[0][piece * (kWords / kPieces) + word], 0, shared.tables);
          const Of lower(codes[1][piece * (kWords / kPieces) + word], 0, shared.tables);
#pragma unroll
          for (int p = 0; p < Of::kCount; p += 2) {
            float (&sum)[4] = partial[Of::kPlanes * p / Of::kCount];
            const uint32_t of_w[4] = {upper.pairs[p], lower.pairs[p], upper.pairs[p + 1],
                                      lower.pairs[p + 1]};
            const uint32_t both[2] = {of_x[word * Of::kCount + p], of_x[word * Of::kCount + p + 1]};
            ptx::mma_m16n8k16<half>(sum, of_w, both, sum);
          }
        }
      }
      if constexpr (kHasRing) {
        ahead.copy(ring, slot, i);
      } else if (i < kEarly) {
        reader.load_whole(held, i);
      }
    }
    const auto of_x = of_runs.template load<2>(stretch * kRuns + place * 2);
#pragma unroll
    for (int h = 0; h < 2; ++h) {
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        float sum = partial[0][2 * h + e];
        if constexpr (Of::kPlanes == 2) sum = thread::fma(partial[1][2 * h + e], 0x1p-4F, sum);
        if constexpr (Of::kHasOffset) {
          const int zero = a.weight.zeros.data != nullptr ? zero_of(kFormat, held.zeros[h][e])
                                                          : middle_of(kFormat);
          sum = thread::fma(-static_cast<float>(zero - least_of(kFormat)), of_x[e].sum, sum);
        }
        if constexpr (kIsScaled) sum *= of_x[e].unit;
        // A run that is not there has a sum of 0, but a scale that may be none.
        if (stretch * kRuns + place * 2 + e < a.runs) {
          sums[h] = thread::fma(held.scales[h][e], sum, sums[h]);
        }
      }
    }
    reader.load_rest(held);
  }

  // The warps of a block take turns to add up a tile: the others leave their sums at its barrier
  // and go on. None can come to a barrier twice before it has had its own turn between.
  static __device__ __forceinline__ void add_up(SharedStorage& shared, const Arguments& a, int tile,
                                                int warp, int turn, const float (&sums)[2]) {
    const int threads = block_threads();
    const int of_turn = turn * kMostWarps * kRows;
    ptx::syncwarp();  // what its own lanes read, a round ago
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const float sum =
          warp::all_reduce<4>(sums[h], [](float p, float q) { return p + q; }) * Of::kUnit;
      if (lane_index() % 4 == 0) {
        shared.sums[of_turn + warp * kRows + lane_index() / 4 + h * 8] = sum;
      }
    }
    if (warp != turn) {
      ptx::barrier_arrive(1 + turn, threads);
      return;
    }
    ptx::barrier_sync(1 + turn, threads);
    const int n = tile * kRows + lane_index();
    if (lane_index() >= kRows || n >= a.rows) return;
    float sum = 0;
#pragma unroll
    for (int i = 0; i < kMostWarps; ++i) {  // all are asked for at once
      if (i < threads / kWarpSize) sum += shared.sums[of_turn + i * kRows + lane_index()];
    }
    if (a.bias != nullptr) {
      sum += to_float(thread::load(static_cast<const T*>(a.bias) + n * a.bias_step));
    }
    thread::store(a.y.template as<T>() + n * a.y.column, from_float<T>(sum));
  }
};

struct GroupColumns {
  static bool supports(const LinearCall& call, Why& why) {
    const Weight& w = call.weight;
    if (!why.unless(call.m == 1, "takes one row of x, not ", call.m) ||
        !takes_whole_reads(call, why) ||
        !why.unless(w.columns > 0 && w.rows < (int64_t{1} << 30),
                    "takes up to 2^30 rows of at least a column") ||
        !rows_are_near(w, why)) {
      return false;
    }
    return with_kernel_of<GroupColumnsKernel>(call, [&]<class Kernel>() {
      return why.unless(Kernel::shape_of(w).blocks > 0, "has no room for x of ",
                        Kernel::bytes_of_x(w), " bytes in shared memory");
    });
  }
  static void run(const LinearCall& call, const Context& context) {
    with_kernel_of<GroupColumnsKernel>(call, [&]<class Kernel>() {
      const auto [warps, blocks] = Kernel::shape_of(call.weight);
      const int64_t tiles = divide_up(call.weight.rows, Kernel::kRows);
      launch<Kernel>(
          {.blocks = std::min(tiles, blocks * device_facts().multiprocessors),
           .threads = static_cast<int>(warps) * kWarpSize,
           .dynamic_shared = static_cast<size_t>(Kernel::dynamic_bytes(call.weight, warps))},
          context.stream, typename Kernel::Arguments(call));
    });
  }
};

}  // namespace

extern const Rung kGroupColumns;
const Rung kGroupColumns = rung_of<GroupColumns, kHalves, QuantizedLinear>({
    .name = "group_columns",
    .from = "code_ring",
    .idea = "one row of x: a product's eight columns are eight groups, scaled after the sum",
});

}  // namespace ws::quantized
