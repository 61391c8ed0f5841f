// Idea: a block a channel: each thread 16 bytes of steps in a row, whose segments the block scans
// for each state. Steps are no longer one after the other.
// From state_per_thread: u and delta are loaded once for all states, 16 bytes at a time; L / 1024
// turns of N scans take the place of L shuffled steps.
// Traffic: u, delta, z and out once, b and c of the group once for each channel, from L2.
// Limits: lines at multiples of 16 bytes; two warps of instructions of scan for one of steps.
#include "kernels/selective_scan/line_scan.hpp"

#if WS_DEVICE_CODE
namespace ws::selective_scan {

inline constexpr Seed kChannelScanSeeds[] = {
    {.name = "selective_scan_mamba", .operation = "selective_scan"}};

extern const Rung kChannelScan;
const Rung kChannelScan =
    rung_of<InOnePiece<LineScan<LinePolicy<BlockTeam<4, 1>, 1, 1, 8, InVectors>>>, SelectiveScan>(
        {.name = "channel_scan",
         .from = "state_per_thread",
         .idea = "a block a channel scans steps as segments, for each state in turn",
         .seeds = kChannelScanSeeds});

}  // namespace ws::selective_scan
#endif
