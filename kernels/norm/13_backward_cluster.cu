// The row of backward_cluster, with its policy.
#include "kernels/norm/13_backward_cluster.cuh"

namespace ws::norm {
namespace {

// 64 bytes of a row a thread in 16 bits: 512 threads of an SM hold 32 elements each, with two sums
// of each for layer_norm. Of as many threads, small blocks in large clusters are the faster:
// while one block exchanges, the others of the SM go on. A weight of f32 takes twice the registers,
// so that threads hold half. H200 2026-11-21, layer_norm in bf16, % of copy: N = 2048 89, 4096 89,
// 8192 88, 16384 88, 32768 94, 65536 93, 262144 87. In f32 the sums take half the registers, and
// long rings win: 1024 95, 4096 96, 8192 98, 32768 100, 65536 95.
struct Measured {
  template <bool kCentred>
  static constexpr int64_t most_bytes(DType dtype, DType parameters) {
    const bool is_many = kCentred && dtype != parameters;
    return cluster::kMaxBlocks * (is_many ? 16 : 32) * 1024;
  }

  template <class T, class W, bool kCentred, class F>
  static void with_shape(int64_t bytes, const F& f) {
    if constexpr (kCentred && sizeof(W) > sizeof(T)) {
      if (bytes <= 4 * 1024) return f.template operator()<RingShape<128, 2, 4, 4>>();
      if (bytes <= 8 * 1024) return f.template operator()<RingShape<256, 2, 4, 2>>();
      f.template operator()<RingShape<512, 2, 6, 1>>();
    } else if constexpr (sizeof(T) == 4) {
      if (bytes <= 8 * 1024) return f.template operator()<RingShape<64, 4, 3, 8>>();
      if (bytes <= 256 * 1024) return f.template operator()<RingShape<512, 2, 6, 1>>();
      f.template operator()<RingShape<512, 4, 3, 1>>();
    } else {
      if (bytes <= 32 * 1024) return f.template operator()<RingShape<64, 4, 3, 8>>();
      if (bytes <= 128 * 1024) return f.template operator()<RingShape<128, 4, 3, 4>>();
      if (bytes <= 256 * 1024) return f.template operator()<RingShape<256, 4, 3, 2>>();
      f.template operator()<RingShape<512, 4, 3, 1>>();
    }
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
