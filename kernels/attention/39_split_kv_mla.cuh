// Idea: latent attention (MLA) keeps one row a token for all heads, 576 numbers: all are the key,
//   the first 512 the value. A row is read once, and serves both products from where it lies.
// From split_kv: 16 rows of 512 sums are more than a warp has registers. So the eight warps of a
//   block share all: a ring; scores, of which each has some; sums, of which each has 64 columns.
// Traffic: keys once for each 16, 32 or 64 heads; scores through shared memory, in f32.
// Limits: D up to 576, Dv up to 512, one of them above 256; a scale above 0, no softcap, no slopes;
//   rows of out as of k; else as split_kv. Values that lie elsewhere are read there.
// Long: a ring and a kernel of their own; the rest is key_parts.hpp.
#pragma once

#include "kernels/attention/30_split_kv.cuh"
#include "kernels/attention/plain.hpp"

namespace ws::attention {

struct SplitKvMlaShape {
  int row_blocks;  // of 16 rows, of a tile
  int stages;      // units of the ring
  bool values_in_keys;
};

#if WS_DEVICE_CODE
// A block's ring of units of 32 keys, of which each warp copies every eighth: as KeyRing.
template <class T, class KeyTile, class ValueTile, int kStages, bool kValuesInKeys, class Line>
class WideKeyRing {
 public:
  static constexpr int kKeys = 32;
  static constexpr int kStageElements =
      KeyTile::kElements + (kValuesInKeys ? 0 : ValueTile::kElements);

  // Asks for the first kStages - 1 units. Where the warp is, of the line, lies in `walk`.
  __device__ __forceinline__ WideKeyRing(const Call& call, const Line& line, const PageTable& table,
                                         SharedSpan<T> ring, SharedSpan<KeyWalk> walk,
                                         const KeyWalk& begin)
      : call_(call), line_(line), table_(table), ring_(ring), walk_(walk), unit_(begin.part.from) {
    keep(begin);
    look_up();
#pragma unroll 1
    for (int i = 0; i < kStages - 1; ++i) ask();
  }

  // The unit used next has landed, and all threads have used the one before: its place is asked to
  // take the unit behind those that are on their way. Returns where the unit is.
  __device__ __forceinline__ int next() {
    ptx::cp_async_wait_group<kStages - 2>();
    ptx::barrier_sync();
    ask();
    return slot_ * kStageElements;  // the oldest lies behind the one that was asked for last
  }

 private:
  static constexpr int kWarps = 8;
  static constexpr int kRowsOfWarp = kKeys / kWarps;

  // Each warp by itself: 13 registers would be dear.
  __device__ __forceinline__ void keep(const KeyWalk& walk) {
    if (lane_index() == 0) walk_[0] = walk;
    ptx::syncwarp();
  }
  __device__ __forceinline__ KeyPart part() const {
    const KeyWalk walk = walk_[0];
    return walk.part;
  }

