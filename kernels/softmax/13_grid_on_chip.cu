// Idea: few long rows stay on the chip between total and output: an SM holds 190 KiB in registers
// and 220 in shared memory, all of an H200's together 50 MiB. What does not fit is read again, what
// was read last first, while L2 has it.
// From grid_fence: x is read once; blocks wait for those of their row only, and by letter: a word
// that is zero until it has come, so that no fence and no counter stand before the total.
// Traffic: one read, one write; 8 bytes from each block of a row to each.
// Limits: no mask. Rows that do not fit together go in rounds.
#include "kernels/softmax/rows.hpp"
#include "warpsmith/block/reduce.hpp"
#include "warpsmith/device_facts.hpp"
#include "warpsmith/ptx/cp_async.hpp"
#include "warpsmith/ptx/flag.hpp"
#include "warpsmith/thread/forget.hpp"

namespace ws::softmax {
namespace {

// A total as a word that is not 0: a maximum is -infinity where there is no sum.
uint64_t __device__ __forceinline__ sealed(const MaxSum& total) {
  return std::bit_cast<uint64_t>(total);
}
uint64_t __device__ __forceinline__ sealed(float total) {
  return uint64_t{1} << 32 | std::bit_cast<uint32_t>(total);
}
template <class Total>
__device__ __forceinline__ Total opened(uint64_t letter) {
  if constexpr (sizeof(Total) == 8) {
    return std::bit_cast<Total>(letter);
  } else {
    return std::bit_cast<Total>(static_cast<uint32_t>(letter));
  }
}

// A thread's vectors, of which the first are in its registers, the next in its places in shared
// memory, which no other thread looks at. A block's vectors lie in stripes between those of the
// row's other blocks, so that all together walk through memory in the order of addresses.
struct OnChip {
  static constexpr int kThreads = 512;    // of a block, and one block an SM
  static constexpr int kRegisters = 22;   // 88 registers of 128; not measured yet
  static constexpr int kMostPlaces = 28;  // 224 KiB
  static constexpr int kLoads = 4;        // under way where it is one after the other
};

template <class T, class Op>
struct GridOnChipKernel : OnChip {
  static constexpr Arch kArch = Arch::kSm90;  // for sm_80 the compiler needs more registers
  static constexpr int kWidth = kWidest<T>;
  static constexpr int kInputs = Op::kInputs;
  static constexpr int kHeld = kRegisters / kInputs;
  static constexpr int kTurn = kLoads / kInputs;
  static constexpr int kTurns = kMostPlaces / kLoads;
  // Exponentials between one maximum and the next: more would not fit beside what is held.
  static constexpr int kFold = kTurn / 2;
  using Total = typename Op::Total;
  using RowOf = Row<T, Op, kWidth>;
  using Packed = row::Packed<T, kWidth>;
  struct Arguments {
    Rows<T, Op> rows;
    int parts;          // blocks of a row
    int places;         // in shared memory
    int stride;         // between a thread's vectors
    int64_t at_once;    // rows
    uint64_t* letters;  // [rows, to, from], 0 before and after
  };
  struct SharedStorage {
    typename block::AllReduce<Total, kThreads>::Storage total;
  };

