// The row of 12_cluster_queue.cuh, whose instantiations are a unit of their own.
#include "kernels/softmax/12_cluster_queue.cuh"

namespace ws::softmax {

extern const Rung kClusterQueue;
const Rung kClusterQueue = rung_of<ClusterQueue, Softmax, LogSoftmax, ScaleMaskSoftmax,
                                   SoftmaxBackward, LogSoftmaxBackward, ScaleMaskSoftmaxBackward>(
    {.name = "cluster_queue",
     .from = "cluster_per_row",
     .idea = "clusters stay and draw the next row from a counter, so that addresses stay in order",
     .arch = Arch::kSm90,
     .may_spill = true,  // nine words, of rows over 512 KiB in 16 bits that leave threads unfilled
     .file = "12_cluster_queue.cuh"});

}  // namespace ws::softmax
