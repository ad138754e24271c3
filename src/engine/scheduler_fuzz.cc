// The scheduler under arbitrary arrivals and cancels, on arbitrary small shapes: integrity after
// every step, every plan within waist 2's rules (FakeExecutor checks them), and everything ends.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "engine/fake_executor.h"
#include "engine/scheduler.h"

namespace graft {
namespace {

// The fuzzer's bytes, read one at a time; zeros after the end.
class Bytes {
 public:
  Bytes(const uint8_t* data, size_t size) : data_(data), size_(size) {}
  bool empty() const { return next_ == size_; }
  int32_t Below(int32_t n) { return empty() ? 0 : data_[next_++] % n; }

 private:
  const uint8_t* data_;
  size_t size_;
  size_t next_ = 0;
};

class Run {
 public:
  explicit Run(Bytes& bytes)
      : bytes_(bytes),
        limits_(LimitsFrom(bytes)),
        scheduler_(OptionsFrom(bytes, limits_)),
        executor_(limits_) {
    executor_.SetAdapter(0, "c0");
    executor_.SetAdapter(1, "c1");
    for (const char* hash : {"c0", "c1"}) CHECK(adapters_.Publish(*adapters_.Reserve(), hash).ok());
  }

  void Play() {
    while (!bytes_.empty()) {
      switch (bytes_.Below(4)) {
        case 0:
        case 1:
          Add();
          break;
        case 2:
          scheduler_.Remove(static_cast<RequestId>(bytes_.Below(64)));
          Check();
          break;
        default:
          Step();
      }
    }
    for (int64_t step = 0; Step(); ++step) CHECK_LT(step, 100000) << "no progress";
    CHECK(scheduler_.empty());
  }

 private:
  static ExecutorLimits LimitsFrom(Bytes& bytes) {
    ExecutorLimits limits;
    limits.page_tokens = 1 + bytes.Below(5);
    limits.num_pages = 1 + bytes.Below(24);
    limits.sequences_max = 1 + bytes.Below(6);
    limits.step_tokens_max = 1 + bytes.Below(20);
    limits.context_tokens_max = limits.num_pages * limits.page_tokens;
    limits.vocab_size = 7;
    limits.adapters_max = 2;
    return limits;
  }

  static SchedulerOptions OptionsFrom(Bytes& bytes, const ExecutorLimits& limits) {
    return {.sequences_max = limits.sequences_max,
            .step_tokens_max = limits.step_tokens_max,
            .prefill_chunk_max = bytes.Below(9),
            .num_pages = limits.num_pages,
            .page_tokens = limits.page_tokens,
            .prefix_cache = bytes.Below(4) != 0,
            .eos_token_ids = {0}};
  }

  void Add() {
    auto sequence = std::make_unique<Sequence>();
    sequence->id = next_id_++;
    sequence->num_prompt_tokens = 1 + bytes_.Below(limits_.context_tokens_max);
    for (int32_t i = 0; i < sequence->num_prompt_tokens; ++i) {
      sequence->tokens.push_back(2 + (i % 5 == 4 ? bytes_.Below(2) : 0));
    }
    sequence->output_tokens_max =
        bytes_.Below(1 + limits_.context_tokens_max - sequence->num_prompt_tokens);
    sequence->sampling.prompt_logprobs = bytes_.Below(8) == 0;
    sequence->sampling.seed = static_cast<uint64_t>(bytes_.Below(3));
    const int32_t adapter = bytes_.Below(3);
    if (adapter < 2) {
      sequence->prefix_key.adapter_hash = "c" + std::to_string(adapter);
      sequence->adapter = adapters_.Acquire(sequence->prefix_key.adapter_hash).value();
    }
    scheduler_.Add(std::move(sequence));
    Check();
  }

  bool Step() {
    const StepPlan& plan = scheduler_.Plan();
    Check(/*planned=*/true);
    if (plan.sequences.empty()) return false;
    const StepResult result = executor_.Run(plan);
    scheduler_.Commit(plan, result);
    scheduler_.TakeFinished();
    Check();
    return true;
  }

  void Check(bool planned = false) const {
    const Status status =
        planned ? scheduler_.pool().CheckIntegrity() : scheduler_.CheckIntegrity();
    CHECK(status.ok()) << status.ToString();
  }

  Bytes& bytes_;
  const ExecutorLimits limits_;
  AdapterTable adapters_{2, [](int32_t) {}};
  Scheduler scheduler_;
  FakeExecutor executor_;
  RequestId next_id_ = 0;
};

}  // namespace
}  // namespace graft

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size > 2048) return 0;
  graft::Bytes bytes(data, size);
  graft::Run(bytes).Play();
  return 0;
}
