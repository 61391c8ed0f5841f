// Idea: an operand whose rows do not start at multiples of 16 bytes is copied once, into rows that
//   do. The copy costs two passes over it; then the copy engine and wgmma take the product.
// From split_k: any M, N, K at tensor-core speed. The product's kernel, stream_k's excepted, is
//   launched before the copies end, and waits for them when its barriers are set up.
// Traffic: 4 bytes an element of each copied operand more.
// Limits: sm_90a; a workspace as large as the copied operands.
#pragma once

#include "kernels/gemm/35_warp_specialized.cuh"
#include "kernels/gemm/36_split_k.cuh"
#include "kernels/gemm/37_stream_k.cuh"
#include "kernels/gemm/45_pingpong.cuh"

namespace ws::gemm {

// What is copied: `runs` runs of `length` elements.
template <class T>
struct Realignment {
  const T* from = nullptr;
  T* to = nullptr;
  int64_t runs = 0;
  int64_t length = 0;
  int64_t from_leading = 0;
  int64_t to_leading = 0;
};

// Long: the copies, and which product takes them, each a few lines.
//
// Copies of kBytes, to which both sides are aligned.
template <class T, int kBytes>
struct RealignKernel {
  static constexpr int kThreads = 256;
  static constexpr int kWidth = kBytes / static_cast<int>(sizeof(T));
  static constexpr int kUnroll = 8;
  static constexpr int kPiece = kThreads * kUnroll * kWidth;  // of a run, a block's

  struct Arguments {
    Realignment<T> operands[2];
    int64_t first_blocks = 0;  // of the first operand; the others are the second's
    int pieces[2]{};           // of a run
  };
  struct SharedStorage {};

  static int pieces_of(const Realignment<T>& operand) {
    return static_cast<int>(divide_up(operand.length, kPiece));
  }

  __device__ void operator()(SharedStorage& /*shared*/, const Arguments& g) const {
    const bool second = block_index() >= g.first_blocks;
    const Realignment<T>& operand = g.operands[second];
    const int64_t block = block_index() - (second ? g.first_blocks : 0);
    const int64_t run = block / g.pieces[second];
    const int64_t first = block % g.pieces[second] * kPiece + thread_index() * kWidth;
    const T* const from = operand.from + run * operand.from_leading;
    T* const to = operand.to + run * operand.to_leading;
    Vec<T, kWidth> held[kUnroll];
#pragma unroll
    for (int i = 0; i < kUnroll; ++i) {
      const int64_t at = first + i * kThreads * kWidth;
      if (at + kWidth <= operand.length) held[i] = thread::load<kWidth>(from + at);
    }
#pragma unroll
    for (int i = 0; i < kUnroll; ++i) {
      const int64_t at = first + i * kThreads * kWidth;
      if (at + kWidth <= operand.length) {
        thread::store(to + at, held[i]);
      } else {
        for (int64_t j = at; j < operand.length; ++j) thread::store(to + j, thread::load(from + j));
      }
    }
  }
};

struct Realigned {
  static constexpr int64_t kRow = 8;  // elements: 16 bytes

  static size_t bytes_of(const Matrix& matrix, DType dtype) {
    if (!needs_realigning(matrix, dtype)) return 0;
    return static_cast<size_t>(round_up(matrix.runs * realigned_leading(matrix) * 2, 256));
  }

  static bool supports(const Call& call, Why& why) {
    return why.unless(call.k > 0, "K = 0 leaves nothing to copy") && runs_supported(call, why) &&
           why.unless(needs_realigning(call.a, call.dtype) ||
                          needs_realigning(call.b, call.dtype) || call.c.length % kRow != 0 ||
                          alignment_of(call.c, call.dtype) < 16,
                      "all rows start at multiples of 16 bytes: nothing to realign");
  }
  // What stream_k wants, then the copies.
  static Workspace workspace(const Call& call) {
    Workspace all = stream_k_workspace();
    all.bytes += bytes_of(call.a, call.dtype) + bytes_of(call.b, call.dtype);
    return all;
  }
  static void run(const Call& call, const Context& context) {
    call.dtype == DType::kF16 ? run_typed<half>(call, context) : run_typed<bf16>(call, context);
  }

 private:
  template <class T>
  static void run_typed(const Call& call, const Context& context) {
    auto* place = static_cast<std::byte*>(context.workspace) + stream_k_workspace().bytes;
    Call aligned = call;
    Realignment<T> operands[2];
    int count = 0;
    int bytes = 16;
    for (Matrix* const matrix : {&aligned.a, &aligned.b}) {
      if (!needs_realigning(*matrix, call.dtype)) continue;
      bytes = std::min(bytes, alignment_of(*matrix, call.dtype));
      Realignment<T>& operand = operands[count++];
      operand = {.from = matrix->as<const T>(),
                 .to = reinterpret_cast<T*>(place),
                 .runs = matrix->runs,
                 .length = matrix->length,
                 .from_leading = matrix->leading,
                 .to_leading = realigned_leading(*matrix)};
      place += bytes_of(*matrix, call.dtype);
      matrix->data = operand.to;
      matrix->leading = operand.to_leading;
    }
    if (count > 0) switch (bytes) {
        case 2: copy<RealignKernel<T, 2>>(operands, context.stream); break;
        case 4: copy<RealignKernel<T, 4>>(operands, context.stream); break;
        default:  // 8, and 16 where rows overlap
          copy<RealignKernel<T, 8>>(operands, context.stream);
      }
    const int blocks = device_facts().multiprocessors;
    const SplitPlan plan = plan_split_k(aligned);
    const WgmmaPlan tiles = plan_realigned(aligned);
    const double cut = stream_k_time(aligned);
    if (plan.time < std::min(tiles.time, cut)) {
      return run_split_k<T>(aligned, plan, context.stream, /*overlaps=*/count > 0);
    }
    with_contiguous(aligned, [&]<Contiguous kA, Contiguous kB>() {
      if (cut < tiles.time) {
        run_stream_k<T, kA, kB, PlainOutput<T>>(aligned, context.workspace, context.stream);
        return;
      }
      RealignedPolicies::with(tiles.policy, [&]<class Policy>() {
        using Kernel = KernelOf<T, kA, kB, Policy, PlainOutput<T>>;
        Kernel::run(aligned, blocks, context.stream);
      });
    });
  }

  template <class Kernel, class T>
  static void copy(const Realignment<T> (&operands)[2], Stream stream) {
    typename Kernel::Arguments arguments{.operands = {operands[0], operands[1]}};
    for (int i = 0; i < 2; ++i) arguments.pieces[i] = std::max(1, Kernel::pieces_of(operands[i]));
    arguments.first_blocks = operands[0].runs * arguments.pieces[0];
    launch<Kernel>({.blocks = arguments.first_blocks + operands[1].runs * arguments.pieces[1],
                    .threads = Kernel::kThreads},
                   stream, arguments);
  }
};

}  // namespace ws::gemm
