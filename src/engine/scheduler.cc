#include "engine/scheduler.h"

#include <algorithm>
#include <functional>
#include <string>
#include <utility>

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
          .num_logprobs = params.num_logprobs};
}

bool Contains(std::span<const int32_t> values, int32_t value) {
  return std::find(values.begin(), values.end(), value) != values.end();
}

SchedulerOptions Completed(SchedulerOptions options) {
  CHECK_GT(options.step_tokens_max, 0);
  CHECK_GT(options.sequences_max, 0);
  CHECK_GT(options.page_tokens, 0);
  CHECK_GE(options.prefill_chunk_max, 0);
  // With a row for everyone, decodes never crowd out an older sequence's prefill.
  options.sequences_max = std::min(options.sequences_max, options.step_tokens_max);
  if (options.prefill_chunk_max == 0) options.prefill_chunk_max = options.step_tokens_max;
  if (options.kv_pages_max == 0) options.kv_pages_max = options.num_pages;
  if (options.adapter_pages_max == 0) options.adapter_pages_max = options.num_pages;
  return options;
}

}  // namespace

Scheduler::Scheduler(const SchedulerOptions& options, AdapterTable& table, AdapterLoader& loader,
                     const Clock& clock)
    : options_(Completed(options)),
      pool_(options_.num_pages, {options_.kv_pages_max, options_.adapter_pages_max}),
      tree_(pool_, options_.page_tokens),
      adapters_(pool_, table, loader, clock, options_.adapters_max, options_.page_bytes,
                CopiesAtOnce(options_.cold_start)),
      make_room_([this] { return EvictOldest(PageUse::kAdapters); }),
      clock_(clock),
      loader_(loader),
      costs_{{}, AssistPace(options_.assist_rates)},
      merge_decision_(options_.merge_after_steps) {
  for (int32_t slot = 0; slot < options_.sequences_max; ++slot) free_slots_.push(slot);
}

Scheduler::~Scheduler() = default;

void Scheduler::Add(std::unique_ptr<Sequence> sequence) {
  CHECK(sequence->num_prompt_tokens > 0 && sequence->num_output_tokens() == 0);
  CHECK_LE(sequence->num_tokens() + std::max(0, sequence->output_tokens_max - 1), tokens_max())
      << "request " << sequence->id << " can never fit";
  sequence->order = next_order_++;
  waiting_.push_back(std::move(sequence));
}

std::unique_ptr<Sequence> Scheduler::Remove(RequestId id) {
  const auto has_id = [id](const auto& sequence) { return sequence->id == id; };
  const auto take = [&](auto& sequences) -> std::unique_ptr<Sequence> {
    const auto it = std::find_if(sequences.begin(), sequences.end(), has_id);
    if (it == sequences.end()) return nullptr;
    std::unique_ptr<Sequence> sequence = std::move(*it);
    sequences.erase(it);
    Release(*sequence);
    return sequence;
  };
  std::unique_ptr<Sequence> sequence = take(running_);
  return sequence != nullptr ? std::move(sequence) : take(waiting_);
}

std::unique_ptr<Sequence> Scheduler::RemoveOldest() {
  CHECK(!empty());
  if (running_.empty()) return Remove(waiting_.front()->id);
  const bool waits = !waiting_.empty() && waiting_.front()->order < running_.front()->order;
  return Remove(waits ? waiting_.front()->id : running_.front()->id);
}

Status Scheduler::PinAdapter(int32_t content) { return adapters_.Pin(content, make_room_); }

const StepPlan& Scheduler::Plan() {
  CHECK(finished_.empty()) << "TakeFinished comes between Commit and Plan";
  if (std::exchange(is_ahead_, false)) {
    std::swap(plan_, ahead_plan_);
    std::swap(planned_, ahead_planned_);
    pool_.Tick();
    admission_ = {};
    has_arrivals_ = false;
    return *plan_;
  }
  for (const auto& sequence : running_) sequence->num_planned = 0;
  preemptions_before_ = stats_.preemptions;
  pool_.Tick();
  UpdateAdapters();
  int32_t rows_left = options_.step_tokens_max;
  rows_left = PlanDecodes(rows_left);
  rows_left = PlanPrefills(rows_left);
  AdmitWaiting(rows_left);
  BuildPlan();
  (plan_->assists ? stats_.cpu_assist_starts : stats_.layerwise_starts) += admission_.num_early;
  return *plan_;
}

