// wmma: a warp multiplies matrices that it has loaded as fragments, of which nobody knows which
// lane holds what (PTX ISA, "wmma"; on the GPU through the CUDA toolkit's nvcuda::wmma).
#pragma once

#include <cstring>

#include "warpsmith/ptx/convert.hpp"
#include "warpsmith/ptx/store.hpp"
#include "warpsmith/types.hpp"

#ifdef WS_EMULATED
#include "emulator/profile.hpp"
#include "warpsmith/ptx/load.hpp"
#else
#include <mma.h>
#endif

namespace ws::ptx {

// A is kM x kK, B kK x kN, both of T (half, bf16, or float, of which tensor cores take TF32), the
// sums kM x kN of Sum: float, or of half's products half.
template <class T, int kRows, int kColumns, int kDepth, class SumType = float>
struct Wmma {
  using Sum = SumType;
  static constexpr int kM = kRows;
  static constexpr int kN = kColumns;
  static constexpr int kK = kDepth;
  static constexpr bool kTf32 = std::is_same_v<T, float>;
  static_assert(kTf32 || std::is_same_v<T, half> || std::is_same_v<T, bf16>);
  static_assert(std::is_same_v<Sum, float> ||
                (std::is_same_v<Sum, half> && std::is_same_v<T, half>));
  static_assert(kTf32 ? kK == 8 && kM == 16 && kN == 16
                      : kK == 16 && (kM == 16 || kM == 32 || kM == 8) && kM * kN == 256);

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
  using Sums = Fragment<Sum, kM, kN>;
#else
  // CUDA's names for what lies in memory, and for what a fragment holds of it.
  template <class Element>
  using Bits =
      std::conditional_t<std::is_same_v<Element, float>, float,
                         std::conditional_t<std::is_same_v<Element, half>, __half, __nv_bfloat16>>;
  using Factor = std::conditional_t<kTf32, nvcuda::wmma::precision::tf32, Bits<T>>;
  using A =
      nvcuda::wmma::fragment<nvcuda::wmma::matrix_a, kM, kN, kK, Factor, nvcuda::wmma::row_major>;
  using B =
      nvcuda::wmma::fragment<nvcuda::wmma::matrix_b, kM, kN, kK, Factor, nvcuda::wmma::row_major>;
  using Sums = nvcuda::wmma::fragment<nvcuda::wmma::accumulator, kM, kN, kK, Bits<Sum>>;
#endif

  // A fragment of A or B from a row-major matrix in shared or global memory, whose rows lie
  // `leading` elements apart: a multiple of 16 bytes; the first element at a multiple of 32 bytes.
  // Floats are rounded to TF32, which is what the products take.
  template <class Fragment>
  __device__ __forceinline__ static void load(Fragment& fragment, const T* first,
                                              int leading WS_AND_PLACE) {
#ifdef WS_EMULATED
    emulator::at(place);
    meet(first, leading * sizeof(T) % 16 == 0, "wmma.load");
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
    if constexpr (kTf32) {
      for (float& element : fragment.elements) element = cvt_rna_tf32_f32(element);
    }
#else
    nvcuda::wmma::load_matrix_sync(fragment, reinterpret_cast<const Bits<T>*>(first),
                                   static_cast<unsigned>(leading));
    if constexpr (kTf32) {
#pragma unroll
      for (int i = 0; i < Fragment::num_elements; ++i) {
        fragment.x[i] = cvt_rna_tf32_f32(fragment.x[i]);
      }
    }
#endif
  }

  __device__ __forceinline__ static void clear(Sums& sums) {
#ifdef WS_EMULATED
    for (Sum& sum : sums.elements) sum = from_float<Sum>(0);
#else
    nvcuda::wmma::fill_fragment(sums, Bits<Sum>(0.0F));
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
          // In f32, rounded once where Sum is half: PTX promises no more than Sum's precision.
          Sum& kept = element(of(&Payload::sums), m, n);
          float sum = to_float(kept);
          for (int k = 0; k < kK; ++k) {
            sum +=
                to_float(element(of(&Payload::a), m, k)) * to_float(element(of(&Payload::b), k, n));
          }
          kept = from_float<Sum>(sum);
        }
      }
    });
#else
    nvcuda::wmma::mma_sync(sums, a, b, sums);
#endif
  }

  // To a row-major matrix in shared memory, rows `leading` elements apart: a multiple of 16 bytes;
  // the first element at a multiple of 32 bytes.
  __device__ __forceinline__ static void store(Sum* first, const Sums& sums,
                                               int leading WS_AND_PLACE) {
#ifdef WS_EMULATED
    emulator::at(place);
    meet(first, leading * sizeof(Sum) % 16 == 0, "wmma.store");
    const Sum* const to = element_of_lane<Sums>(first, leading);
    for (int i = 0; i < Sums::kCount; i += 16 / static_cast<int>(sizeof(Sum))) {
      auto* const at = const_cast<Sum*>(to) + i;
      emulator::check_shared(at, 16, 16, "wmma.store");
      emulator::store_shared(at, sums.elements + i, 16);
      emulator::profile_shared_store("wmma.store", at, 16);
    }
#else
    nvcuda::wmma::store_matrix_sync(reinterpret_cast<Bits<Sum>*>(first), sums,
                                    static_cast<unsigned>(leading), nvcuda::wmma::mem_row_major);
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
