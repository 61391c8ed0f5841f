# libwarpsmith.so: the C ABI over DLPack and tvm-ffi's functions, which the Python package loads, and what a wheel holds
# of it.

find_package(Python REQUIRED COMPONENTS Interpreter)
execute_process(COMMAND ${Python_EXECUTABLE} -m tvm_ffi.config --cmakedir
                OUTPUT_VARIABLE tvm_ffi_ROOT OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
find_package(tvm_ffi CONFIG REQUIRED)

add_library(warpsmith_binding OBJECT python/binding/ffi.cpp python/binding/build_info.cpp)
target_link_libraries(warpsmith_binding PUBLIC warpsmith_c_api tvm_ffi::shared)
if(NOT WS_EMULATED)
  list(JOIN CMAKE_CUDA_ARCHITECTURES "," architectures)
  set(nvcc "NVIDIA ${CMAKE_CUDA_COMPILER_VERSION}")
endif()
set_source_files_properties(python/binding/build_info.cpp PROPERTIES COMPILE_DEFINITIONS
  "WS_CXX=\"${CMAKE_CXX_COMPILER_ID} ${CMAKE_CXX_COMPILER_VERSION}\";WS_NVCC=\"${nvcc}\";WS_ARCHITECTURES=\"${architectures}\"")

# A shared library of the binding and the catalogue that `sources` or else warpsmith_core define.
function(add_warpsmith_library target output)
  add_library(${target} SHARED ${ARGN})
  set_target_properties(${target} PROPERTIES OUTPUT_NAME ${output} INSTALL_RPATH "$ORIGIN/../../tvm_ffi/lib")
  target_link_libraries(${target} PRIVATE warpsmith_binding warpsmith_c_api)
  # Two builds of it live in one process: nothing of what is linked in may be seen from outside.
  target_link_options(${target} PRIVATE -Wl,--exclude-libs,ALL)
endfunction()

add_warpsmith_library(libwarpsmith warpsmith)

if(WS_MANYLINUX)
  include(cmake/manylinux/manylinux.cmake)
  link_for_manylinux(libwarpsmith)
  if(TARGET warpsmith)
    link_for_manylinux(warpsmith)
  endif()
  if(WS_EMULATED)
    target_sources(warpsmith_cuda_file PRIVATE cmake/manylinux/missing.cpp)
  endif()
endif()

if(NOT SKBUILD)
  # The same binding over a family that exists to try the contracts: tests/python/test_trial.py.
  file(GLOB trial CONFIGURE_DEPENDS tests/trial/*.cpp tests/trial/*.cu)
  if(WS_EMULATED)
    set_source_files_properties(${trial} PROPERTIES LANGUAGE CXX)
  endif()
  add_warpsmith_library(libwarpsmith_trial warpsmith_trial ${trial})

  # The C ABI from C.
  enable_language(C)
  enable_testing()
  add_executable(c_api_test tests/c_api/c_api_test.c)
  set_target_properties(c_api_test PROPERTIES C_STANDARD 11 C_EXTENSIONS OFF)
  target_include_directories(c_api_test PRIVATE include $<TARGET_PROPERTY:tvm_ffi::header,INTERFACE_INCLUDE_DIRECTORIES>)
  target_compile_options(c_api_test PRIVATE -Wall -Wextra -Wpedantic)
  target_link_libraries(c_api_test PRIVATE libwarpsmith_trial)
  if(WS_EMULATED)
    add_test(NAME c_api COMMAND c_api_test)
    # Random calls of it, over the whole catalogue: `make fuzz` for longer, with other seeds.
    add_executable(c_api_fuzz tests/fuzz/c_api_fuzz.cpp)
    target_include_directories(c_api_fuzz PRIVATE ${PROJECT_SOURCE_DIR} include
                                                  $<TARGET_PROPERTY:tvm_ffi::header,INTERFACE_INCLUDE_DIRECTORIES>)
    target_link_libraries(c_api_fuzz PRIVATE libwarpsmith nlohmann_json::nlohmann_json)
    add_test(NAME fuzz.c_api COMMAND c_api_fuzz)
  else()
    set_target_properties(libwarpsmith_trial c_api_test PROPERTIES EXCLUDE_FROM_ALL ON)
  endif()
endif()

# `pip install` asks for the target python_libraries: the emulated library always, as warpsmith/_emulated, and where
# there is nvcc the CUDA one, as warpsmith/_cuda, from a build of its own inside this one.
if(SKBUILD)
  add_custom_target(python_libraries DEPENDS libwarpsmith)
  install(TARGETS libwarpsmith LIBRARY DESTINATION warpsmith/_emulated COMPONENT python)

  # What `python -m warpsmith` becomes: where there is CLI11 to build it with.
  set(cuda_targets libwarpsmith)
  if(TARGET warpsmith)
    add_dependencies(python_libraries warpsmith)
    install(TARGETS warpsmith RUNTIME DESTINATION warpsmith/_emulated COMPONENT python)
    # What its `run`, `try` and `learn` build programs with: cuda_file/build.cpp.
    set(run_library ${PROJECT_BINARY_DIR}/run/libwarpsmith_cuda_file.a)
    file(MAKE_DIRECTORY ${PROJECT_BINARY_DIR}/run)
    add_custom_command(OUTPUT ${run_library} DEPENDS warpsmith_cuda_file VERBATIM
      COMMAND ${CMAKE_STRIP} --strip-debug -o ${run_library} $<TARGET_FILE:warpsmith_cuda_file>)
    add_custom_target(run_library DEPENDS ${run_library})
    add_dependencies(python_libraries run_library)
    install(DIRECTORY cuda_file/include DESTINATION warpsmith/_emulated/run COMPONENT python)
    install(DIRECTORY include/warpsmith emulator DESTINATION warpsmith/_emulated/run/include COMPONENT python
            FILES_MATCHING PATTERN *.hpp PATTERN *.inc)
    install(FILES ${run_library} $<TARGET_FILE:Boost::context> DESTINATION warpsmith/_emulated/run COMPONENT python)
    list(APPEND cuda_targets warpsmith)
  endif()

  find_program(NVCC nvcc HINTS ENV CUDA_HOME ENV CUDA_PATH PATHS /usr/local/cuda PATH_SUFFIXES bin)
  option(WS_WHEEL_CUDA "Build the CUDA library into the wheel too, where nvcc is found" ON)
  if(NVCC AND WS_WHEEL_CUDA)
    include(ExternalProject)
    string(REPLACE ";" "|" architectures "${CMAKE_CUDA_ARCHITECTURES}")
    ExternalProject_Add(cuda
      SOURCE_DIR ${PROJECT_SOURCE_DIR}
      BINARY_DIR ${PROJECT_BINARY_DIR}/cuda
      LIST_SEPARATOR "|"
      # -s: what is not of this build is not stripped when it is installed.
      CMAKE_ARGS -DWS_EMULATED=OFF -DWS_PROGRAM=${CLI11_FOUND} -DWS_MANYLINUX=${WS_MANYLINUX}
                 -DCMAKE_BUILD_TYPE=Release
                 -DPython_EXECUTABLE=${Python_EXECUTABLE} -DCMAKE_MAKE_PROGRAM=${CMAKE_MAKE_PROGRAM}
                 -DCMAKE_CUDA_ARCHITECTURES=${architectures} "-DCMAKE_SHARED_LINKER_FLAGS=${CMAKE_SHARED_LINKER_FLAGS} -s"
                 "-DCMAKE_EXE_LINKER_FLAGS=${CMAKE_EXE_LINKER_FLAGS} -s"
      BUILD_COMMAND ${CMAKE_COMMAND} --build . --target ${cuda_targets}
      INSTALL_COMMAND ""
      BUILD_ALWAYS ON
      EXCLUDE_FROM_ALL ON
      USES_TERMINAL_BUILD ON)
    add_dependencies(python_libraries cuda)
    install(PROGRAMS ${PROJECT_BINARY_DIR}/cuda/libwarpsmith.so DESTINATION warpsmith/_cuda COMPONENT python)
    if(TARGET warpsmith)
      install(PROGRAMS ${PROJECT_BINARY_DIR}/cuda/warpsmith DESTINATION warpsmith/_cuda COMPONENT python)
    endif()
  endif()
endif()
