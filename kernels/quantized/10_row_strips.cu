// Idea: a warp keeps 32 rows of the weight for all of K, or for a part of it; what a block's warps
//   share is x, which passes by in chunks, in the order of codes, one chunk ahead of its use.
// From tensor_core: x is read once for some 220 rows of the weight instead of 16, and from shared
//   memory without a conflict, 16 bytes of it for two fragments of rows; codes come through a ring
//   as code_ring's, so that no register waits for them; nf4's levels two codes at a time.
// Traffic: codes, scales and zeros once; x once a block, from the L2.
// Limits: up to 16 rows of x, f16 or bf16; K and groups of whole 64 columns; x and rows of codes at
//   multiples of 16 bytes.
// Long: a warp's ring, x in order, the product of 64 columns, the sums of a block.
#include <algorithm>
#include <bit>

#include "kernels/quantized/planes.hpp"
#include "warpsmith/device_facts.hpp"
#include "warpsmith/ptx/cp_async.hpp"
#include "warpsmith/ptx/mma.hpp"

namespace ws::quantized {
namespace {

// Levels as halves; what a zero takes off them costs an fma for two codes, which would otherwise be
// one for each sum of a chain and row of x.
template <Format kFormat>
struct HalfLevels : Pairs<half, kFormat>, WithoutTables {
  using Pairs<half, kFormat>::Pairs;
};
template <>
struct HalfLevels<Format::kNf4> : HalfPlanes<Format::kNf4> {
  using HalfPlanes::HalfPlanes;
};

// kTiles: of 8 rows of x.
template <class T, Format kFormat, int kTiles>
struct RowStripsKernel {
  using Of = HalfLevels<kFormat>;
  static constexpr int kMostWarps = 14;  // that have registers
  static constexpr int kThreads = kMostWarps * kWarpSize;
  static constexpr int kMostStrips = 7;  // of a block: two of them have room for two parts of K
  static constexpr int kMostParts = 4;   // of K, each a warp's
  static constexpr int kRows = 32;       // of the weight, a strip
  static constexpr int kOfLane = 4;      // of them, side by side: two fragments
  static constexpr int kColumns = 8 * kTiles;  // rows of x
  static constexpr int kOfWord = Levels<kFormat>::kOfWord;
  static constexpr int kChain = 64;  // columns that are summed before they are scaled
  static constexpr int kWords = kChain / 4 / kOfWord;  // of a lane and row, a chain
  // Of x, 8 elements: what a lane needs for one word of 8 codes or two of 4.
  static constexpr int kPieces = 2;  // of a lane, a chain
  static constexpr int kPieceWords = 4;
  static constexpr int kChainWords = kPieces * kTiles * kWarpSize * kPieceWords;  // of x
  static constexpr bool kZeros = has_zeros(kFormat);
  static constexpr bool kIsScaled = std::is_same_v<T, bf16>;

  // A stage: 128 bytes of each row, whose pieces of 16 bytes change places so that what lanes read
  // at once is in all banks; then a scale for each row and chain, and its zero.
  static constexpr int kStages = 2;
  static constexpr int kRowBytes = 128;
  static constexpr int kRowWords = kRowBytes / 4;
  static constexpr int kStageColumns = kRowWords * kOfWord;
  static constexpr int kChains = kStageColumns / kChain;
  // More of them take more registers than 14 warps have.
  static constexpr int kChainsAtOnce = kTiles == 1 ? 2 : 1;
  static constexpr int kScalePitch = kRows + 8;  // of a chain: what lanes write is in other banks
  static constexpr int kScales = kRows * kRowWords;
  static constexpr int kZerosAt = kScales + kChains * kScalePitch;
  static constexpr int kStageWords = kZerosAt + (kZeros ? kChains * kScalePitch : 0);

  // 32 pieces of a row of x: what a warp puts in order at once.
  static constexpr int kSegmentChains = kWarpSize * 8 / kChain;

  struct Shape {
    int strips = 0;  // of a block; 0: no room
    int parts = 1;   // of K

