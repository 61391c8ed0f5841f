// Idea: codes are on their way long before they are needed: each warp copies 2 KB of them at a time
//   into a ring of its own in shared memory, and goes on copying from one tile of rows into the
//   next. Tensor cores take codes as they are, as halves below 2^-14, and take off their zeros.
// From tensor_core: three copies of a warp in flight whatever its registers hold; x is read once,
//   in the order in which codes come; no fma for a code, no permutation of x.
// Traffic: codes, scales and zeros once; x once a block, from then on from shared memory.
// Limits: those of tensor_core, up to 8 rows of x, which have to fit beside the ring, rows of codes
//   at multiples of 16 bytes.
// Long: a ring that each warp fills for itself, across tiles.
#include <algorithm>

#include "kernels/quantized/planes.hpp"
#include "warpsmith/device_facts.hpp"
#include "warpsmith/ptx/cp_async.hpp"
#include "warpsmith/ptx/mma.hpp"

namespace ws::quantized {
namespace {

template <class T, Format kFormat>
struct CodeRingKernel {
  using Of = Planes<T, kFormat>;
  static constexpr int kMostWarps = 16;  // share out K
  static constexpr int kThreads = kMostWarps * kWarpSize;
  static constexpr int kRows = 16;  // of the weight, a tile
  static constexpr int kColumns = 8;
  static constexpr int kWords = 2;  // of a lane, from each of its two rows
  static constexpr int kOfWord = Levels<kFormat>::kOfWord;
  static constexpr int kRun = kWords * kOfWord;  // codes of these
  static constexpr int kChain = 4 * kRun;        // columns that are summed before they are scaled
  // Of x, 8 elements: what a lane needs for one word of 8 codes or two of 4.
  static constexpr int kPieces = kRun / 8;
  static constexpr bool kZeros = has_zeros(kFormat);

  // A stage: 128 bytes of each row, apart so that eight rows' 32 bytes are in all banks; then a
  // scale for each row and chain, and what is kept of its zero.
  static constexpr int kStages = 3;
  static constexpr int kChains = 4;
  // Of bf16 and int4 all four take three registers too many.
  static constexpr int kChainsAtOnce =
      std::is_same_v<T, bf16> && kFormat == Format::kInt4 ? kChains / 2 : kChains;
  static constexpr int kRowWords = 32;
  static constexpr int kPitch = kRowWords + 8;
  static constexpr int kScales = kRows * kPitch;
  static constexpr int kZerosAt = kScales + kChains * kRows;
  static constexpr int kStageWords = kZerosAt + (kZeros ? kChains * kRows : 0);

  struct Arguments : LinearCall {
    thread::Divider chains_of_group;
    thread::Divider rows_of_x;
  };
  struct SharedStorage {
    typename Of::Tables tables;
    SharedArray<float, 2 * kMostWarps * kColumns * kRows> sums;
  };

  __host__ __device__ static int64_t stages_of(const Weight& w) {
    return divide_up(w.columns, kChains * kChain);
  }
  static int64_t bytes_of_x(const LinearCall& call) {
    return stages_of(call.weight) * kChains * kChain * call.m * int64_t{sizeof(T)};
  }
  static int64_t bytes_of_ring(int warps) {
    return int64_t{warps} * kStages * kStageWords * int64_t{sizeof(uint32_t)};
  }
  // Two blocks an SM of half the warps where both fit, whose barriers do not wait for each other
  // (H200 2026-11-24: 5 % faster); else a block of as many as have shared memory. 0 warps: none.
  struct Shape {
    int warps;
    int blocks;  // of an SM
  };
  static Shape shape_of(const LinearCall& call) {
    const auto bytes_of = [&](int warps) {
      return static_cast<int64_t>(sizeof(SharedStorage)) + bytes_of_x(call) + bytes_of_ring(warps);
    };
    const int64_t most = device_facts().shared_bytes;
    constexpr int64_t kReserved = 1024;  // of a block, for the system
    if (2 * (bytes_of(kMostWarps / 2) + kReserved) <= most + kReserved) return {kMostWarps / 2, 2};
    for (int warps = kMostWarps; warps >= 4; warps /= 2) {
      if (bytes_of(warps) <= most) return {warps, 1};
    }
    return {0, 0};
  }

