// Idea: scores are made once: who owns keys has the gradients that dq is made of, too, and adds.
// From backward_wgmma: both warpgroups stage what they make of a tile's scores in shared memory;
//   with the next tile each multiplies half of it by all keys and adds that to dq in f32 in memory,
//   512 bytes of a warp at a time. The first kernel makes the sums zero, a last one rounds them.
//   Five products.
// Traffic: each block of 128 keys that sees a query adds 4 D bytes to it, which L2 does; the first
//   and the last kernel move 10 D + 4 Dv bytes a query.
// Limits: those of backward_wgmma, and no softcap; additions have any order, so two runs differ in
// last bits.
#include "kernels/attention/31_backward_wgmma.cuh"
#include "kernels/attention/dq_sums.hpp"
#include "kernels/attention/plain.hpp"
#include "kernels/attention/round_dq.hpp"

namespace ws::attention {
namespace {

// H200 2026-11-24, causal, 4, 16, 4096, 128: `early` is worth 8 %; at 1, 48, 8192, 64 it costs 12
// %, all keys seen 19 %. Two stages at 128 take as long as three, within what is seen.
// 2026-11-30: `waits_first` is worth 2 % at D = 64 and costs 5 at 128. What follows additions may
// wait until they have left, which depends on the registers that ptxas chooses; at 128 the next
// product of scores does, so that the other warpgroup's goes first.
// 2026-12-01: at D = 64 `in_pairs` is worth 2 to 3 %, and a third stage 0.4 to 0.7; at 128
// `in_pairs` is worth 1 % at 4, 16, 4096 and costs 2 at 1, 16, 16384, causal. f16 was not measured.
constexpr BackwardWgmmaShape kShape64{
    .dim = 64, .met = 128, .stages = 3, .early = false, .waits_first = true, .in_pairs = true};
constexpr BackwardWgmmaShape kShape128{.dim = 128, .met = 64, .stages = 3, .early = true};

template <class F>
auto with_shape(const Call& call, F&& f) {
  return call.head_dim <= 64 && call.value_dim <= 64 ? f.template operator()<kShape64>()
                                                     : f.template operator()<kShape128>();
}

template <class T, BackwardWgmmaShape kShape, class AnyCall>
using OfKeys = BackwardWgmmaKernel<T, true, kShape, true, BackwardGridOf<AnyCall>>;

struct BackwardWgmmaAtomic : BackwardWgmmaCalls {
  template <class AnyCall>
  static bool supports(const AnyCall& call, Why& why) {
    return has_bare_scores(call, why) && takes(call, 128, why) && has_room(call, why);
  }
  template <class AnyCall>
  static Workspace workspace(const AnyCall& call) {
    const Workspace room = room_in(call);
    return {.bytes = room.bytes + sums_of(call) * sizeof(float) + QueryFacts::workspace(call).bytes,
            .zeroed = room.zeroed};
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

  template <class AnyCall>
  static Workspace room_in(const AnyCall& call) {
    return with_shape(call, [&]<BackwardWgmmaShape kShape>() {
      return room_for_pieces<OfKeys<bf16, kShape, AnyCall>>(call);
    });
  }

  template <class T, BackwardWgmmaShape kShape, class AnyCall>
  static void run(const AnyCall& call, const Context& context) {
    using Round = RoundDqKernel<T, kShape.dim, AnyCall>;
    const Workspace room = room_in(call);
    const SumsOfPieces left = pieces_in(context.workspace, room);
    auto* const sums =
        reinterpret_cast<float*>(static_cast<std::byte*>(context.workspace) + room.bytes);
    const auto columns = static_cast<int>(call.head_dim);
    const QueryFacts facts =
        facts_of<T>(call, "attention/backward_wgmma_atomic", sums + sums_of(call), context.stream,
                    {.sums = sums, .dim = kShape.dim, .columns = columns});
    launch_of<OfKeys<T, kShape, AnyCall>>(call, facts, left, context.stream, sums);
    launch<Round>({.blocks = static_cast<int64_t>(sums_of(call) / DqSums::kPart),
                   .threads = Round::kThreads,
                   .overlaps = true},
                  context.stream,
                  {call.dq,
                   sums,
                   static_cast<int>(call.heads),
                   static_cast<int>(facts.rows),
                   static_cast<int>(call.queries),
                   columns,
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
