// expect: error at 5: wmma has no such fragment of this type
#include <mma.h>
template <class T> __global__ void k() {
  using namespace nvcuda::wmma;
  fragment<matrix_a, 16, 8, 16, T, row_major> a;
  fill_fragment(a, T(0));
}
int main() { k<signed char><<<1, 32>>>(); }
