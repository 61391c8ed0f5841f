// Stream: the order in which a device works.
#pragma once

struct CUstream_st;

namespace ws {

using Stream = CUstream_st*;  // cudaStream_t; null is the default stream, and all the emulator has

}  // namespace ws
