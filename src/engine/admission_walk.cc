#include "engine/admission_walk.h"

#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>

namespace graft {
namespace {

// Requests in line that have their adapters asked for before their turn has come.
constexpr int32_t kPrefetchesMax = 16;
// Requests of a tenant that are looked at in any case.
constexpr int32_t kLookedAtMin = 16;

}  // namespace

void AdmissionWalk::PlanPrompts(int32_t rows_left, int32_t num_rows) {
  const int64_t now_ns = clock_.NowNs();
  state_ = {.rows_left = rows_left, .num_rows = num_rows};
  state_.turn_is_over = is_turn() && now_ns - turn_begin_ns_ >= sequences_.options().turn_ns;
  sequences_.line().BeginPlan();
  room_.Begin(num_rows);
  const bool goes_on = OfferPrefills();
  if (goes_on || sequences_.has_slot() || cold_start() == ColdStart::kBlocking ||
      sequences_.line().CouldTakePlace()) {
    CountRows();
    Walk(sequences_.has_slot());
    GiveWay();
  } else {
    LoadFirst();
  }
  if (!state_.has_blocked) {
    turn_begin_ns_ = -1;
  } else if (!is_turn() || state_.turn_is_over) {
    turn_begin_ns_ = now_ns;
  }
  if (state_.turn_is_over) ++sequences_.stats().turns;
}

// Returns whether there are any.
bool AdmissionWalk::OfferPrefills() {
  bool has_any = false;
  for (const auto& sequence : sequences_.running()) {
    if (sequence->num_planned > 0 || sequence->num_pending() <= 1) continue;
    sequences_.line().OfferPrefill(*sequence);
    has_any = true;
  }
  return has_any;
}

// Counts the rows of decoding sequences for their tenants. A tenant alone needs no count.
void AdmissionWalk::CountRows() {
  FairLine& line = sequences_.line();
  if (line.tenants().size() < 2) return;
  for (const auto& sequence : sequences_.running()) {
    if (sequence->num_planned > 0) line.AddRows(*sequence, sequence->num_planned);
  }
}

// No request can begin, so the walk would only ask for adapters. The requests to ask for are looked
// up anew only when the line, or what runs, has changed.
void AdmissionWalk::LoadFirst() {
  FairLine& line = sequences_.line();
  if (std::exchange(first_of_change_, line.num_changes()) != line.num_changes()) {
    first_.clear();
    line.BeginWalk(/*has_place=*/false);
    while (static_cast<int32_t>(first_.size()) < kPrefetchesMax) {
      Sequence* const next = line.Next();
      if (next == nullptr) break;
      TenantLine& tenant = line.TenantOf(*next);
      if (!IsLookedAt(tenant)) {
        line.PassTenant();
        continue;
      }
      if (next->adapter.content() >= 0) first_.push_back(next);
      ++tenant.num_looked_at;
      line.Pass(*next);
    }
    line.BeginPlan();  // LoadAhead begins anew
  }
  for (Sequence* const sequence : first_) {
    if (WaitsForAdapter(*sequence, /*can_run=*/false)) continue;
    sequence->prefix_key.adapter_hash = sequences_.adapters().HashOf(sequence->adapter.content());
  }
}

void AdmissionWalk::Walk(bool has_place) {
  FairLine& line = sequences_.line();
  line.BeginWalk(has_place);
  if (state_.has_stopped) line.PassWaiting();
  while (Sequence* const sequence = line.Next()) {
    if (sequence->sequence_slot >= 0) {
      GoOn(*sequence);
      continue;
    }
    TenantLine& tenant = line.TenantOf(*sequence);
    if (!IsLookedAt(tenant)) {
      line.PassTenant();
      continue;
    }
    const Next next = Consider(*sequence);
    if (next == Next::kAdmitted) continue;
    ++tenant.num_looked_at;
    ++state_.num_looked_at;
    state_.has_stopped = next == Next::kStop;
    if (state_.has_stopped) line.PassWaiting();
    line.Pass(*sequence);
  }
}

// One tenant's flood does not hide the others' requests.
bool AdmissionWalk::IsLookedAt(const TenantLine& tenant) const {
  const int32_t all = sequences_.options().waiting_looked_at;
  const auto num_tenants = static_cast<int32_t>(sequences_.line().tenants().size());
  return tenant.num_looked_at < std::min(all, std::max(kLookedAtMin, all / num_tenants));
}

// The walk goes on where it ended, but no request can begin, or be preempted, any more.
void AdmissionWalk::LoadAhead() {
  if (cold_start() == ColdStart::kBlocking) return;
  sequences_.adapters().ReadClock();
  state_.rows_left = 0;
  state_.is_beside_step = true;
  state_.turn_is_over = false;
  Walk(/*has_place=*/false);
}

int32_t AdmissionWalk::RowsFor(const Sequence& sequence) const {
  const TenantLine& tenant = sequences_.line().TenantOf(sequence);
  return std::min(state_.rows_left, room_.RowsFor(&tenant, tenant.num_rows, tenant.share.weight));
}

void AdmissionWalk::NoteRows(const Sequence& sequence) {
  const int32_t num_rows = sequence.num_planned;
  state_.rows_left -= num_rows;
  state_.num_rows += num_rows;
  ++state_.num_planned;
  sequences_.line().AddRows(sequence, num_rows);
  const TenantLine& tenant = sequences_.line().TenantOf(sequence);
  room_.Add(&tenant, tenant.num_rows, tenant.share.weight, num_rows,
            num_rows == sequence.num_pending());
}

// A step that finishes a prompt must stay short. A tenant with more decoding sequences than that
// prompt has rows runs only its oldest ones in this step, so that the step at most doubles. The
// rest run in the next step, in which none gives way.
void AdmissionWalk::GiveWay() {
  const FairLine& line = sequences_.line();
  if (std::exchange(gave_way_, false) || !room_.ends_prompts() || line.tenants().size() < 2) return;
  const auto decodes = [](const Sequence& one) {
    return one.num_planned == 1 && one.num_pending() == 1 && one.num_output_tokens() > 0;
  };
  std::unordered_map<const TenantLine*, int32_t> many;  // tenants, and how many of theirs decode
  for (const auto& one : sequences_.running()) many[&one->line->tenant] += decodes(*one) ? 1 : 0;
  std::erase_if(many, [this](const auto& entry) {
    return entry.second <= room_.AsOthers(entry.first, entry.first->share.weight);
  });
  int32_t num_many = 0, prompt_rows = 0, other_rows = 0;
  for (const auto& one : sequences_.running()) {
    const bool is_of_many = many.contains(&one->line->tenant);
    (!is_of_many ? other_rows : decodes(*one) ? num_many : prompt_rows) += one->num_planned;
  }
  const int32_t num_kept = room_.AsLongAs(other_rows) - prompt_rows;
  if (num_many <= num_kept) return;
  gave_way_ = true;
  const int32_t each = std::max(1, num_kept / static_cast<int32_t>(many.size()));
  for (auto& [tenant, num_left] : many) num_left = each;
  for (const auto& one : sequences_.running()) {
    const auto its_tenant = many.find(&one->line->tenant);
    if (its_tenant == many.end() || !decodes(*one)) continue;
    if (its_tenant->second-- <= 0) one->num_planned = 0;
  }
}

// The sequence may take the pages of others (VictimFor); one that would be the victim itself makes
// do with the pages that there are. The oldest goes on even if requests before it in line wait for
// room and their adapters, which are there already, hold the last pages.
void AdmissionWalk::GoOn(Sequence& sequence) {
  const int32_t rows_max = RowsFor(sequence);
  if (rows_max > 0) {
    sequences_.PlanChunk(sequence, rows_max);
    while (sequence.num_planned == 0) {
      const Sequence& victim = sequences_.VictimFor(sequence);
      if (&victim == &sequence) break;
      sequences_.Preempt(victim);
      sequences_.PlanChunk(sequence, rows_max);
    }
    if (sequence.num_planned == 0 && sequences_.running().front().get() == &sequence) {
      sequences_.adapters().LetWantedGo();
      sequences_.PlanChunk(sequence, rows_max);
    }
    if (sequence.num_planned > 0) NoteRows(sequence);
  }
  sequences_.line().Pass(sequence);
}

// The tenant's place in virtual time.
double AdmissionWalk::ServedOf(const TenantLine& tenant) const {
  sequences_.line().Book();
  return tenant.served();
}

// Its place once it has been served what the sequence asks for now.
double AdmissionWalk::ServedWith(const TenantLine& tenant, const Sequence& sequence) const {
  return ServedOf(tenant) + sequence.num_tokens() / tenant.share.weight;
}

bool AdmissionWalk::IsBlocked(const TenantLine& tenant) const {
  if (state_.passes_blocked == kNobody) return tenant.is_blocked;
  return tenant.is_blocked || ServedOf(tenant) > state_.passes_blocked;
}

bool AdmissionWalk::LacksPages(const TenantLine& tenant) const {
  if (state_.passes_lacking == kNobody) return tenant.lacks_pages;
  return tenant.lacks_pages || ServedOf(tenant) > state_.passes_lacking;
}

AdmissionWalk::Next AdmissionWalk::Consider(Sequence& next) {
  FairLine& line = sequences_.line();
  TenantLine& tenant = line.TenantOf(next);
  const int32_t rows_max = LacksPages(tenant) ? 0 : RowsFor(next);
  const bool can_run =
      rows_max > 0 && (sequences_.has_slot() || line.GiverOfPlace(tenant) != nullptr);
  if (!can_run && state_.num_prefetches >= kPrefetchesMax) return Next::kStop;
  if (next.adapter.content() >= 0) {
    CountStall();
    if (!can_run) ++state_.num_prefetches;
    if (WaitsForAdapter(next, can_run)) {
      return cold_start() == ColdStart::kBlocking ? Next::kStop : Next::kPassed;
    }
    const Status learned = sequences_.LearnAdapter(next);
    if (!learned.ok()) {
      sequences_.FailWaiting(next, learned);
      return Next::kAdmitted;
    }
  }
  if (!can_run) return Next::kPassed;
  // At the turn's end requests without room go first; others run ahead again in the next step.
  if (IsBlocked(tenant) && state_.turn_is_over) return Next::kPassed;
  return Begin(next, rows_max);
}

AdmissionWalk::Next AdmissionWalk::Begin(Sequence& next, int32_t rows_max) {
  const Status cut = CutToPool(next);
  if (!cut.ok()) {
    sequences_.FailWaiting(next, cut);
    return Next::kAdmitted;
  }
  const PrefixMatch before = next.prefix_match;
  const PrefixMatch match = Find(next);
  if (!TakesRoom(next, match)) {
    // Pages that were looked up count as used.
    if (match.generation != before.generation) sequences_.tree().Share(match);
    if (cold_start() == ColdStart::kBlocking) return Next::kStop;
    // The tenant's requests behind it get no page, but their adapters may come as far as the host.
    TenantLine& tenant = sequences_.line().TenantOf(next);
    tenant.lacks_pages = true;
    state_.passes_lacking = std::min(state_.passes_lacking, ServedWith(tenant, next));
    return Next::kPassed;
  }
  CountColdStart(next);
  sequences_.Start(next, sequences_.tree().Share(match));
  sequences_.PlanChunk(next, rows_max);
  CHECK_GT(next.num_planned, 0) << "admitted without a page";
  NoteRows(next);
  return Next::kAdmitted;
}

// A match stays true until a page comes or goes just there: a request that waits for room is not
// looked up anew in every step.
const PrefixMatch& AdmissionWalk::Find(Sequence& sequence) {
  PrefixTree& tree = sequences_.tree();
  if (!sequences_.CanReusePages(sequence) || tree.IsCurrent(sequence.prefix_match)) {
    return sequence.prefix_match;
  }
  // The last token is always computed: its logits are what the step is for.
  const int32_t num_sharable = sequences_.SharableTokens(sequence, sequence.num_tokens() - 1);
  const auto tokens = std::span(sequence.tokens).first(static_cast<size_t>(num_sharable));
  sequence.prefix_match = tree.Find(sequence.prefix_key, tokens);
  sequences_.stats().prefix_pages_searched += 1 + sequence.prefix_match.num_pages;
  return sequence.prefix_match;
}

// Asks for the sequence's adapter. False: the sequence may begin; the step waits for an adapter
// that arrives. Pages are given in the order of the line: behind a request without room none gets
// any.
bool AdmissionWalk::WaitsForAdapter(Sequence& sequence, bool can_run) {
  using Answer = AdapterResidency::Answer;
  AdapterResidency& adapters = sequences_.adapters();
  const int32_t content = sequence.adapter.content();
  TenantLine& tenant = sequences_.line().TenantOf(sequence);
  const bool lacks_pages = LacksPages(tenant);
  const bool has_pages = !IsBlocked(tenant) && !lacks_pages;
  const auto* const make_room = has_pages ? &sequences_.make_room() : nullptr;
  Answer answer = adapters.Want(content, sequence.holder, make_room);
  if (answer == Answer::kNoRoom && make_room != nullptr && MakesRoomFor(sequence)) {
    answer = adapters.Want(content, sequence.holder, make_room);
  }
  if (answer == Answer::kReady) return false;
  if (answer == Answer::kNoRoom && !lacks_pages) {
    state_.has_blocked = tenant.is_blocked = true;
    state_.passes_blocked = std::min(state_.passes_blocked, ServedWith(tenant, sequence));
  }
  if (cold_start() == ColdStart::kBlocking && answer != Answer::kNoRoom && adapters.is_busy()) {
    state_.stops_for_load = true;
    return true;
  }
  if (answer == Answer::kArriving && can_run && BeginsWhileArriving(sequence)) return false;
  sequence.waited_for_adapter |= can_run;
  if (answer == Answer::kComing || answer == Answer::kArriving) {
    state_.pages_kept += sequences_.PagesFor(sequence.num_tokens() + 1);
  }
  return true;
}

bool AdmissionWalk::BeginsWhileArriving(const Sequence& sequence) {
  if (cold_start() != ColdStart::kAuto) return BeginsEarly(cold_start());
  const SchedulerOptions& options = sequences_.options();
  const auto arrival = sequences_.adapters().ForecastOf(sequence.adapter.content());
  if (!arrival.has_value() || !costs_.steps.is_known()) return state_.num_planned == 0;
  const ColdStartCase step = {
      .arrival = *arrival,
      .num_rows = state_.num_rows,
      .num_others = state_.num_planned,
      .stall = state_.stall,
      .num_rows_joining =
          std::min({sequence.num_pending(), state_.rows_left, options.prefill_chunk_max}),
      .is_adapter_named = IsNamed(sequence.adapter.content())};
  if (!BeginsNow(step, costs_)) return false;
  state_.stall = StallWith(step, costs_);
  return true;
}

// Counts what the choice of a cold start depends on, once it is asked for.
void AdmissionWalk::CountStall() {
  if (cold_start() != ColdStart::kAuto || std::exchange(state_.counts_stall, true)) return;
  state_.num_planned = static_cast<int32_t>(
      std::count_if(sequences_.running().begin(), sequences_.running().end(),
                    [](const auto& sequence) { return sequence->num_planned > 0; }));
  state_.stall = StallOfPlanned();
}

bool AdmissionWalk::IsNamed(int32_t content) const {
  return std::any_of(sequences_.running().begin(), sequences_.running().end(),
                     [content](const auto& sequence) {
                       return sequence->num_planned > 0 && sequence->adapter.content() == content;
                     });
}

// How long the planned rows stall because their adapters still arrive.
ArrivalStall AdmissionWalk::StallOfPlanned() {
  AdapterResidency& adapters = sequences_.adapters();
  if (!adapters.is_copying() || !costs_.steps.is_known()) return {};
  ColdStartCase step;
  for (const auto& sequence : sequences_.running()) step.num_rows += sequence->num_planned;
  std::set<int32_t> contents;
  for (const auto& sequence : sequences_.running()) {
    const int32_t content = sequence->adapter.content();
    if (sequence->num_planned == 0 || content < 0 || !adapters.is_arriving(content)) continue;
    const auto arrival = adapters.ForecastOf(content);
    if (!arrival.has_value()) continue;
    step.arrival = *arrival;
    step.is_adapter_named = !contents.insert(content).second;
    step.num_rows_joining = sequence->num_planned;
    step.num_rows -= sequence->num_planned;
    step.stall = StallWith(step, costs_);
    step.num_rows += sequence->num_planned;
  }
  return step.stall;
}

void AdmissionWalk::CountColdStart(Sequence& sequence) {
  const int32_t content = sequence.adapter.content();
  if (content >= 0 && sequences_.adapters().is_arriving(content)) {
    ++state_.num_early;
  } else if (sequence.waited_for_adapter) {
    ++sequences_.stats().join_later_starts;
  }
  sequence.waited_for_adapter = false;
}

// Makes room once at the turn's end, for the first request that has none; and at once for a tenant
// that runs too little, by the one that runs too much.
bool AdmissionWalk::MakesRoomFor(const Sequence& sequence) {
  const bool is_turn = state_.turn_is_over && !std::exchange(state_.has_made_room, true);
  const bool is_light =
      !state_.is_beside_step && sequences_.line().GiverOfPlace(sequence.line->tenant) != nullptr;
  if (!is_turn && !is_light) return false;
  const std::vector<const Sequence*> others = WhoMakesRoom(sequence, is_turn);
  for (const Sequence* const other : others) sequences_.Preempt(*other);
  return !others.empty();
}

// The sequences that make room. They are chosen from those of the tenant that runs too much and, at
// the turn's end, from the younger ones of tenants that were served no less. If that suffices,
// those of one adapter that no other sequence uses, the cheapest to compute anew; else all, if that
// suffices; else none.
std::vector<const Sequence*> AdmissionWalk::WhoMakesRoom(const Sequence& sequence, bool is_turn) {
  const TenantLine& tenant = sequence.line->tenant;
  const TenantLine* const giver = sequences_.line().GiverOfPlace(tenant);
  const auto must_yield = [&](const Sequence& other) {
    if (&other.line->tenant == giver) return true;
    return is_turn && other.order > sequence.order &&
           ServedOf(other.line->tenant) >= ServedOf(tenant);
  };
  const int32_t content = sequence.adapter.content();
  std::vector<const Sequence*> younger;
  std::map<int32_t, std::vector<const Sequence*>> by_content;
  std::set<int32_t> kept;
  for (const auto& other : sequences_.running()) {
    if (!must_yield(*other)) {
      kept.insert(other->adapter.content());
      continue;
    }
    younger.push_back(other.get());
    by_content[other->adapter.content()].push_back(other.get());
  }
  if (!CouldMakeRoom(content, younger)) return {};
  int64_t least_tokens = std::numeric_limits<int64_t>::max();
  for (auto& [other, sequences] : by_content) {
    if (other < 0 || kept.contains(other)) continue;
    int64_t tokens = 0;
    for (const Sequence* const one : sequences) tokens += one->num_computed;
    if (tokens >= least_tokens || !CouldMakeRoom(content, sequences)) continue;
    least_tokens = tokens;
    younger = sequences;
  }
  return younger;
}

bool AdmissionWalk::CouldMakeRoom(int32_t content, std::span<const Sequence* const> sequences) {
  std::vector<int32_t> contents;
  std::unordered_map<int32_t, int32_t> references;  // of theirs, by page
  for (const Sequence* const one : sequences) {
    if (one->adapter.content() >= 0) contents.push_back(one->adapter.content());
    for (int32_t i = 0; i < one->pages.size(); ++i) ++references[one->pages.page(i)];
  }
  // Pages that others share with them stay.
  const auto num_pages = std::count_if(references.begin(), references.end(), [&](const auto& page) {
    return page.second == sequences_.pool().references(page.first);
  });
  return sequences_.adapters().CouldBePlaced(content, contents, static_cast<int32_t>(num_pages));
}

// A sequence and its adapter share the pool. An answer that would not fit ends earlier, as at the
// end of the context.
Status AdmissionWalk::CutToPool(Sequence& sequence) const {
  const SchedulerOptions& options = sequences_.options();
  const int32_t beside = sequences_.adapters().NumPagesBeside(sequence.adapter.content());
  const int32_t num_pages =
      std::min(sequences_.pool().quota(PageUse::kKv), options.num_pages - beside);
  const int64_t tokens = int64_t{num_pages} * options.page_tokens;
  const int64_t wanted = sequence.num_prompt_tokens + (sequence.output_tokens_max > 0 ? 1 : 0);
  if (wanted > tokens) {
    const std::string in_front =
        sequence.num_virtual_tokens == 0
            ? ""
            : " and " + std::to_string(sequence.num_virtual_tokens) + " of the adapter in front";
    return InvalidArgumentError(
        "the pool has room for " + std::to_string(std::max<int64_t>(tokens, 0)) +
        " tokens beside the request's adapter, its prompt has " +
        std::to_string(sequence.num_asked_tokens()) + in_front +
        "; shorten it, or start the server with a larger pool (--pool-gib)");
  }
  sequence.output_tokens_max = static_cast<int32_t>(
      std::min<int64_t>(sequence.output_tokens_max, tokens - sequence.num_prompt_tokens));
  return OkStatus();
}

// The pages that are missing for all its tokens and one more, after what running prefills will
// still take and a page of growth for each running sequence. With less, the sequence would soon be
// preempted again, or start again in the plan that preempted it. Alone it may always start, once no
// adapter is on its way: then all else can be evicted, in the next step at the latest.
int32_t AdmissionWalk::PagesMissing(const Sequence& sequence, const PrefixMatch& match) {
  const PagePool& pool = sequences_.pool();
  const AdapterResidency& adapters = sequences_.adapters();
  const int32_t by_pages =
      pool.num_free() + pool.num_cached() + adapters.packer().num_reclaimable();
  const int32_t by_quota =
      pool.quota(PageUse::kKv) - pool.num_used(PageUse::kKv) + pool.num_cached();
  const int32_t available = std::min(by_pages, by_quota);
  const bool is_alone = sequences_.running().empty() && !adapters.is_copying();
  // Keys and values that an adapter brings are written in one step.
  int32_t needed = std::max(1, sequences_.PagesFor(sequence.next_position() + 1) - match.num_pages);
  if (!is_alone) {
    needed = sequences_.PagesFor(sequence.num_tokens() + 1) - match.num_pages + state_.pages_kept;
    for (const auto& other : sequences_.running()) {
      needed += 1 + std::max(0, sequences_.PagesFor(other->num_tokens()) - other->pages.size());
    }
  }
  // Its own leading pages could be evicted, too, but must not be.
  return needed + sequences_.tree().NumCached(match) - available;
}

// Takes a place among those that run, and pages: free ones, or other tenants'.
bool AdmissionWalk::TakesRoom(const Sequence& sequence, const PrefixMatch& match) {
  const int32_t num_missing = PagesMissing(sequence, match);
  if (num_missing > 0) {
    const std::vector<const Sequence*> givers = WhoGivesPages(sequence, num_missing);
    for (const Sequence* const giver : givers) sequences_.Preempt(*giver);
    if (givers.empty() || PagesMissing(sequence, match) > 0) return false;
  }
  if (sequences_.has_slot()) return true;
  const TenantLine* const giver = sequences_.line().GiverOfPlace(sequence.line->tenant);
  if (giver == nullptr) return false;
  sequences_.Preempt(sequences_.NewestOf(*giver));
  return true;
}

int32_t AdmissionWalk::NumOwnPages(const Sequence& sequence) const {
  int32_t num_own = 0;
  for (int32_t i = 0; i < sequence.pages.size(); ++i) {
    num_own += sequences_.pool().references(sequence.pages.page(i)) == 1 ? 1 : 0;
  }
  return num_own;
}

// The newest sequences of tenants that hold more pages for their weight than the sequence's tenant
// will, as many as suffice; else none.
std::vector<const Sequence*> AdmissionWalk::WhoGivesPages(const Sequence& sequence,
                                                          int32_t num_missing) const {
  if (sequences_.line().tenants().size() < 2) return {};
  const TenantLine& taker = sequence.line->tenant;
  std::map<const TenantLine*, int32_t> pages;
  for (const auto& one : sequences_.running()) pages[&one->line->tenant] += one->pages.size();
  const int32_t then = pages[&taker] + sequences_.PagesFor(sequence.num_tokens() + 1);
  std::vector<const Sequence*> givers;
  const Sequences::List& running = sequences_.running();
  for (auto it = running.rbegin(); it != running.rend() && num_missing > 0; ++it) {
    const TenantLine& giver = (*it)->line->tenant;
    const int32_t left = pages[&giver] - (*it)->pages.size();
    if (&giver == &taker || !MayTake(taker.share, then, giver.share, left)) continue;
    pages[&giver] = left;
    givers.push_back(it->get());
    num_missing -= 1 + NumOwnPages(**it);  // and the page of its growth
  }
  return num_missing > 0 ? std::vector<const Sequence*>() : givers;
}

}  // namespace graft
