// CUDA's runtime as a file under `warpsmith run` sees it: the language's words, its built-in types
// and functions, and the runtime's API, over the emulator. Behind the declarations stands
// cuda_file/runtime/, which is compiled without the instrumentation that the file has.
#pragma once

// nvcc has these without being asked.
#include <assert.h>
#include <stdio.h>

#include "warpsmith_cuda/api.hpp"
#include "warpsmith_cuda/atomics.hpp"
#include "warpsmith_cuda/device.hpp"
#include "warpsmith_cuda/launch.hpp"
#include "warpsmith_cuda/math.hpp"
#include "warpsmith_cuda/types.hpp"
#include "warpsmith_cuda/words.hpp"
