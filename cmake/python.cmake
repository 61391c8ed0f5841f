# libwarpsmith.so: the C ABI over DLPack that the Python package loads, and what a wheel holds of it.

find_package(Python REQUIRED COMPONENTS Interpreter)
execute_process(COMMAND ${Python_EXECUTABLE} -m tvm_ffi.config --cmakedir
                OUTPUT_VARIABLE tvm_ffi_ROOT OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
find_package(tvm_ffi CONFIG REQUIRED)

file(GLOB binding CONFIGURE_DEPENDS python/binding/*.cpp)
add_library(libwarpsmith SHARED ${binding})
set_target_properties(libwarpsmith PROPERTIES OUTPUT_NAME warpsmith INSTALL_RPATH "$ORIGIN/../../tvm_ffi/lib")
target_link_libraries(libwarpsmith PRIVATE warpsmith_core tvm_ffi::shared)
# Two builds of it live in one process: nothing of what is linked in may be seen from outside.
target_link_options(libwarpsmith PRIVATE -Wl,--exclude-libs,ALL)

# `pip install` asks for the target python_libraries: the emulated library always, as warpsmith/_emulated, and where
# there is nvcc the CUDA one, as warpsmith/_cuda, from a build of its own inside this one.
if(SKBUILD)
  add_custom_target(python_libraries DEPENDS libwarpsmith)
  install(TARGETS libwarpsmith LIBRARY DESTINATION warpsmith/_emulated COMPONENT python)

  find_program(NVCC nvcc HINTS ENV CUDA_HOME ENV CUDA_PATH PATHS /usr/local/cuda PATH_SUFFIXES bin)
  option(WS_WHEEL_CUDA "Build the CUDA library into the wheel too, where nvcc is found" ON)
  if(NVCC AND WS_WHEEL_CUDA)
    include(ExternalProject)
    ExternalProject_Add(cuda
      SOURCE_DIR ${PROJECT_SOURCE_DIR}
      BINARY_DIR ${PROJECT_BINARY_DIR}/cuda
      CMAKE_ARGS -DWS_EMULATED=OFF -DCMAKE_BUILD_TYPE=Release
                 -DPython_EXECUTABLE=${Python_EXECUTABLE} -DCMAKE_MAKE_PROGRAM=${CMAKE_MAKE_PROGRAM}
      BUILD_COMMAND ${CMAKE_COMMAND} --build . --target libwarpsmith
      INSTALL_COMMAND ""
      BUILD_ALWAYS ON
      EXCLUDE_FROM_ALL ON
      USES_TERMINAL_BUILD ON)
    add_dependencies(python_libraries cuda)
    install(PROGRAMS ${PROJECT_BINARY_DIR}/cuda/libwarpsmith.so DESTINATION warpsmith/_cuda COMPONENT python)
  endif()
endif()
