// What a C++ user would call instead: CUB's device-wide transform. Only the CUDA build has it.
#pragma once

#include <span>

#include "catalogue/catalogue.hpp"

namespace ws::elementwise {

#ifdef WS_EMULATED
inline constexpr std::span<const Peer> kPeers{};
#else
Reason supports_cub(const Problem& problem);
void run_cub(const Problem& problem, const Context& context);
inline constexpr Peer kCub[] = {{"cub", supports_cub, nullptr, run_cub}};
inline constexpr std::span<const Peer> kPeers = kCub;
#endif

}  // namespace ws::elementwise