    int warps() const { return strips * parts; }
    // At least two, and whole segments of x: a barrier for each 8 KB of a strip's codes, or more.
    int stages_of_chunk() const {
      int stages = parts;
      while (stages < 2 || stages * kChains % kSegmentChains != 0) stages += parts;
      return stages;
    }
  };
  struct Arguments : LinearCall {
    thread::Divider strips;  // of a block
    thread::Divider chains_of_group;
    thread::Divider rows_of_x;
    int parts;
    int chains;  // of K
    int chunks;
    int turns;  // stages of a warp, a chunk
    int chains_of_chunk;
    int row_bytes;
    uint32_t codes_step;  // from the rows that lanes copy at once to the next
    int scales_step;
    int zeros_step;
    Arguments(const LinearCall& call, const Shape& shape)
        : LinearCall(call),
          strips(shape.strips),
          chains_of_group(call.weight.group / kChain),
          rows_of_x(call.m),
          parts(shape.parts),
          chains(static_cast<int>(call.weight.columns / kChain)),
          chunks(divide_up(chains, shape.stages_of_chunk() * kChains)),
          turns(shape.stages_of_chunk() / shape.parts),
          chains_of_chunk(shape.stages_of_chunk() * kChains),
          row_bytes(static_cast<int>(call.weight.columns / kOfWord * 4)),
          codes_step(static_cast<uint32_t>(call.weight.codes.row * 4)),
          scales_step(static_cast<int>(call.weight.scales.row * (kWarpSize / kChains))),
          zeros_step(static_cast<int>(call.weight.zeros.row * (kWarpSize / kChains))) {}
  };
  struct SharedStorage {
    typename Of::Tables tables;
  };
  // That a warp holds at once: of 16 rows, all that it has of a chunk where a block has six strips
  // or more. One more would take registers from the products.
  static constexpr int kSegmentsAtOnce = kTiles == 1 ? 2 : 3;
  struct Segments {
    Vec<uint32_t, kPieceWords> words[kSegmentsAtOnce];
  };

  // Words of a chunk of x: its pieces, then a unit for each chain and row.
  __host__ __device__ static int words_of_chunk(int chains) {
    return chains * (kChainWords + (kIsScaled ? kColumns : 0));
  }
  static int64_t dynamic_bytes(const Shape& shape) {
    const int64_t of_x = 2 * words_of_chunk(shape.stages_of_chunk() * kChains);
    const int64_t of_sums = shape.warps() * kColumns * kRows;  // where x was
    return 4 * (std::max(of_x, of_sums) + int64_t{shape.warps()} * kStages * kStageWords);
  }
  // One block an SM, of as many strips as give all SMs the same number of turns; warps that are
  // left share out K.
  static Shape shape_of(const Weight& w) {
    const int64_t strips = std::max<int64_t>(divide_up(w.rows, kRows), 1);
    const int64_t sms = device_facts().multiprocessors;
    for (int most = kMostStrips; most > 0; --most) {
      const int64_t turns = divide_up(strips, sms * most);
      const auto of_block = static_cast<int>(divide_up(strips, sms * turns));
      for (int parts = kMostParts; parts > 0; --parts) {
        const Shape shape{of_block, parts};
        if (shape.warps() <= kMostWarps &&
            static_cast<int64_t>(sizeof(SharedStorage)) + dynamic_bytes(shape) <=
                device_facts().shared_bytes) {
          return shape;
        }
      }
    }
    return {};
  }

