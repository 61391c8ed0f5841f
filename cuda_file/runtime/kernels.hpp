// What is known of a kernel by its address.
#pragma once

#include <cstddef>

#include "cuda_file/include/warpsmith_cuda/types.hpp"

namespace ws::cuda_file {

struct KernelFacts {
  size_t most_dynamic_shared = 0;  // cudaFuncSetAttribute; 0: not told
};
KernelFacts& facts_of(const void* entry);

}  // namespace ws::cuda_file
