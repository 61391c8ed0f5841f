#include "kernels/attention/candidates.hpp"
#include "tools/tune/candidates.hpp"

namespace ws::attention {
namespace {

constexpr Rung kFlash64[] = {
    flash_candidate<64, 128, 2, 3, kEverything>("64_128_2_3"),
    flash_candidate<64, 128, 2, 3, kEverything, 4>("64_128_2_3_p4"),
    flash_candidate<64, 128, 2, 3, kEverything, 8>("64_128_2_3_p8"),
    flash_candidate<64, 128, 2, 3, kEverything, 16>("64_128_2_3_p16"),
    flash_candidate<64, 128, 3, 3, kEverything, 8>("64_128_3_3_p8"),
    flash_candidate<64, 128, 2, 3, kEverything - kTurns, 8>("64_128_2_3_p8_no_turns"),
    flash_candidate<64, 144, 2, 3, kEverything, 8>("64_144_2_3_p8"),
    flash_candidate<64, 112, 2, 3, kEverything, 8>("64_112_2_3_p8"),
};
const tune::Candidates kGroup64{"attention/wgmma_lazy", kFlash64};

}  // namespace
}  // namespace ws::attention
