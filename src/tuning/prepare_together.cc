#include "tuning/prepare_together.h"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <future>
#include <utility>

namespace graft {

std::vector<Result<LearnerData>> PrepareTogether(Learner& learner,
                                                 std::span<const LearnerInput* const> inputs,
                                                 std::span<TextWriter* const> writers,
                                                 std::stop_source stop) {
  std::vector<Result<LearnerData>> all;
  for (size_t i = 0; i < inputs.size(); ++i) {
    all.push_back(Status(StatusCode::kCancelled, "another document failed"));
  }
  std::atomic<size_t> next = 0;
  const auto prepare = [&](TextWriter* writer) {
    for (size_t i = next++; i < inputs.size() && !stop.stop_requested(); i = next++) {
      all[i] = learner.Prepare(*inputs[i], writer);
      if (!all[i].ok()) stop.request_stop();
    }
  };
  std::vector<std::future<void>> threads;
  for (size_t i = 1; i < std::min(writers.size(), inputs.size()); ++i) {
    threads.push_back(std::async(std::launch::async, prepare, writers[i]));
  }
  prepare(writers.empty() ? nullptr : writers[0]);
  for (std::future<void>& thread : threads) thread.get();
  return all;
}

}  // namespace graft
