// The kernel of the rungs that take 16 bytes an access: a thread holds the two vectors of a head
// that turn with the same part of the tables, of one head or of several at one position.
//
// The halves of what turns begin with vector 0 and `pairs` elements further on. A thread's first
// vector lies in one, its second at the same place in the other: where pairs are of halves they
// turn each other; where they are of neighbours each turns in itself, by pairs / 2 further on.
//
// A block takes a tile: some positions, and at each of them some heads. Its threads go first along
// a vector's place in the head, then along what lies side by side in memory, heads or positions. It
// has as many threads as leave no warp partly idle, where that can be.
#pragma once

#include <algorithm>

#include "kernels/rope/rotation.hpp"
#include "warpsmith/ptx/barrier.hpp"
#include "warpsmith/shared.hpp"

namespace ws::rope {

#if WS_DEVICE_CODE

// What a source of sines and cosines keeps for a block: nothing, or its frequencies.
template <class Source>
struct Kept {
  struct SharedStorage {};
  static constexpr int64_t kMostPairs = int64_t{1} << 30;

  __device__ __forceinline__ static void begin(SharedStorage& /*shared*/, const Source& /*source*/,
                                               int64_t /*pairs*/) {}
  template <int N>
  __device__ __forceinline__ static void load(SharedStorage& /*shared*/, const Source& source,
                                              int64_t batch, int64_t position, int64_t head,
                                              int pair, thread::SinCos* found) {
    source.template load<N>(batch, position, head, pair, found);
  }
};
template <>
struct Kept<Angles> {
  static constexpr int64_t kMostPairs = 512;
  struct SharedStorage {
    SharedArray<uint64_t, kMostPairs> frequencies;
  };

  __device__ __forceinline__ static void begin(SharedStorage& shared, const Angles& source,
                                               int64_t pairs) {
    for (int pair = thread_index(); pair < pairs; pair += block_threads()) {
      shared.frequencies[pair] = source.frequency(pair);
    }
    ptx::barrier_sync();
  }
  template <int N>
  __device__ __forceinline__ static void load(SharedStorage& shared, const Angles& /*source*/,
                                              int64_t /*batch*/, int64_t position, int64_t /*head*/,
                                              int pair, thread::SinCos* found) {
#pragma unroll
    for (int i = 0; i < N; ++i) {
      const uint64_t frequency = shared.frequencies[pair + i];
      found[i] = Angles::turn(frequency, position);
    }
  }
};

// A tensor of elements T whose columns lie side by side.
template <class T>
struct Heads {
  const T* x;
  T* y;
  Strides from;
  Strides to;

  explicit Heads(const Turned& tensor)
      : x(static_cast<const T*>(tensor.x)),
        y(static_cast<T*>(tensor.y)),
        from(tensor.from),
        to(tensor.to) {}
};
template <class T>
struct HeadPair {
  const T* x;
  T* y;
};

// kMost heads a thread.
template <class T, class Source, bool kInterleaved, int kMost>
struct HeadsKernel {
  static constexpr int kThreads = 256;  // at most
  static constexpr int kWidth = 16 / sizeof(T);
  struct Arguments {
    Heads<T> queries;
    Heads<T> keys;
    Source source;
    Positions positions;
    int64_t tokens;
    uint32_t heads;
    uint32_t query_heads;
    int columns;
    int pairs;
    bool inverse;
    bool heads_inside;        // tiles go along the heads first
    bool sequences_together;  // then through the sequences, else along the other
    uint32_t tile_positions;
    thread::Divider vectors;     // of half a head
    thread::Divider side_heads;  // of a tile, from thread to thread
    thread::Divider inside;      // tiles along what is inside
    thread::Divider next;        // tiles, or sequences, of what comes then
  };
  using SharedStorage = typename Kept<Source>::SharedStorage;

