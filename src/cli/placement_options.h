// What the placement options of `frontend` and `simulate` share. OnePlacement reads one policy's
// name. SomePlacements reads several, with commas between them. BatchShareOptionRow is the whole
// row of --tune batch-share.
#pragma once

#include <vector>

#include "options/option.h"
#include "placement/policy.h"

namespace graft {

OptionTarget OnePlacement(PlacementKind& kind);
OptionTarget SomePlacements(std::vector<PlacementKind>& kinds);
Option BatchShareOptionRow(double& batch_share);

}  // namespace graft
