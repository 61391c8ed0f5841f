// expect: not supported at 4: inline PTX, mov.u32 %0, %laneid;
__global__ void k(unsigned* out) {
  unsigned lane;
  asm volatile("mov.u32 %0, %laneid;" : "=r"(lane));
  out[threadIdx.x] = lane;
}
int main() { return 0; }
