// Idea: what bound latent attention was shared memory, out of which mma.sync takes both operands
//   for each warp. wgmma takes them once: a warpgroup multiplies queries by keys, and two of them
//   weights by half of the values' columns each. Rows that were cut are put together by a second
//   launch, whose blocks have a row each, on all of the GPU.
// From split_kv_mla: tiles of 64 rows, units of 64 keys, and warps that do nothing but copy them.
// Traffic: keys once for each 64 heads; of each cut 4 Dv bytes a row, written and read.
// Limits: sm_90a; values are what their keys begin with; else as split_kv_mla.
// Long: the roles and their protocol, and who puts rows together.
#pragma once

#include "kernels/attention/39_split_kv_mla.cuh"
#include "kernels/attention/head_tile.hpp"
#include "kernels/attention/online_softmax.hpp"
#include "warpsmith/ptx/grid.hpp"
#include "warpsmith/ptx/setmaxnreg.hpp"
#include "warpsmith/tile/pipeline.hpp"

namespace ws::attention {

#if WS_DEVICE_CODE
// Two warps that fill one of two stages over and over: every other unit of a block's line, 64 rows
// of 576 columns, by cp.async, since pages may be of any size. What is not there becomes zeros.
template <class T, class Tile, class Line>
class PanelFiller {
 public:
  using Ring = tile::Pipeline<2>;
  static constexpr int kThreads = 2 * kWarpSize;

  __device__ __forceinline__ PanelFiller(const Call& call, const Line& line, const PageTable& table,
                                         T* stage, int number, const KeyWalk& begin)
      : call_(call), line_(line), table_(table), to_(stage), at_{number, 0}, walk_(begin) {
    unit_ = walk_.part.from - 2 + number;
    advance();
  }

  // Of a chunk before the last `left` elements of a row.
  __device__ __forceinline__ static int bytes_of(int left) {
    return left < 0 ? 0 : left < 8 ? left * int{sizeof(T)} : 16;
  }

  __device__ __forceinline__ void fill(Ring& ring) {
#pragma unroll 1
    while (more_) {
      ring.wait_free(at_);
      copy();
      ptx::cp_async_commit_group();
      advance();  // looks pages up while keys are on their way
      ptx::cp_async_wait_group<0>();
      ptx::fence_proxy_async();
      ring.fill(at_.stage);
      at_.parity ^= 1;
    }
  }

 private:
  static constexpr int kWarps = 2;  // each has every other row
  static constexpr int kRows = Tile::kRows / kWarps;
  static constexpr int kInTurn = 4;
  static_assert(Tile::kColumns == 576);