  __device__ __forceinline__ void ask() {
    if (more_) copy();
    ptx::cp_async_commit_group();
    slot_ = slot_ + 1 == kStages ? 0 : slot_ + 1;
  }
  // Where the warp's row of this lane is, one of four.
  __device__ __forceinline__ void look_up() {
    const KeyPart part = this->part();
    const int mine =
        part.first + unit_ * kKeys + warp_index() + lane_index() % kRowsOfWarp * kWarps;
    exists_ = mine < part.keys;
    if (Line::kPacked && table_.pages != nullptr) {
      if (!exists_) return;
      const auto nth = static_cast<int>(table_.by_page.quotient(static_cast<uint32_t>(mine)));
      batch_ = thread::load(table_.pages + part.batch * table_.batch + nth * table_.column);
      row_ = mine - nth * table_.page;
      exists_ = batch_ >= 0 && batch_ < table_.total;
    } else {
      batch_ = part.batch;
      row_ = part.first_key + mine;
    }
  }
  __device__ __forceinline__ void copy() {
    T* const to = ring_.pointer(slot_ * kStageElements);
    copy_rows<KeyTile>(to, call_.k, static_cast<int>(call_.head_dim));
    if constexpr (!kValuesInKeys) {
      copy_rows<ValueTile>(to + KeyTile::kElements, call_.v, static_cast<int>(call_.value_dim));
    }
    if (++unit_ == part().end) {
      KeyWalk walk = walk_[0];
      ptx::syncwarp();  // all have read it
      more_ = line_.next(walk);
      keep(walk);
      unit_ = walk.part.from;
    }
    if (more_) look_up();
  }
  // A row is 32 chunks of 16 bytes, and 32 more; what 64 chunks are behind is copied of four rows
  // at a time. What is not there becomes zeros.
  template <class Tile>
  __device__ __forceinline__ void copy_rows(T* to, const Heads& heads, int columns) const {
    constexpr int kTail = Tile::Tile::kPitch / 8 - 64;
    static_assert(kTail == 0 || kTail * kRowsOfWarp == kWarpSize);
    // Any address in memory will do where nothing is read.
    const T* const valid = call_.q.template as<const T>();
    const int64_t place = batch_ * heads.batch + row_ * heads.row;
    const T* const base = heads.template as<const T>() + part().head * heads.head;
    const uint32_t are_there = ptx::vote_sync_ballot(kFullMask, exists_);
    const auto copy_chunk = [&](int row, int64_t place, int column, int at) {
      const bool exists = (are_there >> row & 1U) != 0;
      const int bytes = exists ? Tile::bytes_of(columns - column) : 0;
      ptx::cp_async<16>(to + at, bytes > 0 ? base + place + column : valid, bytes);
    };
    constexpr int kApart = kWarps * Tile::Tile::kPitch;  // which the swizzle knows nothing of
    const int column = lane_index() * 8;
    const int at = Tile::Tile::offset(warp_index(), column);
#pragma unroll
    for (int row = 0; row < kRowsOfWarp; ++row) {
      const int64_t of_row = warp::shuffle(place, row);
      copy_chunk(row, of_row, column, at + row * kApart);
      copy_chunk(row, of_row, column + 256, at + row * kApart + 256);
    }
    if constexpr (kTail > 0) {
      const int row = lane_index() / kTail;
      const int column = 512 + lane_index() % kTail * 8;
      copy_chunk(row, warp::shuffle(place, row), column,
                 Tile::Tile::offset(warp_index(), column) + row * kApart);
    }
  }

  const Call& call_;
  const Line& line_;
  const PageTable& table_;
  SharedSpan<T> ring_;
  SharedSpan<KeyWalk> walk_;
  int unit_;
  bool more_ = true;
  int slot_ = 0;  // asked for next
  bool exists_ = false;
  int batch_ = 0, row_ = 0;  // of the lane's row
};
#endif

template <class T, SplitKvMlaShape kShape, bool kPacked>
struct SplitKvMlaKernel {
  static constexpr int kDim = 576;
  static constexpr int kValueDim = 512;
  static constexpr bool kValuesInKeys = kShape.values_in_keys;
  static constexpr int kRowBlocks = kShape.row_blocks;
  static constexpr int kRows = 16 * kRowBlocks;
  static constexpr int kKeys = 32;
  static constexpr int kStages = kShape.stages;
  static constexpr int kMinBlocks = 1;
  static constexpr int kWarps = 8;
  static constexpr int kThreads = kWarps * kWarpSize;

  // Who multiplies queries by keys: each warp 16 rows by 8 or 16 keys, by all columns or half.
  static constexpr int kKeyGroups = kRowBlocks == 4 ? 2 : 4;
  static constexpr int kGroupKeys = kKeys / kKeyGroups;
  static constexpr int kSlices = kWarps / (kRowBlocks * kKeyGroups);
  static constexpr int kSlice = kDim / kSlices;
  static_assert(kSlices > 0 && kSlice % 32 == 0);
  // Who gathers: each warp all rows, by its columns of the values.
  static constexpr int kColumns = kValueDim / kWarps;

  using Line =
      std::conditional_t<kPacked, PackedLine<kRows, kKeys, kThreads>, DenseLine<kRows, kKeys>>;
  using KeyTile = RowTile<T, kKeys, kDim, kThreads>;
  using ValueTile =
      std::conditional_t<kValuesInKeys, KeyTile, RowTile<T, kKeys, kValueDim, kThreads>>;
  using Ring = WideKeyRing<T, KeyTile, ValueTile, kStages, kValuesInKeys, Line>;
  using QueryRows = RowTile<T, kRows, kDim, kThreads>;
  using Scores = MmaScores<1, kKeys>;
  using Softmax = OnlineRows<1, true>;
  using Products = MmaProducts<T, kRowBlocks>;
  using Gathered = typename Products::template Sums<kColumns>;