  __device__ void operator()(SharedStorage& shared, const Arguments& a) const {
    Kept<Source>::begin(shared, a.source, a.pairs);

    const auto block = static_cast<uint32_t>(block_index());
    const uint32_t outer = a.inside.quotient(block);
    const uint32_t first = block - outer * a.inside.divisor();
    const uint32_t far = a.next.quotient(outer);
    const uint32_t near = outer - far * a.next.divisor();
    const uint32_t batch = a.sequences_together ? near : far;
    const uint32_t second = a.sequences_together ? far : near;
    const auto thread = static_cast<uint32_t>(thread_index());
    const uint32_t row = a.vectors.quotient(thread);
    const auto vector = static_cast<int>(thread - row * a.vectors.divisor());
    const uint32_t side = a.side_heads.divisor();
    const uint32_t row_position = a.side_heads.quotient(row);
    const int64_t token =
        static_cast<int64_t>(a.heads_inside ? second : first) * a.tile_positions + row_position;
    const uint32_t head =
        (a.heads_inside ? first : second) * side * kMost + (row - row_position * side);
    if (row_position >= a.tile_positions || token >= a.tokens || head >= a.heads) return;

    const int at = vector * kWidth;
    Vec<T, kWidth> low[kMost];
    Vec<T, kWidth> high[kMost];
#pragma unroll
    for (int i = 0; i < kMost; ++i) {
      if (head + i * side >= a.heads) break;
      const T* x = here(a, batch, token, head + i * side).x + at;
      low[i] = thread::load<kWidth>(x);
      high[i] = thread::load<kWidth>(x + a.pairs);
    }
    int64_t position = 0;
    if (!a.positions.find(batch, token, vector == 0 && head == 0, position)) return;
    thread::SinCos by[kWidth];
    if constexpr (kInterleaved) {
      load<kWidth / 2>(shared, a, batch, position, head, at / 2, by);
      load<kWidth / 2>(shared, a, batch, position, head, (at + a.pairs) / 2, by + kWidth / 2);
    } else {
      load<kWidth>(shared, a, batch, position, head, at, by);
    }
#pragma unroll
    for (int i = 0; i < kMost; ++i) {
      if (head + i * side >= a.heads) break;
      const HeadPair<T> to = here(a, batch, token, head + i * side);
      turn_vectors(low[i], high[i], by);
      thread::store(to.y + at, low[i]);
      thread::store(to.y + at + a.pairs, high[i]);
      for (int c = 2 * a.pairs + at; c < a.columns; c += a.pairs) {  // what does not turn
        thread::store(to.y + c, thread::load<kWidth>(to.x + c));
      }
    }
  }

