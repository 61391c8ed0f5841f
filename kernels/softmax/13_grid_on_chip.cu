// Idea: few long rows stay on the chip between total and output: an SM's shared memory holds 224
// KiB, all of an H200's together 29 MiB; of gradients, which are two inputs, registers hold 23 MiB
// more. What does not fit is read again, what was read last first, while L2 has it.
// From grid_fence: x is read once; blocks wait for those of their row only, and by letter: a word
// that is zero until it has come, so that no fence and no counter stand before the total.
// Masks are read where they are looked at, twice, of gradients once; L2 is asked for them at first.
// Traffic: one read, one write; 8 bytes from each block of a row to each.
// Limits: rows that do not fit together go in rounds.
// Long: letters, and how rows share the SMs, which only it has.
#include <algorithm>
#include <bit>

#include "kernels/softmax/on_chip.hpp"
#include "kernels/softmax/rows.hpp"
#include "warpsmith/block/reduce.hpp"
#include "warpsmith/device_facts.hpp"
#include "warpsmith/ptx/flag.hpp"
#include "warpsmith/thread/forget.hpp"

namespace ws::softmax {

// One block an SM. What is in registers is code for each vector, which runs once and comes from
// memory: H200, forward, 22 vectors of a thread in registers cost 2 to 4 us of 15 to 29, bf16 (7 x
// 10^6, 1 x 2^24), 2 of 23 and -1 of 44, f32; of gradients they gain 3 and 6 us, f32, and 2 of 35.
struct GridOnChipShape {
  static constexpr int kThreads = 512;
  static constexpr int kPlaces = 28;  // vectors of a thread, at most: 224 KiB
  // Vectors of each input in a thread's registers; 88 of 128 registers, of gradients.
  static constexpr int held(int inputs) { return inputs == 1 ? 0 : 11; }
};

template <class T, class Op>
struct GridOnChipKernel : GridOnChipShape {
  static constexpr Arch kArch = Arch::kSm90;  // for sm_80 the compiler needs more registers
  static constexpr int kWidth = kWidest<T>;
  static constexpr int kInputs = Op::kInputs;
  using Total = typename Op::Total;
  using RowOf = Row<T, Op, kWidth>;
  using OnChipOf =
      OnChip<T, kWidth, kInputs, kThreads, GridOnChipShape::held(kInputs), kPlaces / kInputs>;
  using Packed = typename OnChipOf::Packed;
  template <int N>
  using Masks = Tile<typename RowOf::MaskVector, N>;
  // Exponentials between one maximum and the next: more would not fit beside what is held.
  static constexpr int kGroup = OnChipOf::kTurn / 2;
  static constexpr int kMasksAtOnce = Op::kMasked ? 4 : 1;  // of vectors in registers
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

