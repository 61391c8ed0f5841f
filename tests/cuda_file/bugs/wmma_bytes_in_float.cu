// expect: error at 7: wmma has no accumulator of this type for these factors
#include <mma.h>
using namespace nvcuda::wmma;
__global__ void k(fragment<matrix_a, 16, 16, 16, signed char, row_major> a, fragment<matrix_b, 16, 16, 16, signed char, row_major> b) {
  fragment<accumulator, 16, 16, 16, float> c;
  fill_fragment(c, 0.0f);
  mma_sync(c, a, b, c);
}
int main() { return 0; }