 private:
  static __device__ __forceinline__ HeadPair<T> here(const Arguments& a, int64_t batch,
                                                     int64_t token, uint32_t head) {
    const auto within = [&](const Strides& s, uint32_t h) {
      return batch * s.batch + token * s.position + h * s.head;
    };
    if (head < a.query_heads) {
      return {a.queries.x + within(a.queries.from, head), a.queries.y + within(a.queries.to, head)};
    }
    const uint32_t h = head - a.query_heads;
    return {a.keys.x + within(a.keys.from, h), a.keys.y + within(a.keys.to, h)};
  }
  template <int N>
  static __device__ __forceinline__ void load(SharedStorage& shared, const Arguments& a,
                                              int64_t batch, int64_t position, int64_t head,
                                              int pair, thread::SinCos* by) {
    Kept<Source>::template load<N>(shared, a.source, batch, position, head, pair, by);
#pragma unroll
    for (int i = 0; i < N; ++i) by[i].sin = a.inverse ? -by[i].sin : by[i].sin;
  }
  static __device__ __forceinline__ void turn_vectors(Vec<T, kWidth>& low, Vec<T, kWidth>& high,
                                                      const thread::SinCos* by) {
    Vec<float, kWidth> a = thread::convert<float>(low);
    Vec<float, kWidth> b = thread::convert<float>(high);
#pragma unroll
    for (int i = 0; i < kWidth; ++i) {
      if constexpr (kInterleaved) {
        if (i < kWidth / 2) {
          turn(a[2 * i], a[2 * i + 1], by[i]);
        } else {
          turn(b[2 * i - kWidth], b[2 * i - kWidth + 1], by[i]);
        }
      } else {
        turn(a[i], b[i], by[i]);
      }
    }
    low = thread::convert<T>(a);
    high = thread::convert<T>(b);
  }
};

// Threads of a block, at most about: small blocks end soon, and come in the order of addresses.
inline constexpr int64_t kTileThreads = 128;

// Whether everything lies in whole vectors of 16 bytes, and a block holds half a head.
inline bool heads_supported(const Call& call, Why& why) {
  const auto size = static_cast<int64_t>(size_of(call.dtype));
  const int64_t width = 16 / size;
  if (!why.unless(call.pairs % width == 0 && call.columns % width == 0,
                  "takes columns in whole vectors of ", width, ", and pairs: not ", call.columns,
                  " and ", call.pairs) ||
      !why.unless(call.pairs / width <= kTileThreads, "takes up to ", kTileThreads * width,
                  " pairs, not ", call.pairs)) {
    return false;
  }
  const auto fits = [&](const void* data, const Strides& s, int64_t elements) {
    return s.column == 1 && reinterpret_cast<uintptr_t>(data) % 16 == 0 &&
           (s.batch | s.position | s.head) % elements == 0;
  };
  for (const Turned& tensor : call.tensors) {
    if (tensor.heads == 0) continue;
    if (!why.unless(fits(tensor.x, tensor.from, width) && fits(tensor.y, tensor.to, width),
                    "takes heads that lie in one piece and start at a multiple of 16 bytes")) {
      return false;
    }
  }
  // A vector of a table is as many numbers, those of neighbours half of them.
  const bool tables_fit = !call.has_tables || (fits(call.cos.data, call.cos.strides, width) &&
                                               fits(call.sin.data, call.sin.strides, width));
  return why.unless(tables_fit, "takes tables whose rows start at a multiple of 16 bytes") &&
         why.unless(call.positions < (int64_t{1} << 30) && call.heads() < (int64_t{1} << 24),
                    "takes fewer positions and heads");
}

inline bool tables_shared(const Call& call, Why& why) {
  return why.unless(call.cos.strides.head == 0 && call.sin.strides.head == 0,
                    "takes tables that all heads share");
}

// How a call's heads and positions are cut into tiles.
struct Tiles {
  int64_t side_heads;
  int64_t positions;  // of a tile
  int64_t threads;
  int64_t along_heads;
  int64_t along_positions;
  bool heads_inside;
  bool sequences_together;  // all at one position before the next, which then find its tables' rows
                            // in the L2 and not in memory

  // `vectors` threads a head, each with up to `most` heads.
  Tiles(const Call& call, int64_t vectors, int64_t most) {
    const Strides& s = call.tensors[call.tensors[0].heads > 0 ? 0 : 1].from;
    heads_inside = call.positions <= 1 || s.head < s.position;
    const int64_t wanted = wanted_threads(call, vectors, most);
    const int64_t rows = std::max<int64_t>(wanted / vectors, 1);
    sequences_together = heads_inside && sequences_share_rows(call);
    // All heads in as few tiles as it takes, each of the same size; else positions side by side.
    along_heads = divide_up(call.heads(), most * (heads_inside ? rows : 1));
    side_heads = heads_inside ? divide_up(call.heads(), most * along_heads) : 1;
    positions = std::min(call.positions, positions_of(side_heads * vectors, wanted));
    threads = round_up(positions * side_heads * vectors, int64_t{kWarpSize});
    along_positions = divide_up(call.positions, positions);
  }
  int64_t blocks(const Call& call) const { return call.batches * along_heads * along_positions; }
  int64_t inside() const { return heads_inside ? along_heads : along_positions; }
  int64_t next(const Call& call) const {
    if (sequences_together) return call.batches;
    return heads_inside ? along_positions : along_heads;
  }

