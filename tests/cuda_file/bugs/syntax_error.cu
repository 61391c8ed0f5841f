// expect: error at 3: expected ';'
__global__ void k(int* a) {
  a[0] = 1
}
int main() { k<<<1, 1>>>(0); }
