// expect: not supported at 5: wmma's matrices of 4 bits and of one
#include <mma.h>
using namespace nvcuda;
__global__ void k() {
  wmma::fragment<wmma::matrix_a, 8, 8, 32, wmma::experimental::precision::s4, wmma::row_major> a;
}
int main() { k<<<1, 32>>>(); }
