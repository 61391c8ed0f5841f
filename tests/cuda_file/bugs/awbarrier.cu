// expect: not supported at 2: the barriers of <cuda_awbarrier.h>
#include <cuda_awbarrier.h>
int main() { return 0; }
