// The model behind ptx/bulk_add.hpp: a bulk store that adds.
#pragma once

#include <cstddef>
#include <cstdint>

namespace ws::emulator {

// *to += *value, of one element.
using AddElement = void (*)(std::byte* to, const std::byte* value);

void bulk_add(void* global, const void* shared, uint32_t bytes, size_t element_bytes,
              AddElement add);

// One addition of the copy engine: atomic, but nobody's access; whoever asked for it has been
// counted.
void add_global(std::byte* to, const std::byte* value, size_t bytes, AddElement add,
                const char* operation);

}  // namespace ws::emulator
