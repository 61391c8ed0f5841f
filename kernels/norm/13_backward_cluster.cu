// The row of backward_cluster, with its policy.
#include "kernels/norm/13_backward_cluster.cuh"

namespace ws::norm {
namespace {

// By the bytes of a row; the last two are those of parts of longer rows. Blocks an SM: as many as
// registers for the sums, which are twice as many for layer_norm of 16-bit rows, and 192 KiB of
// rows under way allow. H200 2026-11-21, % of copy, layer_norm in f32 / bf16: N = 1024 87 / -, 4096
// 92 / 80, 8192 95 / 84, 32768 99 / 85, 65536 96 / 89; rms_norm in bf16 80, 87, 98, 99 from 4096
// on.
struct Measured {
  static constexpr int64_t kPart = 16 * 1024;
  template <bool kCentred>
  static constexpr int64_t most_bytes(DType dtype) {
    return cluster::kMaxBlocks * (is_many<kCentred>(dtype) ? kPart : 2 * kPart);
  }
  template <bool kCentred>
  static constexpr bool is_many(DType dtype) {
    return kCentred && dtype != DType::kF32;
  }

  template <class T, bool kCentred, class F>
  static void with_shape(int64_t bytes, const F& f) {
    constexpr bool kMany = is_many<kCentred>(kDType<T>);
    if constexpr (sizeof(T) == 2) {
      if (bytes <= 2 * 1024) return f.template operator()<RingShape<64, 2, 4, kMany ? 8 : 10>>();
      if (bytes <= 4 * 1024) return f.template operator()<RingShape<128, 2, 4, kMany ? 4 : 5>>();
    } else {
      if (bytes <= 2 * 1024) return f.template operator()<RingShape<128, 1, 4, 6>>();
    }
    if (bytes <= 8 * 1024) return f.template operator()<RingShape<256, 2, 4, 2>>();
    if (kMany || bytes <= cluster::kMaxBlocks * kPart) {
      return f.template operator()<RingShape<512, 2, 6, 1>>();
    }
    if constexpr (!kMany) f.template operator()<RingShape<512, 4, 3, 1>>();
  }
};

}  // namespace

extern const Rung kBackwardCluster;
const Rung kBackwardCluster =
    rung_of<BackwardCluster<Measured>, LayerNormBackward, RmsNormBackward>({
        .name = "backward_cluster",
        .from = "backward_in_registers",
        .idea = "a row over up to 16 blocks, rows fetched ahead, the columns' sums in registers",
        .arch = Arch::kSm90,
    });

}  // namespace ws::norm
