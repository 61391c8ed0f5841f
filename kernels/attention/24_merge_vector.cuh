// Idea: a thread merges 16 bytes of a row, so that what is read at once fills the way to memory.
// From merge_naive: an access of 16 bytes instead of one element; rows in the order in which they
//   lie, heads first or last; divisions by numbers known at launch are multiplications.
// Traffic: two elements read, one written; of a row's logarithms each thread reads both, from L1.
// Limits: rows of whole, aligned pieces of 16 bytes.
#pragma once

#include "kernels/attention/merge.hpp"
#include "warpsmith/launch.hpp"
#include "warpsmith/thread/divide.hpp"
#include "warpsmith/thread/memory.hpp"

namespace ws::attention {

template <class T>
struct MergeVectorKernel {
  static constexpr int kThreads = 256;
  static constexpr int kWidth = 16 / static_cast<int>(sizeof(T));
  struct Arguments {
    MergeAttnStates::Call call;
    thread::Divider pieces;  // of a row
    thread::Divider inner;   // rows of a head, or heads of a row, which follow one another
    thread::Divider middle;  // the other
    bool heads_inside;
    int64_t count;
  };
  struct SharedStorage {};

  __device__ void operator()(SharedStorage& /*shared*/, const Arguments& a) const {
    const int64_t index = block_index() * kThreads + thread_index();
    if (index >= a.count) return;
    const auto item = static_cast<uint32_t>(index);
    const uint32_t line = a.pieces.quotient(item);
    const uint32_t piece = item - line * a.pieces.divisor();
    const uint32_t outer = a.inner.quotient(line);
    const uint32_t inside = line - outer * a.inner.divisor();
    const int64_t batch = a.middle.quotient(outer);
    const int64_t between = outer - batch * a.middle.divisor();
    const int64_t head = a.heads_inside ? inside : between;
    const int64_t row = a.heads_inside ? between : inside;
    const auto at = [&](const Heads& heads) {
      return batch * heads.batch + head * heads.head + row * heads.row;
    };
    const MergeAttnStates::Call& call = a.call;
    const int64_t column = int64_t{piece} * kWidth;
    const auto of_a = thread::load<kWidth>(call.out_a.as<const T>() + at(call.out_a) + column);
    const auto of_b = thread::load<kWidth>(call.out_b.as<const T>() + at(call.out_b) + column);
    const MergeWeights weights =
        MergeWeights::of(thread::load(call.lse_a.as<const float>() + at(call.lse_a)),
                         thread::load(call.lse_b.as<const float>() + at(call.lse_b)));
    Vec<float, kWidth> merged;
#pragma unroll
    for (int i = 0; i < kWidth; ++i)
      merged[i] = weights.merge(to_float(of_a[i]), to_float(of_b[i]));
    thread::store(call.out.as<T>() + at(call.out) + column, thread::convert<T>(merged));
    if (piece == 0) thread::store(call.lse.as<float>() + at(call.lse), weights.lse);
  }
};

struct MergeVector {
  static bool supports(const MergeAttnStates::Call& call, Why& why) {
    const auto width = static_cast<int64_t>(16 / size_of(call.dtype));
    const auto is_aligned = [&](const Heads& heads) {
      return heads.column == 1 && reinterpret_cast<uintptr_t>(heads.data) % 16 == 0 &&
             (call.batch <= 1 || heads.batch % width == 0) &&
             (call.heads <= 1 || heads.head % width == 0) &&
             (call.rows <= 1 || heads.row % width == 0);
    };
    return why.unless(call.dim % width == 0, "needs D that is a multiple of ", width) &&
           why.unless(is_aligned(call.out_a) && is_aligned(call.out_b) && is_aligned(call.out),
                      "needs dense columns, and rows that begin at multiples of 16 bytes") &&
           why.unless(call.items() * call.dim / width < int64_t{1} << 31,
                      "takes less than 2^31 pieces of 16 bytes");
  }

  static void run(const MergeAttnStates::Call& call, const Context& context) {
    with_type<kFloats>(call.dtype, [&]<class T>() {
      using Kernel = MergeVectorKernel<T>;
      const int64_t pieces = call.dim / Kernel::kWidth;
      const bool heads_inside = call.out.head < call.out.row;
      const int64_t count = call.items() * pieces;
      launch<Kernel>(
          {.blocks = divide_up(count, Kernel::kThreads), .threads = Kernel::kThreads},
          context.stream,
          {call, thread::Divider(pieces), thread::Divider(heads_inside ? call.heads : call.rows),
           thread::Divider(heads_inside ? call.rows : call.heads), heads_inside, count});
    });
  }
};

inline constexpr Seed kMergeVectorSeeds[] = {
    {.name = "merge_attn_states", .operation = "merge_attn_states"}};
inline constexpr Rung kMergeVector = rung_of<MergeVector, MergeAttnStates>({
    .name = "merge_vector",
    .from = "merge_naive",
    .idea = "16 bytes of both parts a thread, rows as they lie",
    .seeds = kMergeVectorSeeds,
});

}  // namespace ws::attention
