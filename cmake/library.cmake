# What C and C++ programs link: libwarpsmith_emulated.so or libwarpsmith_cuda.so, which have the C ABI and ask for
# nothing else; warpsmith/operations.hpp, made from the catalogue; and the package that find_package(warpsmith) finds.

# DLPack's one header, which the ABI is made of: the system's, or that of tvm-ffi, which Python's packages may have.
find_package(Python QUIET COMPONENTS Interpreter)
if(Python_FOUND AND NOT DLPACK_INCLUDE)
  execute_process(COMMAND ${Python_EXECUTABLE} -c "import tvm_ffi.libinfo as l; print(l.find_dlpack_include_path())"
                  OUTPUT_VARIABLE dlpack OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
endif()
find_path(DLPACK_INCLUDE dlpack/dlpack.h HINTS ${dlpack} DOC "The folder that dlpack/dlpack.h is in")
if(NOT DLPACK_INCLUDE)
  message(FATAL_ERROR "dlpack/dlpack.h was not found: install libdlpack-dev or, with pip, apache-tvm-ffi, "
                      "or name its folder with -DDLPACK_INCLUDE=...")
endif()

# The C ABI, for this library and Python's: of the binding all but what speaks to tvm-ffi.
file(GLOB c_api CONFIGURE_DEPENDS python/binding/*.cpp)
list(FILTER c_api EXCLUDE REGEX "/(ffi|build_info)\\.cpp$")
add_library(warpsmith_c_api OBJECT ${c_api})
target_link_libraries(warpsmith_c_api PUBLIC warpsmith_core)
target_include_directories(warpsmith_c_api SYSTEM PUBLIC ${DLPACK_INCLUDE})

if(SKBUILD)
  return()
endif()

if(WS_EMULATED)
  set(device emulated)
else()
  set(device cuda)
endif()

add_library(warpsmith_${device} SHARED)
target_link_libraries(warpsmith_${device} PRIVATE warpsmith_c_api)
# What is linked in is not seen from outside, and all that it asks for is.
target_link_options(warpsmith_${device} PRIVATE -Wl,--exclude-libs,ALL -Wl,--no-undefined)
set_target_properties(warpsmith_${device} PROPERTIES VERSION ${PROJECT_VERSION} SOVERSION 0.1 EXPORT_NAME ${device}_library)

add_executable(operations_header tools/operations_header.cpp)
target_include_directories(operations_header PRIVATE include)
target_include_directories(operations_header SYSTEM PRIVATE ${DLPACK_INCLUDE})
target_link_libraries(operations_header PRIVATE fmt::fmt-header-only nlohmann_json::nlohmann_json ${CMAKE_DL_LIBS})

# The C++ functions of a library's catalogue, as `folder`/warpsmith/operations.hpp.
function(add_operations_header target library folder)
  file(MAKE_DIRECTORY ${folder}/warpsmith)
  add_custom_command(OUTPUT ${folder}/warpsmith/operations.hpp
    COMMAND operations_header $<TARGET_FILE:${library}> ${folder}/warpsmith/operations.hpp
    DEPENDS operations_header ${library} VERBATIM COMMENT "")
  add_custom_target(${target} ALL DEPENDS ${folder}/warpsmith/operations.hpp)
endfunction()
add_operations_header(warpsmith_operations warpsmith_${device} ${PROJECT_BINARY_DIR}/include)

# The headers alone, for who takes a kernel and no library: docs/cpp.md.
add_library(warpsmith_headers INTERFACE)
add_library(warpsmith::headers ALIAS warpsmith_headers)
set_target_properties(warpsmith_headers PROPERTIES EXPORT_NAME headers)
include(GNUInstallDirs)
target_compile_features(warpsmith_headers INTERFACE cxx_std_20)
target_include_directories(warpsmith_headers INTERFACE $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>
                                                       $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)

# What programs link: the library with its headers, which are there when a program's sources are compiled.
set(linked warpsmith_${device}_interface)
add_library(${linked} INTERFACE)
add_library(warpsmith::${device} ALIAS ${linked})
add_dependencies(${linked} warpsmith_operations)
target_link_libraries(${linked} INTERFACE warpsmith_${device} warpsmith_headers)
target_include_directories(${linked} INTERFACE
  $<BUILD_INTERFACE:${PROJECT_BINARY_DIR}/include> $<BUILD_INTERFACE:${DLPACK_INCLUDE}>
  $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}/warpsmith/third_party>)
if(NOT WS_EMULATED)
  target_compile_definitions(${linked} INTERFACE WARPSMITH_CUDA)
endif()
# Both have the same symbols, so CMake refuses a program that links the two.
set_target_properties(${linked} PROPERTIES EXPORT_NAME ${device} INTERFACE_WARPSMITH_DEVICE ${device}
                                           COMPATIBLE_INTERFACE_STRING WARPSMITH_DEVICE)

# ---- cmake --install: one prefix takes an emulated build and a CUDA one ---------------------------------------------

include(CMakePackageConfigHelpers)
set(package ${CMAKE_INSTALL_LIBDIR}/cmake/warpsmith)
install(TARGETS warpsmith_headers EXPORT warpsmith_headers)
install(TARGETS warpsmith_${device} ${linked} EXPORT warpsmith_${device} COMPONENT cpp)
foreach(exported headers ${device})
  install(EXPORT warpsmith_${exported} NAMESPACE warpsmith:: DESTINATION ${package} COMPONENT cpp)
endforeach()
install(DIRECTORY include/warpsmith DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT cpp)
install(FILES ${PROJECT_BINARY_DIR}/include/warpsmith/operations.hpp
        DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/warpsmith COMPONENT cpp)
install(FILES ${DLPACK_INCLUDE}/dlpack/dlpack.h
        DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/warpsmith/third_party/dlpack COMPONENT cpp)
configure_package_config_file(cmake/warpsmith-config.cmake.in ${PROJECT_BINARY_DIR}/warpsmith-config.cmake
                              INSTALL_DESTINATION ${package})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/warpsmith-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/warpsmith-config.cmake ${PROJECT_BINARY_DIR}/warpsmith-config-version.cmake
        DESTINATION ${package} COMPONENT cpp)
