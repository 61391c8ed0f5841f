// The row of strided, whose kernel other families take for functors of their own.
#include "kernels/elementwise/04_strided.cuh"

namespace ws::elementwise {

extern const Rung kStrided;
const Rung kStrided = Operations::rung<Strided>({
    .name = "strided",
    .from = "scalar",
    .idea = "any strides, broadcasting, any size",
});

}  // namespace ws::elementwise
