#include "engine/engine_metrics.h"

#include <utility>

#include "base/clock.h"

namespace graft {
namespace {

const std::vector<double>& SecondsBounds() {
  static const std::vector<double> bounds = {0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1,
                                             0.25,   0.5,   1,      2.5,   5,    10,    30,   60};
  return bounds;
}

std::array<prometheus::Counter*, 4> PartCounters(Metrics& metrics) {
  std::array<prometheus::Counter*, 4> counters;
  const char* const parts[] = {"gemm", "lora", "attention", "sampling"};
  for (size_t i = 0; i < counters.size(); ++i) {
    counters[i] = &metrics.Counter("graft_executor_part_seconds_total",
                                   "Seconds of the steps by part", {{"part", parts[i]}});
  }
  return counters;
}

std::array<prometheus::Counter*, 5> FinishCounters(Metrics& metrics) {
  std::array<prometheus::Counter*, 5> counters = {};
  for (size_t i = 1; i < counters.size(); ++i) {
    counters[i] =
        &metrics.Counter("graft_requests_finished_total", "Requests that ended, by reason",
                         {{"reason", NameOf(static_cast<FinishReason>(i))}});
  }
  return counters;
}

std::array<prometheus::Gauge*, 2> StepRowGauges(Metrics& metrics) {
  const auto gauge = [&metrics](const char* kind) {
    return &metrics.Gauge("graft_step_rows",
                          "Token rows in the batch of the last step: of prompts, or one of each "
                          "sequence that decodes",
                          {{"kind", kind}});
  };
  return {gauge("prompt"), gauge("decode")};
}

std::array<prometheus::Gauge*, 4> PageGauges(Metrics& metrics) {
  std::array<prometheus::Gauge*, 4> gauges;
  const char* const states[] = {"free", "cached", "referenced", "adapters"};
  for (size_t i = 0; i < gauges.size(); ++i) {
    gauges[i] = &metrics.Gauge("graft_pages", "Pages of the pool by state", {{"state", states[i]}});
  }
  return gauges;
}

std::array<prometheus::Counter*, 4> AdapterEventCounters(Metrics& metrics) {
  std::array<prometheus::Counter*, 4> counters;
  const char* const events[] = {"fetch", "copy", "evict", "fail"};
  for (size_t i = 0; i < counters.size(); ++i) {
    counters[i] = &metrics.Counter(
        "graft_adapter_events_total",
        "Adapters fetched into the host's memory, copied to the device, evicted from it, failed",
        {{"event", events[i]}});
  }
  return counters;
}

std::array<prometheus::Counter*, 3> ColdStartCounters(Metrics& metrics) {
  const auto counter = [&metrics](const char* way) {
    return &metrics.Counter(
        "graft_cold_starts_total",
        "Requests whose adapter was not on the device, by what they did: begin "
        "while it arrived (layer by layer, or computed for by the CPU), or wait "
        "until it was there",
        {{"way", way}});
  };
  return {counter("layerwise"), counter("cpu-assist"), counter("join-later")};
}

// What is counted of a plan.
struct PlanCounts {
  int64_t adapters = 0;     // distinct: sequences of one are adjacent, base rows come first
  int64_t single_rows = 0;  // sequences of one, but for drafts
  int64_t prompt_rows = 0;
};

PlanCounts CountsOf(const StepPlan& plan) {
  PlanCounts counts;
  AdapterSlot previous = kNoAdapter;
  for (const PlannedSequence& planned : plan.sequences) {
    counts.adapters += planned.adapter_slot != previous ? 1 : 0;
    counts.single_rows += planned.num_tokens - planned.num_drafts == 1 ? 1 : 0;
    counts.prompt_rows += planned.num_prompt_rows;
    previous = planned.adapter_slot;
  }
  return counts;
}

}  // namespace

EngineMetrics::EngineMetrics(Metrics& metrics,
                             std::function<std::string(const std::string&)> adapter_label)
    : adapter_series_(metrics, std::move(adapter_label)),
      steps_total_(metrics.Counter("graft_steps_total", "Steps run")),
      mixed_steps_total_(metrics.Counter("graft_mixed_steps_total",
                                         "Steps that held both prefill chunks and decodes")),
      executor_seconds_(
          metrics.Counter("graft_executor_seconds_total", "Seconds inside the executor")),
      overhead_seconds_(metrics.Counter("graft_engine_overhead_seconds_total",
                                        "Seconds of the steps outside the executor: planning, "
                                        "committing, publishing")),
      gap_seconds_(metrics.Counter("graft_step_gap_seconds_total",
                                   "Seconds in which a GPU waits for the host: from the end of a "
                                   "step until it comes to the next one")),
      part_seconds_(PartCounters(metrics)),
      preemptions_total_(metrics.Counter("graft_preemptions_total",
                                         "Sequences sent back to the queue for want of pages")),
      prefix_lookup_total_(metrics.Counter("graft_prefix_lookup_tokens_total",
                                           "Tokens the prefix cache was asked for")),
      prefix_hit_total_(
          metrics.Counter("graft_prefix_hit_tokens_total", "Tokens the prefix cache had")),
      finished_total_(FinishCounters(metrics)),
      waiting_gauge_(metrics.Gauge("graft_requests_waiting", "Requests in the queue")),
      running_gauge_(metrics.Gauge("graft_requests_running", "Requests in the batch")),
      prompt_tokens_total_(
          metrics.Counter("graft_prompt_tokens_total", "Prompt tokens of accepted requests")),
      output_tokens_total_(metrics.Counter("graft_output_tokens_total", "Tokens generated")),
      step_sequences_gauge_(
          metrics.Gauge("graft_step_sequences", "Sequences in the batch of the last step")),
      step_adapters_gauge_(
          metrics.Gauge("graft_step_adapters", "Distinct adapters in the batch of the last step")),
      step_rows_gauge_(StepRowGauges(metrics)),
      batch_sequences_gauge_(
          metrics.Gauge("graft_batch_sequences_max", "Sequences of the largest batch so far")),
      batch_adapters_gauge_(
          metrics.Gauge("graft_batch_adapters_max", "Most distinct adapters in one batch so far")),
      pages_gauge_(PageGauges(metrics)),
      adapters_resident_gauge_(metrics.Gauge("graft_adapters_resident", "Adapters on the device")),
      adapter_bytes_gauge_(
          metrics.Gauge("graft_adapter_bytes", "Bytes of the adapters on the device")),
      adapter_waste_gauge_(metrics.Gauge("graft_adapter_page_waste_ratio",
                                         "Share of the adapters' pages that holds no row")),
      adapter_events_(AdapterEventCounters(metrics)),
      cold_starts_(ColdStartCounters(metrics)),
      steps_with_arrivals_total_(
          metrics.Counter("graft_steps_with_arrivals_total",
                          "Steps that waited, layer by layer, for an adapter on its way")),
      turns_total_(metrics.Counter("graft_adapter_turns_total",
                                   "Turns that ended for a request without room for its adapter")),
      steps_ahead_total_(metrics.Counter(
          "graft_steps_ahead_total", "Steps that were begun before the one before them had ended")),
      drafts_total_(metrics.Counter("graft_drafts_total",
                                    "Rows of drafts of one request in one step, as one")),
      draft_tokens_total_(metrics.Counter("graft_draft_tokens_total",
                                          "Tokens that were foreseen and computed with")),
      accepted_draft_tokens_total_(metrics.Counter("graft_accepted_draft_tokens_total",
                                                   "Of these, tokens that were drawn then")),
      step_seconds_(metrics.Histogram("graft_step_seconds", "Seconds per step", SecondsBounds())),
      first_token_seconds_(metrics.Histogram("graft_time_to_first_token_seconds",
                                             "Seconds from a request's arrival to its first token",
                                             SecondsBounds())),
      next_token_seconds_(metrics.Histogram(
          "graft_inter_token_seconds", "Seconds between tokens of a request", SecondsBounds())) {}

void RecordGoal(const SchedulerOptions& options, const ExecutorLimits& limits, Metrics& metrics) {
  const Metrics::Labels goal = {{"goal", GoalName(options.goal)}};
  metrics.Gauge("graft_step_rows_max", "Rows of a step at most", goal).Set(limits.step_tokens_max);
  metrics
      .Gauge("graft_step_bound_seconds",
             "Seconds that rows of prompts are to keep a step within; 0: no bound", goal)
      .Set(NsToSeconds(options.step_ns_max));
}

void EngineMetrics::RecordAccepted(const Sequence& sequence) {
  prompt_tokens_.Add(sequence.num_prompt_tokens);
  prompt_tokens_total_.Increment(sequence.num_prompt_tokens);
  sequence.counters->requests->Increment();
  sequence.counters->prompt_tokens->Increment(sequence.num_prompt_tokens);
}

void EngineMetrics::RecordToken(Sequence& sequence, int64_t now_ns) {
  output_tokens_.Add(1);
  output_tokens_total_.Increment();
  sequence.counters->output_tokens->Increment();
  if (sequence.num_output_tokens() == 1) {
    first_token_seconds_.Observe(NsToSeconds(now_ns - sequence.arrival_ns));
  } else if (sequence.last_token_ns >= 0) {  // else the one before it was drawn on another machine
    next_token_seconds_.Observe(NsToSeconds(now_ns - sequence.last_token_ns));
  }
  sequence.last_token_ns = now_ns;
}

void EngineMetrics::RecordFinished(const Sequence& sequence) {
  finished_total_[static_cast<size_t>(sequence.finish_reason)]->Increment();
}

void EngineMetrics::RecordStep(const StepPlan& plan, const StepTimes& times,
                               const StepHostTimes& host) {
  steps_.Add(1);
  steps_total_.Increment();
  executor_ns_.Add(host.executor_ns);
  executor_seconds_.Increment(NsToSeconds(host.executor_ns));
  overhead_ns_.Add(host.overhead_ns);
  overhead_seconds_.Increment(NsToSeconds(host.overhead_ns));
  gap_ns_.Add(host.gap_ns);
  gap_seconds_.Increment(NsToSeconds(host.gap_ns));
  step_seconds_.Observe(NsToSeconds(host.step_ns));
  const int64_t parts_ns[] = {times.gemm_ns, times.lora_ns, times.attention_ns, times.sampling_ns};
  for (size_t i = 0; i < part_seconds_.size(); ++i) {
    part_seconds_[i]->Increment(NsToSeconds(parts_ns[i]));
  }
  rows_.Add(static_cast<int64_t>(plan.tokens.size()));
  const PlanCounts counts = CountsOf(plan);
  const auto num_sequences = static_cast<int64_t>(plan.sequences.size());
  if (counts.single_rows > 0 && counts.single_rows < num_sequences) {
    mixed_steps_.Add(1);
    mixed_steps_total_.Increment();
  }
  if (counts.prompt_rows > 0) {
    prompt_steps_.Add(1);
    prompt_iteration_ns_.Add(host.iteration_ns);
  } else {
    decode_iteration_ns_.Add(host.iteration_ns);
  }
  RecordBatch(num_sequences, counts.adapters, counts.prompt_rows,
              static_cast<int64_t>(plan.tokens.size()) - counts.prompt_rows);
}

void EngineMetrics::RecordBatch(int64_t num_sequences, int64_t num_adapters, int64_t prompt_rows,
                                int64_t decode_rows) {
  step_sequences_.Set(num_sequences);
  step_adapters_.Set(num_adapters);
  step_prompt_rows_.Set(prompt_rows);
  step_decode_rows_.Set(decode_rows);
  step_sequences_gauge_.Set(static_cast<double>(num_sequences));
  step_adapters_gauge_.Set(static_cast<double>(num_adapters));
  step_rows_gauge_[0]->Set(static_cast<double>(prompt_rows));
  step_rows_gauge_[1]->Set(static_cast<double>(decode_rows));
  step_sequences_max_.Raise(num_sequences);
  step_adapters_max_.Raise(num_adapters);
  batch_sequences_gauge_.Set(static_cast<double>(step_sequences_max_.value()));
  batch_adapters_gauge_.Set(static_cast<double>(step_adapters_max_.value()));
}

void EngineMetrics::Advance(Number& number, prometheus::Counter& counter, int64_t total) {
  if (total == number.value()) return;
  counter.Increment(static_cast<double>(total - number.value()));
  number.Set(total);
}

void EngineMetrics::RecordState(const Scheduler& scheduler) {
  const SchedulerStats& stats = scheduler.stats();
  Advance(preemptions_, preemptions_total_, stats.preemptions);
  Advance(prefix_lookup_tokens_, prefix_lookup_total_, stats.prefix_lookup_tokens);
  Advance(prefix_hit_tokens_, prefix_hit_total_, stats.prefix_hit_tokens);
  requests_waiting_.Set(scheduler.num_waiting());
  requests_running_.Set(scheduler.num_running());
  waiting_gauge_.Set(scheduler.num_waiting());
  running_gauge_.Set(scheduler.num_running());
  const PagePool& pool = scheduler.pool();
  pages_free_.Set(pool.num_free());
  pages_cached_.Set(pool.num_cached());
  pages_referenced_.Set(pool.num_used(PageUse::kKv) - pool.num_cached());
  pages_adapters_.Set(pool.num_used(PageUse::kAdapters));
  pages_gauge_[0]->Set(pool.num_free());
  pages_gauge_[1]->Set(pool.num_cached());
  pages_gauge_[2]->Set(static_cast<double>(pages_referenced_.value()));
  pages_gauge_[3]->Set(pool.num_used(PageUse::kAdapters));
  RecordAdapters(scheduler.adapters());
  Advance(layerwise_starts_, *cold_starts_[0], stats.layerwise_starts);
  Advance(cpu_assist_starts_, *cold_starts_[1], stats.cpu_assist_starts);
  Advance(join_later_starts_, *cold_starts_[2], stats.join_later_starts);
  Advance(steps_with_arrivals_, steps_with_arrivals_total_, stats.steps_with_arrivals);
  Advance(turns_, turns_total_, stats.turns);
  Advance(steps_ahead_, steps_ahead_total_, stats.steps_ahead);
  Advance(drafts_, drafts_total_, stats.drafts);
  Advance(draft_tokens_, draft_tokens_total_, stats.draft_tokens);
  Advance(accepted_draft_tokens_, accepted_draft_tokens_total_, stats.accepted_draft_tokens);
}

void EngineMetrics::RecordAdapters(const Residency& adapters) {
  const AdapterStats& stats = adapters.stats();
  Advance(adapter_fetches_, *adapter_events_[0], stats.fetches);
  Advance(adapter_copies_, *adapter_events_[1], stats.copies);
  Advance(adapter_evictions_, *adapter_events_[2], stats.evictions);
  Advance(adapter_failures_, *adapter_events_[3], stats.failures);
  adapters_resident_.Set(adapters.num_resident());
  pages_adapters_idle_.Set(adapters.num_idle_pages());
  adapters_resident_gauge_.Set(adapters.num_resident());
  const auto used = static_cast<double>(adapters.packer().bytes_used());
  const auto held = static_cast<double>(adapters.packer().bytes_held());
  adapter_bytes_gauge_.Set(used);
  adapter_waste_gauge_.Set(held > 0.0 ? 1.0 - used / held : 0.0);
}

EngineSnapshot EngineMetrics::Snapshot() const {
  return {.steps = steps_.value(),
          .executor_ns = executor_ns_.value(),
          .overhead_ns = overhead_ns_.value(),
          .gap_ns = gap_ns_.value(),
          .steps_ahead = steps_ahead_.value(),
          .rows = rows_.value(),
          .prompt_tokens = prompt_tokens_.value(),
          .output_tokens = output_tokens_.value(),
          .preemptions = preemptions_.value(),
          .prefix_lookup_tokens = prefix_lookup_tokens_.value(),
          .prefix_hit_tokens = prefix_hit_tokens_.value(),
          .mixed_steps = mixed_steps_.value(),
          .prompt_steps = prompt_steps_.value(),
          .prompt_iteration_ns = prompt_iteration_ns_.value(),
          .decode_iteration_ns = decode_iteration_ns_.value(),
          .step_sequences = step_sequences_.value(),
          .step_adapters = step_adapters_.value(),
          .step_prompt_rows = step_prompt_rows_.value(),
          .step_decode_rows = step_decode_rows_.value(),
          .step_sequences_max = step_sequences_max_.value(),
          .step_adapters_max = step_adapters_max_.value(),
          .requests_waiting = requests_waiting_.value(),
          .requests_running = requests_running_.value(),
          .pages_free = pages_free_.value(),
          .pages_cached = pages_cached_.value(),
          .pages_referenced = pages_referenced_.value(),
          .pages_adapters = pages_adapters_.value(),
          .pages_adapters_idle = pages_adapters_idle_.value(),
          .adapters_resident = adapters_resident_.value(),
          .adapter_fetches = adapter_fetches_.value(),
          .adapter_copies = adapter_copies_.value(),
          .adapter_evictions = adapter_evictions_.value(),
          .adapter_failures = adapter_failures_.value(),
          .layerwise_starts = layerwise_starts_.value(),
          .cpu_assist_starts = cpu_assist_starts_.value(),
          .join_later_starts = join_later_starts_.value(),
          .steps_with_arrivals = steps_with_arrivals_.value(),
          .turns = turns_.value(),
          .drafts = drafts_.value(),
          .draft_tokens = draft_tokens_.value(),
          .accepted_draft_tokens = accepted_draft_tokens_.value()};
}

}  // namespace graft