  __device__ __forceinline__ void advance() {
    unit_ += 2;
    while (unit_ >= walk_.part.end) {
      const int over = unit_ - walk_.part.end;
      if (!line_.next(walk_)) {
        more_ = false;
        return;
      }
      unit_ = walk_.part.from + over;
    }
    look_up();
  }
  // Where the lane's key of the unit is.
  __device__ __forceinline__ void look_up() {
    const KeyPart& part = walk_.part;
    const int mine =
        part.first + unit_ * Tile::kRows + lane_index() % kRows * kWarps + warp_index() % kWarps;
    int64_t batch = part.batch;
    int64_t row = part.first_key + mine;
    exists_ = mine < part.keys;
    if (Line::kPacked && table_.pages != nullptr && exists_) {
      const auto nth = static_cast<int>(table_.by_page.quotient(static_cast<uint32_t>(mine)));
      batch = thread::load(table_.pages + part.batch * table_.batch + nth * table_.column);
      row = mine - nth * table_.page;
      exists_ = batch >= 0 && batch < table_.total;
    }
    place_ = exists_ ? batch * call_.k.batch + part.head * call_.k.head + row * call_.k.row : 0;
  }
  __device__ __forceinline__ void copy() const {
    const uint32_t are_there = ptx::vote_sync_ballot(kFullMask, exists_);
    // A size that is not known when compiled takes eight instructions more.
    if (are_there == kFullMask && call_.head_dim == Tile::kColumns) {
      copy<true>(are_there);
    } else {
      copy<false>(are_there);
    }
  }
  template <bool kWhole>
  __device__ __forceinline__ void copy(uint32_t are_there) const {
    const auto columns = static_cast<int>(call_.head_dim);
    // Any address in memory will do where nothing is read.
    const T* const valid = call_.q.template as<const T>();
    const auto copy_chunk = [&](int nth, const T* row, int column, T* to) {
      if constexpr (kWhole) {
        ptx::cp_async<16>(to, row + column);
      } else {
        const int bytes = (are_there >> nth & 1U) != 0 ? bytes_of(columns - column) : 0;
        ptx::cp_async<16>(to, bytes > 0 ? row + column : valid, bytes);
      }
    };
    const T* const base = call_.k.template as<const T>();
    const int column = lane_index() * 8;
    const int last = 512 + lane_index() % 8 * 8;
    const int last_row = lane_index() / 8 * kWarps + warp_index() % kWarps;
    T* to = to_;
#pragma unroll 1
    for (int nth = 0; nth < kRows; nth += kInTurn) {
#pragma unroll
      for (int i = 0; i < kInTurn; ++i) {
        const T* const from = base + warp::shuffle(place_, nth + i);
        const int row = i * kWarps + warp_index() % kWarps;
        copy_chunk(nth + i, from, column, Tile::chunk(to, row, column));
        copy_chunk(nth + i, from, column + 256, Tile::chunk(to, row, column + 256));
      }
      const int i = nth + lane_index() / 8;
      copy_chunk(i, base + warp::shuffle(place_, i), last, Tile::chunk(to, last_row, last));
      to += kWarps * kInTurn * Tile::kPanel;
    }
  }

  const Call& call_;
  const Line& line_;
  const PageTable& table_;
  T* to_;
  Ring::Position at_;
  KeyWalk walk_;
  int unit_ = 0;
  bool more_ = true;
  bool exists_ = false;
  int64_t place_ = 0;
};
#endif

// Of a row of q whose keys were cut: which block has the first of how many parts, and which row of
// a tile it is. Zeros, of a row that was not.
struct CutRow {
  uint32_t block_after;  // the block, and 1
  uint32_t count_and_row;
};

template <class T, bool kPacked>
struct SplitKvMlaWgmmaKernel {
  using Element = T;
  static constexpr Arch kArch = Arch::kSm90a;
  static constexpr int kDim = 576;
  static constexpr int kValueDim = 512;
  static constexpr int kRows = 64;
  static constexpr int kKeys = 64;
  static constexpr int kMinBlocks = 1;
  static constexpr int kConsumers = 256;
  static constexpr int kFillers = 128;
  static constexpr int kThreads = kConsumers + kFillers;
  static constexpr int kColumns = kValueDim / 2;  // of a warpgroup
  static constexpr int kLeast = 2;                // units of a block

  using Line = std::conditional_t<kPacked, PackedLine<kRows, kKeys, kConsumers, kLeast, kFillers>,
                                  DenseLine<kRows, kKeys, kLeast>>;
  using Tile = HeadTile<T, kKeys, kDim>;
  using Weights = HeadTile<T, kRows, kKeys>;
  using Own = KeyParts<T, Line, kRows, kValueDim, kKeys, kConsumers>;
  using Softmax = OnlineSoftmax<T, true>;
  using Filler = PanelFiller<T, Tile, Line>;
  using Ring = typename Filler::Ring;
  static constexpr uint32_t kPartFloats = Own::kPartFloats;
  static constexpr uint32_t kPartsOfBlock = Own::kPartsOfBlock;