  __device__ void operator()(SharedStorage& shared, const Arguments& a) const {
    const int warps = block_threads() / kWarpSize;
    // The same in all lanes, as the compiler can see: loops that depend on it do not diverge.
    const int warp = warp::shuffle(warp_index(), 0);
    const auto part = static_cast<int>(a.strips.quotient(static_cast<uint32_t>(warp)));
    const int strip = warp - part * static_cast<int>(a.strips.divisor());
    const int64_t first_row = (block_index() * a.strips.divisor() + strip) * kRows;
    const int ring_words = kStages * kStageWords;
    const int of_chunk = words_of_chunk(a.chains_of_chunk);
    const int of_sums = warps * kColumns * kRows;
    const int of_x = 2 * of_chunk > of_sums ? 2 * of_chunk : of_sums;
    const auto all = dynamic_shared<uint32_t>(shared, of_x + warps * ring_words);
    const SharedSpan<uint32_t> ring(all.pointer(of_x + warp * ring_words), ring_words);

    Segments segments;  // before all codes, which nobody waits for yet
    load(a, segments, 0, warp);
    Filler filler(a, ring, first_row, part);
#pragma unroll
    for (int i = 0; i < kStages - 1; ++i) filler.next();
    filler.keep_middle();
    Of::fill(shared.tables);
    for (int i = thread_index() * 4; i < 2 * of_chunk; i += block_threads() * 4) {
      all.template store<4>(i, {});  // rows that are not there stay so
    }
    ptx::barrier_sync();
    order(a, segments, 0, warp, SharedSpan<uint32_t>(all.pointer(), of_chunk));
    ptx::barrier_sync();

    float sums[2][kTiles][4] = {};
    int slot = 0;
    int chain = part * kChains;
    for (int chunk = 0; chunk < a.chunks; ++chunk) {
      const SharedSpan<uint32_t> x(all.pointer(chunk % 2 * of_chunk), of_chunk);
      const SharedSpan<uint32_t> next(all.pointer((chunk + 1) % 2 * of_chunk), of_chunk);
      const bool is_last = chunk + 1 == a.chunks;
      if (!is_last) load(a, segments, chunk + 1, warp);
      for (int turn = 0; turn < a.turns; ++turn) {
        ptx::cp_async_wait_group<kStages - 2>();
        filler.keep_zeros();
        ptx::syncwarp();  // all lanes' copies have landed, and none reads the slot that is filled
        filler.next();
        if (chain < a.chains) {
          multiply(shared, a, x, ring, slot * kStageWords, (turn * a.parts + part) * kChains, sums);
        }
        chain += a.parts * kChains;
        slot = slot + 1 == kStages ? 0 : slot + 1;
      }
      if (!is_last) order(a, segments, chunk + 1, warp, next);
      ptx::barrier_sync();
    }
    const SharedSpan<float> of_all(reinterpret_cast<float*>(all.pointer()), of_sums);
    keep(of_all, warp, sums);
    ptx::barrier_sync();
    write(of_all, a);
  }

 private:
  // By row / kOfLane, of which lanes read different ones at once.
  __host__ __device__ static constexpr int places_off(int rows) {
    return kOfWord == 8 ? rows % 4 * 2 : rows % 2 * 4;
  }

  // Fills a warp's ring with what it has of K, ahead of its use. Of rows and columns that are not
  // there codes and scales are 0, for which nothing is read.
  class Filler {
   public:
    __device__ __forceinline__ Filler(const Arguments& a, const SharedSpan<uint32_t>& ring,
                                      int64_t first_row, int part)
        : a_(a), ring_(ring), chain_(part * kChains) {
      const Weight& w = a.weight;
      const int64_t left = w.rows - first_row;
      left_ = left < kRows ? static_cast<int>(left) : kRows;
      codes_ = w.codes.template as<const uint8_t>() + (first_row + row_of_codes()) * w.codes.row +
               (part * kRowBytes + piece() * 16);
      scales_ = w.scales.template as<const float>() + (first_row + row_of_scales()) * w.scales.row;
      zeros_at_ = w.zeros.template as<const uint8_t>();
      if (zeros_at_ != nullptr) zeros_at_ += (first_row + row_of_scales()) * w.zeros.row;
    }

    __device__ __forceinline__ void next() {
      if (chain_ < a_.chains) {
        copy_codes();
        copy_scales();
        filled_ = slot_;
        slot_ = slot_ + 1 == kStages ? 0 : slot_ + 1;
        chain_ += a_.parts * kChains;
        codes_ += a_.parts * kRowBytes;
      }
      ptx::cp_async_commit_group();
    }
    // Zeros of the stage that was asked for last, before lanes meet.
    __device__ __forceinline__ void keep_zeros() {
      if constexpr (kZeros) {
        if (zeros_at_ == nullptr || filled_ < 0) return;
        const int to = filled_ * kStageWords + kZerosAt + lane_index() % kChains * kScalePitch;
#pragma unroll
        for (int i = 0; i < kChains; ++i) {
          ring_[to + i * kRowsOfScales + lane_index() / kChains] =
              Of::minus(zero_of(kFormat, zeros_[i]));
        }
        filled_ = -1;
      }
    }
    // Where there are no zeros, of all stages to come.
    __device__ __forceinline__ void keep_middle() const {
      if constexpr (kZeros) {
        if (zeros_at_ != nullptr) return;
        for (int stage = 0; stage < kStages; ++stage) {
          for (int i = lane_index(); i < kChains * kScalePitch; i += kWarpSize) {
            ring_[stage * kStageWords + kZerosAt + i] = Of::minus(middle_of(kFormat));
          }
        }
      }
    }

   private:
    static constexpr int kLanesOfRow = kRowBytes / 16;
    static constexpr int kRowsAtOnce = kWarpSize / kLanesOfRow;
    static constexpr int kRowsOfScales = kWarpSize / kChains;  // at once
    static_assert(kRowsAtOnce == kOfLane);

