#include "kernels/attention/candidates.hpp"
#include "tools/tune/candidates.hpp"

namespace ws::attention {
namespace {

constexpr Rung kFlash256[] = {
    flash_candidate<256, 80, 2, 2, kEverything>("256_80_2_2"),
    flash_candidate<256, 80, 2, 2, kEverything - kTurns>("256_80_2_2_no_turns"),
    flash_candidate<256, 64, 2, 2, kEverything>("256_64_2_2"),
    flash_candidate<256, 64, 2, 2, kEverything - kTurns>("256_64_2_2_no_turns"),
};
const tune::Candidates kGroup256{"attention/wgmma_lazy", kFlash256};

}  // namespace
}  // namespace ws::attention
