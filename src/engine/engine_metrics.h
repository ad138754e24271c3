// What the engine counts: Prometheus series for operators, and one snapshot struct for the bench.
// Written by the engine thread only, but for adapters' series; read from any thread.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "base/metrics.h"
#include "engine/scheduler.h"
#include "request/adapter_series.h"

namespace graft {

// Totals since the start; each field is consistent by itself.
struct EngineSnapshot {
  int64_t steps = 0;
  // In Executor::Begin and Finish and between them; of a step begun ahead, since the last one
  // ended.
  int64_t executor_ns = 0;
  // The rest of Step: admitting, planning, committing, publishing, delivering. Where steps are
  // begun ahead it is beside them, and counted above too.
  int64_t overhead_ns = 0;
  // Between steps that followed each other: StepTimes::idle_ns, or from Finish until after Begin.
  int64_t gap_ns = 0;
  int64_t steps_ahead = 0;  // begun before the one before them had ended
  int64_t rows = 0;         // token rows computed
  int64_t prompt_tokens = 0;
  int64_t output_tokens = 0;
  int64_t preemptions = 0;
  int64_t prefix_lookup_tokens = 0;
  int64_t prefix_hit_tokens = 0;
  int64_t mixed_steps = 0;          // prefill and decode in one invocation
  int64_t prompt_steps = 0;         // with rows of a prompt in them
  int64_t prompt_iteration_ns = 0;  // of these, from the end of the step before while requests ran
  int64_t decode_iteration_ns = 0;  // of all others
  int64_t step_sequences = 0;       // of the last step, as the next three
  int64_t step_adapters = 0;        // distinct
  int64_t step_prompt_rows = 0;
  int64_t step_decode_rows = 0;
  int64_t step_sequences_max = 0;   // the largest batch so far
  int64_t step_adapters_max = 0;    // most distinct adapters in one batch so far
  int64_t requests_waiting = 0;     // now
  int64_t requests_running = 0;     // now
  int64_t pages_free = 0;           // now
  int64_t pages_cached = 0;         // now
  int64_t pages_referenced = 0;     // now, by sequences
  int64_t pages_adapters = 0;       // now
  int64_t pages_adapters_idle = 0;  // of them, of adapters that could be evicted
  int64_t adapters_resident = 0;    // now
  int64_t adapter_fetches = 0;      // into the host's memory
  int64_t adapter_copies = 0;       // to the device
  int64_t adapter_evictions = 0;    // from the device
  int64_t adapter_failures = 0;     // fetches and copies that failed
  int64_t layerwise_starts = 0;     // of requests that began while their adapter arrived
  int64_t cpu_assist_starts = 0;    // so, and the CPU computed for them
  int64_t join_later_starts = 0;    // of requests that waited until their adapter was there
  int64_t steps_with_arrivals = 0;  // that waited for layers
  int64_t turns = 0;                // that ended for a request without room for its adapter
  int64_t drafts = 0;               // see SchedulerStats
  int64_t draft_tokens = 0;
  int64_t accepted_draft_tokens = 0;
};

// A step as the engine's clock saw it; as EngineSnapshot has them.
struct StepHostTimes {
  int64_t executor_ns = 0;
  int64_t overhead_ns = 0;
  int64_t step_ns = 0;  // from the last one's end where it was begun ahead, else all of Step
  int64_t gap_ns = 0;
  // As the running requests saw it: with what kept it from beginning when the last one had ended.
  int64_t iteration_ns = 0;
};

// Tells what steps are planned for, once.
void RecordGoal(const SchedulerOptions& options, const ExecutorLimits& limits, Metrics& metrics);

class EngineMetrics {
 public:
  // See AdapterSeries for `adapter_label`.
  EngineMetrics(Metrics& metrics, std::function<std::string(const std::string&)> adapter_label);

  // Any thread; takes locks, so not for the step.
  std::shared_ptr<const AdapterCounters> CountersFor(const std::string& adapter_key,
                                                     int32_t content) {
    return adapter_series_.Of(adapter_key, content);
  }
  // The content is no longer held.
  void ForgetAdapter(int32_t content) { adapter_series_.Forget(content); }
  EngineSnapshot Snapshot() const;

