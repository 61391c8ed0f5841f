// Idea: nothing is shifted, elements are gathered: a row stands in shared memory at the address
//   that it has in x, modulo 16, so that whole pieces land as they are, and a word of y is made of
//   elements one below the other, whose rows are as far apart as these residues permit.
// From realigned: rows of y cut at whole sectors, so that no two tiles write the same one; and
//   elements that stay together, such as an image's colours, are found by one division a word.
// Traffic: x once from memory and up to a third again from the L2, y once in whole sectors.
// Limits: up to 16 elements that stay together. Rows of x at multiples of 16 bytes leave 4, 8 or
//   16 lanes to a bank, of elements of 4, 2 and 1 bytes.
// Long: whole tiles without runs have code of their own; and pieces that reach out of x.
#include "catalogue/row_layout.hpp"
#include "kernels/transpose/tile_walk.hpp"
#include "warpsmith/launch.hpp"
#include "warpsmith/ptx/barrier.hpp"
#include "warpsmith/ptx/cp_async_kept.hpp"
#include "warpsmith/thread/memory.hpp"
#include "warpsmith/thread/transpose.hpp"

namespace ws::transpose {
namespace {

__device__ __forceinline__ uint32_t address_of(const void* pointer) {
  return static_cast<uint32_t>(reinterpret_cast<uintptr_t>(pointer));
}

template <class T, bool kRuns>
struct GatheredKernel {
  static constexpr int kBytes = sizeof(T);
  static constexpr GatheredShape kShape = GatheredShape::of(kBytes);
  static constexpr int kThreads = kShape.threads;
  static constexpr int kMinBlocks = kShape.blocks;
  static constexpr int kUseful = kShape.rows;
  static constexpr int kHalo = GatheredShape::kCut / kBytes - 1;  // rows before them
  static constexpr int kRows = kUseful + kHalo;
  static constexpr int kColumns = kShape.columns;
  static constexpr int kWidth = 16 / kBytes;
  static constexpr int kCover =
      kColumns / kWidth + 1;  // pieces that a row's part lies in, or fewer
  static constexpr int kMostPitch = kColumns + 2 * kWidth - 1;

  // Two pieces share a sector. H200 2026-11-30: 5 to 7 % faster so, and of the others slower.
  static constexpr bool kIsKept = kBytes == 8 || (kBytes == 4 && !kRuns);

  using Word = std::conditional_t<kBytes == 8, uint64_t, uint32_t>;
  static constexpr int kOfWord = thread::elements_of_word(kBytes);
  static constexpr int kWords = kUseful / kOfWord;  // of a column, for each element of a run
  static constexpr int kColumnsAtOnce = kThreads / kWords;
  static constexpr int kSteps = kColumns / kColumnsAtOnce;
  static constexpr int kBatch = kBytes == 2 || kBytes == 4 ? 8 : 4;  // words before a store
  static_assert(kThreads % kWords == 0 && kSteps % kBatch == 0);

  struct Arguments {
    const T* x;
    T* y;
    const T* x_begin;  // the memory that x has, of which no piece may reach out
    const T* x_end;
    int64_t rows;
    int64_t columns;
    int64_t x_pitch;
    int64_t y_pitch;
    int pitch;            // of rows in shared memory, which is x's modulo 16 bytes
    thread::Divider run;  // elements at each row and column
    Walk<kMaxRank> tiles;
    int column_loop;
  };
  struct SharedStorage {
    SharedArray<T, kRows * kMostPitch + 2 * kWidth, 128> tile;
  };

  // A tile. Rows are counted from the first useful one, kHalo behind the first in shared memory;
  // elements of a row of y from where it would begin if that were a sector's first.
  struct Part {
    const T* x;  // the first row in shared memory, and the first column
    T* y;
    int columns;
    int begin;  // rows that are brought
    int end;
    int first;  // elements of y that exist
    int last;
    int base;  // where x's first element has its place
    bool is_whole;