  struct Arguments : KeyArguments<Line> {
    uint32_t* cut;  // a CutRow for each row of q
  };
  struct SharedStorage {
    SharedArray<T, 2 * Tile::kElements, 1024> stages;
    SharedArray<T, Tile::kElements, 1024> queries;
    SharedArray<T, Weights::kElements, 1024> weights;
    SharedArray<float, kRows> rescale;
    SharedArray<float, kRows * 2> sums;      // each row's maximum, and sum
    SharedArray<uint32_t, 4> moves;          // whether what a warp's rows are times is not 1
    SharedArray<uint8_t, kConsumers> wrong;  // a thread's number: a warp's would cost a register
    SharedArray<KeyWalk, 1> walk;            // where the block is: registers are dear
    Ring ring;
    [[no_unique_address]] typename Line::Storage line;
  };
  static_assert(sizeof(SharedStorage) <= 227 * 1024, "shared memory of a block");

  __device__ void operator()(SharedStorage& shared, const Arguments& a) const {
    if (thread_index() == 0) {
      shared.ring.init(kConsumers / kWarpSize, Filler::kThreads);
      ptx::fence_mbarrier_init();
    }
    KeyWalk walk;
    const bool has_work = a.line.start(shared.line, walk);
    ptx::barrier_sync();  // the ring's barriers are there
    if (warp_index() >= kConsumers / kWarpSize) {
      ptx::setmaxnreg_dec<72>();
      if (has_work) {
        const int stage = warp_index() / 2 % 2;
        Filler filler(a.call, a.line, a.table, shared.stages.pointer(stage * Tile::kElements),
                      stage, walk);
        ptx::barrier_sync(kAsked, kThreads);
        filler.fill(shared.ring);
      }
    } else {
      ptx::setmaxnreg_inc<216>();
      if (has_work) {
        typename Ring::Position at;
        bool is_first = true;
        do {
          meet();  // none reads the queries before, nor what was wrong
          if (thread_index() == 0) shared.walk[0] = walk;
          attend(shared, a, walk.part, is_first, at);
          is_first = false;
          walk = shared.walk[0];
        } while (a.line.next(walk));
      }
      a.line.report();
    }
  }

 private:
  // All warps that multiply.
  __device__ __forceinline__ static void meet() { ptx::barrier_sync(1, kConsumers); }
  // The first warpgroup has left a unit's weights; the second has used them. The block's first
  // queries have been asked for.
  static constexpr int kWeighed = 2, kUsed = 3, kAsked = 4;
  __device__ __forceinline__ static bool weighs() { return warp_index() < 4; }
  __device__ __forceinline__ static int first_row() {
    return warp_index() % 4 * 16 + lane_index() / 4;
  }
  __device__ __forceinline__ static int first_column() { return lane_index() % 4 * 2; }
  __device__ __forceinline__ static KeyPart part_of(SharedStorage& shared) {
    const KeyWalk walk = shared.walk[0];
    return walk.part;
  }

  __device__ __forceinline__ static void attend(SharedStorage& shared, const Arguments& a,
                                                const KeyPart& part, bool is_first,
                                                typename Ring::Position& at) {
    const int rows = Own::rows_of(a.line, part);
    ask_queries(shared.queries.pointer(0), a, part, rows);
    if constexpr (kPacked) {
      const bool right = Own::has_its_pages(a, part);
      shared.wrong[thread_index()] = right ? 0 : 1;
    }
    // Behind keys queries would come when all of those have come.
    if (is_first) ptx::barrier_arrive(kAsked, kThreads);
    ptx::cp_async_wait_group<0>();
    ptx::fence_proxy_async();
    meet();
    float gathered[kColumns / 2] = {};
    if (weighs()) {
      weigh_and_gather(shared, a, part, rows, gathered, at);
    } else {
      gather_weighed(shared, part, gathered, at);
    }
    meet();  // maxima and sums are there
    finish(shared, a, gathered);
  }