// A row for every sequence that lacks the KV of its last token only. Who finds no page makes room
// by preempting the newest, which may be itself, but not for an adapter on its way.
int32_t Scheduler::PlanDecodes(int32_t rows_left) {
  for (size_t i = 0; i < running_.size() && rows_left > 0; ++i) {
    Sequence& sequence = *running_[i];
    if (sequence.num_pending() != 1) continue;
    bool waits = false;
    while (!waits && i < running_.size() &&
           PagesFor(sequence.num_tokens()) > sequence.pages.size()) {
      if (TakePage(sequence)) continue;
      // An adapter on its way will be idle, or used by older ones: until then it is not worth
      // beginning anew, which would meet the next adapter on its way.
      waits = i + 1 == running_.size() && adapters_.is_copying();
      if (!waits) PreemptNewest();
    }
    if (i == running_.size()) break;  // it was the newest
    if (waits) continue;
    sequence.num_planned = 1;
    --rows_left;
  }
  return rows_left;
}

// Oldest first; an older sequence may take the pages of newer ones, the newest makes do with what
// there is.
int32_t Scheduler::PlanPrefills(int32_t rows_left) {
  for (size_t i = 0; i < running_.size() && rows_left > 0; ++i) {
    Sequence& sequence = *running_[i];
    if (sequence.num_pending() <= 1) continue;
    PlanChunk(sequence, rows_left);
    while (sequence.num_planned == 0 && i + 1 < running_.size()) {
      PreemptNewest();
      PlanChunk(sequence, rows_left);
    }
    rows_left -= sequence.num_planned;
  }
  return rows_left;
}

void Scheduler::Start(std::unique_ptr<Sequence> sequence, PageList matched) {
  sequence->sequence_slot = free_slots_.top();
  free_slots_.pop();
  if (sequence->adapter.content() >= 0) {
    CountColdStart(*sequence);
    sequence->adapter_slot = adapters_.Use(sequence->adapter.content());
  }
  sequence->num_indexed_pages = matched.size();
  sequence->num_computed = matched.size() * options_.page_tokens;
  sequence->pages = std::move(matched);
  if (sequence->cached_tokens < 0) sequence->cached_tokens = sequence->num_computed;
  if (CanReusePages(*sequence)) {
    stats_.prefix_lookup_tokens += sequence->num_tokens();
    stats_.prefix_hit_tokens += sequence->num_computed;
  }
  const auto after =
      std::upper_bound(running_.begin(), running_.end(), sequence->order,
                       [](uint64_t order, const auto& other) { return order < other->order; });
  running_.insert(after, std::move(sequence));
}

// As many rows as the step, the chunk limit and the pages to be had allow; may be none.
void Scheduler::PlanChunk(Sequence& sequence, int32_t rows_left) {
  const int32_t wanted = std::min({sequence.num_pending(), rows_left, options_.prefill_chunk_max});
  const int32_t pages_wanted = PagesFor(sequence.num_computed + wanted);
  while (sequence.pages.size() < pages_wanted && TakePage(sequence)) {
  }
  const int32_t room = sequence.pages.size() * options_.page_tokens - sequence.num_computed;
  sequence.num_planned = std::min(wanted, room);
}

// A free page, or one that eviction frees. False: all are in use.
bool Scheduler::TakePage(Sequence& sequence) {
  PageRef page = pool_.Allocate();
  while (!page && EvictOldest(PageUse::kKv)) page = pool_.Allocate();
  if (!page) return false;
  sequence.pages.Append(std::move(page));
  return true;
}