  __device__ void operator()(SharedStorage& shared, const Arguments& a) const {
    const int warps = block_threads() / kWarpSize;
    const auto stages = static_cast<int>(stages_of(a.weight));
    const auto pieces = static_cast<int>(stages * kChains * kPieces * a.m * 4);
    const auto all = dynamic_shared<uint32_t>(shared, pieces * 4 + warps * kStages * kStageWords);
    const SharedSpan<uint32_t> x(all.pointer(), pieces * 4);
    const SharedSpan<uint32_t> ring(all.pointer(pieces * 4 + warp_index() * kStages * kStageWords),
                                    kStages * kStageWords);

    Filler filler(a, ring, stages);
#pragma unroll
    for (int i = 0; i < kStages - 1; ++i) filler.next();
    Of::fill(shared.tables);
    order(a, x, pieces);
    ptx::barrier_sync();

    const auto m = static_cast<int>(a.m);
    const int64_t tiles = divide_up(a.weight.rows, kRows);
    int slot = 0;
    int parity = 0;
    for (int64_t tile = block_index(); tile < tiles; tile += grid_blocks(), parity ^= 1) {
      float sums[4] = {};
      for (int stage = warp_index(); stage < stages; stage += warps) {
        ptx::cp_async_wait_group<kStages - 2>();
        ptx::syncwarp();  // all lanes' copies have landed, and none reads the slot that is filled
        filler.next();
        multiply(shared, a, x, ring, slot, stage, sums);
        slot = slot + 1 == kStages ? 0 : slot + 1;
      }
      const int row = lane_index() / 4;
      const int first = (parity * kMostWarps + warp_index()) * kColumns;
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int column = lane_index() % 4 * 2 + i % 2;
        if (column < m) shared.sums[(first + column) * kRows + row + i / 2 * 8] = sums[i];
      }
      ptx::barrier_sync();
      if (thread_index() < kRows * m) write(shared, a, tile, parity, warps);
    }
    ptx::cp_async_wait_group<0>();
  }

 private:
  // Fills a warp's ring: walks its stages of all of the block's tiles, ahead of their use. Of rows
  // and columns that are not there codes and scales are 0, for which nothing is read.
  class Filler {
   public:
    __device__ __forceinline__ Filler(const Arguments& a, const SharedSpan<uint32_t>& ring,
                                      int stages)
        : a_(a), ring_(ring), stages_(stages), tile_(block_index()) {
      begin_tile();
    }

    __device__ __forceinline__ void next() {
      keep_zeros();
      if (stage_ < stages_ && rows_left_ > 0) {
        copy_codes();
        copy_scales();
        filled_ = slot_;
        slot_ = slot_ + 1 == kStages ? 0 : slot_ + 1;
        const int warps = block_threads() / kWarpSize;
        stage_ += warps;
        codes_ += int64_t{warps} * kRowBytes;
        if (stage_ >= stages_) {
          tile_ += grid_blocks();
          begin_tile();
        }
      }
      ptx::cp_async_commit_group();
    }

   private:
    static constexpr int kRowBytes = kRowWords * 4;
    static constexpr int kLanesOfRow = kRowBytes / 16;
    static constexpr int kRowsAtOnce = kWarpSize / kLanesOfRow;

    // Of codes a lane copies 16 bytes of every kRowsAtOnce-th row; of scales and zeros those of two
    // chains of a row.
    __device__ __forceinline__ static int row_of_codes() { return lane_index() / kLanesOfRow; }
    __device__ __forceinline__ static int row_of_scales() { return lane_index() / 2; }
    __device__ __forceinline__ static int place_of_scale(int i) { return lane_index() % 2 * 2 + i; }

    __device__ __forceinline__ void begin_tile() {
      const Weight& w = a_.weight;
      const int64_t first = tile_ * kRows;
      const int64_t left = w.rows - first;
      rows_left_ = left < kRows ? static_cast<int>(left) : kRows;
      if (left <= 0) return;
      stage_ = warp_index();
      codes_ = w.codes.template as<const uint8_t>() + (first + row_of_codes()) * w.codes.row +
               int64_t{stage_} * kRowBytes + lane_index() % kLanesOfRow * 16;
      scales_ = w.scales.template as<const float>() + (first + row_of_scales()) * w.scales.row;
      zeros_at_ = w.zeros.template as<const uint8_t>();
      if (zeros_at_ != nullptr) zeros_at_ += (first + row_of_scales()) * w.zeros.row;
    }

