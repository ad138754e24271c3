// PrepareTogether: what several documents are learned by. Their texts are written side by side: one
// engine that writes all of them is faster than one document after the other. A thread for each
// writer.
#pragma once

#include <span>
#include <stop_token>
#include <vector>

#include "base/status.h"
#include "learn/learner.h"
#include "learn/text_writer.h"

namespace graft {

// The data of each input, in their order. Every writer is one thread's; without writers the learner
// has no texts written. Once one document has failed, `stop` is asked for, and the writers are to
// give up; the documents that were not prepared then are kCancelled.
std::vector<Result<LearnerData>> PrepareTogether(Learner& learner,
                                                 std::span<const LearnerInput* const> inputs,
                                                 std::span<TextWriter* const> writers,
                                                 std::stop_source stop);

}  // namespace graft
