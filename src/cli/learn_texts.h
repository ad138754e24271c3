// What `graft learn` has the base write before it trains: the engine that writes is there for that
// alone. Main thread.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "cli/learn_options.h"
#include "learn/learner.h"
#include "runtime/base_identity.h"
#include "runtime/runtime.h"

namespace graft {

struct DocumentToPrepare {
  std::string name;
  const LearnerInput* input;
};

// The data of each document, in their order.
Result<std::vector<LearnerData>> PrepareDocuments(const LearnOptions& options, Learner& learner,
                                                  LoadedModel& model, const BaseIdentity& base,
                                                  std::span<const DocumentToPrepare> documents);

}  // namespace graft