    __device__ __forceinline__ void copy_codes() const {
      const Weight& w = a_.weight;
      const int column = (stage_ * kRowBytes + lane_index() % kLanesOfRow * 16) / 4;
      const bool exists = column < static_cast<int>(w.columns / kOfWord);
      uint32_t* to = ring_.pointer(slot_ * kStageWords + row_of_codes() * kPitch +
                                   lane_index() % kLanesOfRow * 4);
#pragma unroll
      for (int i = 0; i < kRows / kRowsAtOnce; ++i) {
        const int row = i * kRowsAtOnce;
        const bool is_there = exists && row + row_of_codes() < rows_left_;
        const uint8_t* from = codes_ + row * w.codes.row;
        ptx::cp_async<16>(to + row * kPitch, is_there ? from : w.codes.data, is_there ? 16 : 0);
      }
    }

    __device__ __forceinline__ void copy_scales() {
      const Weight& w = a_.weight;
      uint32_t* to = ring_.pointer(slot_ * kStageWords + kScales + row_of_scales());
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const int chain = stage_ * kChains + place_of_scale(i);
        const bool exists =
            row_of_scales() < rows_left_ && chain < static_cast<int>(w.columns / kChain);
        const uint32_t group = a_.chains_of_group.quotient(static_cast<uint32_t>(chain));
        ptx::cp_async<4>(to + place_of_scale(i) * kRows, exists ? scales_ + group : w.scales.data,
                         exists ? 4 : 0);
        if (zeros_at_ != nullptr && exists) zeros_[i] = thread::load(zeros_at_ + group);
      }
    }

    // Those of the stage before, which have come meanwhile.
    __device__ __forceinline__ void keep_zeros() {
      if constexpr (kZeros) {
        if (zeros_at_ == nullptr || filled_ < 0) return;
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          ring_[filled_ * kStageWords + kZerosAt + place_of_scale(i) * kRows + row_of_scales()] =
              Of::kept(zero_of(kFormat, zeros_[i]));
        }
        filled_ = -1;
      }
    }

