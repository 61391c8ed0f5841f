// What a family would have measured before it fixes a constant: alternatives of a rung's policy,
// each a Rung of its own. kernels/FAMILY/candidates.hpp has them; a file here, with one line,
// brings them to the tuner:
//
//   const tune::Candidates kShapes{"gemm/warp_specialized", kWgmmaCandidates};
#pragma once

#include <span>
#include <string>
#include <vector>

#include "catalogue/catalogue.hpp"

namespace ws::tune {

struct Group {
  std::string rung;  // "gemm/warp_specialized": whose policy it is
  std::span<const Rung> candidates;
};

inline std::vector<Group>& groups() {
  static std::vector<Group> all;
  return all;
}

// At namespace scope: registers a group before main().
struct Candidates {
  Candidates(std::string rung, std::span<const Rung> candidates) {
    groups().push_back({std::move(rung), candidates});
  }
};

}  // namespace ws::tune
