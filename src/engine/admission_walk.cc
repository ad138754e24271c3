#include "engine/admission_walk.h"

#include <algorithm>
#include <utility>

namespace graft {
namespace {

// Requests of a tenant that are looked at in any case.
constexpr int32_t kLookedAtMin = 16;

}  // namespace

AdmissionWalk::AdmissionWalk(Sequences& sequences, const ColdStartCosts& costs, const Clock& clock)
    : sequences_(sequences),
      clock_(clock),
      room_(costs.steps),
      turn_(sequences.options().turn_ns),
      pages_(sequences.line(), &TenantLine::lacks_pages),
      adapter_room_(sequences.line(), &TenantLine::lacks_adapter_room),
      early_(sequences, costs, room_),
      give_way_(sequences, turn_, room_),
      wants_(sequences, pages_, adapter_room_, early_, give_way_),
      admits_(sequences, room_, turn_, pages_, adapter_room_, early_, give_way_) {}

void AdmissionWalk::Begin(int32_t num_rows, int32_t rows_left, bool beside_step) {
  verdicts_.clear();
  line_has_ended_ = false;
  room_.Begin(num_rows, rows_left);
  pages_.Begin();
  adapter_room_.Begin();
  early_.Begin();
  give_way_.Begin(beside_step);
  wants_.Begin();
  admits_.Begin();
}

void AdmissionWalk::PlanPrompts(int32_t rows_left, int32_t num_rows) {
  const int64_t now_ns = clock_.NowNs();
  FairLine& line = sequences_.line();
  Begin(num_rows, rows_left, /*beside_step=*/false);
  turn_.BeginPlan(now_ns);
  line.BeginPlan();
  const bool goes_on = OfferPrefills();
  if (goes_on || sequences_.has_slot() || sequences_.options().cold_start == ColdStart::kBlocking ||
      line.CouldTakePlace()) {
    CountRows();
    Walk(sequences_.has_slot());
    give_way_.GiveRows(&verdicts_);
  } else {
    Prefetch();
  }
  turn_.EndPlan(now_ns, adapter_room_.is_known());
  if (turn_.is_over()) ++sequences_.stats().turns;
}

void AdmissionWalk::Skip() { Begin(0, 0, /*beside_step=*/true); }

// The walk goes on where it ended, but no request can begin, or be preempted, any more.
void AdmissionWalk::LoadAhead() {
  if (sequences_.options().cold_start == ColdStart::kBlocking) return;
  sequences_.adapters().ReadClock();
  room_.Begin(0, 0);
  give_way_.Begin(/*beside_step=*/true);
  Walk(/*has_place=*/false);
}

int32_t AdmissionWalk::num_early() const {
  return static_cast<int32_t>(std::count_if(
      verdicts_.begin(), verdicts_.end(),
      [](const Verdict& verdict) { return verdict.why == Verdict::Why::kBeginsEarly; }));
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

void AdmissionWalk::Walk(bool has_place) {
  FairLine& line = sequences_.line();
  line.BeginWalk(has_place);
  if (line_has_ended_) line.PassWaiting();
  while (Sequence* const next = line.Next()) {
    if (next->sequence_slot >= 0) {
      verdicts_.push_back({next->id, admits_.GoOn(*next)});
      line.Pass(*next);
      continue;
    }
    TenantLine& tenant = line.TenantOf(*next);
    if (!IsLookedAt(tenant)) {
      line.PassTenant();
      continue;
    }
    const Verdict::Why why = Decide(*next);
    verdicts_.push_back({next->id, why});
    if (HasLeftLine(why)) continue;
    ++tenant.num_looked_at;
    line_has_ended_ = EndsLine(why);
    if (line_has_ended_) line.PassWaiting();
    line.Pass(*next);
  }
}

Verdict::Why AdmissionWalk::Decide(Sequence& next) {
  using Why = Verdict::Why;
  const Why prospect = admits_.Prospect(next);
  const bool can_run = prospect == Why::kBegins;
  if (!can_run && wants_.has_asked_for_all()) return Why::kNotAskedFor;
  const std::optional<Why> waits = wants_.Decide(next, can_run);
  if (waits == Why::kAdapterComing) admits_.KeepPagesFor(next);
  if (waits.has_value()) return *waits;
  return can_run ? admits_.Decide(next) : prospect;
}

// Where loads stop the steps, nothing overtakes a request that waits.
bool AdmissionWalk::EndsLine(Verdict::Why why) const {
  using Why = Verdict::Why;
  if (why == Why::kNotAskedFor) return true;
  if (sequences_.options().cold_start != ColdStart::kBlocking) return false;
  return why == Why::kAdapterComing || why == Why::kAdapterQueued || why == Why::kNoAdapterRoom ||
         why == Why::kNoPages;
}

// One tenant's flood does not hide the others' requests.
bool AdmissionWalk::IsLookedAt(const TenantLine& tenant) const {
  const int32_t all = sequences_.options().waiting_looked_at;
  const auto num_tenants = static_cast<int32_t>(sequences_.line().tenants().size());
  return tenant.num_looked_at < std::min(all, std::max(kLookedAtMin, all / num_tenants));
}

// For a step in which no request can begin and no prompt goes on: asks for the adapters of the
// first requests of the line. Which these are is found anew only when the line, or what runs, has
// changed.
void AdmissionWalk::Prefetch() {
  if (std::exchange(first_of_change_, sequences_.line().num_changes()) !=
      sequences_.line().num_changes()) {
    FindFirst();
  }
  for (Sequence* const sequence : first_) {
    const std::optional<Verdict::Why> waits = wants_.Prefetch(*sequence);
    verdicts_.push_back({sequence->id, waits.value_or(Verdict::Why::kNoPlace)});
  }
}

void AdmissionWalk::FindFirst() {
  FairLine& line = sequences_.line();
  first_.clear();
  line.BeginWalk(/*has_place=*/false);
  while (static_cast<int32_t>(first_.size()) < WantAdapters::kPrefetchesMax) {
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

}  // namespace graft