    const Arguments& a_;
    SharedSpan<uint32_t> ring_;
    int stages_;
    int64_t tile_;
    int rows_left_ = 0;  // of the tile; 0: there is none
    int stage_ = 0;      // the next one of the tile,
    int slot_ = 0;       // and where it will lie
    const uint8_t* codes_ = nullptr;
    const float* scales_ = nullptr;
    const uint8_t* zeros_at_ = nullptr;
    int filled_ = -1;  // the slot that still has no zeros
    uint8_t zeros_[2] = {};
  };

  // x as pieces: of a chain, of a row of x, of the lanes of a group of four; in the order of codes.
  // Columns beyond K are 0.
  static __device__ __forceinline__ void order(const Arguments& a, const SharedSpan<uint32_t>& x,
                                               int pieces) {
    for (int at = thread_index(); at < pieces; at += block_threads()) {
      const int lane = at % 4;
      const auto rest = static_cast<uint32_t>(at / 4);
      const uint32_t part = a.rows_of_x.quotient(rest);
      const auto row = static_cast<int64_t>(rest - part * a.rows_of_x.divisor());
      const int64_t column =
          int64_t{part / kPieces} * kChain + lane * kRun + int64_t{part % kPieces} * 8;
      Vec<uint32_t, 4> words = {};
      if (column < a.weight.columns) {
        const T* from = a.x.template as<const T>() + row * a.x.row + column;
        words = thread::load<4>(reinterpret_cast<const uint32_t*>(from));
      }
      x.template store<4>(int64_t{at} * 4, in_order<Of, kOfWord>(words));
    }
  }

  static __device__ __forceinline__ void multiply(SharedStorage& shared, const Arguments& a,
                                                  const SharedSpan<uint32_t>& x,
                                                  const SharedSpan<uint32_t>& ring, int slot,
                                                  int stage, float (&sums)[4]) {
    const int group = lane_index() / 4;
    const int place = lane_index() % 4;
    const auto m = static_cast<int>(a.m);
    const int from = slot * kStageWords;
    const bool zeros_are_there = kZeros && a.weight.zeros.data != nullptr;
#pragma unroll kChainsAtOnce
    for (int chain = 0; chain < kChains; ++chain) {
      Vec<uint32_t, kWords> words[2];
      float scale[2];
      uint32_t kept[2] = {Of::kept(middle_of(kFormat)), Of::kept(middle_of(kFormat))};
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        const int row = group + h * 8;
        words[h] = ring.template load<kWords>(from + row * kPitch + (chain * 4 + place) * kWords);
        const uint32_t bits = ring[from + kScales + chain * kRows + row];
        scale[h] = std::bit_cast<float>(bits);
        if (zeros_are_there) kept[h] = ring[from + kZerosAt + chain * kRows + row];
      }
      float partial[Of::kPlanes][4] = {};
#pragma unroll
      for (int piece = 0; piece < kPieces; ++piece) {
        const int part = (stage * kChains + chain) * kPieces + piece;
        const auto of_x =
            x.template load<4>(int64_t{(part * m + (group < m ? group : m - 1)) * 4 + place} * 4);
#pragma unroll
        for (int i = 0; i < kWords / kPieces; ++i) {
          const int word = piece * (kWords / kPieces) + i;
          const Of upper(words[0][word], static_cast<int>(kept[0]), shared.tables);
          const Of lower(words[1][word], static_cast<int>(kept[1]), shared.tables);
#pragma unroll
          for (int p = 0; p < Of::kCount; p += 2) {
            const int plane = Of::kPlanes * p / Of::kCount;
            const uint32_t codes[4] = {upper.pairs[p], lower.pairs[p], upper.pairs[p + 1],
                                       lower.pairs[p + 1]};
            const int at = i * Of::kCount + p;
            const uint32_t both[2] = {of_x[at], of_x[at + 1]};
            ptx::mma_m16n8k16<T>(partial[plane], codes, both, partial[plane]);
            if constexpr (Of::kHasOffset) {
              const uint32_t of_rows[2] = {Of::offset(kept[0], plane), Of::offset(kept[1], plane)};
              const uint32_t offsets[4] = {of_rows[0], of_rows[1], of_rows[0], of_rows[1]};
              ptx::mma_m16n8k16<T>(partial[plane], offsets, both, partial[plane]);
            }
          }
        }
      }
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        float sum = partial[0][e];
        if constexpr (Of::kPlanes == 2) sum = thread::fma(partial[1][e], 0x1p-4F, sum);
        sums[e] = thread::fma(scale[e / 2], sum, sums[e]);
      }
    }
  }

  static __device__ __forceinline__ void write(SharedStorage& shared, const Arguments& a,
                                               int64_t tile, int parity, int warps) {
    const int64_t n = tile * kRows + thread_index() % kRows;
    const int64_t row_of_x = thread_index() / kRows;
    if (n >= a.weight.rows) return;
    float sum = 0;
#pragma unroll
    for (int warp = 0; warp < kMostWarps; ++warp) {  // all are asked for at once
      const int at = (parity * kMostWarps + warp) * kColumns * kRows + thread_index();
      if (warp < warps) sum += shared.sums[at];
    }
    sum *= Of::kUnit;
    if (a.bias != nullptr) {
      sum += to_float(thread::load(static_cast<const T*>(a.bias) + n * a.bias_step));
    }
    thread::store(a.y.template as<T>() + row_of_x * a.y.row + n * a.y.column, from_float<T>(sum));
  }
};

struct CodeRing {
  static bool supports(const LinearCall& call, Why& why) {
    if (!why.unless(call.m <= 8, "takes up to 8 rows of x, not ", call.m) ||
        !takes_whole_reads(call, why)) {
      return false;
    }
    return with_kernel_of<CodeRingKernel>(call, [&]<class Kernel>() {
      return why.unless(Kernel::shape_of(call).warps > 0, "has no room for x of ",
                        Kernel::bytes_of_x(call), " bytes in shared memory");
    });
  }
  static void run(const LinearCall& call, const Context& context) {
    with_kernel_of<CodeRingKernel>(call, [&]<class Kernel>() {
      const auto [warps, blocks] = Kernel::shape_of(call);
      const int64_t tiles = divide_up(call.weight.rows, Kernel::kRows);
      const int64_t resident = int64_t{blocks} * device_facts().multiprocessors;
      launch<Kernel>(
          {.blocks = std::min(tiles, resident),
           .threads = warps * kWarpSize,
           .dynamic_shared =
               static_cast<size_t>(Kernel::bytes_of_x(call) + Kernel::bytes_of_ring(warps))},
          context.stream,
          {call, thread::Divider(call.weight.group / Kernel::kChain), thread::Divider(call.m)});
    });
  }
};

}  // namespace

extern const Rung kCodeRing;
const Rung kCodeRing = rung_of<CodeRing, kHalves, QuantizedLinear>({
    .name = "code_ring",
    .from = "tensor_core",
    .idea = "codes through a ring in shared memory, into tensor cores as they are",
});

}  // namespace ws::quantized