// One rule for both: of the cached prefixes and the idle adapters, what went unused longest; an
// adapter before a prefix of the same step. A use that its quota keeps from free pages can only
// take from itself.
bool Scheduler::EvictOldest(PageUse use) {
  const bool own_only = pool_.num_free() >= pool_.quota(use) - pool_.num_used(use);
  const int32_t page = own_only && use != PageUse::kKv ? -1 : pool_.OldestCached();
  const int32_t adapter = own_only && use != PageUse::kAdapters ? -1 : adapters_.OldestIdle();
  if (adapter >= 0 && (page < 0 || adapters_.IdleSince(adapter) <= pool_.CachedSince(page))) {
    adapters_.Evict(adapter);
    return true;
  }
  return page >= 0 && tree_.EvictOldest();
}

// Back to its place in the queue. Its tokens stay; what the prefix tree keeps of its pages until it
// runs again need not be computed again.
void Scheduler::Preempt(const Sequence& sequence) {
  const auto it = std::find_if(running_.begin(), running_.end(),
                               [&sequence](const auto& one) { return one.get() == &sequence; });
  CHECK(it != running_.end()) << "request " << sequence.id << " does not run";
  std::unique_ptr<Sequence> preempted = std::move(*it);
  running_.erase(it);
  Release(*preempted);
  const auto after =
      std::upper_bound(waiting_.begin(), waiting_.end(), preempted->order,
                       [](uint64_t order, const auto& other) { return order < other->order; });
  waiting_.insert(after, std::move(preempted));
  ++stats_.preemptions;
}

void Scheduler::BuildPlan() {
  plan_->Clear();
  ++plan_->step_id;
  planned_.clear();
  for (const auto& sequence : running_) {
    if (sequence->num_planned > 0) planned_.push_back(sequence.get());
  }
  // Who just failed, or was preempted, may have kept the next one's pages or slot for this step.
  CHECK(!planned_.empty() || empty() || adapters_.is_busy() || !failed_.empty() ||
        stats_.preemptions > preemptions_before_)
      << "nobody can run and no adapter is on its way, yet requests wait";
  if (planned_.empty()) return;  // nobody runs this plan: ended slots wait for the next
  // Base rows (-1) come first; within an adapter, the order of arrival.
  std::sort(planned_.begin(), planned_.end(), [](const Sequence* a, const Sequence* b) {
    return std::pair(a->adapter_slot, a->order) < std::pair(b->adapter_slot, b->order);
  });
  plan_->ended_slots.swap(ended_slots_);
  for (Sequence* sequence : planned_) AppendToPlan(*sequence);
  PlanArrivals();
  PlanMerge();
}

// The way is chosen for the step as a whole: a layer that waits for one adapter gains nothing from
// what the CPU computes for another.
void Scheduler::PlanArrivals() {
  has_arrivals_ = std::any_of(planned_.begin(), planned_.end(), [this](const Sequence* one) {
    return one->adapter.content() >= 0 && adapters_.is_arriving(one->adapter.content());
  });
  if (!has_arrivals_) return;
  ++stats_.steps_with_arrivals;
  plan_->assists = options_.cold_start == ColdStart::kCpuAssist;
  if (options_.cold_start != ColdStart::kAuto) return;
  arrival_stall_ = StallOfPlanned();
  plan_->assists = arrival_stall_.assists();
}

void Scheduler::PlanMerge() {
  if (options_.merge_after_steps == 0) return;
  const Sequence& first = *planned_.front();  // sorted: if the last one's is the same, all are
  const bool one_adapter =
      first.adapter_slot != kNoAdapter && planned_.back()->adapter_slot == first.adapter_slot;
  const int32_t content = first.adapter.content();
  const auto is_of_it = [content](const auto& other) {
    return other->adapter.content() == content;
  };
  const MergeDecision::Answer answer =
      merge_decision_.Decide(one_adapter ? adapters_.HashOf(content) : std::string(), [&] {
        // What is merged is read at once, all of it.
        return !has_arrivals_ && std::all_of(running_.begin(), running_.end(), is_of_it) &&
               std::all_of(waiting_.begin(), waiting_.end(), is_of_it);
      });
  if (!answer.merged) return;
  plan_->merged_slot = first.adapter_slot;
  plan_->merges = answer.merges;
  ++stats_.merged_steps;
  if (answer.merges) ++stats_.merges;
}

