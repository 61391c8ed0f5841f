// The scan family: its operations, its rungs in teaching order, and which to prefer.
#include <bit>

#include "kernels/scan/01_naive.cuh"
#include "kernels/scan/02_hillis_steele.cuh"
#include "kernels/scan/03_blelloch.cuh"
#include "kernels/scan/04_warp_scan.cuh"
#include "kernels/scan/06_reduce_then_scan.cuh"

namespace ws::scan {

extern const Rung kBlockScan;
extern const Rung kLookBack;
extern const Rung kLookBackQueue;
extern const Rung kTensorCore;
extern const Rung kLanesPerRow;
extern const Rung kColumns;
extern const Rung kColumnsStaged;
extern const Rung kAnyLayout;
extern const Rung kRowQueue;
extern const Rung kServer;
extern const Rung kColumnsStrips;

namespace {

constexpr Operation kOperations[] = {
    operation_of<Cumsum>(),  operation_of<Cumprod>(), operation_of<Logcumsumexp>(),
    operation_of<ScanMax>(), operation_of<ScanMin>(),
};

constexpr const Rung* kRungs[] = {
    &kNaive,         &kHillisSteele,  &kBlelloch,   &kWarpScan,      &kBlockScan, &kReduceThenScan,
    &kLookBack,      &kLookBackQueue, &kTensorCore, &kLanesPerRow,   &kColumns,   &kAnyLayout,
    &kColumnsStaged, &kRowQueue,      &kServer,     &kColumnsStrips,
};

// Columns of a tile and more go to strips, from four megabytes on. A single strip of 128 bytes is
// staged, rows that begin between lines of 128 bytes, and what strips do not take (H200 2026-11-30:
// columns 1.0 to 1.8 times; a single strip 54 to 72 % of copy, staged 68 to 76; 5000 columns of f32
// 80, staged 90). Logarithms want all SMs, a cluster of two a strip at least (2026-12-01: 16384 x
// 4096 f32 93, staged 81, bf16 61, 54; 65536 x 512 bf16 32).
std::span<const Rung* const> best_for_columns(const Scan& call, bool logarithms) {
  constexpr int64_t kLeastRows = 256;
  constexpr int64_t kStripBytes = 4 * 1024 * 1024;
  constexpr int64_t kStagedBytes = 16 * 1024 * 1024;
  static constexpr const Rung* kSmall[] = {&kColumns, &kAnyLayout};
  static constexpr const Rung* kStaged[] = {&kColumnsStaged, &kColumns, &kAnyLayout};
  static constexpr const Rung* kStrips[] = {&kColumnsStrips, &kColumns, &kAnyLayout};
  static constexpr const Rung* kLarge[] = {&kColumnsStrips, &kColumnsStaged, &kColumns,
                                           &kAnyLayout};
  static constexpr const Rung* kLittle[] = {&kAnyLayout};
  const auto size = static_cast<int64_t>(size_of(call.dtype));
  const int64_t bytes = call.count * call.lines * size;
  // Many matrices, each a small part of a tile, at a pitch of no whole vectors: of a block for each
  // most threads would have nothing.
  constexpr int64_t kPartOfTile = 1024;
  const int64_t across = call.line[static_cast<size_t>(call.loops - 1)].extent;
  if (across < call.lines && across * size % 16 != 0 && call.count * across < kPartOfTile) {
    return kLittle;
  }
  constexpr int64_t kLogarithmBytes = 8192;  // of a row
  if (call.count < kLeastRows || bytes < (logarithms ? kStagedBytes : kStripBytes)) return kSmall;
  if (bytes < kStagedBytes) return kStrips;
  const bool between_lines = call.strides[0] * size % 128 != 0;
  const bool few = call.lines * size <= 128 || (logarithms && call.lines * size < kLogarithmBytes);
  return few || between_lines ? std::span<const Rung* const>(kStaged) : kLarge;
}

// Lines whose neighbours lie side by side, and their elements do not.
bool has_columns(const Scan& call) {
  if (call.loops == 0 || call.has_rows()) return false;
  const Loop& next = call.line[static_cast<size_t>(call.loops - 1)];
  return next.strides[0] == 1 && next.strides[1] == 1;
}

// Many rows go to blocks that stay, from two kilobytes on, or half of one where rows are powers of
// two, one behind the other. Else short rows go to lanes, longer ones to a block each, those of
// more than a tile to tiles that look back, or ask the server once there are two for an SM (H200
// 2026-11-30: 4 MiB of f32 look back sooner, 8 MiB of i64 ask). Lines whose sides lie differently,
// or whose elements lie apart, go to the rungs that take them, the last but one of each list.
std::span<const Rung* const> best_for(const Scan& call, bool logarithms = false) {
  if (has_columns(call)) return best_for_columns(call, logarithms);
  constexpr int64_t kShortBytes = 8 * 1024;
  constexpr int64_t kTileBytes = 32 * 1024;
  constexpr int64_t kServerBytes = 8 * 1024 * 1024;
  constexpr int64_t kQueueBytes = 16 * 1024 * 1024;
  constexpr int64_t kManyRows = 1024;
  static constexpr const Rung* kShort[] = {&kLanesPerRow, &kAnyLayout};
  static constexpr const Rung* kBlocks[] = {&kBlockScan, &kAnyLayout};
  static constexpr const Rung* kTiles[] = {&kLookBack, &kAnyLayout};
  static constexpr const Rung* kAsked[] = {&kServer, &kLookBack, &kAnyLayout};
  static constexpr const Rung* kQueue[] = {&kServer, &kLookBackQueue, &kLookBack, &kAnyLayout};
  static constexpr const Rung* kShortRows[] = {&kRowQueue, &kLanesPerRow, &kAnyLayout};
  static constexpr const Rung* kRows[] = {&kRowQueue, &kBlockScan, &kAnyLayout};
  static constexpr const Rung* kLongRows[] = {&kRowQueue, &kLookBackQueue, &kLookBack, &kAnyLayout};
  const int64_t bytes = call.count * static_cast<int64_t>(size_of(call.dtype));
  const bool large = bytes * call.lines >= kQueueBytes;
  const bool dense = call.has_rows() && call.pitch(0) == call.count && call.pitch(1) == call.count;
  const bool whole = dense && bytes >= 512 && std::has_single_bit(static_cast<uint64_t>(bytes));
  const bool many = large && call.lines >= kManyRows && (whole || bytes >= 2048);
  if (bytes <= kShortBytes && call.lines >= 16) {
    return many ? std::span<const Rung* const>(kShortRows) : kShort;
  }
  if (bytes <= kTileBytes) return many ? std::span<const Rung* const>(kRows) : kBlocks;
  if (many) return kLongRows;
  if (large) return kQueue;
  return bytes * call.lines >= kServerBytes ? std::span<const Rung* const>(kAsked) : kTiles;
}

}  // namespace

std::span<const Rung* const> Cumsum::by_worth(const Call& call) { return best_for(call); }
std::span<const Rung* const> Cumprod::by_worth(const Call& call) { return best_for(call); }
std::span<const Rung* const> Logcumsumexp::by_worth(const Call& call) {
  return best_for(call, true);
}
std::span<const Rung* const> Extremum::by_worth(const Call& call) { return best_for(call); }

extern const Family kFamily;
const Family kFamily = {
    .name = "scan",
    .summary = "Prefix sums, products, extrema and log-sums along a dimension",
    .operations = kOperations,
    .rungs = kRungs,
};

}  // namespace ws::scan
