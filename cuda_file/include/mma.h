// nvcuda::wmma: matrices that a warp holds together. Which lane holds which element is nobody's
// business but the model's: a lane has those whose number, modulo 32, is its own.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

// NOLINTBEGIN
namespace nvcuda::wmma {

struct matrix_a {};
struct matrix_b {};
struct accumulator {};
struct row_major {};
struct col_major {};
enum layout_t { mem_row_major, mem_col_major };
namespace precision {
struct tf32 {};
}  // namespace precision

namespace detail {

template <class T>
struct Storage {
  using Type = T;
};
template <>
struct Storage<precision::tf32> {
  using Type = float;
};

template <class Use, int m, int n, int k>
struct Shape;
template <int m, int n, int k>
struct Shape<matrix_a, m, n, k> {
  static constexpr int kRows = m, kColumns = k;
};
template <int m, int n, int k>
struct Shape<matrix_b, m, n, k> {
  static constexpr int kRows = k, kColumns = n;
};
template <int m, int n, int k>
struct Shape<accumulator, m, n, k> {
  static constexpr int kRows = m, kColumns = n;
};

// What A and B may be, by what the sums are.
template <class T>
inline constexpr bool kIsInteger =
    std::is_same_v<T, signed char> || std::is_same_v<T, unsigned char>;
template <class T>
inline constexpr bool kIsHalf = std::is_same_v<T, __half> || std::is_same_v<T, __nv_bfloat16>;
template <class T>
inline constexpr bool kIsTf32 = std::is_same_v<T, precision::tf32>;

template <int m, int n, int k>
constexpr bool is_usual_shape() {
  return k == 16 && ((m == 16 && n == 16) || (m == 32 && n == 8) || (m == 8 && n == 32));
}
template <class Use, class T, int m, int n, int k>
constexpr bool exists() {
  constexpr bool kUsual = is_usual_shape<m, n, k>();
  constexpr bool kOfDouble = m == 8 && n == 8 && k == 4;
  constexpr bool kOfTf32 = m == 16 && n == 16 && k == 8;
  if (std::is_same_v<T, double>) return kOfDouble;
  if (std::is_same_v<Use, accumulator>) {
    return std::is_same_v<T, float>                              ? kUsual || kOfTf32
           : std::is_same_v<T, __half> || std::is_same_v<T, int> ? kUsual
                                                                 : false;
  }
  if (kIsTf32<T>) return kOfTf32;
  return (kIsHalf<T> || kIsInteger<T>) && kUsual;
}
// Of products of T, sums of Sum.
template <class T, class Sum>
constexpr bool may_sum() {
  if (kIsInteger<T>) return std::is_same_v<Sum, int>;
  if (std::is_same_v<T, double>) return std::is_same_v<Sum, double>;
  return std::is_same_v<Sum, float> || (std::is_same_v<T, __half> && std::is_same_v<Sum, __half>);
}

using ::ws::cuda_file::device::lane;

}  // namespace detail

template <class Use, int m, int n, int k, class T, class Layout = void>
class fragment {
 public:
  static constexpr int kRows = detail::Shape<Use, m, n, k>::kRows;
  static constexpr int kColumns = detail::Shape<Use, m, n, k>::kColumns;
  static constexpr int num_elements = kRows * kColumns / 32;
  static constexpr int num_storage_elements = num_elements;
  using element_type = T;
  using storage_element_type = typename detail::Storage<T>::Type;
  static_assert(detail::exists<Use, T, m, n, k>(), "wmma has no such fragment of this type");
  storage_element_type x[num_elements];
};

template <class Use, int m, int n, int k, class T, class Layout, class Value>
WS_CUDA_INLINE void fill_fragment(fragment<Use, m, n, k, T, Layout>& f, const Value& value) {
  for (auto& x : f.x) x = value;
}

namespace detail {
// The address of an element that this lane holds.
template <class Fragment, class T>
WS_CUDA_INLINE T* element(T* base, int i, unsigned stride, bool row_major) {
  const int number = i * 32 + static_cast<int>(lane());
  // Neighbours in memory are neighbours in the warp.
  const int row = row_major ? number / Fragment::kColumns : number % Fragment::kRows;
  const int column = row_major ? number % Fragment::kColumns : number / Fragment::kRows;
  return base + (row_major ? static_cast<size_t>(row) * stride + static_cast<size_t>(column)
                           : static_cast<size_t>(column) * stride + static_cast<size_t>(row));
}
template <class Fragment>
WS_CUDA_INLINE int number_of(int i, unsigned lane, bool row_major) {
  const int number = i * 32 + static_cast<int>(lane);
  return row_major ? number
                   : number % Fragment::kRows * Fragment::kColumns + number / Fragment::kRows;
}
inline void together(const char* operation, std::source_location place) {
  int nothing = 0;
  ::ws::cuda_file::device::converge(operation, &nothing, [](void* const*) {}, place);
}
}  // namespace detail

template <class Use, int m, int n, int k, class T, class Layout>
WS_CUDA_INLINE void load_matrix_sync(fragment<Use, m, n, k, T, Layout>& f,
                                     const typename detail::Storage<T>::Type* base, unsigned stride,
                                     WS_CUDA_PLACE) {
  using Fragment = fragment<Use, m, n, k, T, Layout>;
  static_assert(!std::is_void_v<Layout>, "an accumulator's layout is an argument");
  for (int i = 0; i < Fragment::num_elements; ++i) {
    f.x[i] = *detail::element<Fragment>(base, i, stride, std::is_same_v<Layout, row_major>);
  }
  detail::together("wmma.load", place);
}
// An accumulator is held by rows, whichever way it is loaded and stored.
template <int m, int n, int k, class T>
WS_CUDA_INLINE void load_matrix_sync(fragment<accumulator, m, n, k, T>& f, const T* base,
                                     unsigned stride, layout_t layout, WS_CUDA_PLACE) {
  for (int i = 0; i < f.num_elements; ++i) {
    const int number = i * 32 + static_cast<int>(detail::lane());
    const auto row = static_cast<size_t>(number / n);
    const auto column = static_cast<size_t>(number % n);
    f.x[i] = base[layout == mem_row_major ? row * stride + column : column * stride + row];
  }
  detail::together("wmma.load", place);
}
template <int m, int n, int k, class T>
WS_CUDA_INLINE void store_matrix_sync(T* base, const fragment<accumulator, m, n, k, T>& f,
                                      unsigned stride, layout_t layout, WS_CUDA_PLACE) {
  for (int i = 0; i < f.num_elements; ++i) {
    const int number = i * 32 + static_cast<int>(detail::lane());
    const auto row = static_cast<size_t>(number / n);
    const auto column = static_cast<size_t>(number % n);
    base[layout == mem_row_major ? row * stride + column : column * stride + row] = f.x[i];
  }
  detail::together("wmma.store", place);
}

namespace detail {
// Which it stays within, if it is asked: the largest number instead of infinity, zero for a NaN.
template <class D, class Sum>
D saturated(Sum sum) {
  if constexpr (std::is_same_v<D, int>) {
    constexpr Sum kLeast = -2147483647 - 1, kMost = 2147483647;
    return static_cast<D>(sum < kLeast ? kLeast : sum > kMost ? kMost : sum);
  } else {
    const Sum most = std::is_same_v<D, __half> ? Sum(65504) : Sum(3.402823466e38f);
    return D(sum != sum ? 0 : sum < -most ? -most : sum > most ? most : sum);
  }
}
// Integers are exact, and wrap around where they are not asked to stay within an int.
template <class T>
using SumOf = std::conditional_t<std::is_same_v<T, double>, double,
                                 std::conditional_t<kIsInteger<T>, long long, float>>;
template <class D, class Sum>
D narrowed(Sum sum) {
  if constexpr (std::is_same_v<D, int>) {
    return static_cast<D>(static_cast<unsigned>(sum));
  } else {
    return D(sum);
  }
}
}  // namespace detail

// d = a * b + c, accumulated in float, double or int; d may be c.
template <int m, int n, int k, class T, class LayoutA, class LayoutB, class C, class D>
WS_CUDA_INLINE void mma_sync(fragment<accumulator, m, n, k, D>& d,
                             const fragment<matrix_a, m, n, k, T, LayoutA>& a,
                             const fragment<matrix_b, m, n, k, T, LayoutB>& b,
                             const fragment<accumulator, m, n, k, C>& c, bool satf = false,
                             WS_CUDA_PLACE) {
  static_assert(detail::may_sum<T, C>() && detail::may_sum<T, D>(),
                "wmma has no accumulator of this type for these factors");
  using A = fragment<matrix_a, m, n, k, T, LayoutA>;
  using B = fragment<matrix_b, m, n, k, T, LayoutB>;
  struct Operands {
    fragment<accumulator, m, n, k, D>* d;
    const A* a;
    const B* b;
    const fragment<accumulator, m, n, k, C>* c;
    bool satf;
  } mine{&d, &a, &b, &c, satf};
  ::ws::cuda_file::device::converge(
      "wmma.mma", &mine,
      // Between lanes, on their stacks: no access of the kernel's own.
      [](void* const* lanes) __attribute__((no_sanitize("thread"))) {
        using Sum = detail::SumOf<T>;
        static thread_local Sum left[m * k];
        static thread_local Sum right[k * n];
        static thread_local Sum sum[m * n];
        for (unsigned lane = 0; lane < 32; ++lane) {
          const auto& of = *static_cast<const Operands*>(lanes[lane]);
          for (int i = 0; i < A::num_elements; ++i) {
            left[detail::number_of<A>(i, lane, std::is_same_v<LayoutA, row_major>)] = of.a->x[i];
          }
          for (int i = 0; i < B::num_elements; ++i) {
            right[detail::number_of<B>(i, lane, std::is_same_v<LayoutB, row_major>)] = of.b->x[i];
          }
          for (int i = 0; i < of.c->num_elements; ++i) sum[i * 32 + lane] = of.c->x[i];
        }
        for (int row = 0; row < m; ++row) {
          for (int at = 0; at < k; ++at) {
            for (int column = 0; column < n; ++column) {
              sum[row * n + column] += left[row * k + at] * right[at * n + column];
            }
          }
        }
        for (unsigned lane = 0; lane < 32; ++lane) {
          const auto& of = *static_cast<const Operands*>(lanes[lane]);
          for (int i = 0; i < of.d->num_elements; ++i) {
            const Sum one = sum[i * 32 + lane];
            of.d->x[i] = of.satf ? detail::saturated<D>(one) : detail::narrowed<D>(one);
          }
        }
      },
      place);
}

// To the 10 bits of mantissa that tf32 has.
WS_CUDA_INLINE float __float_to_tf32(float v) {
  return __uint_as_float((__float_as_uint(v) + 0x1000u) & 0xFFFFE000u);
}

}  // namespace nvcuda::wmma
// NOLINTEND
