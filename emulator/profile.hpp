// What instructions tell the profile (warpsmith/profile.hpp): one line in each. While no profile is
// on, that is the test of one flag.
//
// Lanes run one after the other here. What they execute at one place is put together as a warp
// would execute it: the k-th time of each lane since the warp last met is one instruction.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace ws::emulator {

struct Block;

extern constinit bool profiling;  // changes between launches only

// A file of the sources from the repository's root, as compilers name it: "kernels/gemm/gemm.cu".
std::string source_path(const char* file);

namespace profile {

enum class Space : uint8_t {
  kGlobal,
  kAtomic,  // global
  kSharedLoad,
  kSharedStore,
  kMatrix,      // shared, rows of ldmatrix and stmatrix: counted as an instruction where lanes meet
  kCopied,      // shared, the writes of cp.async
  kCopySource,  // global, its reads: no instruction beside the write's
  kCollective,  // no memory
};

void access(Space space, const char* operation, const void* address, size_t bytes);
void copy_async(const void* shared, const void* global, size_t bytes, size_t source_bytes);
void bulk(const char* operation, const void* global, size_t bytes);
void box_piece(const void* global, size_t bytes);
void end_box(const char* operation, size_t swizzle_span);
void operand_chunk(const void* chunk, bool of_b, int mn, int k);
void end_product(uint64_t descriptor_b);
void collective(const char* operation, uint32_t mask);
void block_barrier(const char* operation, int id, int threads);
void arrive(const void* barrier, const char* operation);
void wait(const void* barrier, const char* operation);
void end_group(std::span<const Block> ended);

}  // namespace profile

// ---- Global memory -----------------------------------------------------------------------------

inline void profile_global(const char* operation, const void* global, size_t bytes) {
  if (profiling) [[unlikely]]
    profile::access(profile::Space::kGlobal, operation, global, bytes);
}
inline void profile_atomic(const char* operation, const void* global, size_t bytes) {
  if (profiling) [[unlikely]]
    profile::access(profile::Space::kAtomic, operation, global, bytes);
}
// cp.async: global memory and the write to shared memory.
inline void profile_copy(const void* shared, const void* global, size_t bytes,
                         size_t source_bytes) {
  if (profiling) [[unlikely]]
    profile::copy_async(shared, global, bytes, source_bytes);
}
// Bulk copies, by one thread.
inline void profile_bulk(const char* operation, const void* global, size_t bytes) {
  if (profiling) [[unlikely]]
    profile::bulk(operation, global, bytes);
}
// Tensor copies: tile.each(base, visit) visits the box's pieces, null where the tensor is not.
template <class Tile>
[[gnu::noinline, gnu::cold]] void visit_box(const char* operation, const Tile& tile) {
  tile.each(0, [](size_t, const std::byte* global, size_t bytes) {
    if (global != nullptr) profile::box_piece(global, bytes);
  });
  profile::end_box(operation, tile.map.swizzle_span);
}
template <class Tile>
void profile_box(const char* operation, const Tile& tile) {
  if (profiling) [[unlikely]]
    visit_box(operation, tile);
}

// ---- Shared memory -----------------------------------------------------------------------------

inline void profile_shared_load(const char* operation, const void* shared, size_t bytes) {
  if (profiling) [[unlikely]]
    profile::access(profile::Space::kSharedLoad, operation, shared, bytes);
}
inline void profile_shared_store(const char* operation, const void* shared, size_t bytes) {
  if (profiling) [[unlikely]]
    profile::access(profile::Space::kSharedStore, operation, shared, bytes);
}
// A lane's row of ldmatrix or stmatrix; lanes beyond the last matrix give none.
inline void profile_row(const char* operation, const void* row, bool is_given) {
  if (profiling && is_given) [[unlikely]]
    profile::access(profile::Space::kMatrix, operation, row, 16);
}
// wgmma, once for the warpgroup, where a profile is on: operands as for_each_chunk(visit) finds
// them.
template <class Operand>
[[gnu::noinline, gnu::cold]] void profile_product(bool a_is_shared, const Operand& a,
                                                  const Operand& b, uint64_t descriptor_b) {
  const auto visit = [](bool of_b) {
    return [of_b](const std::byte* chunk, int mn, int k) {
      profile::operand_chunk(chunk, of_b, mn, k);
    };
  };
  if (a_is_shared) a.for_each_chunk(visit(false));
  b.for_each_chunk(visit(true));
  profile::end_product(descriptor_b);
}

// ---- Meeting and waiting -----------------------------------------------------------------------

// mask 0: a warpgroup.
inline void profile_collective(const char* operation, uint32_t mask) {
  if (profiling) [[unlikely]]
    profile::collective(operation, mask);
}
inline void profile_barrier(const char* operation, int id, int threads) {
  if (profiling) [[unlikely]]
    profile::block_barrier(operation, id, threads);
}
// At an mbarrier: what its phases count, and who waits for them.
inline void profile_arrival(const void* barrier, const char* operation) {
  if (profiling) [[unlikely]]
    profile::arrive(barrier, operation);
}
inline void profile_wait(const void* barrier, const char* operation) {
  if (profiling) [[unlikely]]
    profile::wait(barrier, operation);
}

// All threads of these blocks, which this host thread ran, have ended.
inline void end_profile_of_group(std::span<const Block> ended) {
  if (profiling) [[unlikely]]
    profile::end_group(ended);
}

}  // namespace ws::emulator