    __device__ __forceinline__ static int piece() { return lane_index() % kLanesOfRow; }
    __device__ __forceinline__ static int row_of_codes() { return lane_index() / kLanesOfRow; }
    __device__ __forceinline__ static int row_of_scales() { return lane_index() / kChains; }

    __device__ __forceinline__ void copy_codes() const {
      const bool exists = chain_ / kChains * kRowBytes + piece() * 16 < a_.row_bytes;
      const int rows = exists ? left_ - row_of_codes() : 0;
      const uint8_t* from = codes_;
#pragma unroll
      for (int i = 0; i < kRows / kRowsAtOnce; ++i) {
        uint32_t* to =
            ring_.pointer(slot_ * kStageWords + (i * kRowsAtOnce + row_of_codes()) * kRowWords +
                          (piece() ^ places_off(i)) * 4);
        ptx::cp_async<16>(to, from, i * kRowsAtOnce < rows ? 16 : 0);
        from += a_.codes_step;
      }
    }
    __device__ __forceinline__ void copy_scales() {
      const int place = lane_index() % kChains;
      const bool exists = chain_ + place < a_.chains;
      const uint32_t group = a_.chains_of_group.quotient(static_cast<uint32_t>(chain_ + place));
      const int rows = exists ? left_ - row_of_scales() : 0;
      const int to = slot_ * kStageWords + kScales + place * kScalePitch + row_of_scales();
      const float* scales = scales_ + group;
      const uint8_t* zeros = zeros_at_ + group;
#pragma unroll
      for (int i = 0; i < kChains; ++i) {
        const bool is_there = i * kRowsOfScales < rows;
        ptx::cp_async<4>(ring_.pointer(to + i * kRowsOfScales), scales, is_there ? 4 : 0);
        if (zeros_at_ != nullptr && is_there) zeros_[i] = thread::load(zeros);
        scales += a_.scales_step;
        zeros += a_.zeros_step;
      }
    }

    const Arguments& a_;
    SharedSpan<uint32_t> ring_;
    int chain_;     // the first of the next stage,
    int slot_ = 0;  // and where it will lie
    int left_ = 0;  // of rows of the strip, that are there
    const uint8_t* codes_ = nullptr;
    const float* scales_ = nullptr;
    const uint8_t* zeros_at_ = nullptr;
    int filled_ = -1;  // the slot that still has no zeros
    uint8_t zeros_[kChains] = {};
  };

  // Segments of a chunk of x, by warps in turn. Columns that are not there are 0.
  static __device__ __forceinline__ void load(const Arguments& a, Segments& held, int chunk,
                                              int first) {
    const int warps = block_threads() / kWarpSize;
    const int segments = a.chains_of_chunk / kSegmentChains * static_cast<int>(a.m);
#pragma unroll
    for (int i = 0; i < kSegmentsAtOnce; ++i) {
      const int at = first + i * warps;
      if (at >= segments) continue;
      const uint32_t segment = a.rows_of_x.quotient(static_cast<uint32_t>(at));
      const uint32_t row = static_cast<uint32_t>(at) - segment * a.rows_of_x.divisor();
      const int column = chunk * a.chains_of_chunk * kChain +
                         (static_cast<int>(segment) * kWarpSize + lane_index()) * 8;
      held.words[i] = {};
      if (column < a.chains * kChain) {
        held.words[i] = thread::load<4>(
            reinterpret_cast<const uint32_t*>(a.x.template as<const T>() + row * a.x.row + column));
      }
    }
  }
  static __device__ __forceinline__ void order(const Arguments& a, Segments& held, int chunk,
                                               int first, const SharedSpan<uint32_t>& x) {
    const int warps = block_threads() / kWarpSize;
    const int segments = a.chains_of_chunk / kSegmentChains * static_cast<int>(a.m);
    for (;; first += kSegmentsAtOnce * warps) {
#pragma unroll
      for (int i = 0; i < kSegmentsAtOnce; ++i) {
        if (first + i * warps < segments) put(a, held.words[i], first + i * warps, x);
      }
      if (first + kSegmentsAtOnce * warps >= segments) break;
      load(a, held, chunk, first + kSegmentsAtOnce * warps);
    }
  }
  static __device__ __forceinline__ void put(const Arguments& a, Vec<uint32_t, 4> words, int at,
                                             const SharedSpan<uint32_t>& x) {
    constexpr int kPiecesOfChain = kChain / 8;
    const auto segment = static_cast<int>(a.rows_of_x.quotient(static_cast<uint32_t>(at)));
    const int row = at - segment * static_cast<int>(a.m);
    const int chain = lane_index() / kPiecesOfChain;  // of the segment
    const int piece = lane_index() % kPiecesOfChain;
    const float unit = become_halves<T, kPiecesOfChain>(words);
    if constexpr (kFormat == Format::kInt4) {
      uint32_t ordered[4] = {words[0], words[1], words[2], words[3]};
      Of::order(ordered);
      words = {{ordered[0], ordered[1], ordered[2], ordered[3]}};
    }
    const int of_lane = (chain * kPieces + piece % kPieces) * kTiles * kWarpSize + piece / kPieces;
    const int of_row = segment * kSegmentChains * kPieces * kTiles * kWarpSize + row * 4;
    x.template store<4>((of_row + of_lane) * kPieceWords, words);
    if constexpr (kIsScaled) {
      if (piece == 0) {
        x[a.chains_of_chunk * kChainWords + (segment * kSegmentChains + chain) * kColumns + row] =
            std::bit_cast<uint32_t>(unit);
      }
    }
  }

