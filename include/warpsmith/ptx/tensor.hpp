// Tensor copies: boxes of a tensor in global memory, which a tensor map describes, to and from
// shared memory (PTX ISA, "Data Movement and Conversion Instructions: Tensor copy"). One thread
// issues them. Coordinates are of the box's first element, innermost dimension first; they may lie
// outside the tensor: a load fills what is outside with zeros, a store leaves it out. Two rules
// that the PTX document does not state, and an H200 calls an illegal instruction: the innermost
// coordinate is a multiple of 16 bytes, and those of a store are not below zero, as a load's may
// be.
//
// A store of a row whose end is not a multiple of 16 bytes goes on to that multiple, seen on an
// H200 and not documented: tensors to store into have such rows, or nothing behind them that
// matters. And a load reads the map's base, or asks whether it is there, wherever its box lies: a
// base that is not in mapped memory is an illegal access, though no box may touch it. A store does
// not.
//
// What is here is what somebody uses; further ranks and im2col would be further functions.
#pragma once

#include "warpsmith/ptx/bulk.hpp"
#include "warpsmith/ptx/tensor_map.hpp"

namespace ws::ptx {

// prefetch.tensormap: brings the map to the cache before its first use.
__device__ __forceinline__ void prefetch_tensor_map([[maybe_unused]] const TensorMap& map) {
#ifndef WS_EMULATED
  asm volatile("prefetch.tensormap [%0];" ::"l"(&map) : "memory");
#endif
}

// cp.async.bulk.tensor.2d.shared::cluster.global.tile: the box at (x, y) to shared memory, a
// multiple of 128 bytes; the bytes of the whole box, zeros included, count on the mbarrier's phase.
__device__ __forceinline__ void tensor_load_2d(void* shared, const TensorMap& map,
                                               Mbarrier& barrier, int x, int y WS_AND_PLACE) {
#ifdef WS_EMULATED
  emulator::at(place);
  emulator::tensor_load(shared, &map, &barrier, std::array{x, y});
#else
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
      "[%0], [%1, {%2, %3}], [%4];" ::"r"(shared_address(shared)),
      "l"(&map), "r"(x), "r"(y), "r"(shared_address(&barrier))
      : "memory");
#endif
}

// The same with .multicast::cluster: to this place in every block of the cluster whose bit of
// `block_mask` is set, counted on each one's mbarrier at `barrier`'s place.
__device__ __forceinline__ void tensor_load_2d_multicast(void* shared, const TensorMap& map,
                                                         Mbarrier& barrier, int x, int y,
                                                         uint16_t block_mask WS_AND_PLACE) {
#ifdef WS_EMULATED
  emulator::at(place);
  emulator::tensor_load_multicast(shared, &map, &barrier, std::array{x, y}, block_mask);
#else
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
      ".multicast::cluster [%0], [%1, {%2, %3}], [%4], %5;" ::"r"(shared_address(shared)),
      "l"(&map), "r"(x), "r"(y), "r"(shared_address(&barrier)), "h"(block_mask)
      : "memory");
#endif
}

// cp.async.bulk.tensor.2d.global.shared::cta.tile: the box in shared memory, a multiple of 128
// bytes, to (x, y). Those who wrote it have executed fence_proxy_async(); groups as in bulk.hpp.
__device__ __forceinline__ void tensor_store_2d(const TensorMap& map, int x, int y,
                                                const void* shared WS_AND_PLACE) {
#ifdef WS_EMULATED
  emulator::at(place);
  emulator::tensor_store(&map, std::array{x, y}, shared);
#else
  asm volatile(
      "cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%0, {%1, %2}], [%3];" ::"l"(
          &map),
      "r"(x), "r"(y), "r"(shared_address(shared))
      : "memory");
#endif
}

// cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.tile: as tensor_store_2d, but the elements,
// of f32 as the map says, are added to those in memory, each atomically and rounded to nearest.
__device__ __forceinline__ void tensor_add_2d_f32(const TensorMap& map, int x, int y,
                                                  const void* shared WS_AND_PLACE) {
#ifdef WS_EMULATED
  emulator::at(place);
  emulator::tensor_add_f32(&map, std::array{x, y}, shared);
#else
  asm volatile(
      "cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.tile.bulk_group "
      "[%0, {%1, %2}], [%3];" ::"l"(&map),
      "r"(x), "r"(y), "r"(shared_address(shared))
      : "memory");
#endif
}

// cp.async.bulk.tensor.3d: the same three copies of a box of a 3D tensor, at (x, y, z).
__device__ __forceinline__ void tensor_load_3d(void* shared, const TensorMap& map,
                                               Mbarrier& barrier, int x, int y,
                                               int z WS_AND_PLACE) {
#ifdef WS_EMULATED
  emulator::at(place);
  emulator::tensor_load(shared, &map, &barrier, std::array{x, y, z});
#else
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
      "[%0], [%1, {%2, %3, %4}], [%5];" ::"r"(shared_address(shared)),
      "l"(&map), "r"(x), "r"(y), "r"(z), "r"(shared_address(&barrier))
      : "memory");
