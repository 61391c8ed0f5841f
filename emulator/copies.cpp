#include "emulator/copies.hpp"

#include <algorithm>
#include <cstring>

#include "emulator/async.hpp"
#include "emulator/bulk_add.hpp"
#include "emulator/global_memory.hpp"
#include "emulator/mbarrier.hpp"
#include "emulator/profile.hpp"
#include "emulator/trace.hpp"

namespace ws::emulator {
namespace {

void require_own(const void* shared, const char* operation) {
  if (shared_address(shared) >> kSharedRankShift != 0) {
    fail(Fault::kInvalidUse, concatenate(operation, " in another block's shared memory"));
  }
}

void count_copy(size_t bytes) {
  count(Count::kAsyncCopies);
  count(Count::kAsyncBytes, bytes);
}

}  // namespace

// ---- cp.async ----------------------------------------------------------------------------------

void cp_async(void* shared, const void* global, int bytes, int source_bytes) {
  constexpr const char* kOperation = "cp.async";
  const auto size = static_cast<size_t>(bytes);
  if (source_bytes < 0 || source_bytes > bytes) {
    fail(Fault::kOutOfRange,
         concatenate(kOperation, ": ", source_bytes, " source bytes of a copy of ", bytes));
  }
  check_shared(shared, size, size, kOperation);
  require_own(shared, kOperation);
  check_alignment(global, size, kOperation);
  if (source_bytes > 0) {  // else nothing is read there, which may be past a tensor's end
    check_global(global, static_cast<size_t>(source_bytes), size, false, kOperation);
    read_global(global, static_cast<size_t>(source_bytes), Manner::kWeak, kOperation);
  }
  poison_shared(shared, size, false, kOperation);
  profile_copy(shared, global, size, static_cast<size_t>(source_bytes));
  trace_issue(trace::Flight::kSmallCopies, size);
  count_copy(static_cast<size_t>(source_bytes));
  async_of(self()).small_copies.add({static_cast<std::byte*>(shared),
                                     static_cast<const std::byte*>(global), bytes, source_bytes});
}

void cp_async_commit_group() {
  trace_commit(trace::Flight::kSmallCopies);
  async_of(self()).small_copies.commit();
}

void cp_async_wait_group(int pending) {
  const TracedWait traced({"cp.async.wait_group", -1, trace::Flight::kSmallCopies, pending});
  async_of(self()).small_copies.wait(static_cast<size_t>(pending), [](const SmallCopy& copy) {
    std::memcpy(copy.to, copy.from, static_cast<size_t>(copy.source_bytes));
    std::memset(copy.to + copy.source_bytes, 0,
                static_cast<size_t>(copy.bytes - copy.source_bytes));
    land_shared(copy.to, static_cast<size_t>(copy.bytes));
  });
}

// ---- cp.async.bulk -----------------------------------------------------------------------------

namespace {

void check_bulk(const void* shared, const void* global, uint32_t bytes, bool writes,
                const char* operation) {
  if (bytes % 16 != 0) {
    fail(Fault::kMisaligned, concatenate(operation, " of ", bytes, " bytes, not a multiple of 16"));
  }
  check_shared(shared, bytes, 16, operation);
  require_own(shared, operation);
  check_global(global, bytes, 16, writes, operation);
}

void add_bulk_store(const void* shared, size_t bytes, std::function<void(const std::byte*)> write,
                    const char* operation) {
  read_shared_async(shared, bytes, operation);
  hold_shared(shared, bytes);
  trace_copy(write, operation, bytes);
  count_copy(bytes);
  async_of(self()).bulk_stores.add({.from = static_cast<std::byte*>(const_cast<void*>(shared)),
                                    .bytes = bytes,
                                    .data = {},
                                    .read = false,
                                    .write = std::move(write)});
}

void read_source(BulkStore& store) {
  if (store.read) return;
  store.data.assign(store.from, store.from + store.bytes);
  store.read = true;
  release_shared(store.from, store.bytes);
  was_read_shared(store.from, store.bytes);
}

}  // namespace

void bulk_load(void* shared, const void* global, uint32_t bytes, void* barrier) {
  constexpr const char* kOperation = "cp.async.bulk.shared.global";
  check_bulk(shared, global, bytes, false, kOperation);
  const Stream stream = mbarrier_stream(barrier, kOperation);
  read_global(global, bytes, Manner::kAsync, kOperation, &stream);
  require_own(barrier, kOperation);
  poison_shared(shared, bytes, true, kOperation);
  profile_bulk(kOperation, global, bytes);
  count_copy(bytes);
  mbarrier_add_transfer(
      barrier, bytes,
      [shared, global, bytes](uint32_t stream) {
        std::memcpy(shared, global, bytes);
        land_shared(shared, bytes, stream);
      },
      kOperation);
}

void bulk_store(void* global, const void* shared, uint32_t bytes) {
  constexpr const char* kOperation = "cp.async.bulk.global.shared";
  check_bulk(shared, global, bytes, true, kOperation);
  profile_bulk(kOperation, global, bytes);
  add_bulk_store(
      shared, bytes,
      [global, bytes](const std::byte* data) {
        write_global(global, data, bytes, Manner::kAsync, kOperation);
        std::memcpy(global, data, bytes);
      },
      kOperation);
}

void bulk_add(void* global, const void* shared, uint32_t bytes, size_t element_bytes,
              AddElement add) {
  constexpr const char* kOperation = "cp.reduce.async.bulk.global.shared.add";
  check_bulk(shared, global, bytes, true, kOperation);
  profile_bulk(kOperation, global, bytes);
  add_bulk_store(
      shared, bytes,
      [to = static_cast<std::byte*>(global), bytes, element_bytes, add](const std::byte* data) {
        for (size_t at = 0; at < bytes; at += element_bytes) {
          add_global(to + at, data + at, element_bytes, add, kOperation);
        }
      },
      kOperation);
}

void bulk_commit_group() { async_of(self()).bulk_stores.commit(); }

void bulk_wait_group_read(int pending) {
  const TracedWait traced({.operation = "cp.async.bulk.wait_group.read", .pending = pending});
  async_of(self()).bulk_stores.visit(static_cast<size_t>(pending), read_source);
}

void bulk_wait_group(int pending) {
  const TracedWait traced({.operation = "cp.async.bulk.wait_group", .pending = pending});
  async_of(self()).bulk_stores.wait(static_cast<size_t>(pending), [](BulkStore& store) {
    read_source(store);
    store.write(store.data.data());
  });
}

void finish_copies(Thread& thread) {
  auto& stores = thread.async->bulk_stores;
  if (stores.uncommitted()) {
    fail(Fault::kInvalidUse, "the thread exits with bulk stores that it has not committed");
  }
  // The kernel ends after the writes, but the block's shared memory may be gone before the reads.
  stores.visit(0, [](const BulkStore& store) {
    if (store.read) return;
    fail(Fault::kInvalidUse,
         "the thread exits while a bulk store may still read shared memory: "
         "cp.async.bulk.wait_group.read must come first");
  });
  bulk_wait_group(0);
}

// ---- cp.async.bulk.tensor ----------------------------------------------------------------------

namespace {

// Checked by magic: what was never encoded is no tensor map.
const TensorMapImage& image_of(const void* map, size_t dimensions, const char* operation) {
  const auto& image = *static_cast<const TensorMapImage*>(map);
  if (reinterpret_cast<uintptr_t>(map) % 64 != 0) {
    fail(Fault::kMisaligned, concatenate(operation, ": a tensor map at ", map,
                                         ", which is not a multiple of 64 bytes"));
  }
  if (image.magic != kTensorMapMagic) {
    fail(Fault::kInvalidUse, concatenate(operation, ": the tensor map was not encoded"));
  }
  if (image.rank != dimensions) {
    fail(Fault::kInvalidUse,
         concatenate(operation, ": ", dimensions, " coordinates for a tensor map of ", image.rank,
                     " dimensions"));
  }
  return image;
}

size_t tile_bytes(const TensorMapImage& map) {
  size_t bytes = map.element_bytes;
  for (size_t d = 0; d < map.rank; ++d) bytes *= map.box[d];
  return bytes;
}

// Rows of a swizzled tile are as far apart as the swizzle is wide, however short they are.
size_t row_pitch(const TensorMapImage& map) {
  const size_t row_bytes = size_t{map.box[0]} * map.element_bytes;
  return std::max(row_bytes, size_t{map.swizzle_span});
}
// From a tile's beginning to its end in shared memory.
size_t tile_extent(const TensorMapImage& map) {
  const size_t row_bytes = size_t{map.box[0]} * map.element_bytes;
  return tile_bytes(map) / row_bytes * row_pitch(map);
}

// A tile of a tensor, wherever it lies: partly or wholly outside.
struct Tile {
  TensorMapImage map;
  std::array<int, 5> at{};  // coordinates of its first element
  int64_t edge = 1;         // bytes to a multiple of which the tensor's rows end: 16 for stores

