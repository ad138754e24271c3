// What config.json says of rotary angles: their base, how positions are scaled, and how much of a
// head rotates. Pure functions, any thread.
#pragma once

#include <string>
#include <string_view>

#include "base/json_fwd.h"
#include "base/status.h"
#include "model/config.h"
#include "model/config_fields.h"

namespace graft {

// The object that says how positions are scaled.
struct RopeObject {
  std::string name;            // "rope_scaling" or the newer "rope_parameters"
  const Json* json = nullptr;  // null: there is none
};
Result<RopeObject> FindRope(const ConfigFields& fields);

// One set of angles for all layers: config.ropes[0] and rotary_dim.
Status ReadOneRope(const ConfigFields& fields, ModelConfig& config);

// Two sets: config.ropes[0] of layers that attend fully, [1] of those that slide, which have their
// windows already. Thetas are those where the config gives a set none. An older rope_scaling is of
// layers that attend fully.
Status ReadTwoRopes(const ConfigFields& fields, double full_theta, double sliding_theta,
                    ModelConfig& config);

// The field as out.theta, which stays where it is absent.
Status ReadTheta(std::string_view name, const ConfigFields& fields, RopeConfig& out);
// The first dimensions of a head that rotate, where they are not all. `rope` may say so, too.
Status ReadRotaryDim(const ConfigFields& fields, const ConfigFields& rope, ModelConfig& config);
// What `rope` says of the scaling, as the family's rope_types allow. yarn may raise
// config.context_tokens_max to the original context times its factor.
Status ReadRopeScaling(const ConfigFields& fields, const ConfigFields& rope, ModelConfig& config,
                       RopeConfig& out);

}  // namespace graft
