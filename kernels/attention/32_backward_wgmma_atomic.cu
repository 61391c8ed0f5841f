// Idea: scores are made once: who owns keys has the gradients that dq is made of, too, and adds.
// From backward_wgmma: both warpgroups stage what they make of a tile's scores in shared memory;
//   with the next tile each multiplies half of it by all keys and adds that to dq in f32 in memory,
//   512 bytes of a warp at a time. A last kernel rounds dq. Five products.
// Traffic: each block of 128 keys that sees a query adds 4 D bytes to it, which L2 does.
// Limits: those of backward_wgmma, and no softcap; additions have any order, so two runs differ in
// last bits.
#include "kernels/attention/31_backward_wgmma.cuh"
#include "kernels/attention/plain.hpp"

namespace ws::attention {
namespace {

// H200 2026-11-24, causal, 4, 16, 4096, 128: `early` is worth 8 %; at 1, 48, 8192, 64 it costs 12
// %, all keys seen 19 %. Two stages at 128 take as long as three, within what is seen.
constexpr BackwardWgmmaShape kShape64{.dim = 64, .met = 128, .stages = 2, .early = false};
constexpr BackwardWgmmaShape kShape128{.dim = 128, .met = 64, .stages = 3, .early = true};

template <class F>
auto with_shape(const Call& call, F&& f) {
  return call.head_dim <= 64 && call.value_dim <= 64 ? f.template operator()<kShape64>()
                                                     : f.template operator()<kShape128>();
}

// Long: the sums, their rounding and the size that they may have are one agreement.
//
// Rounds what was added to dq, and leaves zeros. A block has 64 queries of a head, by 64 columns.
template <class T, int kDim, class AnyCall>
struct RoundDqKernel {
  static constexpr Arch kArch = Arch::kSm90a;
  static constexpr int kThreads = 128;
  using Store = tile::WarpStore<T, 1>;
  struct Arguments {
    ptx::TensorMap dq;
    float* sums;
    int64_t heads, rows;
    float scale;
    SequencesOf<AnyCall> sequences;
  };
  struct SharedStorage {
    SharedArray<T, 4 * Store::kElements, 1024> rounded;
  };

  __device__ void operator()(SharedStorage& shared, const Arguments& a) const {
    constexpr int kParts = kDim / DqSums::kColumns;
    const int64_t row_of_all = block_index() / kParts * DqSums::kRows;
    const auto column = static_cast<int>(block_index() % kParts) * DqSums::kColumns;
    const int64_t of_head = row_of_all / a.rows;
    auto row = static_cast<int>(row_of_all % a.rows);
    auto head = static_cast<int>(of_head % a.heads);
    auto last = static_cast<int>(of_head / a.heads);
    float* const from = a.sums + DqSums::at(row_of_all, kDim, column, thread_index());
    const auto leave_zeros = [&] {
#pragma unroll
      for (int i = 0; i < 8; ++i) thread::store(from + i * DqSums::kStep, Vec<float, 4>{});
    };
    if constexpr (kIsPacked<AnyCall>) {
      const HeadPlace place = place_of(a.sequences, row);
      // Behind a sequence: what was added is nothing, which is NaN where k or v are not finite.
      if (place.last < 0) return leave_zeros();
      row += place.row;
      last = place.last;
    }
    Vec<float, 4> fours[8];
#pragma unroll
    for (int i = 0; i < 8; ++i) fours[i] = thread::load<4>(from + i * DqSums::kStep);
    float dq[32];
#pragma unroll
    for (int i = 0; i < 32; ++i) dq[i] = fours[i / 4][i % 4] * a.scale;
    leave_zeros();
    Store store{shared.rounded.pointer(warp_index() * Store::kElements)};
    store.stage_and(dq, [&](const T* staged) {
      ptx::tensor_store_4d(a.dq, column, row + warp_index() * Store::kRows, head, last, staged);
    });
    store.finish();
  }