  // Of each block of rows: as one they would need twice the registers for their scores.
  struct Sums {
    Softmax of[kRowBlocks];
    __device__ __forceinline__ explicit Sums(float scale)
        : Sums(scale, std::make_index_sequence<kRowBlocks>()) {}

   private:
    template <size_t... kBlocks>
    __device__ __forceinline__ Sums(float scale, std::index_sequence<kBlocks...>)
        : of{((void)kBlocks, Softmax(scale))...} {}
  };

  using Own = KeyParts<T, Line, kRows, kValueDim, kKeys, kThreads>;

  static Workspace workspace(const Call& /*call*/, int64_t blocks) {
    return counted_parts(blocks, Own::kPartFloats).workspace();
  }
  static Parts<float> parts(int64_t blocks, void* workspace) {
    return Parts<float>(counted_parts(blocks, Own::kPartFloats), workspace);
  }

  struct Arguments : KeyArguments<Line> {
    NoScales scales;
  };
  // Rows of scores so many apart that those of one access meet all banks.
  static constexpr int kPitch = kKeys + 8;
  struct SharedStorage {
    SharedArray<T, kStages * Ring::kStageElements, 128> ring;
    SharedArray<T, QueryRows::kElements, 128> queries;
    SharedArray<float, kSlices * kRows * kPitch> scores;
    SharedArray<uint8_t, kThreads> wrong;  // as in SplitKvKernel
    SharedArray<uint32_t, 1> order;
    SharedArray<KeyWalk, 1> walk;  // where the block is: registers are dear
    SharedArray<KeyWalk, kWarps> ahead;
    [[no_unique_address]] typename Line::Storage line;
  };

  __device__ void operator()(SharedStorage& shared, const Arguments& a) const {
    KeyWalk walk;
    if (a.line.start(shared.line, walk)) {
      const SharedSpan<KeyWalk> ahead(shared.ahead.pointer(warp_index()), 1);
      Ring ring(a.call, a.line, a.table, shared.ring.span(), ahead, walk);
      do {
        if (thread_index() == 0) shared.walk[0] = walk;
        attend(shared, a, walk.part, ring);
        walk = shared.walk[0];
        ptx::barrier_sync();  // all have read that, what is wrong, and the queries
      } while (a.line.next(walk));
      ptx::cp_async_wait_group<0>();
    }
    a.line.report();
  }

 private:
  __device__ __forceinline__ static KeyPart part_of(SharedStorage& shared) {
    const KeyWalk walk = shared.walk[0];
    return walk.part;
  }

  __device__ __forceinline__ static void attend(SharedStorage& shared, const Arguments& a,
                                                const KeyPart& part, Ring& ring) {
    const Call& call = a.call;
    const int rows = Own::rows_of(a.line, part);
    if constexpr (kPacked) {
      const bool right = Own::has_its_pages(a, part);
      shared.wrong[thread_index()] = right ? 0 : 1;
    }
    load_queries(shared.queries.span(), a, part, rows);  // seen by all behind the first unit

    Sums sums(call.scale * thread::kLog2E);
    Gathered gathered = {};
    const SeenTogether seen = a.line.seen_of(part.queries, part.keys)
                                  .together(Own::place_of(a.line, part, 0).query,
                                            Own::place_of(a.line, part, rows - 1).query);
    const SharedSpan<T> units = shared.ring.span();
    const int values_offset = (kValuesInKeys ? 0 : KeyTile::kElements) +
                              ValueTile::template lane_offset<ValueTile::Order::kDown>(0) +
                              warp_index() * kColumns;
    const int end = part.end;
#pragma unroll 1
    for (int unit = part.from; unit < end; ++unit) {
      const int stage = ring.next();
      multiply(shared, units, stage);
      ptx::barrier_sync();
      const int key = part_of(shared).first + unit * kKeys;
      const bool hides = key < seen.whole_first || key + kKeys > seen.whole_end;
      typename Products::Left weights[kKeys / 16];
#pragma unroll
      for (int r = 0; r < kRowBlocks; ++r) {
        Scores scores;
        take(shared, r * 16, scores);
        if (hides) Own::hide(scores, a, part_of(shared), key, r * 16);
        float rescale[Softmax::kRows];
        if (sums.of[r].weigh(scores, rescale)) Own::scale(gathered[r], rescale[0], rescale[1]);
#pragma unroll
        for (int k = 0; k < kKeys; k += 16) {
          scores.template operand<T>(weights[k / 16][r], 0, k);
        }
      }
      gather(gathered, weights, units, stage + values_offset);
    }
    finish(shared, a, gathered, sums);
  }

