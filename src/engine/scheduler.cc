#include "engine/scheduler.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <string>
#include <utility>

#include "request/generator.h"

namespace graft {
namespace {

SamplingSpec SpecOf(const SamplingParams& params) {
  return {.temperature = params.temperature,
          .top_p = params.top_p,
          .top_k = params.top_k,
          .min_p = params.min_p,
          .seed = params.seed,
          .repetition_penalty = params.repetition_penalty,
          .frequency_penalty = params.frequency_penalty,
          .presence_penalty = params.presence_penalty,
          .logit_bias = params.logit_bias,
          .allowed_tokens = params.allowed_token_ids,
          .num_logprobs = params.num_logprobs};
}

bool Contains(std::span<const int32_t> values, int32_t value) {
  return std::find(values.begin(), values.end(), value) != values.end();
}

// Adds what the sequence must not draw next: what would end it too early, and what would complete
// a run of tokens that is not to come.
void AppendBanned(const Sequence& sequence, const std::vector<int32_t>& eos_token_ids,
                  std::vector<int32_t>* banned) {
  const SamplingParams& sampling = sequence.sampling;
  if (sequence.num_output_tokens() < sampling.tokens_min) {
    if (!sampling.ignore_eos) {
      banned->insert(banned->end(), eos_token_ids.begin(), eos_token_ids.end());
    }
    banned->insert(banned->end(), sampling.stop_token_ids.begin(), sampling.stop_token_ids.end());
  }
  const std::span<const int32_t> output = sequence.output();
  for (const std::vector<int32_t>& word : sampling.bad_words) {
    const size_t before = word.size() - 1;
    if (before > output.size()) continue;
    const auto last = output.last(before);
    if (std::equal(last.begin(), last.end(), word.begin())) banned->push_back(word.back());
  }
}

}  // namespace

Scheduler::Scheduler(const SchedulerOptions& options, const Executor& executor, ContentTable& table,
                     AdapterLoader& loader, const Clock& clock, Residency::OnForget on_forget)
    : sequences_(options, executor.limits(), table, loader, clock, std::move(on_forget)),
      options_(sequences_.options()),
      costs_{{}, BridgePace(executor.bridge_rates())},
      prompt_rows_(sequences_),
      walk_(sequences_, costs_, clock),
      drafts_(sequences_),
      ahead_(sequences_, walk_, drafts_) {}

const StepPlan& Scheduler::Plan() {
  CHECK(!sequences_.has_finished()) << "TakeFinished comes between Commit and Plan";
  sequences_.Tick();
  if (is_ahead()) {
    TakeOverAhead();
    return *plan_;
  }
  for (const auto& sequence : sequences_.running()) {
    sequence->num_planned = 0;
    sequence->drafts.clear();
  }
  preemptions_before_ = sequences_.stats().preemptions;
  sequences_.UpdateAdapters();
  int32_t rows_left = limits().step_tokens_max;
  rows_left = PlanDecodes(rows_left);
  const int32_t num_decodes = limits().step_tokens_max - rows_left;
  walk_.PlanPrompts(prompt_rows_.Max(rows_left, num_decodes), num_decodes);
  LeaveAlone();
  if (!walk_.stops_for_load()) drafts_.Plan(limits().step_tokens_max);
  BuildPlan();
  SchedulerStats& stats = sequences_.stats();
  (plan_->bridges ? stats.cpu_assist_starts : stats.layerwise_starts) += walk_.num_early();
  return *plan_;
}

// A sequence that was left out meanwhile has no token for the row that was begun for it.
void Scheduler::TakeOverAhead() {
  ahead_.TakeOver(&plan_, &planned_);
  walk_.Skip();
  has_arrivals_ = false;
  num_awaiting_masks_ = 0;
  for (size_t i = 0; i < planned_.size(); ++i) {
    Sequence* const sequence = planned_[i];
    if (sequence == nullptr) continue;
    if (sequence->num_tokens() > plan_->sequences[i].position_begin) continue;
    sequence->num_planned = 0;
    planned_[i] = nullptr;
  }
}

// A row for every sequence that lacks the KV of its last token only, unless its mask is not to be
// had yet. A sequence that finds no page makes room by preempting another one (VictimFor), or
// itself, but not for an adapter on its way.
int32_t Scheduler::PlanDecodes(int32_t rows_left) {
  decoding_.clear();
  num_awaiting_masks_ = 0;
  for (const auto& sequence : sequences_.running()) {
    if (sequence->num_pending() != 1) continue;
    if (sequence->bounds != nullptr && sequence->bounds->is_waiting()) {
      ++num_awaiting_masks_;
    } else {
      decoding_.push_back(sequence.get());
    }
  }
  for (Sequence* const sequence : decoding_) {
    if (rows_left == 0) break;
    bool can_run = sequence->sequence_slot >= 0;  // it was no victim
    while (can_run && sequences_.PagesFor(sequence->num_tokens()) > sequence->pages.size()) {
      if (sequences_.TakePage(*sequence)) continue;
      const Sequence& victim = sequences_.VictimFor(*sequence);
      can_run = &victim != sequence;
      // An adapter on its way will be idle, or used by older ones: until then it is not worth
      // beginning anew, which would meet the next adapter on its way.
      if (can_run || !adapters().is_copying()) sequences_.Preempt(victim);
    }
    if (!can_run) continue;
    sequence->num_planned = 1;
    --rows_left;
  }
  return rows_left;
}

// A request that may have killed engines elsewhere shares its steps with no other; the others run
// in the next ones.
void Scheduler::LeaveAlone() {
  const Sequences::List& running = sequences_.running();
  const auto alone = std::find_if(running.begin(), running.end(), [](const auto& one) {
    return one->runs_alone && one->num_planned > 0;
  });
  if (alone == running.end()) return;
  for (const auto& one : running) {
    if (one != *alone) one->num_planned = 0;
  }
}

void Scheduler::BuildPlan() {
  plan_->Clear();
  ++plan_->step_id;
  planned_.clear();
  if (!walk_.stops_for_load()) {
    for (const auto& sequence : sequences_.running()) {
      if (sequence->num_planned > 0) planned_.push_back(sequence.get());
    }
  }
  // A sequence that just failed or was preempted may have held the next one's pages or slot so far.
  CHECK(!planned_.empty() || empty() || adapters().is_busy() || sequences_.has_failed() ||
        awaits_masks() || stats().preemptions > preemptions_before_)
      << "nobody can run and no adapter is on its way, yet requests wait";
  if (planned_.empty()) return;
  // Base rows (-1) come first; within an adapter, the order of arrival.
  std::sort(planned_.begin(), planned_.end(), [](const Sequence* a, const Sequence* b) {
    return std::pair(a->adapter_slot, a->order) < std::pair(b->adapter_slot, b->order);
  });
  for (Sequence* sequence : planned_) AppendToPlan(*sequence);
  PlanArrivals();
}

// The way is chosen for the step as a whole: a layer that waits for one adapter gains nothing from
// what the CPU computes for another.
void Scheduler::PlanArrivals() {
  has_arrivals_ = std::any_of(planned_.begin(), planned_.end(), [this](const Sequence* one) {
    return one->adapter.content() >= 0 && adapters().is_arriving(one->adapter.content());
  });
  if (!has_arrivals_) return;
  ++sequences_.stats().steps_with_arrivals;
  plan_->bridges = options_.cold_start == ColdStart::kCpuAssist;
  if (options_.cold_start != ColdStart::kAuto) return;
  arrival_stall_ = walk_.StallOfPlanned();
  plan_->bridges = arrival_stall_.bridges();
}

void Scheduler::AppendToPlan(Sequence& sequence) {
  const int32_t position_begin = sequence.next_position();
  const auto prompt =
      std::span(sequence.tokens).first(static_cast<size_t>(sequence.num_prompt_tokens));
  if (!std::exchange(sequence.started, true)) {
    const std::span<const int32_t> output = sequence.output();
    const auto asked = prompt.subspan(static_cast<size_t>(sequence.num_virtual_tokens));
    plan_->starts.push_back({.sequence_slot = sequence.sequence_slot,
                             .sampling = SpecOf(sequence.sampling),
                             .prompt_tokens = {asked.begin(), asked.end()},
                             .output_tokens = {output.begin(), output.end()},
                             .num_virtual_tokens = sequence.num_virtual_tokens});
  }
  const auto num_drafts = static_cast<int32_t>(sequence.drafts.size());
  PlannedSequence planned = {
      .sequence_slot = sequence.sequence_slot,
      .adapter_slot = sequence.adapter_slot,
      .token_begin = static_cast<int32_t>(plan_->tokens.size()),
      .num_tokens = sequence.num_planned + num_drafts,
      .num_drafts = num_drafts,
      .num_prompt_rows =
          std::clamp(sequence.num_prompt_tokens - position_begin, 0, sequence.num_planned),
      .num_base_rows = sequence.NumBaseRows(position_begin, sequence.num_planned + num_drafts),
      .position_begin = position_begin,
      .num_virtual_rows =
          std::clamp(sequence.num_virtual_tokens - position_begin, 0, sequence.num_planned),
      .num_virtual_kv = position_begin - sequence.num_computed,
      .samples = sequence.num_planned == sequence.num_pending() && sequence.output_tokens_max > 0,
      .banned_begin = static_cast<int32_t>(plan_->banned_tokens.size()),
      .prompt_logprobs = sequence.wants_prompt_logprobs(),
      .pooling = sequence.pooling};
  const auto rows =
      std::span(sequence.tokens)
          .subspan(static_cast<size_t>(position_begin), static_cast<size_t>(sequence.num_planned));
  plan_->tokens.insert(plan_->tokens.end(), rows.begin(), rows.end());
  plan_->tokens.insert(plan_->tokens.end(), sequence.drafts.begin(), sequence.drafts.end());
  plan_->num_drafts += num_drafts;
  if (planned.samples) {
    AppendBanned(sequence, options_.eos_token_ids, &plan_->banned_tokens);
    planned.num_banned = static_cast<int32_t>(plan_->banned_tokens.size()) - planned.banned_begin;
    planned.has_mask = sequence.bounds != nullptr;
  }
  sequences_.AppendRows(sequence, planned, plan_);
}

bool Scheduler::FillMask(const StepPlan& plan, size_t idx, std::span<uint32_t> words) {
  CHECK(&plan == plan_) << "another plan's masks";
  const Sequence* const sequence = planned_[idx];
  return sequence != nullptr &&
         sequence->bounds->FillMask(sequence->output(), words, &masks_left_ns_);
}

void Scheduler::Commit(const StepPlan& plan, const StepResult& result) {
  CHECK_EQ(plan.sequences.size(), planned_.size());
  CHECK_EQ(result.sequences.size(), planned_.size());
  masks_left_ns_ = AnswerBounds::kAllNsMax;
  if (result.status.ok()) ObserveCosts(plan, result);
  sequences_.GiveBackHeld();  // until this step's end
  for (size_t i = 0; i < planned_.size(); ++i) {
    if (planned_[i] == nullptr) continue;
    if (result.status.ok()) {
      CommitOne(*planned_[i], plan.sequences[i], result.sequences[i]);
    } else {
      Fail(*planned_[i], result.status);
    }
    if (planned_[i]->finish_reason != FinishReason::kNone) prompt_rows_.LearnAnswer(*planned_[i]);
    if (is_ahead()) planned_[i]->num_planned = 1;
  }
  sequences_.EndFinished();
}

void Scheduler::ObserveCosts(const StepPlan& plan, const StepResult& result) {
  const auto num_rows = static_cast<int64_t>(plan.tokens.size());
  if (!has_arrivals_) {
    costs_.steps.Observe(num_rows, result.times.total_ns);
    prompt_rows_.Learn(plan, result.times.total_ns);
    drafts_.Observe(plan, result.times.total_ns + result.times.gap_ns);
  } else if (!plan.bridges) {
    costs_.bridge.Forget();
  } else if (costs_.steps.is_known()) {
    costs_.bridge.Observe(arrival_stall_.work, result.num_bridged_layers,
                          static_cast<double>(result.times.total_ns) - costs_.steps.At(num_rows));
  }
}

// What it left in its pages is not to be shared: they are not indexed.
void Scheduler::Fail(Sequence& sequence, Status status) {
  sequence.num_planned = sequence.num_new_tokens = 0;
  sequence.finish_reason = FinishReason::kError;
  sequence.status = std::move(status);
}

// All but its last row is done; that comes again once its mask is there.
void Scheduler::CommitLeftOut(Sequence& sequence, const PlannedSequence& planned) {
  sequence.num_computed = planned.position_begin + planned.num_tokens - 1;
  CountServed(sequence, planned.position_begin);
  sequences_.IndexFullPages(sequence);
  sequence.bounds->WorkAhead(sequence.output());
}

void Scheduler::CommitOne(Sequence& sequence, const PlannedSequence& planned,
                          const SequenceResult& result) {
  sequence.num_planned = sequence.num_new_tokens = 0;
  if (result.left_out) return CommitLeftOut(sequence, planned);
  if (result.not_finite && planned.has_mask && sequence.bounds->is_stuck()) {
    return Fail(sequence, sequence.bounds->StuckStatus());
  }
  std::vector<int32_t> banned;
  if (result.not_finite) AppendBanned(sequence, options_.eos_token_ids, &banned);
  if (result.not_finite && planned.samples &&
      AllowsNone(sequence.sampling, std::move(banned), std::numeric_limits<int32_t>::max())) {
    return Fail(sequence, InvalidArgumentError("allowed_token_ids leaves no token to draw behind " +
                                               std::to_string(sequence.num_output_tokens()) +
                                               ": 'bad_words' forbids all of them there"));
  }
  if (result.not_finite) {
    return Fail(sequence, InternalError("the model's output for this request is not finite (NaN or "
                                        "Inf); its adapter's weights or the prompt drive the model "
                                        "out of range"));
  }
  sequence.num_computed = planned.position_begin + planned.num_tokens - planned.num_drafts;
  if (planned.samples) AddToken(sequence, result.token);
  // The row of a draft that was right is the row of a drawn token.
  for (const DrawnToken& drawn : result.further) {
    if (sequence.finish_reason != FinishReason::kNone) break;
    ++sequence.num_computed;
    AddToken(sequence, drawn.token);
  }
  CountServed(sequence, planned.position_begin);
  drafts_.Count(planned, result);
  if (planned.num_drafts > 0) sequences_.TrimPages(sequence);
  sequences_.IndexFullPages(sequence);
  const bool all_computed = sequence.num_pending() == 0 || planned.samples;
  if (sequence.finish_reason == FinishReason::kNone && all_computed &&
      sequence.num_output_tokens() >= sequence.output_tokens_max) {
    sequence.finish_reason = FinishReason::kLength;
  }
  if (sequence.bounds != nullptr && sequence.finish_reason == FinishReason::kNone) {
    sequence.bounds->WorkAhead(sequence.output());
  }
}

void Scheduler::AddToken(Sequence& sequence, int32_t token) const {
  CHECK_GE(token, 0) << "no token for request " << ToString(sequence.id);
  sequence.tokens.push_back(token);
  ++sequence.num_new_tokens;
  sequence.runs_alone = false;
  sequence.has_drawn = true;
  if (IsStop(sequence, token)) sequence.finish_reason = FinishReason::kStop;
}

// A token each that was computed or drawn, and for what masks took of a core. What a preemption
// made to be computed again is counted once, and drafts that were wrong are not.
void Scheduler::CountServed(Sequence& sequence, int32_t computed_before) {
  const int32_t before = std::max(sequence.num_served, computed_before);
  const int32_t num_computed = std::max(0, sequence.num_computed - before);
  const int32_t for_masks = sequence.bounds == nullptr ? 0 : sequence.bounds->TakeServed();
  sequences_.line().Charge(sequence, num_computed + sequence.num_new_tokens + for_masks);
  sequence.num_served = std::max(sequence.num_served, sequence.num_computed);
}

bool Scheduler::IsStop(const Sequence& sequence, int32_t token) const {
  const bool minds_eos = !sequence.sampling.ignore_eos ||
                         (sequence.bounds != nullptr && sequence.bounds->has_grammar());
  if (minds_eos && Contains(options_.eos_token_ids, token)) return true;
  return Contains(sequence.sampling.stop_token_ids, token);
}

}  // namespace graft
