// Idea: a row of any length in the order of one digit of 8 bits after the other, lowest first:
//   blocks count the digits of tiles, the counts before each are added up, and each tile is put in
//   order in shared memory, so that keys of a digit go where they belong side by side.
// From radix_rows: a row need not fit a block; keys and 32-bit places go through a workspace.
// Traffic: keys twice a pass, places once, both written once; x for keys in the first pass, outputs
//   in the last: 28 bytes an element of 16 bits, 80 of 32.
// Limits: rows of more than 1024 elements. They go in batches that fill the workspace.
#include <algorithm>

#include "kernels/topk/digit_passes.hpp"

namespace ws::topk {
namespace {

struct RadixPasses {
  static constexpr int64_t kKeysOfABatch = int64_t{1} << 24;
  static constexpr int64_t kLeastColumns = 1025;

  static bool supports(const Selection& call, Why& why) {
    return why.unless(call.rows.columns >= kLeastColumns, "gives a row a tile of ", kPassTile,
                      " keys at least, and takes no fewer than ", kLeastColumns, " elements, not ",
                      call.rows.columns);
  }

  // A batch of rows: what it takes in the workspace.
  struct Room {
    int64_t rows;
    int64_t tiles;    // of a row
    int64_t keys;     // of all rows
    int64_t buffers;  // of keys and places: two digits need one, more need two

    explicit Room(const Selection& call)
        : tiles(divide_up(call.rows.columns, int64_t{kPassTile})),
          buffers(size_of(call.dtype) == 2 ? 1 : 2) {
      rows = std::min(std::max<int64_t>(kKeysOfABatch / (tiles * kPassTile), 1), call.rows.rows);
      keys = rows * call.rows.columns;
    }
    int64_t counts() const { return rows * PassOrder::kDigits * tiles; }
    int64_t totals() const { return rows * PassOrder::kDigits; }
  };
  static Workspace workspace(const Selection& call) {
    const Room room(call);
    const int64_t words = room.counts() + room.totals() + room.buffers * room.keys;
    const auto key = static_cast<int64_t>(size_of(call.dtype));
    return {.bytes = static_cast<size_t>(words * 4 + room.buffers * room.keys * key)};
  }

  static void run(const Selection& call, const Context& context) {
    const Room room(call);
    const int64_t columns = call.rows.columns;
    with_type<kSelected>(call.dtype, [&]<class T>() {
      using Bits = Stored<T>;
      auto* const counts = static_cast<uint32_t*>(context.workspace);
      uint32_t* const totals = counts + room.counts();
      uint32_t* const places = totals + room.totals();
      auto* const keys = reinterpret_cast<Bits*>(places + room.buffers * room.keys);
      const KeyRows<Bits> some{keys, places, columns};
      for (int64_t first = 0; first < call.rows.rows; first += room.rows) {
        const int64_t rows = std::min(room.rows, call.rows.rows - first);
        const TensorRows<T> tensors{call.rows, first, call.k, Worth<T>::flip(call.largest)};
        Pass pass{{first, columns, room.tiles}, kUnused<Bits>, counts, totals};
        const auto sort = [&](const auto& from, const auto& to) {
          sort_digit(pass, rows, from, to, context.stream);
          pass.shift += 8;
        };
        sort(tensors, some);
        if constexpr (sizeof(T) == 4) {
          const KeyRows<Bits> others{keys + room.keys, places + room.keys, columns};
          sort(some, others);
          sort(others, some);
        }
        sort(some, tensors);
      }
    });
  }
};

}  // namespace

extern const Rung kRadixPasses;
const Rung kRadixPasses = rung_of<RadixPasses, TopK, Sort>(
    {.name = "radix_passes",
     .from = "radix_rows",
     .idea = "digit by digit over all tiles of a row: any length"});

}  // namespace ws::topk
