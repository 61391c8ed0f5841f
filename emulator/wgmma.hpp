// The model behind ptx/wgmma.hpp: products of a warpgroup, in flight until the wait that covers
// them.
//
// Each warp issues its part when it comes there: 16 rows of A and D, and all of B. Its operands in
// shared memory are checked and held from then on (overwriting them is a fault) and its
// accumulators are filled with NaN. The product is computed when a warp waits for it and all four
// have issued it; each thread gets its accumulators at its own wait.
#pragma once

#include "emulator/emulator.hpp"

namespace ws::emulator {

// An operand's elements. tf32 are f32 whose low 13 bits the tensor core does not see.
enum class WgmmaElement : uint8_t { kF16, kBf16, kTf32, kE4m3, kE5m2, kS8 };

// One wgmma.mma_async.m64nN with 32 bytes of K, as one thread executes it.
struct WgmmaProduct {
  int n;
  WgmmaElement a_element;
  WgmmaElement b_element;
  bool a_mn_major;
  bool b_mn_major;
  const uint32_t* a_registers;  // four, or null: A is where `a` says
  uint64_t a;
  uint64_t b;
  bool accumulate;
  void* d;  // n / 2 words: s32 where the elements are s8, else f32
};

void wgmma_check_descriptor(uint32_t address, uint32_t leading_bytes, uint32_t stride_bytes);
// `registers`: those that later products read or accumulate to.
void wgmma_fence(std::initializer_list<std::pair<const void*, size_t>> registers);
void wgmma_mma_async(const WgmmaProduct& product);
void wgmma_commit_group();
void wgmma_wait_group(int pending);

// What a thread or block that ends must not leave behind.
void finish_products(const Thread& thread);
void finish_products(const Block& block);

// What accumulator registers hold while a product is in flight: a signalling NaN, which arithmetic
// makes a quiet one, that nobody else writes.
inline constexpr uint32_t kInFlightBits = 0x7FADDEADu;
inline constexpr uint32_t kQuietBit = 0x00400000u;

}  // namespace ws::emulator