  void RecordAccepted(const Sequence& sequence);
  // A token of `sequence`, drawn at `now_ns`; updates its last_token_ns.
  void RecordToken(Sequence& sequence, int64_t now_ns);
  void RecordFinished(const Sequence& sequence);
  void RecordStep(const StepPlan& plan, const StepTimes& times, const StepHostTimes& host);
  void RecordState(const Scheduler& scheduler);

 private:
  void RecordBatch(int64_t num_sequences, int64_t num_adapters, int64_t prompt_rows,
                   int64_t decode_rows);
  void RecordAdapters(const Residency& adapters);

  // One number of the snapshot; the engine thread alone writes it.
  class Number {
   public:
    int64_t value() const { return value_.load(std::memory_order_relaxed); }
    void Set(int64_t value) { value_.store(value, std::memory_order_relaxed); }
    void Add(int64_t delta) { Set(value() + delta); }
    void Raise(int64_t value) { Set(std::max(value, this->value())); }

   private:
    std::atomic<int64_t> value_{0};
  };
  // The same total for Prometheus, which wants increments.
  void Advance(Number& number, prometheus::Counter& counter, int64_t total);

  AdapterSeries adapter_series_;

  Number steps_, executor_ns_, overhead_ns_, gap_ns_, rows_, prompt_tokens_, output_tokens_,
      preemptions_, prefix_lookup_tokens_, prefix_hit_tokens_, mixed_steps_, prompt_steps_,
      prompt_iteration_ns_, decode_iteration_ns_, step_sequences_, step_adapters_,
      step_prompt_rows_, step_decode_rows_, step_sequences_max_, step_adapters_max_,
      requests_waiting_, requests_running_, pages_free_, pages_cached_, pages_referenced_,
      pages_adapters_, pages_adapters_idle_, adapters_resident_, adapter_fetches_, adapter_copies_,
      adapter_evictions_, adapter_failures_, layerwise_starts_, cpu_assist_starts_,
      join_later_starts_, steps_with_arrivals_, turns_, steps_ahead_, drafts_, draft_tokens_,
      accepted_draft_tokens_;

  prometheus::Counter& steps_total_;
  prometheus::Counter& mixed_steps_total_;
  prometheus::Counter& executor_seconds_;
  prometheus::Counter& overhead_seconds_;
  prometheus::Counter& gap_seconds_;
  std::array<prometheus::Counter*, 4> part_seconds_;  // gemm, lora, attention, sampling
  prometheus::Counter& preemptions_total_;
  prometheus::Counter& prefix_lookup_total_;
  prometheus::Counter& prefix_hit_total_;
  std::array<prometheus::Counter*, 5> finished_total_;  // by FinishReason
  prometheus::Gauge& waiting_gauge_;
  prometheus::Gauge& running_gauge_;
  prometheus::Counter& prompt_tokens_total_;
  prometheus::Counter& output_tokens_total_;
  prometheus::Gauge& step_sequences_gauge_;
  prometheus::Gauge& step_adapters_gauge_;
  std::array<prometheus::Gauge*, 2> step_rows_gauge_;  // prompt, decode
  prometheus::Gauge& batch_sequences_gauge_;
  prometheus::Gauge& batch_adapters_gauge_;
  std::array<prometheus::Gauge*, 4> pages_gauge_;  // free, cached, referenced, adapters
  prometheus::Gauge& adapters_resident_gauge_;
  prometheus::Gauge& adapter_bytes_gauge_;
  prometheus::Gauge& adapter_waste_gauge_;
  std::array<prometheus::Counter*, 4> adapter_events_;  // fetches, copies, evictions, failures
  std::array<prometheus::Counter*, 3> cold_starts_;     // layerwise, cpu-assist, join-later
  prometheus::Counter& steps_with_arrivals_total_;
  prometheus::Counter& turns_total_;
  prometheus::Counter& steps_ahead_total_;
  prometheus::Counter& drafts_total_;
  prometheus::Counter& draft_tokens_total_;
  prometheus::Counter& accepted_draft_tokens_total_;
  prometheus::Histogram& step_seconds_;
  prometheus::Histogram& first_token_seconds_;
  prometheus::Histogram& next_token_seconds_;
};

}  // namespace graft