  // The first warpgroup: scores, weights, and its half of the columns.
  __device__ __forceinline__ static void weigh_and_gather(SharedStorage& shared, const Arguments& a,
                                                          const KeyPart& part, int rows,
                                                          float (&gathered)[kColumns / 2],
                                                          typename Ring::Position& at) {
    Softmax softmax{a.call.scale * thread::kLog2E};
    const SeenTogether seen = a.line.seen_of(part.queries, part.keys)
                                  .together(Own::place_of(a.line, part, 0).query,
                                            Own::place_of(a.line, part, rows - 1).query);
    const uint64_t queries = Tile::by_columns(shared.queries.pointer(0));
    const int begin = part.first + part.from * kKeys;
    const int end = part.first + part.end * kKeys;
#pragma unroll 1
    for (int key = begin; key < end; key += kKeys) {
      T* const keys_at = shared.stages.pointer(at.stage * Tile::kElements);
      shared.ring.wait(at);
      float scores[kKeys / 2];
      const uint64_t keys = Tile::by_columns(keys_at);
      ptx::wgmma_pin(scores);
      ptx::wgmma_fence(scores);
#pragma unroll
      for (int k = 0; k < kDim; k += 16) {
        ptx::wgmma_m64k16<kKeys, T>(scores, Tile::column_step(queries, k),
                                    Tile::column_step(keys, k), k > 0);
      }
      ptx::wgmma_commit_group();
      ptx::wgmma_wait_group<0>(scores);
      if (key < seen.whole_first || key + kKeys > seen.whole_end) {
        hide(scores, a, part_of(shared), key);
      }
      float rescale[2];
      const bool moves = softmax.weigh(scores, rescale);
      uint32_t weights[kKeys / 16][4];
      pack(scores, weights);
      if (key > begin) ptx::barrier_sync(kUsed, kConsumers);
      leave(shared, weights, rescale, moves);
      ptx::fence_proxy_async();
      ptx::barrier_arrive(kWeighed, kConsumers);
      if (moves) scale_rows(gathered, rescale);
      const uint64_t values = Tile::by_rows(keys_at);
      ptx::wgmma_fence(gathered, weights[0], weights[1], weights[2], weights[3]);
#pragma unroll
      for (int k = 0; k < kKeys; k += 16) {
        ptx::wgmma_m64k16<kColumns, T, ptx::Major::kMN>(gathered, weights[k / 16],
                                                        Tile::row_step(values, k), true);
      }
      ptx::wgmma_commit_group();
      ptx::wgmma_wait_group<0>(gathered);
      if (lane_index() == 0) shared.ring.release(at.stage);
      at.advance();
    }
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const float sum = warp::all_reduce<4>(softmax.sum[i], [](float a, float b) { return a + b; });
      if (lane_index() % 4 == 0) {
        shared.sums.template store<2>((first_row() + i * 8) * 2,
                                      Vec<float, 2>{softmax.max[i], sum});
      }
    }
  }
  // The second one: the other half, by the same weights.
  __device__ __forceinline__ static void gather_weighed(SharedStorage& shared, const KeyPart& part,
                                                        float (&gathered)[kColumns / 2],
                                                        typename Ring::Position& at) {
    const uint64_t weights = Weights::by_columns(shared.weights.pointer(0));
    const int units = part.end - part.from;
#pragma unroll 1
    for (int unit = 0; unit < units; ++unit) {
      const T* const values_at = shared.stages.pointer(at.stage * Tile::kElements) +
                                 kColumns / Tile::kPanel * Tile::kPanelElements;
      shared.ring.wait(at);
      ptx::barrier_sync(kWeighed, kConsumers);
      if (shared.moves[warp_index() % 4] != 0) {
        float rescale[2];
#pragma unroll
        for (int i = 0; i < 2; ++i) rescale[i] = shared.rescale[first_row() + i * 8];
        scale_rows(gathered, rescale);
      }
      const uint64_t values = Tile::by_rows(values_at);
      ptx::wgmma_fence(gathered);
#pragma unroll
      for (int k = 0; k < kKeys; k += 16) {
        ptx::wgmma_m64k16<kColumns, T, ptx::Major::kK, ptx::Major::kMN>(
            gathered, Weights::column_step(weights, k), Tile::row_step(values, k), true);
      }
      ptx::wgmma_commit_group();
      ptx::wgmma_wait_group<0>(gathered);
      if (unit + 1 < units) ptx::barrier_arrive(kUsed, kConsumers);
      if (lane_index() == 0) shared.ring.release(at.stage);
      at.advance();
    }
  }
  // For the second warpgroup: weights, and what earlier sums are times.
  __device__ __forceinline__ static void leave(SharedStorage& shared,
                                               const uint32_t (&weights)[kKeys / 16][4],
                                               const float (&rescale)[2], bool moves) {
    if (lane_index() == 0) shared.moves[warp_index()] = moves ? 1 : 0;
    if (moves && lane_index() % 4 == 0) {
#pragma unroll
      for (int i = 0; i < 2; ++i) shared.rescale[first_row() + i * 8] = rescale[i];
    }
#pragma unroll
    for (int k = 0; k < kKeys / 16; ++k) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        T* const chunk =
            Weights::chunk(shared.weights.pointer(0), first_row() + i % 2 * 8, k * 16 + i / 2 * 8);
        SharedSpan<T>(chunk, 8).template store<2>(first_column(),
                                                  std::bit_cast<Vec<T, 2>>(weights[k][i]));
      }
    }
  }

  // As A of a product with 16 keys each.
  __device__ __forceinline__ static void pack(const float (&scores)[kKeys / 2],
                                              uint32_t (&weights)[kKeys / 16][4]) {
#pragma unroll
    for (int k = 0; k < kKeys / 16; ++k) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        weights[k][i] = tile::pack<T>(scores[k * 8 + i * 2], scores[k * 8 + i * 2 + 1]);
      }
    }
  }
  __device__ __forceinline__ static void hide(float (&scores)[kKeys / 2], const Arguments& a,
                                              const KeyPart& part, int key) {
    const Seen<int> seen = a.line.seen_of(part.queries, part.keys);
    SeenColumns columns[2];
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int query = Own::place_of(a.line, part, first_row() + i * 8).query;
      columns[i] = {seen.first(query) - key - first_column(),
                    seen.end(query) - key - first_column()};
    }
    Softmax::hide(scores, columns);
  }

  // What there is not is zeros.
  __device__ __forceinline__ static void ask_queries(T* to, const Arguments& a, const KeyPart& part,
                                                     int rows) {
    constexpr int kChunks = kDim / 8;
    const auto columns = static_cast<int>(a.call.head_dim);
    // Any address in memory will do where nothing is read.
    const T* const valid = a.call.q.template as<const T>();
#pragma unroll 2
    for (int at = Own::thread(); at < kRows * kChunks; at += kConsumers) {
      const int row = at / kChunks;
      const int column = at % kChunks * 8;
      const int bytes = row < rows ? Filler::bytes_of(columns - column) : 0;
      const T* const from =
          Own::template row_of<const T>(a.call.q, part, Own::place_of(a.line, part, row));
      ptx::cp_async<16>(Tile::chunk(to, row, column), bytes > 0 ? from + column : valid, bytes);
    }
    ptx::cp_async_commit_group();
  }

  // What was gathered, written, or left to be put together.
  __device__ __forceinline__ static void finish(SharedStorage& shared, const Arguments& a,
                                                const float (&gathered)[kColumns / 2]) {
    const KeyWalk walk = shared.walk[0];
    const KeyPart& part = walk.part;
    const int rows = Own::rows_of(a.line, part);
    int wrong = 0;
    if constexpr (kPacked) {
#pragma unroll
      for (int warp = 0; warp < kConsumers / kWarpSize; ++warp) {
        wrong |= shared.wrong[warp * kWarpSize];
      }
    }
    const int column = (weighs() ? 0 : kColumns) + first_column();
    const auto columns = static_cast<int>(a.call.value_dim);
    const bool tells = weighs() && lane_index() % 4 == 0;
    const float scale = a.call.scale * thread::kLog2E;
    float* const left =
        a.parts.partials + Own::left_at(static_cast<int>(Line::block()), part.from == 0);
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int row = first_row() + i * 8;
      if (row >= rows) continue;
      const auto sums = shared.sums.template load<2>(row * 2);
      if (part.is_whole()) {
        if (wrong != 0) continue;
        const auto end = Own::ending(a, part, row, sums[0], sums[1], scale);
        if (tells) Own::tell(a, part, row, end.lse);
        // Of rows that begin at multiples of 16 bytes, and are multiples of them.
#pragma unroll
        for (int n = 0; n < kColumns / 8; ++n) {
          if (column + n * 8 >= columns) continue;
          const Vec<float, 2> two{gathered[n * 4 + i * 2] * end.factor,
                                  gathered[n * 4 + i * 2 + 1] * end.factor};
          thread::store(end.to + column + n * 8, thread::convert<T>(two));
        }
      } else {
        if (tells) {
          thread::store(left + row * 2, Vec<float, 2>{sums[0], wrong != 0 ? Own::kWrong : sums[1]});
        }
#pragma unroll
        for (int n = 0; n < kColumns / 8; ++n) {
          thread::store(left + Own::kGathered + row * kValueDim + column + n * 8,
                        Vec<float, 2>{gathered[n * 4 + i * 2], gathered[n * 4 + i * 2 + 1]});
        }
      }
    }
    const int row = thread_index();
    if (part.is_whole() || part.from != 0 || row >= rows) return;
    const int first = a.line.block_of(shared.line, walk.at);
    const int count = a.line.block_of(shared.line, walk.at + part.units - 1) - first + 1;
    const auto place = Own::place_of(a.line, part, row);
    const int64_t of_all =
        (kPacked ? part.first_query : part.batch * a.call.queries) + int64_t{place.query};
    thread::store(a.cut + (of_all * a.call.heads + place.head) * 2,
                  Vec<uint32_t, 2>{static_cast<uint32_t>(first + 1),
                                   static_cast<uint32_t>(count * kRows + row)});
  }
};

