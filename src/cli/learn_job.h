// A document on its way to an adapter by `graft learn`. Plain data; main thread.
#pragma once

#include <string>
#include <vector>

#include "document/document.h"
#include "learn/learner.h"
#include "learn/trainer.h"

namespace graft {

struct LearnJob {
  std::string name;
  Document document;
  LearnerInput input;
  LearnerData data;
  std::vector<AskedQuestion> asked;  // of the data, which goes
  TrainedShape shape;
  std::string folder;      // of the adapter
  std::string checkpoint;  // a file, which is gone once the adapter is there
};

}  // namespace graft
