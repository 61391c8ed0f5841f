// What comes before the first line of a CUDA file, as nvcc has it: the one header that is
// precompiled.
#pragma once

#include <cuda_runtime.h>