  // A block's vectors lie in stripes between those of the row's other blocks: all together walk
  // through memory in the order of addresses.
  __device__ void operator()(SharedStorage& shared, const Arguments& a) const {
    block::AllReduce<Total, kThreads> all_reduce(shared.total);
    const auto places = dynamic_shared<T>(shared, OnChipOf::elements(a.places));
    const auto part = static_cast<int>(block_index() % a.parts);
    for (int64_t r = block_index() / a.parts; r < a.rows.count; r += a.at_once) {
      const RowOf row(a.rows, r);
      const auto vectors = static_cast<int>(row.vectors);
      const int edges = part == 0 ? row.edges : 0;
      const int end = divide_up(vectors, a.stride);
      int mine = part * kThreads + thread_index();
      const auto vector = [&](int i) { return mine + i * a.stride; };
      const auto holds = [&](int i) { return vector(i) < vectors; };
      const auto at = [&](int i, int k) { return row.inputs[k] + row.at(vector(i)); };

      // The masks of vectors from i on, all asked for before one is looked at.
      const auto masks = [&]<int N>(int i) {
        Masks<N> masks{};
        if constexpr (Op::kMasked) {
#pragma unroll
          for (int v = 0; v < N; ++v) {
            if (holds(i + v)) {
              masks[v] = RowOf::MaskVector::load(row.mask + row.at(vector(i + v)));
            }
          }
        }
        return masks;
      };

      if constexpr (Op::kMasked) {
        // A stripe each, of what stays; the others' come when they are read again.
        const int stay = GridOnChipShape::held(kInputs) + a.places;
        for (int i = thread_index(); i < stay && i < end; i += kThreads) {
          const int first = part * kThreads + i * a.stride;
          prefetch_mask(
              row.mask + row.at(first),
              int64_t{kWidth} * (vectors - first < kThreads ? vectors - first : kThreads));
        }
      }
      OnChipOf x(places, a.places, Op::kPadding, holds, at);
      mine = thread::forget(mine);  // where vectors are costs less than the registers to keep it
      Total total = Op::none();
      x.template each<kGroup>(end, holds, at, [&]<int N>(int i, const Packed* more) {
        Masks<N> keep{};
        if constexpr (Op::kMaskInTotal) keep = masks.template operator()<N>(i);
#pragma unroll
        for (int v = 0; v < N; v += kGroup) {
          Tile<typename Op::Element, kGroup * kWidth> tile;
#pragma unroll
          for (int e = 0; e < kGroup * kWidth; ++e) {
            const int n = v + e / kWidth;
            tile[e] = element(row.op, more + n * kInputs, keep[n], holds(i + n), e % kWidth);
          }
          total = Op::merge(total, Op::begin(tile));
        }
      });
      if (thread_index() < edges) total = Op::add(total, row.edge_element(thread_index()));
      total = all_reduce(total, typename Op::Merge{});
      if (a.parts > 1) {
        total = all_reduce(by_letter(a.letters + r * a.parts * a.parts, a.parts, part, total),
                           typename Op::Merge{});
      }

      const typename Op::Finish finish(total);
      mine = thread::forget(mine);
      x.template each_again<kMasksAtOnce>(end, holds, at, [&]<int N>(int i, const Packed* of) {
        const Masks<N> keep = masks.template operator()<N>(i);
#pragma unroll
        for (int v = 0; v < N; ++v) {
          if (!holds(i + v)) continue;
          Vec<float, kWidth> out;
#pragma unroll
          for (int e = 0; e < kWidth; ++e)
            out[e] = finish(element(row.op, of + v * kInputs, keep[v], true, e));
          row.store(vector(i + v), out);
        }
      });
      if (thread_index() < edges) {
        row.store_edge(thread_index(), finish(row.edge_element(thread_index())));
      }
    }
  }

 private:
  // The e-th of a vector with that mask.
  __device__ __forceinline__ static typename Op::Element element(
      const Op& op, const Packed* of, const typename RowOf::MaskVector& keep, bool inside, int e) {
    const auto values = OnChipOf::template element<Values<kInputs>>(of, e);
    if constexpr (Op::kMasked) {
      return op.prepare(values, keep[e], inside);
    } else {
      return values;
    }
  }

  // A total as a word that is not 0: a maximum is -infinity where there is no sum.
  __device__ __forceinline__ static uint64_t sealed(const Total& total) {
    if constexpr (sizeof(Total) == 8) {
      return std::bit_cast<uint64_t>(total);
    } else {
      return uint64_t{1} << 32 | std::bit_cast<uint32_t>(total);
    }
  }
  __device__ __forceinline__ static Total opened(uint64_t letter) {
    if constexpr (sizeof(Total) == 8) {
      return std::bit_cast<Total>(letter);
    } else {
      return std::bit_cast<Total>(static_cast<uint32_t>(letter));
    }
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
      total = Op::merge(total, opened(word));
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
    using Shape = GridOnChipShape;
    const int64_t blocks = device_facts().multiprocessors;
    const int inputs = call.inputs();
    constexpr int64_t kTotals = 1024;  // what the block's own meeting takes at most
    GridOnChipPlan plan{};
    plan.places =
        places_for(Shape::kPlaces, Shape::kThreads, inputs, device_facts().shared_bytes - kTotals);
    const int64_t vectors = call.rows.columns / widest(call);
    const int64_t held = Shape::kThreads * (int64_t{Shape::held(inputs)} + plan.places);
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
  template <class Call>
  static bool supports(const Call& call, Why& why) {
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
                      .dynamic_shared =
                          static_cast<size_t>(Kernel::OnChipOf::elements(plan.places)) * sizeof(T),
                      .cooperative = true},
                     context.stream,
                     {rows_of<T>(call), plan.parts, plan.places, plan.parts * Kernel::kThreads,
                      plan.at_once, static_cast<uint64_t*>(context.workspace)});
    });
  }
};

extern const Rung kGridOnChip;
const Rung kGridOnChip = rung_of<GridOnChip, Softmax, LogSoftmax, ScaleMaskSoftmax, SoftmaxBackward,
                                 LogSoftmaxBackward, ScaleMaskSoftmaxBackward>(
    {.name = "grid_on_chip",
     .from = "grid_fence",
     .idea =
         "few long rows stay in the shared memory of all SMs between total and output: one read",
     .arch = Arch::kSm90});

}  // namespace ws::softmax
