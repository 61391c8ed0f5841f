// The row of cluster_queue, with its policy.
#include "kernels/norm/08_cluster_queue.cuh"

namespace ws::norm {
namespace {

// One block an SM. Its registers hold the parameters of a part: of 64 KiB where that is one word an
// element at most, else of 32 KiB. H200 2026-11-21, % of copy at N = 65536 / 262144: rms_norm f32
// 96 / 95, bf16 96 / 95, bf16 with f32 weight 96; layer_norm f32 97 / 94, bf16 with f32 parameters
// 91; bf16 to be measured; candidates.hpp has the alternatives.
struct Measured {
  static constexpr int64_t kLeastBytes = 16 * 1024;
  template <bool kCentred>
  static constexpr int64_t part_bytes(DType dtype, DType parameters) {
    return (dtype != parameters || (kCentred && dtype != DType::kF32) ? 32 : 64) * 1024;
  }

  template <class T, class W, bool kCentred, class F>
  static void with_shape(int64_t /*bytes*/, const F& f) {
    if constexpr (part_bytes<kCentred>(kDType<T>, kDType<W>) == 32 * 1024) {
      f.template operator()<row::QueueShape<512, 4, 6, 1>>();
    } else {
      f.template operator()<row::QueueShape<512, 8, 3, 1>>();
    }
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
