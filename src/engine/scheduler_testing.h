// For tests of the scheduler and its parts: a scheduler over a fake executor and loader. For tests
// only.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/engine_testing.h"
#include "engine/scheduler.h"

namespace graft {

class SchedulerFixture : public testing::Test {
 protected:
  // The adapters are named c0, c1, ...
  void MakeScheduler(const ExecutorLimits& limits, SchedulerOptions options, int32_t num_adapters) {
    scheduler_.reset();
    executor_ = std::make_unique<FakeExecutor>(limits);
    loader_ = std::make_unique<FakeLoader>(*executor_);
    options.prefix_hash_key = 1;
    scheduler_ = std::make_unique<Scheduler>(options, *executor_, adapters_, *loader_, clock_);
    for (int32_t i = 0; i < num_adapters; ++i) {
      const std::string hash = "c" + std::to_string(i);
      loader_->SetRows(hash, {{kRowAlignment, 1}});
      ASSERT_TRUE(adapters_.Publish({.path = hash, .hash = hash, .key = hash}).ok());
    }
  }
  // A sequence with the next id, which the test may change before it is added.
  std::unique_ptr<Sequence> NewSequence(std::vector<int32_t> prompt, int32_t tokens_max,
                                        const std::string& adapter) {
    auto sequence = std::make_unique<Sequence>();
    sequence->id = ++last_id_;
    sequence->num_prompt_tokens = static_cast<int32_t>(prompt.size());
    sequence->tokens = std::move(prompt);
    sequence->output_tokens_max = tokens_max;
    sequence->sampling.ignore_eos = true;
    if (!adapter.empty()) {
      sequence->prefix_key.adapter_hash = adapter;
      sequence->adapter = adapters_.Acquire(adapter).value();
    }
    return sequence;
  }

  ManualClock clock_;
  ContentTable adapters_{1000};
  std::unique_ptr<FakeExecutor> executor_;
  std::unique_ptr<FakeLoader> loader_;
  std::unique_ptr<Scheduler> scheduler_;
  uint64_t last_id_ = 0;
};

}  // namespace graft
