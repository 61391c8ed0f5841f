// Idea: every layout, by elementwise's loop nest: a bias is an operand that steps by 0 from row to
//   row, the halves of one tensor are rows that lie apart, whatever is transposed has its strides.
// From naive: an operation is only its functor here (functors.hpp), so all of them take this rung.
// Traffic: every byte once where the inner loops of all tensors agree.
// Limits: none. Over 2^31 elements take several launches.
#include "kernels/elementwise/04_strided.cuh"
#include "kernels/fused/functors.hpp"

namespace ws::fused {

extern const Rung kAnyLayout;
const Rung kAnyLayout = rung_of<elementwise::Strided, BiasGelu, BiasGeluBackward, SwiGlu,
                                SwiGluBackward, GeGlu, GeGluBackward>({
    .name = "any_layout",
    .from = "naive",
    .idea = "any strides, broadcasting, any size: elementwise/strided with these functors",
});

}  // namespace ws::fused
