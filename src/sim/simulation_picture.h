// Draws results of simulations as SVG, to compare placements at a glance. Each figure has a panel,
// and each placement a bar in it. The same runs give the same bytes. Pure.
#pragma once

#include <string>

#include "base/json.h"

namespace graft {

// `runs`: as SimulationJson wrote them, each with its `seed`. Bars are means over seeds; lines on
// them reach from the smallest to the largest value of any seed. A placement that also ran with
// runners that come and go has a second bar. `title` stands above.
std::string SimulationPicture(const std::string& title, const OrderedJson& runs);

}  // namespace graft
