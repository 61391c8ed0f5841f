// Idea: rows in the order of addresses: small one-shot blocks walk all rows' vectors as one list,
// and a vector's number becomes a row and a column by a multiplication that the host prepares.
// From vector: rows may lie apart (the halves of one tensor), or be the same for all (a bias, which
// stays in L1); blocks are those of elementwise/compact_front, for the sake of DRAM's open pages. A
// dense call is one long row, so nothing is lost where nothing is needed.
// Traffic: every byte once.
// Limits: rows of whole vectors of 16 bytes, aligned; of dense tensors any number of elements.
// Kernel and launch stand in compact_rows.hpp.
#include "kernels/fused/compact_rows.hpp"

namespace ws::fused {

extern const Rung kCompactRows;
const Rung kCompactRows =
    rung_of<CompactRows, BiasGelu, BiasGeluBackward, SwiGlu, SwiGluBackward, GeGlu, GeGluBackward>({
        .name = "compact_rows",
        .from = "vector",
        .idea = "rows of vectors in the order of addresses, each operand at its own stride",
    });

}  // namespace ws::fused
