// expect: not supported at 5: groups over several devices
#include <cooperative_groups.h>
namespace cg = cooperative_groups;
__global__ void k() {
  cg::multi_grid_group all = cg::this_multi_grid();
  all.sync();
}
int main() { return 0; }