  // What there is not is zeros.
  __device__ __forceinline__ static void load_queries(SharedSpan<T> to, const Arguments& a,
                                                      const KeyPart& part, int rows) {
    constexpr int kChunks = kDim / 8;
    const auto columns = static_cast<int>(a.call.head_dim);
#pragma unroll 1
    for (int at = Own::thread(); at < kRows * kChunks; at += kThreads) {
      const int row = at / kChunks;
      const int column = at % kChunks * 8;
      Vec<T, 8> chunk{};
      if (row < rows && column < columns) {
        const T* const from =
            Own::template row_of<const T>(a.call.q, part, Own::place_of(a.line, part, row));
        if (column + 8 <= columns) {
          chunk = thread::load<8>(from + column);
        } else {
#pragma unroll
          for (int i = 0; i < 8; ++i) {
            if (column + i < columns) chunk[i] = thread::load(from + column + i);
          }
        }
      }
      to.template store<8>(QueryRows::Tile::offset(row, column), chunk);
    }
  }

  // This warp's share of all scores, which is left for all.
  __device__ __forceinline__ static void multiply(SharedStorage& shared, SharedSpan<T> units,
                                                  int stage) {
    const int rows = warp_index() % kRowBlocks * 16;
    const int keys = warp_index() / kRowBlocks % kKeyGroups * kGroupKeys;
    const int slice = warp_index() / (kRowBlocks * kKeyGroups);
    const SharedSpan<T> queries = shared.queries.span();
    const int left_offset = QueryRows::template lane_offset<QueryRows::Order::kDown>(rows);
    // Four matrices across: 32 columns of 8 keys.
    const int right_offset =
        stage + KeyTile::Tile::offset(keys + lane_index() % 8, lane_index() / 8 * 8);
    // The sums of every other step: each waits for the one before.
    float sums[kGroupKeys / 8][2][4] = {};
#pragma unroll 9
    for (int step = 0; step < kSlice; step += 32) {
      const int k = slice * kSlice + step;
      uint32_t left[2][4];
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        ptx::ldmatrix_x4(left[i], queries.pointer(QueryRows::further(left_offset, 0, k + i * 16)));
      }
#pragma unroll
      for (int n = 0; n < kGroupKeys / 8; ++n) {
        uint32_t right[4];
        ptx::ldmatrix_x4(right, units.pointer(KeyTile::further(right_offset, n * 8, k)));
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          const uint32_t pair[2] = {right[2 * i], right[2 * i + 1]};
          ptx::mma_m16n8k16<T>(sums[n][i], left[i], pair, sums[n][i]);
        }
      }
    }
    using Place = MmaScores<1, 8>;
#pragma unroll
    for (int n = 0; n < kGroupKeys / 8; ++n) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        shared.scores.template store<2>(
            (slice * kRows + rows + Place::row(i)) * kPitch + keys + n * 8 + Place::first_key(),
            Vec<float, 2>{sums[n][0][2 * i] + sums[n][1][2 * i],
                          sums[n][0][2 * i + 1] + sums[n][1][2 * i + 1]});
      }
    }
  }
  __device__ __forceinline__ static void take(SharedStorage& shared, int first_row,
                                              Scores& scores) {
#pragma unroll
    for (int i = 0; i < Scores::kRows; ++i) {
#pragma unroll
      for (int n = 0; n < kKeys; n += 8) {
        const int at = (first_row + Scores::row(i)) * kPitch + n + Scores::first_key();
        auto pair = shared.scores.template load<2>(at);
        if constexpr (kSlices == 2) {
          const auto more = shared.scores.template load<2>(at + kRows * kPitch);
          pair[0] += more[0];
          pair[1] += more[1];
        }
        scores.of(i, n) = pair[0];
        scores.of(i, n + 1) = pair[1];
      }
    }
  }

  // Adds the weights times the values' rows, by this warp's columns.
  __device__ __forceinline__ static void gather(
      Gathered& gathered, const typename Products::Left (&weights)[kKeys / 16], SharedSpan<T> units,
      int offset) {
#pragma unroll
    for (int k = 0; k < kKeys; k += 16) {
#pragma unroll
      for (int n = 0; n < kColumns; n += 16) {
        uint32_t right[4];
        ptx::ldmatrix_x4<true>(right, units.pointer(ValueTile::further(offset, k, n)));
        Products::multiply_add(gathered, n / 8, weights[k / 16], right);
      }
    }
  }

  // What was gathered, written, or left for the block that comes last. All warps know of all rows
  // the same.
  __device__ __forceinline__ static void finish(SharedStorage& shared, const Arguments& a,
                                                const Gathered& gathered, const Sums& sums) {
    const KeyPart part = part_of(shared);
    const int rows = Own::rows_of(a.line, part);
    int wrong = 0;
    if constexpr (kPacked) {
#pragma unroll
      for (int warp = 0; warp < kWarps; ++warp) wrong |= shared.wrong[warp * kWarpSize];
    }
    const int column = warp_index() * kColumns + Scores::first_key();
    const auto columns = static_cast<int>(a.call.value_dim);
    const bool tells = warp_index() == 0 && lane_index() % 4 == 0;
    float* const left =
        a.parts.partials + Own::left_at(static_cast<int>(Line::block()), part.from == 0);
#pragma unroll
    for (int i = 0; i < kRowBlocks * 2; ++i) {
      const Softmax& softmax = sums.of[i / 2];
      const float max = softmax.max[i % 2];
      const float sum =
          warp::all_reduce<4>(softmax.sum[i % 2], [](float a, float b) { return a + b; });
      const int row = i / 2 * 16 + Scores::row(i % 2);
      if (row >= rows) continue;
      const auto pair = [&](int n) {
        const float (&four)[4] = gathered[i / 2][n];
        return Vec<float, 2>{four[i % 2 * 2], four[i % 2 * 2 + 1]};
      };
      if (part.is_whole()) {
        if (wrong != 0) continue;
        const auto end = Own::ending(a, part, row, max, sum, softmax.scale);
        if (tells) Own::tell(a, part, row, end.lse);
        // Of rows that begin at multiples of 16 bytes, and are multiples of them.
        T* const to = end.to + column;
#pragma unroll
        for (int n = 0; n < kColumns / 8; ++n) {
          if (column + n * 8 >= columns) continue;
          const auto two = pair(n);
          thread::store(to + n * 8, thread::convert<T>(
                                        Vec<float, 2>{two[0] * end.factor, two[1] * end.factor}));
        }
      } else {
        if (tells) {
          thread::store(left + row * 2, Vec<float, 2>{max, wrong != 0 ? Own::kWrong : sum});
        }
#pragma unroll
        for (int n = 0; n < kColumns / 8; ++n) {
          thread::store(left + Own::kGathered + row * kValueDim + column + n * 8, pair(n));
        }
      }
    }
    if (!part.is_whole()) {
      Own::combine(a, shared.line, shared.order, shared.walk[0], sums.of[0].scale);
    }
  }
};

