// The row of 17_server.cuh: a unit of its own, so that it compiles beside the others.
#include "kernels/scan/17_server.cuh"

namespace ws::scan {

using ServerChosen = Server<ServerShape<8, 8, 7, 4, 5, -1>>;

extern const Rung kServer;
const Rung kServer = rung_of<ServerChosen, Cumsum, Cumprod, Logcumsumexp, ScanMax, ScanMin>(
    {.name = "server",
     .from = "look_back_runs",
     .idea = "warps of one block answer each tile's total with what lies before the tile",
     .arch = Arch::kSm90});

}  // namespace ws::scan