  __device__ void operator()(SharedStorage& shared, const Arguments& a) const {
    block::AllReduce<Total, kThreads> all_reduce(shared.total);
    const auto places = dynamic_shared<T>(shared, int64_t{a.places} * kInputs * kThreads * kWidth);
    const auto part = static_cast<int>(block_index() % a.parts);
    for (int64_t r = block_index() / a.parts; r < a.rows.count; r += a.at_once) {
      const RowOf row(a.rows, r);
      int mine = part * kThreads + thread_index();
      const auto vectors = static_cast<int>(row.vectors);
      const auto vector = [&](int i) { return mine + i * a.stride; };
      const auto place = [&](int i, int k) {
        return static_cast<int64_t>((i * kInputs + k) * kThreads + thread_index()) * kWidth;
      };
      const int edges = part == 0 ? row.edges : 0;
      const int again = kHeld + a.places;  // the first that is read again
      const int last = divide_up(vectors, a.stride);

      // A turn of vectors from wherever they are, padding where the row has none.
      Packed x[kTurn * kInputs];
      const auto take = [&](int first, const auto& from) {
#pragma unroll
        for (int v = 0; v < kTurn; ++v) {
#pragma unroll
          for (int k = 0; k < kInputs; ++k) {
            x[v * kInputs + k] = Packed::filled(Op::kPadding);
            if (vector(first + v) < vectors) x[v * kInputs + k] = from(first + v, k);
          }
        }
      };
      const auto from_memory = [&](int i, int k) {
        return Packed::load(row.inputs[k] + row.at(vector(i)));
      };
      const auto from_place = [&](int i, int k) {
        return std::bit_cast<Packed>(places.template load<kWidth>(place(i - kHeld, k)));
      };
      const auto put = [&](int i, const Packed* of, const auto& finish) {
        if (vector(i) < vectors) row.store(vector(i), outputs(of, finish));
      };

#pragma unroll 1
      for (int t = 0; t < kTurns; ++t) {
        for (int i = t * kTurn; i < (t + 1) * kTurn && i < a.places; ++i) {
#pragma unroll
          for (int k = 0; k < kInputs; ++k) {
            if (vector(kHeld + i) < vectors) {
              ptx::cp_async<16>(places.pointer(place(i, k)),
                                row.inputs[k] + row.at(vector(kHeld + i)));
            }
          }
        }
        ptx::cp_async_commit_group();
      }
      Packed held[kHeld * kInputs];
#pragma unroll
      for (int i = 0; i < kHeld; ++i) {
#pragma unroll
        for (int k = 0; k < kInputs; ++k) {
          held[i * kInputs + k] = Packed::filled(Op::kPadding);
          if (vector(i) < vectors) held[i * kInputs + k] = from_memory(i, k);
        }
      }

      mine = thread::forget(mine);  // where vectors are costs less than the registers to keep it
      Total total = Op::none();
#pragma unroll
      for (int i = 0; i < kHeld; i += kFold) total = add<kFold>(total, held + i * kInputs);
#pragma unroll 1
      for (int t = 0; t < kTurns; ++t) {
        ptx::cp_async_wait_group<kTurns - 1>();  // the oldest has come
        if (t * kTurn < a.places) {
          take(kHeld + t * kTurn, from_place);
          total = add<kTurn>(total, x);
        }
        ptx::cp_async_commit_group();  // an empty one, so that it is the next one's turn
      }
      for (int i = again; i < last; i += kTurn) {
        take(i, from_memory);
        total = add<kTurn>(total, x);
      }
      if (thread_index() < edges) total = Op::add(total, row.edge_element(thread_index()));
      total = all_reduce(total, Op::merge);
      if (a.parts > 1) {
        total = all_reduce(by_letter(a.letters + r * a.parts * a.parts, a.parts, part, total),
                           Op::merge);
      }

      const typename Op::Finish finish(total);
      row::stay_packed(held);
      mine = thread::forget(mine);
      for (int i = again + round_up(last - again, kTurn) - kTurn; i >= again; i -= kTurn) {
        take(i, from_memory);
#pragma unroll
        for (int v = 0; v < kTurn; ++v) put(i + v, x + v * kInputs, finish);
      }
      for (int i = again - kTurn; i >= kHeld; i -= kTurn) {
        take(i, from_place);
#pragma unroll
        for (int v = 0; v < kTurn; ++v) put(i + v, x + v * kInputs, finish);
      }
#pragma unroll
      for (int i = 0; i < kHeld; ++i) put(i, held + i * kInputs, finish);
      if (thread_index() < edges) {
        row.store_edge(thread_index(), finish(row.edge_element(thread_index())));
      }
    }
  }

 private:
  // The total with N vectors more.
  template <int N>
  __device__ __forceinline__ static Total add(Total total, const Packed* x) {
    constexpr int kVectors = N > kFold ? kFold : N;
#pragma unroll
    for (int first = 0; first < N; first += kVectors) {
      Tile<typename Op::Element, kVectors * kWidth> tile;
#pragma unroll
      for (int i = 0; i < kVectors * kWidth; ++i) {
#pragma unroll
        for (int k = 0; k < kInputs; ++k) {
          tile[i][k] = x[(first + i / kWidth) * kInputs + k][i % kWidth];
        }
      }
      total = Op::merge(total, Op::begin(tile));
    }
    return total;
  }
  __device__ __forceinline__ static Vec<float, kWidth> outputs(const Packed* x,
                                                               const typename Op::Finish& finish) {
    Vec<float, kWidth> out;
#pragma unroll
    for (int i = 0; i < kWidth; ++i) {
      typename Op::Element element;
#pragma unroll
      for (int k = 0; k < kInputs; ++k) element[k] = x[k][i];
      out[i] = finish(element);
    }
    return out;
  }