  // A stage of a strip; `first` is its first chain in the chunk of x.
  static __device__ __forceinline__ void multiply(SharedStorage& shared, const Arguments& a,
                                                  const SharedSpan<uint32_t>& x,
                                                  const SharedSpan<uint32_t>& ring, int from,
                                                  int first, float (&sums)[2][kTiles][4]) {
    const int group = lane_index() / 4;
    const int place = lane_index() % 4;
#pragma unroll kChainsAtOnce
    for (int chain = 0; chain < kChains; ++chain) {
      constexpr int kPiecesOfRow = kRowWords / 4 / kChains;  // of 16 bytes, a chain
      const int at = from + group * kOfLane * kRowWords +
                     ((chain * kPiecesOfRow) ^ places_off(group)) * 4 + place * kWords;
      Vec<uint32_t, kWords> words[kOfLane];
#pragma unroll
      for (int i = 0; i < kOfLane; ++i) {
        words[i] = ring.template load<kWords>(at + i * kRowWords);
      }
      const int of_rows = from + chain * kScalePitch + group * kOfLane;
      const auto scales = ring.template load<kOfLane>(of_rows + kScales);
      Vec<uint32_t, kOfLane> minus{};
      if constexpr (kZeros) minus = ring.template load<kOfLane>(of_rows + kZerosAt);

      float partial[2][kTiles][4] = {};
#pragma unroll
      for (int piece = 0; piece < kPieces; ++piece) {
        Vec<uint32_t, kPieceWords> of_x[kTiles];
#pragma unroll
        for (int tile = 0; tile < kTiles; ++tile) {
          const int of_chain = ((first + chain) * kPieces + piece) * kTiles + tile;
          of_x[tile] = x.template load<4>((of_chain * kWarpSize + lane_index()) * kPieceWords);
        }
        add_products(shared, words, minus, of_x, piece, partial);
      }
#pragma unroll
      for (int tile = 0; tile < kTiles; ++tile) {
        float units[2] = {1, 1};
        if constexpr (kIsScaled) {
          const auto both = x.template load<2>(a.chains_of_chunk * kChainWords +
                                               (first + chain) * kColumns + tile * 8 + place * 2);
          units[0] = std::bit_cast<float>(both[0]);
          units[1] = std::bit_cast<float>(both[1]);
        }
#pragma unroll
        for (int e = 0; e < 8; ++e) {
          float& sum = sums[e / 4][tile][e % 4];
          float scale = std::bit_cast<float>(scales[e / 2]);
          if constexpr (kIsScaled) scale *= units[e % 2];
          sum = thread::fma(scale, partial[e / 4][tile][e % 4], sum);
        }
      }
    }
  }
  static __device__ __forceinline__ void add_products(
      SharedStorage& shared, const Vec<uint32_t, kWords> (&words)[kOfLane],
      const Vec<uint32_t, kOfLane>& minus, const Vec<uint32_t, kPieceWords> (&of_x)[kTiles],
      int piece, float (&partial)[2][kTiles][4]) {
#pragma unroll
    for (int word = 0; word < kWords / kPieces; ++word) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const auto levels_of = [&](int i) {
          const uint32_t codes = words[i][piece * (kWords / kPieces) + word];
          if constexpr (kZeros) {
            return Of(codes, minus[i]);
          } else {
            return Of(codes, 0, shared.tables);
          }
        };
        const Of upper = levels_of(2 * half);
        const Of lower = levels_of(2 * half + 1);
#pragma unroll
        for (int p = 0; p < Of::kCount; p += 2) {
          const uint32_t of_w[4] = {upper.pairs[p], lower.pairs[p], upper.pairs[p + 1],
                                    lower.pairs[p + 1]};
#pragma unroll
          for (int tile = 0; tile < kTiles; ++tile) {
            const int at = word * Of::kCount + p;
            const uint32_t both[2] = {of_x[tile][at], of_x[tile][at + 1]};
            float (&sum)[4] = partial[half][tile];
            ptx::mma_m16n8k16<ws::half>(sum, of_w, both, sum);
          }
        }
      }
    }
  }