  // Calls visit(offset in shared memory, address in global memory or null where outside, bytes) for
  // all pieces of the tile; a piece is inside one 16-byte chunk. `base` is the tile's shared
  // address, for the swizzle permutes address bits.
  template <class Visit>
  void each(uint32_t base, Visit&& visit) const {
    const size_t row_bytes = size_t{map.box[0]} * map.element_bytes;
    const size_t rows = tile_bytes(map) / row_bytes;
    const size_t pitch = row_pitch(map);
    // The part of a row that the tensor has, in bytes from the row's beginning.
    const int64_t start = int64_t{at[0]} * map.element_bytes;
    const auto clip = [&](int64_t byte) {
      return static_cast<size_t>(
          std::clamp<int64_t>(byte - start, 0, static_cast<int64_t>(row_bytes)));
    };
    const size_t first = clip(0);
    const size_t last =
        clip((static_cast<int64_t>(map.extents[0]) * map.element_bytes + edge - 1) / edge * edge);
    for (size_t row = 0; row < rows; ++row) {
      bool inside = true;
      // Addresses wrap around, as the copy engine's do.
      auto global = reinterpret_cast<uintptr_t>(map.base) +
                    static_cast<uintptr_t>(int64_t{at[0]} * map.element_bytes);
      size_t rest = row;
      for (size_t d = 1; d < map.rank; ++d) {
        const int64_t coordinate = at[d] + static_cast<int64_t>(rest % map.box[d]);
        rest /= map.box[d];
        inside = inside && coordinate >= 0 && coordinate < map.extents[d];
        global += static_cast<uintptr_t>(coordinate) * static_cast<uintptr_t>(map.strides[d - 1]);
      }
      for (size_t chunk = 0; chunk < row_bytes; chunk += 16) {
        const size_t place = swizzled(base + row * pitch + chunk) - base;
        const size_t from = inside ? std::clamp(first, chunk, chunk + 16) : chunk + 16;
        const size_t to = inside ? std::clamp(last, from, chunk + 16) : chunk + 16;
        const auto piece = [&](size_t begin, size_t end, bool exists) {
          if (begin >= end) return;
          auto* const found = exists ? reinterpret_cast<std::byte*>(global + begin) : nullptr;
          visit(place + begin - chunk, found, end - begin);
        };
        piece(chunk, from, false);
        piece(from, to, inside);
        piece(to, chunk + 16, false);
      }
    }
  }

