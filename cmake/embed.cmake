# cmake -DROOT=... -DOUT=... -P embed.cmake: writes OUT, the definitions of harness/embedded.hpp. An unchanged file is
# left alone, so that nothing is compiled again for it.

# What is first is shown first: of a heavy rung the header that tells it, not the unit with its row.
foreach(pattern kernels/*/*.cuh kernels/*/*.cu kernels/*/*.hpp kernels/*/start/*.cu.in include/warpsmith/*/*.hpp
                own_kernel/driver.cuh catalogue/seed-kernels.tsv report/*.css learn/check.hpp learn/*/*)
  file(GLOB found RELATIVE ${ROOT} ${ROOT}/${pattern})
  list(APPEND files ${found})
endforeach()

execute_process(COMMAND git -C ${ROOT} describe --always --dirty --abbrev=12 OUTPUT_VARIABLE revision
                OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE failed)
if(failed OR NOT revision)
  set(revision unknown)
endif()

set(text "// Made by cmake/embed.cmake.\n#include <array>\n\n#include \"harness/embedded.hpp\"\n\nnamespace ws {\n\n")
string(APPEND text "const char* const kRevision = \"${revision}\";\n\n")
# sv: a literal knows its length; counted by the compiler, a megabyte is over its limit.
string(APPEND text "std::span<const EmbeddedFile> embedded_files() {\n  using namespace std::literals;\n")
string(APPEND text "  static constexpr auto kFiles = std::to_array<EmbeddedFile>({\n")
foreach(file IN LISTS files)
  file(READ ${ROOT}/${file} content)
  string(APPEND text "{\"${file}\", R\"ws_embed(${content})ws_embed\"sv},\n")
endforeach()
string(APPEND text "  });\n  return kFiles;\n}\n\n}  // namespace ws\n")

set(old "")
if(EXISTS ${OUT})
  file(READ ${OUT} old)
endif()
if(NOT old STREQUAL text)
  file(WRITE ${OUT} "${text}")
endif()