    __device__ __forceinline__ explicit Part(const Arguments& a) {
      int64_t row_part = 0;
      int64_t column_part = 0;
      const Offsets at = a.tiles.at(static_cast<uint32_t>(block_index()), [&](int loop, int index) {
        if (loop == 0) row_part = index;
        if (loop == a.column_loop) column_part = index;
      });
      const int run = kRuns ? static_cast<int>(a.run.divisor()) : 1;
      const int most = kRuns ? static_cast<int>(a.run.quotient(kColumns)) : kColumns;
      x = a.x + at.x - kHalo * a.x_pitch;
      y = a.y + at.y;
      const int64_t columns_left = a.columns - column_part * most;
      columns = columns_left < most ? static_cast<int>(columns_left) : most;
      const int64_t rows_left = a.rows - row_part * kUseful;
      end = rows_left < kUseful ? static_cast<int>(rows_left) : kUseful;
      begin = row_part == 0 ? 0
              : kRuns       ? -static_cast<int>(a.run.quotient(kHalo + run - 1))
                            : -kHalo;
      first = row_part == 0 ? 0 : -kHalo;
      last = end * run;
      base = static_cast<int>(address_of(x) % 16) / kBytes;
      is_whole = row_part > 0 && end == kUseful && columns == kColumns;
    }
    __device__ __forceinline__ const T* row_of_x(const Arguments& a, int row) const {
      return x + static_cast<int64_t>(row + kHalo) * a.x_pitch;
    }
    // Whether all pieces of all rows are memory of x.
    __device__ __forceinline__ bool lies_inside(const Arguments& a, int elements) const {
      const auto one = reinterpret_cast<uintptr_t>(row_of_x(a, begin));
      const auto other = reinterpret_cast<uintptr_t>(row_of_x(a, end - 1));
      const uintptr_t past = static_cast<uint32_t>(elements * kBytes);
      return (one < other ? one : other) / 16 * 16 >= reinterpret_cast<uintptr_t>(a.x_begin) &&
             ((one < other ? other : one) + past + 15) / 16 * 16 <=
                 reinterpret_cast<uintptr_t>(a.x_end);
    }
  };

  __device__ __forceinline__ static void bring(SharedStorage& shared, const Arguments& a,
                                               const Part& part) {
    const int elements = part.columns * (kRuns ? static_cast<int>(a.run.divisor()) : 1);
    if (part.end <= part.begin) return;
    if (!part.lies_inside(a, elements)) {
      for (int row = part.begin + warp_index(); row < part.end; row += kThreads / kWarpSize) {
        const T* x = part.row_of_x(a, row);
        const int to = part.base + (row + kHalo) * a.pitch;
        for (int i = lane_index(); i < elements; i += kWarpSize) {
          shared.tile[to + i] = thread::load(x + i);
        }
      }
      return;
    }
#pragma unroll 4
    for (int i = (part.begin + kHalo) * kCover + thread_index(); i < (part.end + kHalo) * kCover;
         i += kThreads) {
      const int row = i / kCover;
      const int piece = i % kCover;
      const T* x = part.x + static_cast<int64_t>(row) * a.x_pitch;
      const int beyond = static_cast<int>(address_of(x) % 16) / kBytes;
      if (piece * kWidth >= elements + beyond) continue;
      T* to = shared.tile.pointer(part.base + row * a.pitch - beyond + piece * kWidth);
      const T* from = x - beyond + piece * kWidth;
      if constexpr (kIsKept) {
        ptx::cp_async_kept(to, from);
      } else {
        ptx::cp_async<16>(to, from);
      }
    }
    ptx::cp_async_commit_group();
    ptx::cp_async_wait_group<0>();
  }

  // Elements of a sector of y before the first of a row.
  __device__ __forceinline__ static int elements_before(const T* row) {
    return static_cast<int>(address_of(row) % GatheredShape::kCut) / kBytes;
  }
  // Elements, first ones in the low bits.
  __device__ __forceinline__ static Word word_of(SharedStorage& shared, const int (&at)[kOfWord],
                                                 int further) {
    if constexpr (kOfWord == 1) {
      const Word word = shared.tile[at[0] + further];
      return word;
    } else {
      uint32_t elements[kOfWord];
#pragma unroll
      for (int i = 0; i < kOfWord; ++i) {
        const T element = shared.tile[at[i] + further];
        elements[i] = element;
      }
      if constexpr (kOfWord == 2) {
        return ptx::permute_bytes(elements[0], elements[1], 0x5410);
      } else {
        return ptx::permute_bytes(ptx::permute_bytes(elements[0], elements[1], 0x0040),
                                  ptx::permute_bytes(elements[2], elements[3], 0x0040), 0x5410);
      }
    }
  }

