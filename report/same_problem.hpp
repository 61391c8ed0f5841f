// Whether two results are of one problem, by what the problem is and not by its text alone.
#pragma once

#include <string>

#include "report/results.hpp"

namespace ws::report {

// The ladder's problem without attributes that change nothing of what has to come out, as softmax's
// bounded=true, a promise about its inputs. Where the catalogue has no such operation, its text.
std::string essence_of(const Ladder& ladder);

}  // namespace ws::report