// With the pages that it reads and writes.
void Scheduler::Append(const Sequence& sequence, PlannedSequence planned, StepPlan* plan) const {
  planned.page_begin = static_cast<int32_t>(plan->pages.size());
  planned.num_pages = PagesFor(planned.position_begin + planned.num_tokens);
  for (int32_t i = 0; i < planned.num_pages; ++i) plan->pages.push_back(sequence.pages.page(i));
  plan->sequences.push_back(planned);
}

void Scheduler::AppendToPlan(Sequence& sequence) {
  const auto prompt =
      std::span(sequence.tokens).first(static_cast<size_t>(sequence.num_prompt_tokens));
  if (!std::exchange(sequence.started, true)) {
    const auto output = std::span(sequence.tokens).subspan(prompt.size());
    plan_->starts.push_back({.sequence_slot = sequence.sequence_slot,
                             .sampling = SpecOf(sequence.sampling),
                             .prompt_tokens = {prompt.begin(), prompt.end()},
                             .output_tokens = {output.begin(), output.end()}});
  }
  PlannedSequence planned = {
      .sequence_slot = sequence.sequence_slot,
      .adapter_slot = sequence.adapter_slot,
      .token_begin = static_cast<int32_t>(plan_->tokens.size()),
      .num_tokens = sequence.num_planned,
      .num_prompt_rows =
          std::clamp(sequence.num_prompt_tokens - sequence.num_computed, 0, sequence.num_planned),
      .position_begin = sequence.num_computed,
      .samples = sequence.num_planned == sequence.num_pending() && sequence.output_tokens_max > 0,
      .banned_begin = static_cast<int32_t>(plan_->banned_tokens.size()),
      .prompt_logprobs = sequence.wants_prompt_logprobs()};
  const auto rows = std::span(sequence.tokens)
                        .subspan(static_cast<size_t>(sequence.num_computed),
                                 static_cast<size_t>(sequence.num_planned));
  plan_->tokens.insert(plan_->tokens.end(), rows.begin(), rows.end());
  if (planned.samples && sequence.num_output_tokens() < sequence.sampling.tokens_min) {
    const auto ban = [&](const std::vector<int32_t>& tokens) {
      plan_->banned_tokens.insert(plan_->banned_tokens.end(), tokens.begin(), tokens.end());
    };
    if (!sequence.sampling.ignore_eos) ban(options_.eos_token_ids);
    ban(sequence.sampling.stop_token_ids);
    planned.num_banned = static_cast<int32_t>(plan_->banned_tokens.size()) - planned.banned_begin;
  }
  Append(sequence, planned, plan_);
}

void Scheduler::Commit(const StepPlan& plan, const StepResult& result) {
  CHECK_EQ(plan.sequences.size(), planned_.size());
  CHECK_EQ(result.sequences.size(), planned_.size());
  ObserveCosts(plan, result);
  for (Holdings& holdings : held_) GiveBack(holdings);  // until this step's end
  held_.clear();
  replaced_.Clear();
  for (size_t i = 0; i < planned_.size(); ++i) {
    if (planned_[i] == nullptr) continue;
    CommitOne(*planned_[i], plan.sequences[i], result.sequences[i]);
    if (is_ahead_) planned_[i]->num_planned = 1;
  }
  const auto ended = [](const auto& sequence) {
    return sequence->finish_reason != FinishReason::kNone;
  };
  for (auto& sequence : running_) {
    if (!ended(sequence)) continue;
    Release(*sequence);
    finished_.push_back(std::move(sequence));
  }
  std::erase(running_, nullptr);
}