 private:
  // Of packed sequences, whose rows are filled up among sums: where row 0 among them would be in
  // the map of dq, of the sequence that row `row` is of; `last` is below 0 where it is nobody's.
  __device__ __forceinline__ static HeadPlace place_of(const Sequences& sequences, int row) {
    constexpr HeadPlace kNobodys{.last = -1};
    const int b = sequences.of_tile(row / QueryFacts::kTogether, QueryFacts::kTogether);
    if (b < 0) return kNobodys;
    const Sequence sequence = sequences.of(b);
    const auto first_query = static_cast<int>(sequence.first_query);
    const auto queries = static_cast<int>(sequence.queries);
    const int first = (first_query / QueryFacts::kTogether + b) * QueryFacts::kTogether;
    if (row >= first + queries) return kNobodys;
    return {.row = static_cast<int>(sequences.queries) - queries - first,
            .last = first_query + queries};
  }
};

struct BackwardWgmmaAtomic : BackwardWgmmaCalls {
  template <class AnyCall>
  static bool supports(const AnyCall& call, Why& why) {
    return has_bare_scores(call, why) && takes(call, 128, why) && has_room(call, why);
  }
  template <class AnyCall>
  static Workspace workspace(const AnyCall& call) {
    const size_t sums = sums_of(call) * sizeof(float);
    return {.bytes = sums + QueryFacts::workspace(call).bytes, .zeroed = sums};
  }

  template <class AnyCall>
  static void run(const AnyCall& call, const Context& context) {
    with_type<kHalves>(call.dtype, [&]<class T>() {
      with_shape(call, [&]<BackwardWgmmaShape kShape>() { run<T, kShape>(call, context); });
    });
  }

 private:
  // Sums of packed sequences are filled up to 128 rows each: of many short ones that is no longer
  // the size of dq.
  template <class AnyCall>
  static bool has_room(const AnyCall& call, Why& why) {
    constexpr size_t kAlways = size_t{256} << 20;
    const size_t sums = sums_of(call) * sizeof(float);
    const auto dq = static_cast<size_t>(Sequences(call, "").queries * batches_of(call) *
                                        call.heads * call.head_dim) *
                    sizeof(float);
    return why.unless(sums <= kAlways || sums / 8 <= dq, "wants ", sums, " bytes for a dq of ", dq,
                      " in f32");
  }
  template <class AnyCall>
  static size_t sums_of(const AnyCall& call) {
    return with_shape(call, [&]<BackwardWgmmaShape kShape>() {
      return static_cast<size_t>(QueryFacts::count(call)) * kShape.dim;
    });
  }

  template <class T, BackwardWgmmaShape kShape, class AnyCall>
  static void run(const AnyCall& call, const Context& context) {
    using OfKeys = BackwardWgmmaKernel<T, true, kShape, true, BackwardGridOf<AnyCall>>;
    using Round = RoundDqKernel<T, kShape.dim, AnyCall>;
    auto* const sums = static_cast<float*>(context.workspace);
    const QueryFacts facts =
        facts_of<T>(call, "attention/backward_wgmma_atomic", sums + sums_of(call), context.stream);
    typename OfKeys::Arguments a = arguments_of<OfKeys>(call, facts);
    a.dq_sums = sums;
    launch_of<OfKeys>(a, context.stream);
    launch<Round>(
        {.blocks = static_cast<int64_t>(sums_of(call) / DqSums::kPart), .threads = Round::kThreads},
        context.stream,
        {head_map<T>(call.dq, call.head_dim, Sequences(call, "").queries, call.heads,
                     batches_of(call), kIsPacked<AnyCall>, 16, false),
         sums,
         call.heads,
         facts.rows,
         call.scale,
         {call, ""}});
  }
};

}  // namespace

extern const Rung kBackwardWgmmaAtomic;
constinit const Rung kBackwardWgmmaAtomic =
    rung_of<BackwardWgmmaAtomic, kHalves, AttentionBackward, AttentionVarlenBackward>({
        .name = "backward_wgmma_atomic",
        .from = "backward_wgmma",
        .idea = "scores are made once: who owns keys adds its part of dq to memory",
        .arch = Arch::kSm90a,
        .deterministic = false,
    });

}  // namespace ws::attention
