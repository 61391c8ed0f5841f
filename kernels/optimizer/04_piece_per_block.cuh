// Idea: many tensors in one launch: a table on the device says where they lie, and a block takes a
// row of it. A model has hundreds of tensors, most of them small: a launch each would cost more
// than the step.
// From naive: addresses come from the table. Rows that are pieces of a tensor, all of a size, keep
// blocks alike; that cut is the caller's.
// Traffic: as of one tensor, and 40 bytes a piece.
// Limits: all of one dtype.
#pragma once

#include "kernels/optimizer/pieces.hpp"
#include "warpsmith/launch.hpp"

namespace ws::optimizer {

template <class T>
struct PiecePerBlockKernel {
  static constexpr int kThreads = 256;
  struct Arguments {
    ManyCall call;
    IndexCheck check;
  };
  struct SharedStorage {};

  __device__ void operator()(SharedStorage& /*shared*/, const Arguments& a) const {
    const Numbers numbers(a.call.settings);
    const Piece<T> piece(a.call, block_index(), a.check);
    if (numbers.is_skipped()) return;
    const Update update(a.call.settings, numbers);
    for (int64_t i = thread_index(); i < piece.elements; i += kThreads) {
      const int64_t at = i * a.call.stride;
      update_element(update, piece.param + at, piece.grad + at, piece.exp_avg + at,
                     piece.exp_avg_sq + at);
    }
  }
};

// Launches a kernel that gives a block to each piece.
template <template <class T> class Kernel>
struct PerPiece {
  static bool supports(const ManyCall& call, Why& why) {
    return why.unless(call.count <= kMostBlocks, "takes up to ", kMostBlocks, " pieces");
  }
  static void launch_as(const char* rung, const ManyCall& call, const Context& context) {
    if (call.count == 0) return;
    with_type<kFloats>(call.dtype, [&]<class T>() {
      launch<Kernel<T>>({.blocks = call.count, .threads = Kernel<T>::kThreads}, context.stream,
                        {call, IndexCheck(rung, "pieces", 0)});
    });
  }
};

struct PiecePerBlock : PerPiece<PiecePerBlockKernel> {
  static void run(const ManyCall& call, const Context& context) {
    launch_as("multi_tensor_adamw/piece_per_block", call, context);
  }
};

inline constexpr Rung kPiecePerBlock = rung_of<PiecePerBlock, MultiTensorAdamW>({
    .name = "piece_per_block",
    .from = "naive",
    .idea = "a table of where pieces of tensors lie, a block for each",
});

}  // namespace ws::optimizer