 private:
  static bool sequences_share_rows(const Call& call) {
    return call.has_tables && call.cos.strides.batch == 0 && call.sin.strides.batch == 0 &&
           (!call.has_positions || call.batch_stride == 0);
  }
  // Threads of a block, about. The smaller, the sooner it ends: a warp where heads come four a
  // thread and tiles are whole, else more (H200 2026-11-30, of heads first 94.3 % of copy in 16
  // bits where 128 have 92.7; of 40 heads inside, whose last tile would be half a one, 93 and 95).
  // Angles cost a block its frequencies.
  int64_t wanted_threads(const Call& call, int64_t vectors, int64_t most) const {
    if (!call.has_tables) return kTileThreads;
    if (most == 1) return heads_inside ? kTileThreads : kTileThreads / 2;
    const bool are_whole =
        kWarpSize % vectors == 0 && call.heads() % (most * kWarpSize / vectors) == 0;
    return !heads_inside || are_whole ? kWarpSize : kTileThreads;
  }
  // More than a block's worth where that leaves fewer lanes idle: 40 heads of 128 halves are 80
  // threads a position, of which two make five whole warps.
  static int64_t positions_of(int64_t threads, int64_t wanted) {
    const auto idle = [&](int64_t count) {
      return round_up(count * threads, int64_t{kWarpSize}) - count * threads;
    };
    int64_t best = std::max<int64_t>(wanted / threads, 1);
    for (int64_t count = best + 1; count * threads <= 2 * wanted; ++count) {
      if (idle(count) * best < idle(best) * count) best = count;
    }
    return best;
  }
};

template <class T, class Source, bool kInterleaved, int kMost>
void launch_heads(const Call& call, const char* rung, const Context& context) {
  using Kernel = HeadsKernel<T, Source, kInterleaved, kMost>;
  const int64_t vectors = call.pairs / Kernel::kWidth;
  static_assert(Kernel::kThreads == 2 * kTileThreads);
  const Tiles tiles(call, vectors, kMost);
  launch<Kernel>({.blocks = tiles.blocks(call), .threads = static_cast<int>(tiles.threads)},
                 context.stream,
                 {.queries = Heads<T>(call.tensors[0]),
                  .keys = Heads<T>(call.tensors[1]),
                  .source = Source(call),
                  .positions = Positions(call, rung),
                  .tokens = call.positions,
                  .heads = static_cast<uint32_t>(call.heads()),
                  .query_heads = static_cast<uint32_t>(call.tensors[0].heads),
                  .columns = static_cast<int>(call.columns),
                  .pairs = static_cast<int>(call.pairs),
                  .inverse = call.inverse,
                  .heads_inside = tiles.heads_inside,
                  .sequences_together = tiles.sequences_together,
                  .tile_positions = static_cast<uint32_t>(tiles.positions),
                  .vectors = thread::Divider(vectors),
                  .side_heads = thread::Divider(tiles.side_heads),
                  .inside = thread::Divider(tiles.inside()),
                  .next = thread::Divider(tiles.next(call))});
}
// Of a call that has tables.
template <int kMost>
void launch_tables(const Call& call, const char* rung, const Context& context) {
  with_type<kFloats>(call.dtype, [&]<class T>() {
    const auto launched = [&]<class V>() {
      const auto run = call.interleaved ? launch_heads<T, Tables<V>, true, kMost>
                                        : launch_heads<T, Tables<V>, false, kMost>;
      run(call, rung, context);
    };
    if (std::is_same_v<T, float> || call.table_dtype == DType::kF32) {
      launched.template operator()<float>();
    } else {
      launched.template operator()<T>();
    }
  });
}
#endif

}  // namespace ws::rope
