# libwarpsmith.so: the C ABI over DLPack that the Python package loads.

find_package(Python REQUIRED COMPONENTS Interpreter)
execute_process(COMMAND ${Python_EXECUTABLE} -m tvm_ffi.config --cmakedir
                OUTPUT_VARIABLE tvm_ffi_ROOT OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
find_package(tvm_ffi CONFIG REQUIRED)

add_library(libwarpsmith SHARED ${binding})
set_target_properties(libwarpsmith PROPERTIES OUTPUT_NAME warpsmith)
target_link_libraries(libwarpsmith PRIVATE warpsmith_core tvm_ffi::shared)
