// expect: time at 6: not at its end after 1 s
// time: 1
int main() {
  int* flag; cudaMallocManaged(&flag, sizeof(int));
  *flag = 0;
  while (*(volatile int*)flag == 0) {}
}
