// What a server is told of learning beside its serving. Plain data.
#pragma once

#include <string>

#include "jobs/learning_jobs.h"

namespace graft {

struct LearningOptions {
  std::string folder;   // "": nothing is learned, and nothing is there that was
  double share = 0.0;   // of the time while requests run; 0: nothing is learned
  double gib = 1.0;     // of memory for training
  std::string encoder;  // its folder, for jobs that it makes adapters for; "": none does
  int checkpoint_seconds = 60;
  int turn_seconds = 600;  // of a job while another tenant's waits
  LearningLimits limits;
};

}  // namespace graft
