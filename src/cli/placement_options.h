// The option rows of placement and scaling, of every subcommand that places requests.
#pragma once

#include <vector>

#include "options/option.h"
#include "placement/policy.h"

namespace graft {

OptionTarget OnePlacement(PlacementKind& kind);
OptionTarget SomePlacements(std::vector<PlacementKind>& kinds);
Option BatchShareOptionRow(double& batch_share);

}  // namespace graft
