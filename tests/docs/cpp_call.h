// Around the C++ examples of docs/cpp.md.
#include "warpsmith/operations.hpp"

[[maybe_unused]] inline void example(const void* data, void* result, const void* weight,
                                     float* total, void* stream, void* memory) {
BLOCK
}
