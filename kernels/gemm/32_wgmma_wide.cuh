// Idea: a tile of 128 x 256, the widest that wgmma takes and registers hold: 128 sums a thread.
// From wgmma_roles: a quarter less to read for as many products. At the tensor cores' full rate
//   tiles of 128 x 128 would ask L2 for 15 TB/s, and it answers with some 9; these ask for 11.
// Traffic: M N K (1 / 128 + 1 / 256) elements from L2: 48 KB for a slice of 1024 cycles.
// Limits: as wgmma_tile. One block an SM, so nothing lies over its start and end.
#pragma once

#include "kernels/gemm/31_wgmma_roles.cuh"

namespace ws::gemm {

// 192 KB. Shared with the rungs above.
inline constexpr WgmmaRolesShape kWgmmaWideShape = {.tile_n = 256, .stages = 4, .blocks = 1};

inline constexpr Rung kWgmmaWide = rung_of<WgmmaRoles<kWgmmaWideShape, BlockATile>, kHalves, Gemm>({
    .name = "wgmma_wide",
    .from = "wgmma_roles",
    .idea = "a tile of 128 x 256: a quarter less from L2",
    .arch = Arch::kSm90a,
});

}  // namespace ws::gemm
