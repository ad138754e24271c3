// Runs the scheduler with arbitrary arrivals, cancels and loads, on arbitrary small shapes. After
// every step its integrity is checked. Every plan obeys the rules of step/ (FakeExecutor checks
// them), and every request ends.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "engine/fake_executor.h"
#include "engine/fake_loader.h"
#include "engine/scheduler.h"

namespace graft {
namespace {

constexpr int32_t kContents = 4;
constexpr ColdStart kColdStarts[] = {ColdStart::kBlocking, ColdStart::kJoinLater,
                                     ColdStart::kLayerwise, ColdStart::kAuto};

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
        executor_(limits_, RatesOf(limits_)),
        scheduler_(OptionsFrom(bytes), executor_, adapters_, loader_, clock_) {
    loader_.set_delay(1 + bytes.Below(4));
    for (int32_t i = 0; i < kContents; ++i) {
      const std::string hash = "c" + std::to_string(i);
      // Some adapters are too large for some pools.
      loader_.SetRows(hash, {{kRowAlignment * (1 + bytes.Below(4)), 1 + bytes.Below(12)}});
      CHECK(adapters_.Publish({.path = hash, .hash = hash, .key = hash}).ok());
    }
    // Uses no byte, so that the corpus keeps its meaning.
    loader_.SetVirtualTokens("c0", 3, false);
    loader_.SetVirtualTokens("c1", 5, true);
  }

  void Play() {
    while (!bytes_.empty()) {
      switch (bytes_.Below(4)) {
        case 0:
        case 1:
          Add();
          Check();
          break;
        case 2:
          Remove(static_cast<RequestId>(bytes_.Below(64)));
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
    limits.page_bytes = kRowAlignment * (1 + bytes.Below(5));
    limits.adapters_max = 1 + bytes.Below(3);
    limits.runs_ahead = true;
    return limits;
  }

  // Uses no byte of its own, so that the corpus keeps its meaning. Two thirds of the shapes have a
  // CPU assist, of one of two speeds.
  static BridgeRates RatesOf(const ExecutorLimits& limits) {
    if (limits.num_pages % 3 == 0) return {};
    const double row_ns = limits.num_pages % 3 == 1 ? 1e-6 : 1e-2;
    return {.ranks = {{8, row_ns, row_ns}}, .num_workers = limits.page_tokens};
  }

  static SchedulerOptions OptionsFrom(Bytes& bytes) {
    return {.prefill_chunk_max = bytes.Below(9),
            .cold_start = kColdStarts[bytes.Below(4)],
            .turn_ns = bytes.Below(8),
            .prefix_cache = bytes.Below(4) != 0,
            .prefix_hash_key = 1,
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
    if (next_id_ % 5 == 0) sequence->sampling.presence_penalty = 1.0f;
    const int32_t adapter = bytes_.Below(kContents + 1);
    if (adapter < kContents) {
      sequence->prefix_key.adapter_hash = "c" + std::to_string(adapter);
      sequence->adapter = adapters_.Acquire(sequence->prefix_key.adapter_hash).value();
    }
    scheduler_.Add(std::move(sequence));
  }

  void Remove(RequestId id) {
    if (id == 63) {
      scheduler_.RemoveAll();
    } else {
      scheduler_.Remove({&id, 1});
    }
  }

  bool Step() {
    clock_.AdvanceNs(1);
    const bool has_begun = scheduler_.is_ahead();
    const StepPlan& plan = scheduler_.Plan();
    for (const auto& sequence : scheduler_.TakeFailed()) CHECK(!sequence->status.ok());
    Check(/*planned=*/true);
    if (plan.sequences.empty()) return !scheduler_.empty();
    if (!has_begun) executor_.Begin(plan);
    if (plan.step_id % 4 == 0 && !bytes_.empty()) Add();
    scheduler_.LoadAhead();
    Check(/*planned=*/true);
    const StepPlan* const ahead = plan.step_id % 8 == 7 ? nullptr : scheduler_.PlanAhead();
    if (ahead != nullptr) executor_.Begin(*ahead);
    if (plan.step_id % 3 == 0 && !bytes_.empty()) Add();
    scheduler_.LoadAhead();
    Check(/*planned=*/true);
    const StepResult result = executor_.Finish();
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
  ManualClock clock_;
  ContentTable adapters_{kContents};
  FakeExecutor executor_;
  FakeLoader loader_{executor_};
  Scheduler scheduler_;
  uint64_t next_id_ = 0;
};

}  // namespace
}  // namespace graft

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size > 2048) return 0;
  graft::Bytes bytes(data, size);
  graft::Run(bytes).Play();
  return 0;
}
