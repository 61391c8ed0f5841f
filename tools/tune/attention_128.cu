#include "kernels/attention/candidates.hpp"
#include "tools/tune/candidates.hpp"

namespace ws::attention {
namespace {

constexpr Rung kFlash128[] = {
    flash_candidate<128, 128, 2, 2, kEverything>("128_128_2_2"),
    flash_candidate<128, 128, 2, 2, kEverything, 16>("128_128_2_2_p16"),
    flash_candidate<128, 128, 2, 2, kEverything - kTurns>("128_128_2_2_no_turns"),
    flash_candidate<128, 144, 2, 2, kEverything>("128_144_2_2"),
    flash_candidate<128, 176, 2, 2, kEverything>("128_176_2_2"),
    flash_candidate<128, 176, 2, 2, kEverything - kTurns>("128_176_2_2_no_turns"),
};
const tune::Candidates kGroup128{"attention/wgmma_lazy", kFlash128};

}  // namespace
}  // namespace ws::attention
