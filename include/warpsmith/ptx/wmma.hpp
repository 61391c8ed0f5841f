// wmma: a warp multiplies matrices that it has loaded as fragments, of which nobody knows which
// lane holds what (PTX ISA, "wmma"; on the GPU through the CUDA toolkit's nvcuda::wmma).
#pragma once

#include <cstring>

#include "warpsmith/ptx/store.hpp"
#include "warpsmith/types.hpp"

#ifdef WS_EMULATED
#include "emulator/profile.hpp"
#include "warpsmith/ptx/load.hpp"
#else
#include <mma.h>
#endif

namespace ws::ptx {

// A is kM x kK, B kK x kN, both of T (half or bf16), the sums kM x kN of float.
template <class T, int kRows, int kColumns, int kDepth>
struct Wmma {
  static constexpr int kM = kRows;
  static constexpr int kN = kColumns;
  static constexpr int kK = kDepth;
  static_assert(std::is_same_v<T, half> || std::is_same_v<T, bf16>);
  static_assert(kK == 16 && (kM == 16 || kM == 32 || kM == 8) && kM * kN == 256);

#ifdef WS_EMULATED
  // Lane i holds the i-th part of the elements, row by row.
  template <class Element, int kHeight, int kWidth>
  struct Fragment {
    static constexpr int kCount = kHeight * kWidth / 32;
    static constexpr int kPitch = kWidth;
    Element elements[kCount];
  };
  using A = Fragment<T, kM, kK>;
  using B = Fragment<T, kK, kN>;
  using Sums = Fragment<float, kM, kN>;
#else
  using Bits = std::conditional_t<std::is_same_v<T, half>, __half, __nv_bfloat16>;
  using A =
      nvcuda::wmma::fragment<nvcuda::wmma::matrix_a, kM, kN, kK, Bits, nvcuda::wmma::row_major>;
  using B =
      nvcuda::wmma::fragment<nvcuda::wmma::matrix_b, kM, kN, kK, Bits, nvcuda::wmma::row_major>;
  using Sums = nvcuda::wmma::fragment<nvcuda::wmma::accumulator, kM, kN, kK, float>;
#endif

  // A fragment of A or B from a row-major matrix in shared or global memory, whose rows lie
  // `leading` elements apart: a multiple of 8; the first element at a multiple of 32 bytes.
  template <class Fragment>
  __device__ __forceinline__ static void load(Fragment& fragment, const T* first,
                                              int leading WS_AND_PLACE) {
#ifdef WS_EMULATED
    emulator::at(place);
    meet(first, leading % 8 == 0, "wmma.load");
    const T* const from = element_of_lane<Fragment>(first, leading);
    constexpr int kSize = sizeof(fragment.elements);
    constexpr int kBytes = kSize < 16 ? kSize : 16;
    for (int byte = 0; byte < kSize; byte += kBytes) {
      auto* const to = reinterpret_cast<std::byte*>(fragment.elements) + byte;
      const auto* const at = reinterpret_cast<const std::byte*>(from) + byte;
      if (emulator::is_shared(first)) {
        emulator::check_shared(at, kBytes, kBytes, "wmma.load");
        emulator::load_shared(to, at, kBytes);
        emulator::profile_shared_load("wmma.load", at, kBytes);
      } else {
        ld_global<Cache::kDefault, kBytes>(to, at WS_PASS_AND_PLACE);
      }
    }
#else
    nvcuda::wmma::load_matrix_sync(fragment, reinterpret_cast<const Bits*>(first),
                                   static_cast<unsigned>(leading));
#endif
  }

  __device__ __forceinline__ static void clear(Sums& sums) {
#ifdef WS_EMULATED
    for (float& sum : sums.elements) sum = 0;
#else
    nvcuda::wmma::fill_fragment(sums, 0.0F);
#endif
  }

  // sums += A B.
  __device__ __forceinline__ static void multiply_add(Sums& sums, const A& a,
                                                      const B& b WS_AND_PLACE) {
#ifdef WS_EMULATED
    emulator::at(place);
    struct Payload {
      Sums* sums;
      const A* a;
      const B* b;
    } mine{&sums, &a, &b};
    emulator::converge_aligned("wmma.mma", mine, [](auto lanes) {
      emulator::count(emulator::Count::kMma);
      const auto element = [](auto&& fragment_of, int row, int column) -> auto& {
        using Fragment = std::remove_cvref_t<decltype(*fragment_of(0))>;
        const int at = row * Fragment::kPitch + column;
        return fragment_of(at / Fragment::kCount)->elements[at % Fragment::kCount];
      };
      const auto of = [&lanes](auto member) {
        return [&lanes, member](int lane) { return lanes[static_cast<size_t>(lane)]->*member; };
      };
      for (int m = 0; m < kM; ++m) {
        for (int n = 0; n < kN; ++n) {
          float& sum = element(of(&Payload::sums), m, n);
          for (int k = 0; k < kK; ++k) {
            sum +=
                to_float(element(of(&Payload::a), m, k)) * to_float(element(of(&Payload::b), k, n));
          }
        }
      }
    });
#else
    nvcuda::wmma::mma_sync(sums, a, b, sums);
#endif
  }

  // To a row-major matrix in shared memory, rows `leading` elements apart: a multiple of 4; the
  // first element at a multiple of 32 bytes.
  __device__ __forceinline__ static void store(float* first, const Sums& sums,
                                               int leading WS_AND_PLACE) {
#ifdef WS_EMULATED
    emulator::at(place);
    meet(first, leading % 4 == 0, "wmma.store");
    const float* const to = element_of_lane<Sums>(first, leading);
    for (int i = 0; i < Sums::kCount; i += 4) {
      auto* const at = const_cast<float*>(to) + i;
      emulator::check_shared(at, 16, 16, "wmma.store");
      emulator::store_shared(at, sums.elements + i, 16);
      emulator::profile_shared_store("wmma.store", at, 16);
    }
#else
    nvcuda::wmma::store_matrix_sync(first, sums, static_cast<unsigned>(leading),
                                    nvcuda::wmma::mem_row_major);
#endif
  }

#ifdef WS_EMULATED
 private:
  // All lanes, before they touch memory: `first` and the distance of rows are right.
  static void meet(const void* first, bool whole, const char* operation) {
    if (reinterpret_cast<uintptr_t>(first) % 32 != 0 || !whole) {
      emulator::fail(emulator::Fault::kMisaligned,
                     concatenate(operation,
                                 ": the first element must lie at a multiple of 32 "
                                 "bytes, rows at multiples of 16"));
    }
    emulator::converge_aligned(operation, first, [](auto) {});
  }
  template <class Fragment, class Element>
  static const Element* element_of_lane(const Element* first, int leading) {
    const int at = lane_index() * Fragment::kCount;
    return first + at / Fragment::kPitch * leading + at % Fragment::kPitch;
  }
#endif
};

}  // namespace ws::ptx
