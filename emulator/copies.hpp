// The models behind ptx/{cp_async,bulk,tensor,cluster}.hpp: copies whose effect comes with the wait
// that covers them.
#pragma once

#include "emulator/emulator.hpp"

namespace ws::emulator {

// cp.async
void cp_async(void* shared, const void* global, int bytes, int source_bytes);
void cp_async_commit_group();
void cp_async_wait_group(int pending);

// cp.async.bulk
void bulk_load(void* shared, const void* global, uint32_t bytes, void* barrier);
void bulk_store(void* global, const void* shared, uint32_t bytes);
void bulk_commit_group();
void bulk_wait_group(int pending);
void bulk_wait_group_read(int pending);

// cp.async.bulk.tensor. What the driver would encode, in the emulator's own words; extents, box and
// coordinates have the innermost dimension first.
struct TensorMapImage {
  uint32_t magic;  // kTensorMapMagic
  uint16_t element_bytes;
  uint16_t rank;
  bool is_f32;            // what is added to it is f32
  uint32_t swizzle_span;  // bytes: 0, 32, 64, 128
  std::byte* base;
  std::array<int64_t, 5> extents;
  std::array<uint16_t, 5> box;
  std::array<int64_t, 4> strides;  // bytes, of dimensions 1 to rank - 1
};
inline constexpr uint32_t kTensorMapMagic = 0x54454E53;
static_assert(sizeof(TensorMapImage) <= 128);

void tensor_load(void* shared, const void* map, void* barrier, std::span<const int> coordinates);
// The same tile to the same offset in each block of the cluster whose bit is set, counted on each
// one's own mbarrier.
void tensor_load_multicast(void* shared, const void* map, void* barrier,
                           std::span<const int> coordinates, uint16_t mask);
void tensor_store(const void* map, std::span<const int> coordinates, const void* shared);
// The same, but adds: the map's elements are f32.
void tensor_add_f32(const void* map, std::span<const int> coordinates, const void* shared);

// Shared memory of the cluster
void load_cluster(void* registers, uint32_t address, size_t bytes);
void store_cluster(uint32_t address, const void* registers, size_t bytes);
void bulk_copy_cluster(uint32_t address, const void* shared, uint32_t bytes, uint32_t barrier);
void st_async(uint32_t address, const void* registers, size_t bytes, uint32_t barrier);

}  // namespace ws::emulator
