// expect: output at 5: prints more than 1 MB: in host code
// printed: 1000000
#include <iostream>
int main() {
  for (;;) std::cout << "waiting\n";
}