  // The launch may touch what the tensor has of the tile: `reader` reads it, or it is written.
  void check(uint32_t base, const Stream* reader, const char* operation) const {
    each(base, [&](size_t, const std::byte* global, size_t size) {
      if (global == nullptr) return;
      check_global(global, size, 1, reader == nullptr, operation);
      if (reader != nullptr) read_global(global, size, Manner::kAsync, operation, reader);
    });
  }

  // PTX ISA, "Swizzling modes": 16-byte chunks trade places within the span, by the address bits
  // above.
  size_t swizzled(size_t address) const {
    const size_t chunks = map.swizzle_span / 16;
    return chunks == 0 ? address : address ^ ((address >> 3) & ((chunks - 1) << 4));
  }
};

Tile tile_of(const void* map, std::span<const int> coordinates, const char* operation) {
  Tile tile{.map = image_of(map, coordinates.size(), operation)};
  std::ranges::copy(coordinates, tile.at.begin());
  // An H200 calls another x an illegal instruction.
  if (tile.at[0] * int64_t{tile.map.element_bytes} % 16 != 0) {
    fail(Fault::kMisaligned,
         concatenate(operation, ": x = ", tile.at[0], " of ", tile.map.element_bytes,
                     "-byte elements is not a multiple of 16 bytes"));
  }
  return tile;
}

// A tile that is to be loaded. An H200 wants memory at the map's base, wherever the box lies.
Tile tile_to_load(const void* map, std::span<const int> coordinates, const char* operation) {
  const Tile tile = tile_of(map, coordinates, operation);
  check_global(tile.map.base, tile.map.element_bytes, 1, false, operation);
  return tile;
}

// A tile to the shared memory of one block.
void load_tile(const Tile& tile, void* shared, void* barrier, const char* operation) {
  const size_t bytes = tile_bytes(tile.map);
  const size_t extent = tile_extent(tile.map);
  check_shared(shared, extent, 128, operation);
  auto* to = static_cast<std::byte*>(shared);
  if (extent == bytes) {
    poison_shared(shared, bytes, true, operation);
  } else {  // nothing comes between the rows
    tile.each(shared_address(shared), [&](size_t offset, const std::byte*, size_t size) {
      poison_shared(to + offset, size, true, operation);
    });
  }
  count_copy(bytes);
  mbarrier_add_transfer(
      barrier, static_cast<uint32_t>(bytes),
      [tile, to, bytes, extent, base = shared_address(shared)](uint32_t stream) {
        tile.each(base, [&](size_t offset, const std::byte* global, size_t size) {
          if (global != nullptr) {
            std::memcpy(to + offset, global, size);
          } else {
            std::memset(to + offset, 0, size);
          }
          if (extent != bytes) land_shared(to + offset, size, stream);
        });
        if (extent == bytes) land_shared(to, bytes, stream);
      },
      operation);
}

}  // namespace

void tensor_load(void* shared, const void* map, void* barrier, std::span<const int> coordinates) {
  constexpr const char* kOperation = "cp.async.bulk.tensor.shared.global";
  const Tile tile = tile_to_load(map, coordinates, kOperation);
  require_own(shared, kOperation);
  require_own(barrier, kOperation);
  const Stream stream = mbarrier_stream(barrier, kOperation);
  tile.check(shared_address(shared), &stream, kOperation);
  profile_box(kOperation, tile);
  load_tile(tile, shared, barrier, kOperation);
}

void tensor_load_multicast(void* shared, const void* map, void* barrier,
                           std::span<const int> coordinates, uint16_t mask) {
  constexpr const char* kOperation = "cp.async.bulk.tensor.shared.global.multicast";
  const Tile tile = tile_to_load(map, coordinates, kOperation);
  require_own(shared, kOperation);
  require_own(barrier, kOperation);
  const Stream stream = mbarrier_stream(barrier, kOperation);
  tile.check(shared_address(shared), &stream, kOperation);
  if (mask == 0 || mask >> cluster_size() != 0) {
    fail(Fault::kOutOfRange, concatenate(kOperation, ": mask 0x", std::hex, mask, std::dec,
                                         " for a cluster of ", cluster_size(), " blocks"));
  }
  profile_box(kOperation, tile);
  for (int rank = 0; rank < cluster_size(); ++rank) {
    if ((mask >> rank & 1) == 0) continue;
    load_tile(tile, shared_pointer(map_shared_rank(shared, rank)),
              shared_pointer(map_shared_rank(barrier, rank)), kOperation);
  }
}

namespace {

// A tile from shared memory; write(global, data, bytes) is what comes of each piece of it.
template <class Write>
void store_tile(const void* map, std::span<const int> coordinates, const void* shared,
                const char* operation, Write write) {
  Tile tile = tile_of(map, coordinates, operation);
  // To an H200, as x between multiples of 16 bytes, an illegal instruction.
  if (std::ranges::any_of(coordinates, [](int at) { return at < 0; })) {
    fail(Fault::kOutOfRange, concatenate(operation, ": a coordinate below zero"));
  }
  // As an H200 does it: a store ends at a multiple of 16 bytes, beyond the tensor's last element.
  tile.edge = 16;
  profile_box(operation, tile);
  const size_t bytes = tile_extent(tile.map);
  check_shared(shared, bytes, 128, operation);
  require_own(shared, operation);
  tile.check(shared_address(shared), nullptr, operation);
  add_bulk_store(
      shared, bytes,
      [tile, write, base = shared_address(shared)](const std::byte* data) {
        tile.each(base, [data, &write](size_t offset, std::byte* global, size_t size) {
          if (global != nullptr) write(global, data + offset, size);
        });
      },
      operation);
}

}  // namespace

void tensor_store(const void* map, std::span<const int> coordinates, const void* shared) {
  constexpr const char* kOperation = "cp.async.bulk.tensor.global.shared";
  store_tile(map, coordinates, shared, kOperation,
             [](std::byte* global, const std::byte* data, size_t size) {
               write_global(global, data, size, Manner::kAsync, kOperation);
               std::memcpy(global, data, size);
             });
}

void tensor_add_f32(const void* map, std::span<const int> coordinates, const void* shared) {
  constexpr const char* kOperation = "cp.reduce.async.bulk.tensor.global.shared.add";
  if (!image_of(map, coordinates.size(), kOperation).is_f32) {
    fail(Fault::kInvalidUse, concatenate(kOperation, ": the tensor map's elements are not f32"));
  }
  store_tile(map, coordinates, shared, kOperation,
             [](std::byte* global, const std::byte* data, size_t size) {
               for (size_t at = 0; at < size; at += sizeof(float)) {
                 float value = 0;
                 std::memcpy(&value, data + at, sizeof(value));
                 add_global_f32(reinterpret_cast<float*>(global + at), value, kOperation);
               }
             });
}

// ---- Shared memory of the cluster --------------------------------------------------------------

void load_cluster(void* registers, uint32_t address, size_t bytes) {
  constexpr const char* kOperation = "ld.shared::cluster";
  const std::byte* from = shared_pointer(address);
  check_shared(from, bytes, bytes, kOperation);
  profile_shared_load(kOperation, from, bytes);
  read_shared(from, bytes, kOperation);
  count(Count::kSharedLoadBytes, bytes);
  std::memcpy(registers, from, bytes);
}

void store_cluster(uint32_t address, const void* registers, size_t bytes) {
  constexpr const char* kOperation = "st.shared::cluster";
  std::byte* to = shared_pointer(address);
  check_shared(to, bytes, bytes, kOperation);
  profile_shared_store(kOperation, to, bytes);
  write_shared(to, registers, bytes, kOperation);
  count(Count::kSharedStoreBytes, bytes);
}

void bulk_copy_cluster(uint32_t address, const void* shared, uint32_t bytes, uint32_t barrier) {
  constexpr const char* kOperation = "cp.async.bulk.shared::cluster.shared::cta";
  if (bytes % 16 != 0) {
    fail(Fault::kMisaligned,
         concatenate(kOperation, " of ", bytes, " bytes, not a multiple of 16"));
  }
  check_shared(shared, bytes, 16, kOperation);
  require_own(shared, kOperation);
  std::byte* to = shared_pointer(address);
  check_shared(to, bytes, 16, kOperation);
  if (address >> kSharedRankShift != barrier >> kSharedRankShift) {
    fail(Fault::kInvalidUse,
         concatenate(kOperation, ": destination and mbarrier are in different blocks"));
  }
  read_shared_async(shared, bytes, kOperation);
  hold_shared(shared, bytes);
  poison_shared(to, bytes, true, kOperation);
  count_copy(bytes);
  mbarrier_add_transfer(
      shared_pointer(barrier), bytes,
      [to, shared, bytes](uint32_t stream) {
        std::memcpy(to, shared, bytes);
        land_shared(to, bytes, stream);
        release_shared(shared, bytes);
        was_read_shared(shared, bytes, stream);
      },
      kOperation);
}

void st_async(uint32_t address, const void* registers, size_t bytes, uint32_t barrier) {
  constexpr const char* kOperation = "st.async";
  std::byte* to = shared_pointer(address);
  check_shared(to, bytes, bytes, kOperation);
  profile_shared_store(kOperation, to, bytes);
  if (address >> kSharedRankShift != barrier >> kSharedRankShift) {
    fail(Fault::kInvalidUse,
         concatenate(kOperation, ": destination and mbarrier are in different blocks"));
  }
  poison_shared(to, bytes, false, kOperation);
  count_copy(bytes);
  std::array<std::byte, 16> value;
  std::memcpy(value.data(), registers, bytes);
  mbarrier_add_transfer(
      shared_pointer(barrier), static_cast<uint32_t>(bytes),
      [to, value, bytes](uint32_t stream) {
        std::memcpy(to, value.data(), bytes);
        land_shared(to, bytes, stream);
      },
      kOperation, true);
}

}  // namespace ws::emulator
