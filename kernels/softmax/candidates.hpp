// What the policies of row_in_registers and cluster_queue were chosen from, a rung each, so that
// the tuner measures them on the harness. Not in the family's table; few dtypes and operations, to
// compile in little time.
#pragma once

#include "kernels/softmax/10_row_in_registers.cuh"
#include "kernels/softmax/12_cluster_queue.cuh"

#if WS_DEVICE_CODE
namespace ws::softmax {

// ---- row_in_registers: lanes x vectors --------------------------------------------------------

template <DTypes kTaken, int kLanes, int kVectors>
struct RegistersCandidate {
  static constexpr int64_t kBytes = Shape<kLanes, kVectors>::kBytes;

  template <class Call>
  static bool supports(const Call& call, Why& why) {
    const int width = widest(call);
    const int64_t bytes = call.rows.row_bytes();
    return why.unless(bytes <= kBytes && bytes > kBytes / 2, "holds rows of ", kBytes / 2, " to ",
                      kBytes, " bytes, not ", bytes) &&
           rows_supported(call, width, why) &&
           why.unless(rows_aligned(call.rows, width), "takes aligned rows");
  }
  template <class Call>
  static void run(const Call& call, const Context& context) {
    with_type<kTaken>(call.dtype, [&]<class T>() {
      RowInRegistersKernel<T, typename Call::RowOperation, kLanes, kVectors,
                           Fit::kAligned>::launch_on(rows_of<T>(call), context.stream);
    });
  }
};

inline constexpr DTypes kCandidateHalf = {DType::kF16};
inline constexpr DTypes kCandidateFloat = {DType::kF32};

template <DTypes kTaken, class Op, int kLanes, int kVectors>
constexpr Rung registers_candidate(std::string_view name) {
  return rung_of<RegistersCandidate<kTaken, kLanes, kVectors>, kTaken, Op>(
      {.name = name, .idea = "lanes x vectors of 16 bytes"});
}

inline constexpr Rung kRegistersCandidates[] = {
    // Attention's scores in 16 bits, 2 KiB and 8 KiB.
    registers_candidate<kCandidateHalf, ScaleMaskSoftmax, 128, 1>("masked_f16_128x1"),
    registers_candidate<kCandidateHalf, ScaleMaskSoftmax, 64, 2>("masked_f16_64x2"),
    registers_candidate<kCandidateHalf, ScaleMaskSoftmax, 32, 4>("masked_f16_32x4"),
    registers_candidate<kCandidateHalf, ScaleMaskSoftmax, 256, 2>("masked_f16_256x2"),
    registers_candidate<kCandidateHalf, ScaleMaskSoftmax, 128, 4>("masked_f16_128x4"),
    // 64 KiB of f32.
    registers_candidate<kCandidateFloat, ScaleMaskSoftmax, 1024, 4>("masked_f32_1024x4"),
    registers_candidate<kCandidateFloat, ScaleMaskSoftmax, 512, 8>("masked_f32_512x8"),
    registers_candidate<kCandidateFloat, ScaleMaskSoftmax, 256, 16>("masked_f32_256x16"),
    // Gradients: two rows of 32 KiB, of 64 KiB in f32.
    registers_candidate<kCandidateHalf, SoftmaxBackward, 512, 4>("backward_f16_512x4"),
    registers_candidate<kCandidateHalf, SoftmaxBackward, 1024, 2>("backward_f16_1024x2"),
    registers_candidate<kCandidateFloat, SoftmaxBackward, 512, 8>("backward_f32_512x8"),
    registers_candidate<kCandidateFloat, SoftmaxBackward, 256, 16>("backward_f32_256x16"),
    registers_candidate<kCandidateFloat, SoftmaxBackward, 1024, 4>("backward_f32_1024x4"),
};

// ---- cluster_queue: consumers x vectors, stages, blocks an SM ---------------------------------

template <DTypes kTaken, class Shape>
struct QueueCandidate {
  static bool supports(const Softmax::Call& call, Why& why) {
    const int64_t most = cluster::kMaxBlocks * Shape::kBytes;
    const int64_t bytes = call.rows.row_bytes();
    return why.unless(bytes <= most && bytes > 128 * 1024, "takes rows over 128 KiB, of up to ",
                      most, " bytes, not ", bytes) &&
           ClusterQueue::supports(call, why);
  }
  static Workspace workspace(const Softmax::Call& call) { return ClusterQueue::workspace(call); }
  static void run(const Softmax::Call& call, const Context& context) {
    with_type<kTaken>(call.dtype,
                      [&]<class T>() { ClusterQueue::run_shape<T, Shape>(call, context); });
  }
};

template <DTypes kTaken, int... kShape>
constexpr Rung queue_candidate(std::string_view name) {
  return rung_of<QueueCandidate<kTaken, row::QueueShape<kShape...>>, kTaken, Softmax>(
      {.name = name, .idea = "consumers x vectors, stages, blocks an SM", .arch = Arch::kSm90});
}

inline constexpr DTypes kCandidateBf16 = {DType::kBf16};
inline constexpr Rung kQueueCandidates[] = {
    queue_candidate<kCandidateFloat, 512, 4, 2, 2>("f32_512x4_s2_b2"),
    queue_candidate<kCandidateFloat, 256, 8, 2, 2>("f32_256x8_s2_b2"),
    queue_candidate<kCandidateFloat, 128, 16, 2, 2>("f32_128x16_s2_b2"),
    queue_candidate<kCandidateFloat, 128, 32, 1, 2>("f32_128x32_s1_b2"),
    queue_candidate<kCandidateFloat, 256, 16, 1, 2>("f32_256x16_s1_b2"),
    queue_candidate<kCandidateFloat, 512, 16, 1, 1>("f32_512x16_s1_b1"),
    queue_candidate<kCandidateBf16, 128, 16, 3, 2>("bf16_128x16_s3_b2"),
    queue_candidate<kCandidateBf16, 128, 16, 2, 2>("bf16_128x16_s2_b2"),
    queue_candidate<kCandidateBf16, 256, 8, 3, 2>("bf16_256x8_s3_b2"),
    queue_candidate<kCandidateBf16, 512, 8, 2, 1>("bf16_512x8_s2_b1"),
    queue_candidate<kCandidateBf16, 256, 16, 2, 1>("bf16_256x16_s2_b1"),
};

}  // namespace ws::softmax
#endif