// ---- On the host -------------------------------------------------------------------------------

inline constexpr int64_t kMostMlaDim = 576;

// Whether a value is what its key begins with.
inline bool has_values_in_keys(const Call& call) {
  const Heads& k = call.k;
  const Heads& v = call.v;
  return k.data != nullptr && k.data == v.data && k.batch == v.batch &&
         (k.head == v.head || call.kv_heads == 1) && k.row == v.row &&
         call.value_dim <= call.head_dim;
}

// What rungs of latent attention take beside what SplitKv asks for.
template <class AnyCall>
bool takes_latent_rows(const AnyCall& call, Why& why) {
  constexpr int64_t kMostValueDim = 512;
  constexpr int64_t kLeastDim = 257;
  return has_kv_of_q(call, why) &&
         why.unless(std::max(call.head_dim, call.value_dim) >= kLeastDim, "is for D or Dv from ",
                    kLeastDim, " on") &&
         why.unless(call.value_dim <= kMostValueDim, "takes Dv up to ", kMostValueDim, ", not ",
                    call.value_dim) &&
         why.unless(call.scale > 0, "takes a scale above 0, not ", call.scale) &&
         why.unless(!call.slopes.exists, "takes no alibi_slopes") &&
         why.unless(call.softcap == 0, "takes no softcap") &&
         why.unless(call.value_dim % 8 == 0, "needs a Dv that 8 divides, not ", call.value_dim) &&
         why.unless(is_aligned(call.out, call.dtype, call.batch, call.heads,
                               SplitKvExtents(call).queries, call.value_dim),
                    "needs rows of out that begin at multiples of 16 bytes");
}

}  // namespace ws::attention
