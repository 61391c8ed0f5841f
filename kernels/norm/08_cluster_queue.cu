// The row of cluster_queue, with its policy.
#include "kernels/norm/08_cluster_queue.cuh"

namespace ws::norm {
namespace {

// Registers hold the parameters of a part: of 64 KiB where that is one word an element at most,
// else of 32 KiB. H200 2026-11-21, % of copy, layer_norm / rms_norm, of ten shapes of 8 to 64 KiB
// (candidates.hpp): f32 N = 4096 96 / 96 (128 x 8, four blocks an SM), 8192 96 / 96 (512 x 4),
// 65536 97 / 96 (512 x 4), 262144 94 / 95 (256 x 16); bf16 16384 93 / 95 (512 x 4), 65536 96 / 96,
// 262144 95 / 95 (512 x 8; 512 x 4 88 / 96), with f32 parameters 65536 96 / 96.
struct Measured {
  static constexpr int64_t kLeastBytes = 16 * 1024;
  template <bool kCentred>
  static constexpr int64_t part_bytes(DType dtype, DType /*parameters*/) {
    return (dtype == DType::kF32 ? 64 : 32) * 1024;
  }

  template <class T, class W, bool kCentred, class F>
  static void with_shape(int64_t bytes, const F& f) {
    using row::QueueShape;
    if constexpr (sizeof(T) == 4) {
      if (bytes <= 16 * 1024) return f.template operator()<QueueShape<128, 8, 3, 4>>();
      if (bytes > cluster::kMaxBlocks * 32 * 1024) {
        return f.template operator()<QueueShape<256, 16, 3, 1>>();
      }
    } else if constexpr (sizeof(W) == 2) {
      if (bytes > 64 * 1024) return f.template operator()<QueueShape<512, 8, 3, 1>>();
    }
    f.template operator()<QueueShape<512, 4, 6, 1>>();
  }
};

}  // namespace

extern const Rung kClusterQueue;
const Rung kClusterQueue = rung_of<ClusterQueue<Measured>, LayerNorm, RmsNorm>({
    .name = "cluster_queue",
    .from = "cluster_per_row",
    .idea = "clusters stay and draw rows from a counter, parameters in registers, exchange hidden",
    .arch = Arch::kSm90,
});

}  // namespace ws::norm
