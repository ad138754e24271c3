#include "engine/fair_line.h"

#include <algorithm>
#include <string>
#include <tuple>
#include <utility>

#include "base/check.h"

namespace graft {
namespace {

// Tenants, or keys, that are remembered though they have no requests, beyond as many as have some.
constexpr size_t kPastMax = 64;

bool Precedes(const Sequence& a, const Sequence& b) {
  return a.priority != b.priority ? a.priority > b.priority : a.order < b.order;
}

double RunningFor(const Share& share) { return share.num_running / share.weight; }

// By what they have and, if `by_time`, by what they were served.
bool MayTakePlace(const TenantLine& taker, const TenantLine& giver, bool by_time) {
  if (&taker == &giver) return false;
  const double then = taker.share.num_running + 1, left = giver.share.num_running - 1;
  return by_time ? MayTake(taker.share, then, giver.share, left)
                 : HasNoMore(taker.share, then, giver.share, left);
}

}  // namespace

Sequence* KeyLine::Next(bool passes_waiting) const {
  Sequence* const goes_on = prefilling.empty() ? nullptr : prefilling.front();
  if (passes_waiting || num_passed >= waiting.size()) return goes_on;
  Sequence* const begins = waiting[num_passed].get();
  return goes_on == nullptr || begins->priority > goes_on->priority ? begins : goes_on;
}

// Parties of the past are looked for once in a while, and when none is active; not while one
// leaves, since the walk may be at it.
template <typename Parties, typename Time>
void FairLine::ForgetPast(Parties& parties, const Time& time) {
  const size_t num_active = time.active().size();
  if (num_active > 0 && parties.size() < 2 * num_active + kPastMax) return;
  std::erase_if(parties, [&time](const auto& entry) { return time.IsPast(*entry.second); });
}

KeyLine& FairLine::LineOf(const Sequence& sequence) {
  ForgetPast(tenants_, time_);
  auto& tenant = tenants_[sequence.tenant];
  if (tenant == nullptr) tenant = std::make_unique<TenantLine>(sequence.tenant);
  ForgetPast(tenant->keys, tenant->key_time);
  auto& key = tenant->keys[sequence.key_id];
  if (key == nullptr) key = std::make_unique<KeyLine>(*tenant, sequence.key_id);
  return *key;
}

void FairLine::Add(std::unique_ptr<Sequence> sequence) {
  Book();
  KeyLine& line = LineOf(*sequence);
  heaviest_is_known_ = false;
  line.tenant.share.weight = sequence->tenant_weight;
  if (line.tenant.share.num_in_flight == 0) line.tenant.since = num_changes_;
  time_.Enter(line.tenant);
  line.tenant.key_time.Enter(line);
  sequence->line = &line;
  Insert(std::move(sequence));
}

void FairLine::PutBack(std::unique_ptr<Sequence> sequence) {
  Withdraw(*sequence);
  Insert(std::move(sequence));
}

void FairLine::Insert(std::unique_ptr<Sequence> sequence) {
  KeyLine& line = *sequence->line;
  ++num_changes_;
  ++num_waiting_;
  ++line.tenant.num_waiting;
  if (sequence->adapter.content() >= 0) ++line.tenant.num_with_adapters;
  const auto place = std::upper_bound(
      line.waiting.begin(), line.waiting.end(), *sequence,
      [](const Sequence& one, const auto& other) { return Precedes(one, *other); });
  line.waiting.insert(place, std::move(sequence));
}

void FairLine::NoteTaken(const Sequence& sequence) {
  ++num_changes_;
  --num_waiting_;
  TenantLine& tenant = sequence.line->tenant;
  --tenant.num_waiting;
  if (sequence.adapter.content() >= 0) --tenant.num_with_adapters;
}

std::unique_ptr<Sequence> FairLine::Take(const Sequence& sequence) {
  KeyLine& line = *sequence.line;
  // The walk takes the sequence that it looks at.
  const size_t looked_at = std::min(line.num_passed, line.waiting.size());
  const auto is_it = [&sequence](const auto& one) { return one.get() == &sequence; };
  auto place = std::find_if(line.waiting.begin() + static_cast<ptrdiff_t>(looked_at),
                            line.waiting.end(), is_it);
  if (place == line.waiting.end()) {
    place = std::find_if(line.waiting.begin(), line.waiting.end(), is_it);
  }
  CHECK(place != line.waiting.end()) << "request " << ToString(sequence.id) << " does not wait";
  NoteTaken(sequence);
  std::unique_ptr<Sequence> taken = std::move(*place);
  line.waiting.erase(place);
  return taken;
}

FairLine::List FairLine::TakeIf(const std::function<bool(const Sequence&)>& is_meant) {
  List taken;
  for (TenantLine* const tenant : tenants()) {
    for (auto& [id, key] : tenant->keys) {
      for (auto& sequence : key->waiting) {
        if (!is_meant(*sequence)) continue;
        NoteTaken(*sequence);
        taken.push_back(std::move(sequence));
      }
      std::erase(key->waiting, nullptr);
    }
  }
  std::sort(taken.begin(), taken.end(),
            [](const auto& a, const auto& b) { return a->order < b->order; });
  return taken;
}

Sequence* FairLine::NewestOf(const std::string& tenant) const {
  const auto it = tenants_.find(tenant);
  if (it == tenants_.end()) return nullptr;
  Sequence* newest = nullptr;
  for (const auto& [id, key] : it->second->keys) {
    for (const auto& sequence : key->waiting) {
      const bool is_later = newest == nullptr || newest->order < sequence->order;
      if (is_later && sequence->num_output_tokens() == 0) newest = sequence.get();
    }
  }
  return newest;
}

void FairLine::Leave(Sequence& sequence) {
  heaviest_is_known_ = false;
  if (sequence.num_unbooked > 0) {
    BookOne(sequence);
    unbooked_.back()->unbooked_idx = sequence.unbooked_idx;
    unbooked_[sequence.unbooked_idx] = unbooked_.back();
    unbooked_.pop_back();
  }
  KeyLine& line = *std::exchange(sequence.line, nullptr);
  TenantLine& tenant = line.tenant;
  tenant.key_time.Leave(line);
  time_.Leave(tenant);
}

bool FairLine::AllOf(const std::function<bool(const Sequence&)>& holds) const {
  for (const TenantLine* const tenant : tenants()) {
    for (const auto& [id, key] : tenant->keys) {
      for (const auto& sequence : key->waiting) {
        if (!holds(*sequence)) return false;
      }
    }
  }
  return true;
}

void FairLine::ForSome(int32_t num_max, const std::function<void(const Sequence&)>& use) const {
  const auto waits = [](const TenantLine* tenant) { return tenant->num_waiting > 0; };
  const auto num_tenants = std::count_if(tenants().begin(), tenants().end(), waits);
  if (num_tenants == 0) return;
  const int32_t of_each = std::max(1, num_max / static_cast<int32_t>(num_tenants));
  for (const TenantLine* const tenant : tenants()) {
    int32_t of_tenant = 0;
    for (const auto& [id, key] : tenant->keys) {
      for (const auto& sequence : key->waiting) {
        if (num_max == 0) return;
        if (of_tenant == of_each) break;
        use(*sequence);
        ++of_tenant, --num_max;
      }
      if (of_tenant == of_each) break;
    }
  }
}

void FairLine::CountRunning(Sequence& sequence, int32_t change) {
  ++num_changes_;
  heaviest_is_known_ = false;
  sequence.line->share.num_running += change;
  sequence.line->tenant.share.num_running += change;
}

void FairLine::BookOne(Sequence& sequence) {
  const int32_t tokens = std::exchange(sequence.num_unbooked, 0);
  sequence.line->share.Charge(tokens);
  sequence.line->tenant.share.Charge(tokens);
}

void FairLine::Book() const {
  for (Sequence* const sequence : unbooked_) BookOne(*sequence);
  unbooked_.clear();
}

TenantLine& FairLine::InPlan(TenantLine& tenant) const {
  if (tenant.plan == plan_) return tenant;
  tenant.plan = plan_;
  tenant.num_rows = 0;
  tenant.num_looked_at = 0;
  tenant.num_prefilling = 0;
  tenant.lacks_pages = false;
  tenant.lacks_adapter_room = false;
  tenant.num_decoding = 0;
  return tenant;
}

KeyLine& FairLine::InPlan(KeyLine& key) const {
  if (key.plan == plan_) return key;
  key.plan = plan_;
  key.num_passed = 0;
  key.prefilling.clear();
  return key;
}

void FairLine::AddRows(const Sequence& sequence, int32_t num_rows) {
  TenantOf(sequence).num_rows += num_rows;
}

void FairLine::OfferPrefill(Sequence& sequence) {
  ++TenantOf(sequence).num_prefilling;
  InPlan(*sequence.line).prefilling.push_back(&sequence);
}

bool FairLine::IsBehind(const Turn& a, const Turn& b) {
  return std::tie(b.served, b.running, b.since) < std::tie(a.served, a.running, a.since);
}

Sequence* FairLine::NextOf(TenantLine& tenant) const {
  Sequence* next = nullptr;
  for (KeyLine* const key : tenant.key_time.active()) {
    Sequence* const its_next = InPlan(*key).Next(passes_waiting_);
    if (its_next == nullptr) continue;
    if (next == nullptr || std::pair(key->share.served, its_next->order) <
                               std::pair(next->line->share.served, next->order)) {
      next = its_next;
    }
  }
  return next;
}

void FairLine::PutTurn(TenantLine& tenant) {
  turns_.push_back({.served = InPlan(tenant).served(),
                    .running = RunningFor(tenant.share),
                    .since = tenant.since,
                    .tenant = &tenant});
}

void FairLine::BeginWalk(bool has_place) {
  Book();
  turns_.clear();
  current_ = nullptr;
  passes_waiting_ = false;
  for (TenantLine* const tenant : tenants()) {
    const bool wants_more =
        tenant->num_waiting > 0 &&
        (has_place || tenant->num_with_adapters > 0 || GiverOfPlace(*tenant) != nullptr);
    if (wants_more || InPlan(*tenant).num_prefilling > 0) PutTurn(*tenant);
  }
  std::make_heap(turns_.begin(), turns_.end(), IsBehind);
}

// A tenant may have no request left when its turn comes.
Sequence* FairLine::Next() {
  if (TenantLine* const last = std::exchange(current_, nullptr); last != nullptr) {
    PutTurn(*last);
    std::push_heap(turns_.begin(), turns_.end(), IsBehind);
  }
  while (!turns_.empty()) {
    std::pop_heap(turns_.begin(), turns_.end(), IsBehind);
    current_ = turns_.back().tenant;
    turns_.pop_back();
    if (Sequence* const next = NextOf(*current_); next != nullptr) return next;
  }
  current_ = nullptr;
  return nullptr;
}

bool FairLine::Withdraw(const Sequence& sequence) {
  if (std::erase(InPlan(*sequence.line).prefilling, &sequence) == 0) return false;
  --TenantOf(sequence).num_prefilling;
  return true;
}

void FairLine::Pass(const Sequence& sequence) {
  if (Withdraw(sequence)) return;
  // If another request came before it meanwhile, that one is next.
  KeyLine& key = *sequence.line;
  const bool is_next =
      key.num_passed < key.waiting.size() && key.waiting[key.num_passed].get() == &sequence;
  if (is_next) ++key.num_passed;
}

// The tenant that runs most for its weight; null: it has no place that another could take.
const TenantLine* FairLine::Heaviest() const {
  if (tenants().size() < 2) return nullptr;
  if (!std::exchange(heaviest_is_known_, true)) {
    heaviest_ = *std::max_element(tenants().begin(), tenants().end(),
                                  [](const TenantLine* a, const TenantLine* b) {
                                    return RunningFor(a->share) < RunningFor(b->share);
                                  });
  }
  return heaviest_->share.num_running < 2 ? nullptr : heaviest_;
}

const TenantLine* FairLine::GiverOfPlace(const TenantLine& taker) const {
  const TenantLine* const heaviest = Heaviest();
  if (heaviest == nullptr || !MayTakePlace(taker, *heaviest, /*by_time=*/false)) return nullptr;
  Book();
  return MayTakePlace(taker, *heaviest, /*by_time=*/true) ? heaviest : nullptr;
}

bool FairLine::CouldTakePlace() const {
  const TenantLine* const heaviest = Heaviest();
  if (heaviest == nullptr) return false;
  const auto anybody = [&](bool by_time) {
    return std::any_of(tenants().begin(), tenants().end(), [&](const TenantLine* tenant) {
      return tenant->num_waiting > 0 && MayTakePlace(*tenant, *heaviest, by_time);
    });
  };
  if (!anybody(/*by_time=*/false)) return false;
  Book();
  return anybody(/*by_time=*/true);
}

Status FairLine::CheckIntegrity() const {
  size_t num_waiting = 0;
  for (const auto& [name, tenant] : tenants_) {
    int32_t of_tenant = 0, with_adapters = 0, in_flight = 0, running = 0;
    for (const auto& [id, key] : tenant->keys) {
      const Sequence* before = nullptr;
      for (const auto& sequence : key->waiting) {
        if (before != nullptr && !Precedes(*before, *sequence)) {
          return InternalError("waiting sequences are out of order");
        }
        before = sequence.get();
        if (sequence->line != key.get()) return InternalError("a sequence in a strange line");
        with_adapters += sequence->adapter.content() >= 0 ? 1 : 0;
      }
      of_tenant += static_cast<int32_t>(key->waiting.size());
      in_flight += key->share.num_in_flight;
      running += key->share.num_running;
    }
    num_waiting += static_cast<size_t>(of_tenant);
    if (of_tenant != tenant->num_waiting || with_adapters != tenant->num_with_adapters ||
        in_flight != tenant->share.num_in_flight || running != tenant->share.num_running ||
        of_tenant + running != in_flight) {
      return InternalError("the counts of tenant '" + name + "' disagree");
    }
  }
  return num_waiting == num_waiting_ ? OkStatus() : InternalError("the line's count is wrong");
}

}  // namespace graft