  // Sends this part's total to all parts of the row; of theirs each thread returns what it took out
  // of the letters, which are zero again. The bits do not depend on who was first.
  __device__ __forceinline__ static Total by_letter(uint64_t* letters, int parts, int part,
                                                    const Total& mine) {
    for (int p = thread_index(); p < parts; p += kThreads) {
      ptx::st_relaxed<ptx::Scope::kGpu>(letters + p * parts + part, sealed(mine));
    }
    Total total = Op::none();
    for (int p = thread_index(); p < parts; p += kThreads) {
      uint64_t* letter = letters + part * parts + p;
      uint64_t word = 0;
      while (word == 0) word = ptx::ld_relaxed<ptx::Scope::kGpu>(letter);
      ptx::st_relaxed<ptx::Scope::kGpu>(letter, uint64_t{0});
      total = Op::merge(total, opened<Total>(word));
    }
    return total;
  }
};

// How rows share the SMs, a block each.
struct GridOnChipPlan {
  int places;       // in shared memory, for a vector of each input
  int parts;        // blocks of a row
  int64_t at_once;  // rows

  static GridOnChipPlan of(const RowsCall& call) {
    const int64_t blocks = device_facts().multiprocessors;
    const int64_t place = int64_t{16} * OnChip::kThreads * call.inputs();
    constexpr int64_t kTotals = 1024;  // what the block's own meeting takes at most
    const int64_t turn = OnChip::kLoads / call.inputs();
    GridOnChipPlan plan{};
    plan.places = static_cast<int>(
        std::min<int64_t>((device_facts().shared_bytes - kTotals) / place / turn * turn,
                          OnChip::kMostPlaces / call.inputs()));
    const int64_t vectors = call.rows.columns / widest(call);
    const int64_t held =
        OnChip::kThreads * (int64_t{OnChip::kRegisters / call.inputs()} + plan.places);
    const int64_t needed = std::clamp<int64_t>(divide_up(vectors, held), 1, blocks);
    // Rounds of the same number of rows, as few as hold all of them.
    const int64_t rows = std::max<int64_t>(call.rows.rows, 1);
    plan.at_once = divide_up(rows, divide_up(rows, blocks / needed));
    const int64_t most = std::max<int64_t>(vectors / kWarpSize, 1);
    plan.parts = static_cast<int>(std::min(blocks / plan.at_once, most));
    return plan;
  }
};

struct GridOnChip {
  static bool supports(const RowsCall& call, Why& why) {
    constexpr int64_t kMostVectors = 1 << 30;  // int, with those beyond the row's end
    const int64_t vectors = call.rows.columns / widest(call);
    return why.unless(vectors <= kMostVectors, "takes rows of up to ", kMostVectors,
                      " vectors of 16 bytes, not ", vectors) &&
           rows_supported(call, widest(call), why);
  }
  static Workspace workspace(const RowsCall& call) {
    const int64_t parts = GridOnChipPlan::of(call).parts;
    if (parts == 1) return {};
    const auto letters = static_cast<size_t>(call.rows.rows * parts * parts) * sizeof(uint64_t);
    return {.bytes = letters, .zeroed = letters};
  }
  template <class Call>
  static void run(const Call& call, const Context& context) {
    with_type<kFloats>(call.dtype, [&]<class T>() {
      using Kernel = GridOnChipKernel<T, typename Call::RowOperation>;
      const GridOnChipPlan plan = GridOnChipPlan::of(call);
      launch<Kernel>({.blocks = plan.at_once * plan.parts,
                      .threads = Kernel::kThreads,
                      .dynamic_shared = static_cast<size_t>(plan.places) * Kernel::kInputs *
                                        Kernel::kThreads * 16,
                      .cooperative = true},
                     context.stream,
                     {rows_of<T>(call), plan.parts, plan.places, plan.parts * Kernel::kThreads,
                      plan.at_once, static_cast<uint64_t*>(context.workspace)});
    });
  }
};

}  // namespace

extern const Rung kGridOnChip;
const Rung kGridOnChip =
    rung_of<GridOnChip, Softmax, LogSoftmax, SoftmaxBackward, LogSoftmaxBackward>(
        {.name = "grid_on_chip",
         .from = "grid_fence",
         .idea = "few long rows stay in the registers and shared memory of all SMs: one read",
         .arch = Arch::kSm90});

}  // namespace ws::softmax
