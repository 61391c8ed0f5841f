# Wheels run on every Linux since glibc 2.28 (manylinux_2_28), whichever glibc and compiler make them.
enable_language(ASM)

set(manylinux ${CMAKE_CURRENT_LIST_DIR})

function(link_for_manylinux target)
  target_sources(${target} PRIVATE ${manylinux}/older.S ${manylinux}/start.cpp ${manylinux}/missing.cpp)
  target_link_options(${target} PRIVATE
    # Else a libstdc++ as new as this compiler would be asked for; and what of it nobody calls, as std::random_device,
    # would ask for a glibc as new as this one.
    -static-libstdc++ LINKER:--exclude-libs,ALL LINKER:--gc-sections
    # Since glibc 2.34 libc has what these had; before, they have to be asked for by name.
    LINKER:--push-state,--no-as-needed,-l:libpthread.so.0,-l:libdl.so.2,-l:librt.so.1,--pop-state)
endfunction()