#endif
}

__device__ __forceinline__ void tensor_load_3d_multicast(void* shared, const TensorMap& map,
                                                         Mbarrier& barrier, int x, int y, int z,
                                                         uint16_t block_mask WS_AND_PLACE) {
#ifdef WS_EMULATED
  emulator::at(place);
  emulator::tensor_load_multicast(shared, &map, &barrier, std::array{x, y, z}, block_mask);
#else
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
      ".multicast::cluster [%0], [%1, {%2, %3, %4}], [%5], %6;" ::"r"(shared_address(shared)),
      "l"(&map), "r"(x), "r"(y), "r"(z), "r"(shared_address(&barrier)), "h"(block_mask)
      : "memory");
#endif
}

__device__ __forceinline__ void tensor_store_3d(const TensorMap& map, int x, int y, int z,
                                                const void* shared WS_AND_PLACE) {
#ifdef WS_EMULATED
  emulator::at(place);
  emulator::tensor_store(&map, std::array{x, y, z}, shared);
#else
  asm volatile(
      "cp.async.bulk.tensor.3d.global.shared::cta.tile.bulk_group [%0, {%1, %2, %3}], [%4];" ::"l"(
          &map),
      "r"(x), "r"(y), "r"(z), "r"(shared_address(shared))
      : "memory");
#endif
}

// cp.async.bulk.tensor.4d: the load, a prefetch and the store of a box of a 4D tensor, at (x, y, z,
// w).
__device__ __forceinline__ void tensor_load_4d(void* shared, const TensorMap& map,
                                               Mbarrier& barrier, int x, int y, int z,
                                               int w WS_AND_PLACE) {
#ifdef WS_EMULATED
  emulator::at(place);
  emulator::tensor_load(shared, &map, &barrier, std::array{x, y, z, w});
#else
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
      "[%0], [%1, {%2, %3, %4, %5}], [%6];" ::"r"(shared_address(shared)),
      "l"(&map), "r"(x), "r"(y), "r"(z), "r"(w), "r"(shared_address(&barrier))
      : "memory");
#endif
}

// cp.async.bulk.prefetch.tensor.4d.L2: brings the box into L2, of which nothing is told.
__device__ __forceinline__ void tensor_prefetch_4d([[maybe_unused]] const TensorMap& map,
                                                   [[maybe_unused]] int x, [[maybe_unused]] int y,
                                                   [[maybe_unused]] int z, [[maybe_unused]] int w) {
#ifndef WS_EMULATED
  asm volatile(
      "cp.async.bulk.prefetch.tensor.4d.L2.global.tile [%0, {%1, %2, %3, %4}];" ::"l"(&map), "r"(x),
      "r"(y), "r"(z), "r"(w)
      : "memory");
#endif
}

__device__ __forceinline__ void tensor_store_4d(const TensorMap& map, int x, int y, int z, int w,
                                                const void* shared WS_AND_PLACE) {
#ifdef WS_EMULATED
  emulator::at(place);
  emulator::tensor_store(&map, std::array{x, y, z, w}, shared);
#else
  asm volatile(
      "cp.async.bulk.tensor.4d.global.shared::cta.tile.bulk_group [%0, {%1, %2, %3, %4}], [%5];" ::
          "l"(&map),
      "r"(x), "r"(y), "r"(z), "r"(w), "r"(shared_address(shared))
      : "memory");
#endif
}

// The load and the prefetch of a box of a 5D tensor, at (x, y, z, w, v).
__device__ __forceinline__ void tensor_load_5d(void* shared, const TensorMap& map,
                                               Mbarrier& barrier, int x, int y, int z, int w,
                                               int v WS_AND_PLACE) {
#ifdef WS_EMULATED
  emulator::at(place);
  emulator::tensor_load(shared, &map, &barrier, std::array{x, y, z, w, v});
#else
  asm volatile(
      "cp.async.bulk.tensor.5d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
      "[%0], [%1, {%2, %3, %4, %5, %6}], [%7];" ::"r"(shared_address(shared)),
      "l"(&map), "r"(x), "r"(y), "r"(z), "r"(w), "r"(v), "r"(shared_address(&barrier))
      : "memory");
#endif
}

__device__ __forceinline__ void tensor_prefetch_5d([[maybe_unused]] const TensorMap& map,
                                                   [[maybe_unused]] int x, [[maybe_unused]] int y,
                                                   [[maybe_unused]] int z, [[maybe_unused]] int w,
                                                   [[maybe_unused]] int v) {
#ifndef WS_EMULATED
  asm volatile(
      "cp.async.bulk.prefetch.tensor.5d.L2.global.tile [%0, {%1, %2, %3, %4, %5}];" ::"l"(&map),
      "r"(x), "r"(y), "r"(z), "r"(w), "r"(v)
      : "memory");
#endif
}

}  // namespace ws::ptx
