// expect: memory at 0: takes more than 0.3 GB of memory
// memory: 300000000
#include <vector>
int main() {
  std::vector<char*> all;
  for (;;) {
    all.push_back(new char[1 << 20]);
    for (int i = 0; i < 1 << 20; i += 4096) all.back()[i] = 1;
  }
}