// The parts of a row of q, put together; a block a row.
template <class Main>
struct MergeCutRowsKernel {
  static constexpr int kThreads = 128;
  using Own = typename Main::Own;
  using T = typename Main::Element;
  static_assert(kThreads * 4 == Main::kValueDim);

  struct Arguments {
    uint32_t* cut;
    const float* partials;
    Call call;
  };
  struct SharedStorage {};

  __device__ void operator()(SharedStorage& /*shared*/, const Arguments& a) const {
    ptx::griddepcontrol_wait();
    const Call& call = a.call;
    uint32_t* const of_row = a.cut + block_index() * 2;
    const auto cut = thread::load<2>(of_row);
    if (cut[0] == 0) return;
    ptx::barrier_sync();                                                     // all have read it
    if (thread_index() == 0) thread::store(of_row, Vec<uint32_t, 2>{0, 0});  // for the next call
    const auto first = static_cast<int>(cut[0]) - 1;
    const auto count = static_cast<int>(cut[1] / Main::kRows);
    const uint32_t row = cut[1] % Main::kRows;
    const int column = thread_index() * 4;
    const float scale = call.scale * thread::kLog2E;
    const typename Own::Merged merged =
        Own::merge(a.partials, first, count, row * 2,
                   Own::kGathered + row * Main::kValueDim + static_cast<uint32_t>(column), scale);
    if (merged.is_wrong) return;
    const int64_t query = block_index() / call.heads;
    const int64_t head = block_index() - query * call.heads;
    const int64_t batch = Own::kPacked ? 0 : query / call.queries;
    const int64_t in_batch = query - batch * call.queries;
    const float sink = call.sinks.exists ? thread::load(call.sinks.data + head * call.sinks.head)
                                         : -thread::kInfinity;
    float factor, lse;
    OnlineRows<1, true>::finish(merged.max, merged.sum, scale, sink, factor, lse);
    if (column == 0) thread::store(call.lse.at<float>(batch, head, in_batch), lse);
    if (column >= static_cast<int>(call.value_dim)) return;
    Vec<float, 4> scaled;
#pragma unroll
    for (int i = 0; i < 4; ++i) scaled[i] = merged.gathered[i] * factor;
    thread::store(call.out.at<T>(batch, head, in_batch) + column, thread::convert<T>(scaled));
  }
};

}  // namespace ws::attention
