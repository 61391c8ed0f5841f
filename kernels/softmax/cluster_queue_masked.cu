// The kernels of 12_cluster_queue.cuh that take masks, a unit of their own.
#include "kernels/softmax/12_cluster_queue.cuh"

namespace ws::softmax {

template void ClusterQueue::run(const ScaleMaskSoftmax::Call&, const Context&);
template void ClusterQueue::run(const ScaleMaskSoftmaxBackward::Call&, const Context&);

}  // namespace ws::softmax
