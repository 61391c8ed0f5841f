// What the Hopper kernels of a batch are made of: the walk over the tiles of all products, and how
// C is stored.
#pragma once

#include "kernels/gemm/35_warp_specialized.cuh"
#include "kernels/gemm/batched.hpp"

namespace ws::gemm {

// A tile of the output and its matrices.
struct BatchedPart : tile::Part {
  MatrixIndex matrix;
  int place = 0;  // among the tiles of all products
};

// Every so-many-th tile of all products, whole.
struct BatchedTiles : WholeTiles {
  static constexpr bool kBatched = true;
  int of_product = 0;          // tiles
  int a_step = 0, b_step = 0;  // 0 where all products share the matrix, else 1

  // Of products of so many tiles.
  static BatchedTiles of(const BatchedCall& call, int tiles, int steps) {
    return {{static_cast<int>(call.batch) * tiles, steps},
            tiles,
            call.a.batch == 0 ? 0 : 1,
            call.b.batch == 0 ? 0 : 1};
  }

  // The one at a place among all.
  __device__ __forceinline__ BatchedPart part(int place) const {
    const int product = place / of_product;
    return {{place - product * of_product, 0, steps},
            {product * a_step, product * b_step, product},
            place};
  }
  template <class F>
  __device__ __forceinline__ void for_each(int worker, int workers, F&& f) const {
    for (int place = worker; place < tiles; place += workers) f(part(place));
  }
  __device__ __forceinline__ static int place_of(const BatchedPart& part) { return part.place; }
};

// The copy engine stores C, a product's matrix at a time.
template <class T>
struct BatchedTensorOutput {
  using Element = T;
  ptx::TensorMap map;

  template <class Store>
  static BatchedTensorOutput of(const BatchedCall& call) {
    return {Store::tensor_map(call.c.as<const T>(), matrix_batch(call, call.c), call.m, call.n,
                              call.c.leading)};
  }
  __device__ __forceinline__ void prefetch() const { ptx::prefetch_tensor_map(map); }
  template <class Store>
  __device__ __forceinline__ void put(Store& store, int matrix, int row, int column,
                                      const float* sums) const {
    store.put(map, row, column, sums, matrix);
  }
};

// The same of tiles that were computed transposed.
template <class T>
struct BatchedTransposedOutput {
  using Element = T;
  ptx::TensorMap map;

  // Of a call whose C lies by columns.
  template <class Store>
  static BatchedTransposedOutput of(const BatchedCall& call) {
    return {Store::transposed_map(call.c.as<const T>(), matrix_batch(call, call.c), call.n, call.m,
                                  call.c.leading)};
  }
  __device__ __forceinline__ void prefetch() const { ptx::prefetch_tensor_map(map); }
  template <class Store>
  __device__ __forceinline__ void put(Store& store, int matrix, int row, int column,
                                      const float* sums) const {
    store.put_transposed(map, row, column, sums, matrix);
  }
};

// C as the lanes store it, for rows and products that start anywhere.
template <class T>
struct BatchedPlainOutput : PlainOutput<T> {
  using Element = T;
  int64_t batch;  // stride

  template <class Store>
  static BatchedPlainOutput of(const BatchedCall& call) {
    return {PlainOutput<T>::template of<Store>(call), call.c.batch};
  }
  template <class Store>
  __device__ __forceinline__ void put(Store& store, int matrix, int row, int column,
                                      const float* sums) const {
    PlainOutput<T> one = *this;
    one.data += matrix * batch;
    one.put(store, row, column, sums);
  }
};

}  // namespace ws::gemm
