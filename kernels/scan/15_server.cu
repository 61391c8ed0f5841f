// The row of 15_server.cuh: a unit of its own, so that it compiles beside the others.
#include "kernels/scan/15_server.cuh"

namespace ws::scan {

// H200 2026-11-30, 2^26 elements, % of copy f32 / bf16 / i64: 93 / 91 / 95; with five servers 92 /
// 91 / 94, with three tiles ahead 87 / 83 / 86, with tiles of 16 KiB 85 / 83 / 86.
using ServerChosen = Server<ServerShape<8, 8, 7, 4, 3>>;

extern const Rung kServer;
const Rung kServer = rung_of<ServerChosen, Cumsum, Cumprod, Logcumsumexp, ScanMax, ScanMin>(
    {.name = "server",
     .from = "look_back_queue",
     .idea = "warps of one block answer each tile's total with what lies before the tile",
     .arch = Arch::kSm90});

}  // namespace ws::scan
