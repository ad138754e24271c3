#include "engine/sequences.h"

#include <algorithm>
#include <limits>
#include <unordered_map>
#include <unordered_set>
#include <utility>

namespace graft {
namespace {

SchedulerOptions CompletedOptions(SchedulerOptions options, const ExecutorLimits& limits) {
  CHECK_GE(options.prefill_chunk_max, 0);
  CHECK_GT(options.waiting_looked_at, 0);
  if (options.prefill_chunk_max == 0) options.prefill_chunk_max = limits.step_tokens_max;
  return options;
}

// The pool may have room for less than the model's context. The smaller of the two is the limit, so
// that every accepted request fits alone, apart from the room of its adapter.
ExecutorLimits CompletedLimits(ExecutorLimits limits) {
  CHECK_GT(limits.step_tokens_max, 0);
  CHECK_GT(limits.sequences_max, 0);
  CHECK_GT(limits.page_tokens, 0);
  // With a row for each, decodes never crowd out an older sequence's prefill.
  limits.sequences_max = std::min(limits.sequences_max, limits.step_tokens_max);
  limits.context_tokens_max = static_cast<int32_t>(
      std::min<int64_t>(limits.context_tokens_max, int64_t{limits.num_pages} * limits.page_tokens));
  if (limits.draws_max == 0) limits.draft_tokens_max = 0;
  return limits;
}

// Where one of this order belongs.
template <typename List>
auto PlaceOf(List& sequences, const ArrivalOrder& order) {
  return std::upper_bound(
      sequences.begin(), sequences.end(), order,
      [](const ArrivalOrder& before, const auto& other) { return before < other->order; });
}

}  // namespace

Sequences::Sequences(const SchedulerOptions& options, const ExecutorLimits& limits,
                     ContentTable& table, AdapterLoader& loader, const Clock& clock,
                     Residency::OnForget on_forget)
    : options_(CompletedOptions(options, limits)),
      limits_(CompletedLimits(limits)),
      shares_(clock, limits_.page_bytes, options_.share_kept_ns),
      pool_(limits_.num_pages, {limits_.num_pages, limits_.num_pages}, &shares_),
      tree_(pool_, limits_.page_tokens, options_.prefix_hash_key),
      adapters_(pool_, shares_, table, loader, clock, options_, limits_, std::move(on_forget)),
      make_room_([this] { return EvictFor(PageUse::kAdapters); }) {
  for (int32_t slot = 0; slot < limits_.sequences_max; ++slot) free_slots_.push(slot);
}

void Sequences::SplitPool(int32_t adapter_pages) {
  pool_.SetQuotas({.kv_max = limits_.num_pages - adapter_pages, .adapters_max = adapter_pages});
  limits_.context_tokens_max =
      static_cast<int32_t>(std::min<int64_t>(limits_.context_tokens_max, tokens_max()));
}

void Sequences::Add(std::unique_ptr<Sequence> sequence) {
  CHECK(sequence->num_prompt_tokens > 0 && sequence->num_output_tokens() >= 0);
  CHECK_LE(sequence->num_prompt_tokens + std::max(0, sequence->output_tokens_max - 1), tokens_max())
      << "request " << ToString(sequence->id) << " can never fit";
  sequence->order = {sequence->arrival_ns, next_number_++};
  sequence->holder = shares_.Enter(sequence->tenant, sequence->tenant_weight);
  line_.Add(std::move(sequence));
}

// It is gone for good.
void Sequences::Leave(Sequence& sequence) {
  line_.Leave(sequence);
  shares_.Leave(std::exchange(sequence.holder, kNobody));
}

// Each is looked at once, however many are taken out.
Sequences::List Sequences::Remove(std::span<const RequestId> ids) {
  List removed;
  if (ids.empty()) return removed;
  const std::unordered_set<RequestId> wanted(ids.begin(), ids.end());
  stats_.removal_visits += static_cast<int64_t>(running_.size() + line_.size());
  for (auto& sequence : running_) {
    if (!wanted.contains(sequence->id)) continue;
    Release(*sequence);
    removed.push_back(std::move(sequence));
  }
  std::erase(running_, nullptr);
  for (auto& sequence :
       line_.TakeIf([&wanted](const Sequence& one) { return wanted.contains(one.id); })) {
    removed.push_back(std::move(sequence));
  }
  for (const auto& sequence : removed) Leave(*sequence);
  return removed;
}

Sequences::List Sequences::RemoveAll() {
  List removed;
  stats_.removal_visits += static_cast<int64_t>(running_.size() + line_.size());
  for (const auto& sequence : running_) Release(*sequence);
  List waiting = line_.TakeIf([](const Sequence&) { return true; });
  std::merge(std::move_iterator(running_.begin()), std::move_iterator(running_.end()),
             std::move_iterator(waiting.begin()), std::move_iterator(waiting.end()),
             std::back_inserter(removed),
             [](const auto& a, const auto& b) { return a->order < b->order; });
  running_.clear();
  for (const auto& sequence : removed) Leave(*sequence);
  return removed;
}

void Sequences::UpdateAdapters() {
  for (const auto& [content, status] : adapters_.Update()) FailWaitingFor(content, status);
}

// Sequences that run on a content have it; those that wait for it wait in vain.
void Sequences::FailWaitingFor(int32_t content, const Status& status) {
  for (auto& sequence :
       line_.TakeIf([content](const Sequence& one) { return one.adapter.content() == content; })) {
    Fail(std::move(sequence), status);
  }
}

void Sequences::FailWaiting(const Sequence& sequence, const Status& status) {
  Fail(line_.Take(sequence), status);
}

bool Sequences::FailNewestWaiting(const std::string& tenant, const Status& status) {
  Sequence* const newest = line_.NewestOf(tenant);
  if (newest == nullptr) return false;
  newest->is_displaced = true;
  FailWaiting(*newest, status);
  return true;
}

void Sequences::Fail(std::unique_ptr<Sequence> sequence, const Status& status) {
  Leave(*sequence);
  sequence->finish_reason = FinishReason::kError;
  sequence->status = status;
  failed_.push_back(std::move(sequence));
}

// They count against the context, as the prompt does.
Status Sequences::AddVirtualTokens(Sequence& sequence) const {
  const AdapterFacts& facts = adapters_.FactsOf(sequence.adapter.content());
  const int32_t num_tokens = facts.num_virtual_tokens;
  if (num_tokens == sequence.num_virtual_tokens) return OkStatus();
  const int32_t room = limits_.context_tokens_max - num_tokens - sequence.num_prompt_tokens;
  if (room < (sequence.output_tokens_max > 0 ? 1 : 0)) {
    return InvalidArgumentError(
        "the adapter puts " + std::to_string(num_tokens) +
        " tokens in front of the prompt, which has " + std::to_string(sequence.num_prompt_tokens) +
        "; the context holds " + std::to_string(limits_.context_tokens_max) +
        ", those, prompt and output together: shorten the prompt");
  }
  std::vector<int32_t> tokens(static_cast<size_t>(num_tokens));
  for (int32_t i = 0; i < num_tokens; ++i) tokens[static_cast<size_t>(i)] = VirtualTokenId(i);
  sequence.tokens.insert(sequence.tokens.begin(), tokens.begin(), tokens.end());
  sequence.num_prompt_tokens += num_tokens;
  sequence.output_tokens_max = std::min(sequence.output_tokens_max, room);
  sequence.num_virtual_tokens = num_tokens;
  sequence.has_virtual_kv = facts.has_virtual_kv;
  return OkStatus();
}

// As PEFT has it for a text that is generated: where the tokens that invoke it stand last in the
// prompt, the first of them included; without them it never acts.
Status Sequences::LearnAdapter(Sequence& sequence) const {
  if (std::exchange(sequence.knows_adapter, true)) return OkStatus();
  const AdapterFacts& facts = adapters_.FactsOf(sequence.adapter.content());
  PrefixKey& key = sequence.prefix_key;
  key.adapter_hash = facts.hash;
  if (facts.num_virtual_tokens > 0 && sequence.activation_position > 0) {
    return InvalidArgumentError(
        "activation_position: the adapter puts tokens in front of the prompt, and acts nowhere "
        "else");
  }
  RETURN_IF_ERROR(AddVirtualTokens(sequence));
  key.active_from = sequence.activation_position;
  const std::vector<int32_t>& invocation = facts.invocation_tokens;
  if (invocation.empty() || key.active_from > 0) return OkStatus();
  const auto begin = sequence.tokens.begin();
  const auto end = begin + sequence.num_prompt_tokens;
  const auto found = std::find_end(begin, end, invocation.begin(), invocation.end());
  key.active_from =
      found == end ? std::numeric_limits<int32_t>::max() : static_cast<int32_t>(found - begin);
  return OkStatus();
}

void Sequences::Start(const Sequence& of_line, PageList matched) {
  std::unique_ptr<Sequence> sequence = line_.Take(of_line);
  line_.CountRunning(*sequence, 1);
  sequence->sequence_slot = free_slots_.top();
  free_slots_.pop();
  if (sequence->adapter.content() >= 0) {
    sequence->adapter_slot = adapters_.Use(sequence->adapter.content(), sequence->holder);
  }
  sequence->prefix_match = {};  // its tokens become more
  if (!evicted_.empty()) std::erase(evicted_, sequence->id);
  sequence->num_indexed_pages = matched.size();
  sequence->num_computed = matched.size() * limits_.page_tokens;
  sequence->pages = std::move(matched);
  if (sequence->cached_tokens < 0) {
    sequence->cached_tokens = std::max(0, sequence->num_computed - sequence->num_virtual_tokens);
  }
  if (CanReusePages(*sequence)) {
    stats_.prefix_lookup_tokens += sequence->num_tokens();
    stats_.prefix_hit_tokens += sequence->num_computed;
  }
  running_.insert(PlaceOf(running_, sequence->order), std::move(sequence));
}

void Sequences::PlanChunk(Sequence& sequence, int32_t rows_left) {
  // Rows of the prompt and drawn rows may be computed in different ways: a chunk has one kind.
  const int32_t next = sequence.next_position();
  const int32_t prompt_left = sequence.num_prompt_tokens - next;
  const int32_t of_a_kind = prompt_left > 0 ? prompt_left : sequence.num_pending();
  const int32_t wanted = std::min({of_a_kind, rows_left, options_.prefill_chunk_max});
  const int32_t pages_wanted = PagesFor(next + wanted);
  while (sequence.pages.size() < pages_wanted && TakePage(sequence)) {
  }
  const int32_t room = sequence.pages.size() * limits_.page_tokens - next;
  sequence.num_planned = std::max(0, std::min(wanted, room));
}

bool Sequences::TakePage(Sequence& sequence) {
  PageRef page = pool_.Allocate(PageUse::kKv, sequence.holder);
  while (!page && EvictFor(PageUse::kKv)) page = pool_.Allocate(PageUse::kKv, sequence.holder);
  if (!page) return false;
  sequence.pages.Append(std::move(page));
  return true;
}

// One rule for both uses: the tenant that holds most for its weight gives, of its cached prefixes
// and idle adapters, what went unused longest; an adapter before a prefix of the same step. A use
// that is kept from free pages by its quota can only take from itself.
bool Sequences::EvictFor(PageUse use) {
  const bool own_only = pool_.num_free() >= pool_.quota(use) - pool_.num_used(use);
  const bool of_prefixes = !own_only || use == PageUse::kKv;
  const bool of_adapters = !own_only || use == PageUse::kAdapters;
  const int32_t giver = shares_.GiverOfPages(of_prefixes, of_adapters);
  const int32_t page = of_prefixes ? pool_.OldestCached(giver) : -1;
  const int32_t adapter = of_adapters ? adapters_.OldestIdle(giver) : -1;
  if (adapter >= 0 && (page < 0 || adapters_.IdleSince(adapter) <= pool_.CachedSince(page))) {
    adapters_.Evict(adapter);
    return true;
  }
  return page >= 0 && tree_.EvictOldest(giver);
}

// What the prefix tree keeps of its pages until it runs again need not be computed again.
void Sequences::Preempt(const Sequence& sequence) {
  const auto it = std::find_if(running_.begin(), running_.end(),
                               [&sequence](const auto& one) { return one.get() == &sequence; });
  CHECK(it != running_.end()) << "request " << ToString(sequence.id) << " does not run";
  std::unique_ptr<Sequence> preempted = std::move(*it);
  running_.erase(it);
  Release(*preempted);
  evicted_.push_back(preempted->id);
  if (preempted->times != nullptr) ++preempted->times->preemptions;
  line_.PutBack(std::move(preempted));
  ++stats_.preemptions;
}

const Sequence& Sequences::NewestOf(const TenantLine& tenant) const {
  const auto it = std::find_if(running_.rbegin(), running_.rend(), [&tenant](const auto& one) {
    return &one->line->tenant == &tenant;
  });
  CHECK(it != running_.rend()) << "nothing of tenant '" << tenant.name << "' runs";
  return **it;
}

const Sequence& Sequences::VictimFor(const Sequence& sequence) const {
  if (running_.size() == 1) return sequence;
  std::unordered_map<const TenantLine*, double> pages;
  for (const auto& one : running_) {
    pages[&one->line->tenant] += one->pages.size() / one->line->tenant.share.weight;
  }
  const Sequence* victim = nullptr;
  for (auto it = running_.rbegin(); it + 1 != running_.rend(); ++it) {
    const Sequence& one = **it;
    const bool holds_more =
        victim == nullptr || pages[&one.line->tenant] > pages[&victim->line->tenant];
    const bool is_less = !holds_more && one.line == victim->line && one.priority < victim->priority;
    if (holds_more || is_less) victim = &one;
  }
  return *victim;
}

void Sequences::AppendRows(const Sequence& sequence, PlannedSequence planned,
                           StepPlan* plan) const {
  planned.page_begin = static_cast<int32_t>(plan->pages.size());
  planned.num_pages = PagesFor(planned.position_begin + planned.num_tokens);
  plan->pages.resize(plan->pages.size() + static_cast<size_t>(planned.num_pages));
  int32_t* const pages = plan->pages.data() + planned.page_begin;
  for (int32_t i = 0; i < planned.num_pages; ++i) pages[i] = sequence.pages.page(i);
  plan->sequences.push_back(planned);
}

// A page is shared as soon as it is full, so that requests that come in a burst with one prompt
// and are not admitted together find it.
void Sequences::IndexFullPages(Sequence& sequence) {
  const auto page_tokens = static_cast<size_t>(limits_.page_tokens);
  for (; sequence.num_indexed_pages < NumIndexable(sequence); ++sequence.num_indexed_pages) {
    const auto begin = static_cast<size_t>(sequence.num_indexed_pages) * page_tokens;
    const int32_t own = sequence.pages.page(sequence.num_indexed_pages);
    PageRef kept = is_ahead_ ? pool_.Share(own) : PageRef();
    tree_.Insert(sequence.prefix_key, sequence.pages, sequence.num_indexed_pages,
                 std::span(sequence.tokens).subspan(begin, page_tokens));
    const bool is_replaced = sequence.pages.page(sequence.num_indexed_pages) != own;
    if (is_ahead_ && is_replaced) replaced_.Append(std::move(kept));
  }
}

void Sequences::EndFinished() {
  for (auto& sequence : running_) {
    if (sequence->finish_reason == FinishReason::kNone) continue;
    Release(*sequence);
    Leave(*sequence);
    finished_.push_back(std::move(sequence));
  }
  std::erase(running_, nullptr);
}

// The sequence holds nothing afterwards and could start anew.
void Sequences::Release(Sequence& sequence) {
  sequence.num_computed = 0;
  sequence.num_indexed_pages = 0;
  sequence.num_planned = 0;
  sequence.drafts.clear();
  if (sequence.sequence_slot < 0) return;
  line_.CountRunning(sequence, -1);
  Holdings holdings = {.pages = std::move(sequence.pages),
                       .content = sequence.adapter.content(),
                       .sequence_slot = std::exchange(sequence.sequence_slot, -1)};
  sequence.started = false;
  sequence.adapter_slot = kNoAdapter;
  if (!is_ahead_) return GiveBack(holdings);
  const auto row = std::find(ahead_planned_.begin(), ahead_planned_.end(), &sequence);
  if (row == ahead_planned_.end()) return GiveBack(holdings);
  *row = nullptr;
  holdings.adapter = std::move(sequence.adapter);  // ended: it needs none any more
  held_.push_back(std::move(holdings));
}

void Sequences::GiveBack(Holdings& holdings) {
  holdings.pages.Clear();
  if (holdings.content >= 0) adapters_.Unuse(holdings.content);
  free_slots_.push(holdings.sequence_slot);
}

void Sequences::BeginAhead(const std::vector<Sequence*>& planned) {
  CHECK(!is_ahead_) << "two steps ahead";
  is_ahead_ = true;
  ahead_planned_ = planned;
}

void Sequences::EndAhead(std::vector<Sequence*>* planned) {
  CHECK(is_ahead_);
  is_ahead_ = false;
  std::swap(*planned, ahead_planned_);
}

void Sequences::GiveBackHeld() {
  for (Holdings& holdings : held_) GiveBack(holdings);
  held_.clear();
  replaced_.Clear();
}

}  // namespace graft