  // Sums of a warp: of a row of x, of 32 rows.
  static __device__ __forceinline__ void keep(const SharedSpan<float>& all, int warp,
                                              const float (&sums)[2][kTiles][4]) {
#pragma unroll
    for (int tile = 0; tile < kTiles; ++tile) {
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        const int column = tile * 8 + lane_index() % 4 * 2 + e;
        const Vec<float, kOfLane> rows{
            {sums[0][tile][e], sums[0][tile][e + 2], sums[1][tile][e], sums[1][tile][e + 2]}};
        all.template store<kOfLane>((warp * kColumns + column) * kRows + lane_index() / 4 * kOfLane,
                                    rows);
      }
    }
  }
  static __device__ __forceinline__ void write(const SharedSpan<float>& all, const Arguments& a) {
    const int row = thread_index();
    const auto strips = static_cast<int>(a.strips.divisor());
    const int64_t n = block_index() * strips * kRows + row;
    if (row >= strips * kRows || n >= a.weight.rows) return;
    float bias = 0;
    if (a.bias != nullptr) {
      bias = to_float(thread::load(static_cast<const T*>(a.bias) + n * a.bias_step));
    }
    for (int m = 0; m < static_cast<int>(a.m); ++m) {
      float sum = bias;
      for (int part = 0; part < a.parts; ++part) {
        const int warp = part * strips + row / kRows;
        sum += all[(warp * kColumns + m) * kRows + row % kRows];
      }
      thread::store(a.y.template as<T>() + m * a.y.row + n * a.y.column, from_float<T>(sum));
    }
  }
};

// f.template operator()<Kernel>() of the kernel that takes a call's rows of x.
template <class F>
decltype(auto) with_strips(const LinearCall& call, const F& f) {
  return with_type<kHalves>(call.dtype, [&]<class T>() {
    return with_format(call.weight.format, [&]<Format kFormat>() {
      return call.m <= 8 ? f.template operator()<RowStripsKernel<T, kFormat, 1>>()
                         : f.template operator()<RowStripsKernel<T, kFormat, 2>>();
    });
  });
}

struct RowStrips {
  static bool supports(const LinearCall& call, Why& why) {
    const Weight& w = call.weight;
    if (!why.unless(call.m <= 16, "takes up to 16 rows of x, not ", call.m) ||
        !takes_whole_reads(call, why) || !codes_are_runs(w, 64, 16, why) ||
        !why.unless(w.columns > 0 && w.rows > 0, "takes rows of at least a column") ||
        !rows_are_near(w, why)) {
      return false;
    }
    return with_strips(call, [&]<class Kernel>() {
      return why.unless(Kernel::shape_of(w).strips > 0, "has no room in shared memory");
    });
  }
  static void run(const LinearCall& call, const Context& context) {
    with_strips(call, [&]<class Kernel>() {
      const auto shape = Kernel::shape_of(call.weight);
      launch<Kernel>({.blocks = divide_up(call.weight.rows, int64_t{shape.strips} * Kernel::kRows),
                      .threads = shape.warps() * kWarpSize,
                      .dynamic_shared = static_cast<size_t>(Kernel::dynamic_bytes(shape))},
                     context.stream, typename Kernel::Arguments(call, shape));
    });
  }
};

}  // namespace

extern const Rung kRowStrips;
const Rung kRowStrips = rung_of<RowStrips, kHalves, QuantizedLinear>({
    .name = "row_strips",
    .from = "tensor_core",
    .idea = "a warp keeps 32 rows for all of K; chunks of x pass by all warps of a block",
});

}  // namespace ws::quantized
