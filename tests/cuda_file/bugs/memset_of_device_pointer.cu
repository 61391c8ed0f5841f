// expect: host access at 6: the 4096 bytes of cudaMalloc
#include <cstring>
int main(int argc, char**) {
  float* d;
  cudaMalloc(&d, 4096);
  memset(d, argc, 4096);
  return 0;
}
