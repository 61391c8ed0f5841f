// expect: not supported at 5: inline PTX, bfe.u32 %0, %1, 4, 8;
__global__ void k(unsigned* out) {
  unsigned lane, bits;
  asm volatile("mov.u32 %0, %%laneid;" : "=r"(lane));
  asm("bfe.u32 %0, %1, 4, 8;" : "=r"(bits) : "r"(lane));
  out[threadIdx.x] = bits;
}
int main() { return 0; }
