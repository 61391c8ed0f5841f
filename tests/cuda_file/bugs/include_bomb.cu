// expect: error at 0: the compiler is not at its end after 2 s: templates, macros or includes
// compile time: 2
#if __INCLUDE_LEVEL__ < 60
#include "include_bomb.cu"
#include "include_bomb.cu"
#endif
int main() { return 0; }