  // Of all columns of a whole tile, without runs.
  __device__ __forceinline__ static void take_whole(SharedStorage& shared, const Arguments& a,
                                                    const Part& part) {
    const int column = thread_index() / kWords;
    const int word = thread_index() % kWords * kOfWord;
    int from = part.base + (kHalo + word) * a.pitch + column;
    T* row = part.y + column * a.y_pitch;
#pragma unroll 1
    for (int n = 0; n < kSteps; n += kBatch) {
      Word words[kBatch];
      T* to[kBatch];
#pragma unroll
      for (int i = 0; i < kBatch; ++i) {
        const int before = elements_before(row);
        int at[kOfWord];
#pragma unroll
        for (int j = 0; j < kOfWord; ++j) at[j] = from + (j - before) * a.pitch;
        words[i] = word_of(shared, at, 0);
        to[i] = row + (word - before);
        from += kColumnsAtOnce;
        row += kColumnsAtOnce * a.y_pitch;
      }
#pragma unroll
      for (int i = 0; i < kBatch; ++i) thread::store(reinterpret_cast<Word*>(to[i]), words[i]);
    }
  }
  // Of any tile. A thread's words of one column after another have their elements at the same
  // places, where rows of y begin alike.
  __device__ __forceinline__ static void take_any(SharedStorage& shared, const Arguments& a,
                                                  const Part& part) {
    const int run = static_cast<int>(a.run.divisor());
    for (int n = 0; n < run; ++n) {
      const int word = (n * kWords + thread_index() % kWords) * kOfWord;
      int known = -1;
      int at[kOfWord] = {};
#pragma unroll 1
      for (int column = thread_index() / kWords; column < part.columns; column += kColumnsAtOnce) {
        T* row = part.y + column * a.y_pitch;
        const int before = elements_before(row);
        const int element = word - before;
        if (before != known) {
#pragma unroll
          for (int j = 0; j < kOfWord; ++j) {
            const int in_tile = element + j + kHalo * run;
            const auto slot = static_cast<int>(a.run.quotient(static_cast<uint32_t>(in_tile)));
            at[j] = part.base + slot * (a.pitch - run) + in_tile;
          }
          known = before;
        }
        if (part.first <= element && element + kOfWord <= part.last) {
          const Word found = word_of(shared, at, column * run);
          thread::store(reinterpret_cast<Word*>(row + element), found);
          continue;
        }
#pragma unroll
        for (int j = 0; j < kOfWord; ++j) {
          if (part.first > element + j || element + j >= part.last) continue;
          const T one = shared.tile[at[j] + column * run];
          thread::store(row + element + j, one);
        }
      }
    }
  }

  __device__ void operator()(SharedStorage& shared, const Arguments& a) const {
    const Part part(a);
    bring(shared, a, part);
    ptx::barrier_sync();
    if (!kRuns && part.is_whole) {
      take_whole(shared, a, part);
    } else {
      take_any(shared, a, part);
    }
  }
};

struct Gathered {
  static bool supports(const Permutation& call, Why& why) {
    const GatheredPlan plan = plan_gathered(call);
    return why.unless(
               plan.tiles > 0, "takes up to ", kMostRun,
               " elements that stay together, of a loop that is the fastest in x and another "
               "in y") &&
           takes_whole_pieces(call, plan.tiles, why);
  }
  static void run(const Permutation& call, const Context& context) {
    with_element(call.element_bytes, [&]<class T>() {
      const GatheredPlan plan = plan_gathered(call);
      plan.run > 1 ? run_as<GatheredKernel<T, true>, T>(call, plan, context.stream)
                   : run_as<GatheredKernel<T, false>, T>(call, plan, context.stream);
    });
  }

 private:
  template <class Kernel, class T>
  static void run_as(const Permutation& call, const GatheredPlan& plan, Stream stream) {
    const Permutation::Reach reach = call.reach(kX);
    const auto* x = static_cast<const T*>(call.x);
    constexpr int64_t kWidth = Kernel::kWidth;
    const int64_t residue = (plan.x_pitch % kWidth + kWidth) % kWidth;
    Walk<kMaxRank> tiles;
    tiles.set(plan.loop, plan.loops);
    launch<Kernel>(
        {.blocks = plan.tiles, .threads = Kernel::kThreads}, stream,
        {x, static_cast<T*>(call.y), x + reach.lowest, x + reach.end, plan.rows, plan.columns,
         plan.x_pitch, plan.y_pitch, static_cast<int>(Kernel::kColumns + kWidth + residue),
         thread::Divider(plan.run), tiles, plan.column_loop});
  }
};

}  // namespace

extern const Rung kGathered;
constinit const Rung kGathered = rung_of<Gathered, Transpose, Permute>({
    .name = "gathered",
    .from = "realigned",
    .idea = "rows in shared memory at x's addresses modulo 16, words of y gathered by elements",
});

}  // namespace ws::transpose