void Scheduler::ObserveCosts(const StepPlan& plan, const StepResult& result) {
  const auto num_rows = static_cast<int64_t>(plan.tokens.size());
  if (plan.merges) return;  // what a merge takes is no step's
  if (!has_arrivals_) {
    costs_.steps.Observe(num_rows, result.times.total_ns);
  } else if (!plan.assists) {
    costs_.assist.Forget();
  } else if (costs_.steps.is_known()) {
    costs_.assist.Observe(arrival_stall_.work, result.num_assisted_layers,
                          static_cast<double>(result.times.total_ns) - costs_.steps.At(num_rows));
  }
}

std::vector<std::unique_ptr<Sequence>> Scheduler::TakeFinished() {
  return std::exchange(finished_, {});
}

void Scheduler::CommitOne(Sequence& sequence, const PlannedSequence& planned,
                          const SequenceResult& result) {
  sequence.num_planned = 0;
  if (result.not_finite) {
    // What it left in its pages is not to be shared: they are not indexed.
    sequence.finish_reason = FinishReason::kError;
    sequence.status = InternalError(
        "the model's output for this request is not finite (NaN or Inf); its adapter's weights or "
        "the prompt drive the model out of range");
    return;
  }
  sequence.num_computed += planned.num_tokens;
  IndexFullPages(sequence);
  if (planned.samples) {
    CHECK_GE(result.token, 0) << "no token for request " << sequence.id;
    sequence.tokens.push_back(result.token);
    if (IsStop(sequence, result.token)) {
      sequence.finish_reason = FinishReason::kStop;
      return;
    }
  }
  const bool all_computed = sequence.num_pending() == 0 || planned.samples;
  if (all_computed && sequence.num_output_tokens() >= sequence.output_tokens_max) {
    sequence.finish_reason = FinishReason::kLength;
  }
}

// A page is shared as soon as it is full, so that requests that come in a burst with one prompt
// and are not admitted together find it.
void Scheduler::IndexFullPages(Sequence& sequence) {
  if (!options_.prefix_cache) return;
  const auto page_tokens = static_cast<size_t>(options_.page_tokens);
  for (; sequence.num_indexed_pages < sequence.num_computed / options_.page_tokens;
       ++sequence.num_indexed_pages) {
    const auto begin = static_cast<size_t>(sequence.num_indexed_pages) * page_tokens;
    const int32_t own = sequence.pages.page(sequence.num_indexed_pages);
    PageRef kept = is_ahead_ ? pool_.Share(own) : PageRef();
    tree_.Insert(sequence.prefix_key, sequence.pages, sequence.num_indexed_pages,
                 std::span(sequence.tokens).subspan(begin, page_tokens));
    const bool is_replaced = sequence.pages.page(sequence.num_indexed_pages) != own;
    if (is_ahead_ && is_replaced) replaced_.Append(std::move(kept));
  }
}

bool Scheduler::IsStop(const Sequence& sequence, int32_t token) const {
  if (!sequence.sampling.ignore_eos && Contains(options_.eos_token_ids, token)) return true;
  return Contains(sequence.sampling.stop_token_ids, token);
}

// The sequence holds nothing afterwards and could start anew.
void Scheduler::Release(Sequence& sequence) {
  sequence.num_computed = 0;
  sequence.num_indexed_pages = 0;
  sequence.num_planned = 0;
  if (sequence.sequence_slot < 0) return;
  Holdings holdings = {.pages = std::move(sequence.pages),
                       .content = sequence.adapter.content(),
                       .sequence_slot = std::exchange(sequence.sequence_slot, -1),
                       .started = std::exchange(sequence.started, false)};
  sequence.adapter_slot = kNoAdapter;
  const auto row = std::find(ahead_planned_.begin(), ahead_planned_.end(), &sequence);
  if (!is_ahead_ || row == ahead_planned_.end()) return GiveBack(holdings);
  *row = nullptr;
  holdings.adapter = std::move(sequence.adapter);  // ended: it needs none any more
  held_.push_back(std::move(holdings));
}

void Scheduler::GiveBack(Holdings& holdings) {
  holdings.pages.Clear();
  if (holdings.content >= 0) adapters_.Unuse(holdings.content);
  free_slots_.push(holdings.sequence_slot);
  if (holdings.started) ended_slots_.push_back(holdings.sequence_slot);
}

}  // namespace graft
