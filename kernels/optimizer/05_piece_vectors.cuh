// Idea: 16 bytes an access in each piece.
// From piece_per_block: what `vector` has over `naive`. Pieces begin where their tensors do: where
// all four lie alike within 16 bytes, the elements before the first vector and after the last go
// one by one; where they do not, all of them.
// Traffic: as of one tensor, and 40 bytes a piece.
// Limits: all of one dtype; memory without gaps.
#pragma once

#include "kernels/optimizer/04_piece_per_block.cuh"
#include "warpsmith/row/cut.hpp"

namespace ws::optimizer {

template <class T>
struct PieceVectorsKernel {
  static constexpr int kThreads = 256;
  static constexpr int kMinBlocks = sizeof(T) == 2 ? 3 : 4;
  static constexpr int kWidth = row::kWidest<T>;
  using Arguments = typename PiecePerBlockKernel<T>::Arguments;
  struct SharedStorage {};

  __device__ void operator()(SharedStorage& /*shared*/, const Arguments& a) const {
    const Numbers numbers(a.call.settings);
    const Piece<T> piece(a.call, block_index(), a.check);
    if (numbers.is_skipped()) return;
    const Update update(a.call.settings, numbers);
    const auto place = [](const T* start) { return reinterpret_cast<uintptr_t>(start) % 16; };
    const bool alike = place(piece.grad) == place(piece.param) &&
                       place(piece.exp_avg) == place(piece.param) &&
                       place(piece.exp_avg_sq) == place(piece.param);
    const auto one = [&](int64_t i) {
      update_element(update, piece.param + i, piece.grad + i, piece.exp_avg + i,
                     piece.exp_avg_sq + i);
    };
    if (!alike) {
      for (int64_t i = thread_index(); i < piece.elements; i += kThreads) one(i);
      return;
    }
    const row::Cut<kWidth> cut(piece.param, piece.elements);
    for (int64_t vector = thread_index(); vector < cut.vectors; vector += kThreads) {
      const int64_t i = cut.at(vector);
      Elements<kWidth, T, T> elements;
      elements.load(piece.param + i, piece.grad + i, piece.exp_avg + i, piece.exp_avg_sq + i);
      elements.store(update, piece.param + i, piece.exp_avg + i, piece.exp_avg_sq + i);
    }
    if (thread_index() < cut.edges) one(cut.edge(thread_index()));
  }
};

struct PieceVectors : PerPiece<PieceVectorsKernel> {
  static bool supports(const ManyCall& call, Why& why) {
    return PerPiece::supports(call, why) &&
           why.unless(call.stride == 1, "takes memory whose elements lie side by side");
  }
  static void run(const ManyCall& call, const Context& context) {
    launch_as("multi_tensor_adamw/piece_vectors", call, context);
  }
};

inline constexpr Rung kPieceVectors = rung_of<PieceVectors, MultiTensorAdamW>({
    .name = "piece_vectors",
    .from = "piece_per_block",
    .idea = "16 bytes an access in each piece, edges one by one",
});

}  // namespace ws::optimizer
