#include "kernels/attention/flash.hpp"

namespace ws::attention {
namespace {

struct Lazy {
  static constexpr int64_t kMostDim = 256;
  static constexpr const char* kName = "attention/wgmma_lazy";
  template <class Tile>
  using Policy = FlashPolicy<Tile, true, true, true, true>;

  template <class F>
  static void with(int64_t dim, F&& f) {
    if (dim <= 64) {
      f.template operator()<Policy<Flash64>>();
    } else if (dim <= 128) {
      f.template operator()<Policy<Flash128>>();
    } else {
      f.template operator()<Policy<Flash256>>();
    }
  }
};

}  // namespace

extern const Rung kWgmmaLazy;
constinit const Rung kWgmmaLazy = rung_of<Flash<Lazy>, kHalves, Attention, AttentionVarlen>({
    .name = "wgmma_lazy",
    .idea = "what was gathered is scaled when a maximum has grown, not with each block of keys",
    .arch = Arch::kSm90a,
});

}  // namespace ws::attention
