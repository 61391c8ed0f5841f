# The CUDA language: nvcc, the architectures, and what every kernel is compiled with.

find_program(CMAKE_CUDA_COMPILER nvcc HINTS ENV CUDA_HOME ENV CUDA_PATH PATHS /usr/local/cuda PATH_SUFFIXES bin)

# The GPU at hand, else Hopper. wgmma and TMA multicast need the `a` target, which CMake's own `native` does not name.
if(NOT CMAKE_CUDA_ARCHITECTURES)
  execute_process(COMMAND nvidia-smi --query-gpu=compute_cap --format=csv,noheader
                  OUTPUT_VARIABLE capability ERROR_QUIET RESULT_VARIABLE failed)
  if(NOT failed AND capability MATCHES "^([0-9]+)\\.([0-9])")
    set(architecture ${CMAKE_MATCH_1}${CMAKE_MATCH_2})
    if(architecture GREATER_EQUAL 90)
      string(APPEND architecture a)
    endif()
  else()
    set(architecture 90a)
  endif()
  set(CMAKE_CUDA_ARCHITECTURES ${architecture}-real CACHE STRING "GPU architectures, in CMake's words")
endif()

set(CMAKE_CUDA_RUNTIME_LIBRARY Static)
enable_language(CUDA)
find_package(CUDAToolkit REQUIRED)
message(STATUS "CUDA ${CMAKE_CUDA_COMPILER_VERSION} for ${CMAKE_CUDA_ARCHITECTURES}")

set(CMAKE_CUDA_STANDARD 20)
set(CMAKE_CUDA_STANDARD_REQUIRED ON)
set(CMAKE_CUDA_EXTENSIONS OFF)
set(CMAKE_CUDA_VISIBILITY_PRESET hidden)
set(CMAKE_CUDA_FLAGS_RELEASE "-O3")
set(CMAKE_CUDA_FLAGS_DEBUG "-O0")  # of the host's code; kernels are optimized all the same
add_compile_options("$<$<COMPILE_LANGUAGE:CUDA>:--expt-relaxed-constexpr;-Xcompiler=-Wall,-Wextra,-Wno-unknown-pragmas>")
if(NOT WS_EACH_KERNEL_ONCE)  # a fifth of a kernel's compilation, for who reads a profile; its code is the same without
  add_compile_options($<$<COMPILE_LANGUAGE:CUDA>:-lineinfo>)
endif()
if(WS_MANYLINUX AND CMAKE_CUDA_COMPILER_VERSION VERSION_GREATER_EQUAL 13)
  # Code of kernels is packed as small as it gets, which the driver unpacks: docs/python.md has what it saves.
  add_compile_options("$<$<COMPILE_LANGUAGE:CUDA>:--compress-mode=size>")
endif()
