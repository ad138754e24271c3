#include "engine/residency.h"

#include <algorithm>
#include <set>

namespace graft {

Residency::Residency(PagePool& pool, RoomShares& shares, ContentTable& table, AdapterLoader& loader,
                     const Clock& clock, const SchedulerOptions& options,
                     const ExecutorLimits& limits, OnForget on_forget)
    : pool_(pool),
      shares_(shares),
      table_(table),
      loader_(loader),
      clock_(clock),
      slots_(limits.adapters_max),
      page_bytes_(limits.page_bytes),
      fetches_max_(options.fetches_max),
      on_forget_(std::move(on_forget)),
      packer_(pool, PageUse::kAdapters, std::max<int64_t>(limits.page_bytes, 1)),
      forecast_(CopiesAtOnce(options.cold_start)) {
  CHECK_GT(fetches_max_, 0);
  for (AdapterSlot slot = 0; slot < slots_; ++slot) free_slots_.push(slot);
}

// Orders under way write to pages: they end before the pages do.
Residency::~Residency() {
  while (is_busy()) {
    loader_.WaitForEvent();
    for (LoadEvent& event : loader_.TakeEvents()) (void)Book(std::move(event));
  }
}

Residency::Entry& Residency::Grow(int32_t content) {
  CHECK_GE(content, 0);
  if (entries_.size() <= static_cast<size_t>(content)) {
    entries_.resize(static_cast<size_t>(content) + 1);
  }
  return at(content);
}

AdapterPlace Residency::PlaceOf(State state) {
  if (state == State::kAbsent) return AdapterPlace::kElsewhere;
  return state == State::kResident ? AdapterPlace::kResident : AdapterPlace::kLoading;
}

void Residency::SetState(int32_t content, State state) {
  Entry& entry = at(content);
  const State before = std::exchange(entry.state, state);
  if (before == State::kAbsent) entry.load_times.begin_ns = now_ns_;
  if (state == State::kResident) entry.load_times.end_ns = now_ns_;
  if (PlaceOf(state) != PlaceOf(before)) table_.SetPlace(content, PlaceOf(state));
  if (state == State::kFetching || state == State::kFetched) return;
  shares_.AddFetch(std::exchange(entry.fetcher, kNobody), -1);
}

Residency::LoadTimes Residency::LoadTimesOf(int32_t content) const {
  const bool is_known = content >= 0 && static_cast<size_t>(content) < entries_.size();
  return is_known ? at(content).load_times : LoadTimes();
}

std::vector<std::pair<int32_t, Status>> Residency::Update() {
  ReadClock();
  std::vector<std::pair<int32_t, Status>> failures;
  for (LoadEvent& event : loader_.TakeEvents()) {
    const int32_t content = event.content;
    Status status = Book(std::move(event));
    if (status.ok()) continue;
    ++stats_.failures;
    failures.emplace_back(content, std::move(status));
  }
  for (const int32_t content : table_.TakeUnused()) {
    Grow(content).unused = true;
    Forget(content);
  }
  // Where loads block a step, this runs more than once in it: contents wanted in this step stay.
  std::erase_if(wanted_, [this](int32_t content) {
    Entry& entry = at(content);
    if (entry.wanted_at == pool_.time()) return false;
    entry.in_wanted = false;
    NoteIdle(content);
    return true;
  });
  return failures;
}

// Gives up what was fetched for requests that are gone, or stand further back in the line.
void Residency::DropUnwanted() {
  std::erase_if(fetched_, [this](int32_t content) {
    if (at(content).wanted_at == pool_.time()) return false;
    loader_.Drop(content);
    SetState(content, State::kAbsent);
    return true;
  });
}

Status Residency::Book(LoadEvent event) {
  Entry& entry = at(event.content);
  const int32_t content = event.content;
  Status status = event.status;
  switch (event.kind) {
    case LoadEvent::Kind::kSlow:
      CHECK(entry.state == State::kFetching && !entry.is_slow) << "content " << content;
      entry.is_slow = true;
      ++num_slow_;
      break;
    case LoadEvent::Kind::kFetched:
      status = BookFetch(entry, std::move(event));
      break;
    case LoadEvent::Kind::kCopied:
      BookCopy(entry, event);
      break;
  }
  if (entry.unused) Forget(content);
  return status;
}

void Residency::BookCopy(Entry& entry, const LoadEvent& event) {
  const int32_t content = event.content;
  const bool ok = event.status.ok();
  CHECK(entry.state == State::kCopying || (entry.state == State::kArriving && ok))
      << "content " << content;
  --num_copying_;
  forecast_.Ended(content, event.copy_ns, now_ns_);
  SetState(content, ok ? State::kResident : State::kAbsent);
  entry.used_at = pool_.time();
  if (ok) {
    ++num_resident_;
    if (entry.wanted_at == pool_.time()) NoteWanted(content);
    NoteIdle(content);
  } else {
    entry.pages.Release();
    free_slots_.push(std::exchange(entry.slot, kNoAdapter));
    CountHeld(entry, -1);
    entry.holder = kNobody;
  }
}

Status Residency::BookFetch(Entry& entry, LoadEvent event) {
  CHECK(entry.state == State::kFetching) << "content " << event.content;
  --num_fetching_;
  if (std::exchange(entry.is_slow, false)) --num_slow_;
  Status status = event.status;
  if (status.ok()) {
    status = CheckFits(event.facts);
    if (!status.ok()) loader_.Drop(event.content);
  }
  SetState(event.content, status.ok() ? State::kFetched : State::kAbsent);
  if (!status.ok()) return status;
  entry.facts = std::move(event.facts);
  fetched_.push_back(event.content);
  return status;
}

// A sequence needs at least one page beside the adapter.
Status Residency::CheckFits(const AdapterFacts& facts) const {
  const int32_t num_pages = packer_.NumPages(facts.rows);
  if (num_pages < 0) {
    return FailedPreconditionError(
        "a row of the adapter is longer than a page of the pool; start the server with more "
        "--tune page-tokens");
  }
  if (num_pinned_ == slots_) {
    return FailedPreconditionError("all " + std::to_string(slots_) +
                                   " places on the device are taken by adapters that stay there; "
                                   "start the server with more --adapters-max");
  }
  const int32_t room =
      std::min(pool_.quota(PageUse::kAdapters), pool_.num_pages() - num_pinned_pages_ - 1);
  if (num_pages <= room) return OkStatus();
  return FailedPreconditionError("the adapter takes " + std::to_string(num_pages) +
                                 " pages, the pool has " + std::to_string(room) +
                                 " for adapters; start the server with a larger pool (--pool-gib)");
}

// The content is no longer held: forgotten at once, or when what is under way for it has ended.
void Residency::Forget(int32_t content) {
  Entry& entry = at(content);
  if (entry.state == State::kFetching || entry.state == State::kCopying ||
      entry.state == State::kArriving) {
    return;
  }
  if (entry.state == State::kFetched) {
    loader_.Drop(content);
    std::erase(fetched_, content);
    SetState(content, State::kAbsent);
  }
  if (entry.state == State::kResident) Evict(content);
  if (entry.in_wanted) std::erase(wanted_, content);
  const bool was_pinned = entry.pinned;
  entry = Entry();
  if (was_pinned) CountPinned();
  if (on_forget_) on_forget_(content);
  table_.Recycle(content);
}

// A content that was read keeps its hash, whether the table has been told of it or not.
FetchOrder Residency::OrderOf(int32_t content) const {
  AdapterSource source = table_.SourceOf(content);
  if (!at(content).facts.hash.empty()) source.hash = at(content).facts.hash;
  return {.content = content,
          .path = std::move(source.path),
          .hash = std::move(source.hash),
          .key = std::move(source.key),
          .parts = std::move(source.parts),
          .holder = at(content).holder != kNobody ? at(content).holder : at(content).fetcher};
}

Residency::Answer Residency::NoteWanted(int32_t content) {
  Entry& entry = at(content);
  entry.used_at = pool_.time();
  NoteIdle(content);
  if (!std::exchange(entry.in_wanted, true)) wanted_.push_back(content);
  return entry.state == State::kResident ? Answer::kReady : Answer::kArriving;
}

void Residency::LetWantedGo() {
  for (const int32_t content : wanted_) {
    at(content).in_wanted = false;
    at(content).wanted_at = 0;
    NoteIdle(content);
  }
  wanted_.clear();
}

// All holders share the places. A holder that has none gets one beyond them, so that no holder's
// fetches keep another's from beginning.
bool Residency::HasFetchPlace(int32_t holder) const {
  const int32_t num_taken = num_fetching_ - num_slow_ + static_cast<int32_t>(fetched_.size());
  if (num_taken < fetches_max_) return true;
  return holder != kNobody && num_taken < 2 * fetches_max_ && shares_.num_fetches(holder) == 0;
}

Residency::Answer Residency::Want(int32_t content, int32_t holder, const MakeRoom* make_room) {
  Entry& entry = Grow(content);
  entry.wanted_at = pool_.time();
  switch (entry.state) {
    case State::kArriving:
    case State::kResident:
      return NoteWanted(content);
    case State::kFetching:
      return entry.is_slow ? Answer::kQueued : Answer::kComing;
    case State::kCopying:
      return Answer::kComing;
    case State::kFetched:
      return make_room == nullptr ? Answer::kNoRoom : Place(content, holder, *make_room);
    case State::kAbsent:
      break;
  }
  if (make_room != nullptr && FindInHost(content)) return Place(content, holder, *make_room);
  if (!HasFetchPlace(holder)) DropUnwanted();
  if (!HasFetchPlace(holder)) return Answer::kQueued;
  SetState(content, State::kFetching);
  entry.fetcher = holder;
  shares_.AddFetch(holder, 1);
  ++num_fetching_;
  ++stats_.fetches;
  loader_.Fetch(OrderOf(content));
  return Answer::kComing;
}

// A content that was read before, for any holder, need not be fetched, which would take a step. One
// that does not fit is fetched all the same, because a fetch can fail with the reason.
bool Residency::FindInHost(int32_t content) {
  Entry& entry = at(content);
  const std::string hash =
      entry.facts.hash.empty() ? table_.SourceOf(content).hash : entry.facts.hash;
  if (hash.empty()) return false;
  std::optional<AdapterFacts> facts = loader_.FindInHost(hash);
  if (!facts.has_value() || !CheckFits(*facts).ok()) return false;
  entry.facts = std::move(*facts);
  return true;
}

bool Residency::CanBePlaced(int32_t content, int32_t num_kv_pages, bool has_slot) const {
  if (!has_slot) return false;
  const int32_t evictable = packer_.num_reclaimable();
  const int32_t by_pages = pool_.num_free() + pool_.num_cached() + num_kv_pages + evictable;
  const int32_t by_quota =
      pool_.quota(PageUse::kAdapters) - pool_.num_used(PageUse::kAdapters) + evictable;
  return packer_.NumPages(at(content).facts.rows) <= std::min(by_pages, by_quota);
}

bool Residency::CouldBePlaced(int32_t content, std::span<const int32_t> unused,
                              int32_t num_kv_pages) {
  // Tried out, since adapters share pages: a page is free only if all adapters in it give it up.
  bool has_slot = HasSlot();
  for (const int32_t other : unused) --at(other).num_running;
  for (const int32_t other : unused) {
    const bool is_idle = CouldBeEvicted(at(other));
    at(other).pages.SetReclaimable(is_idle);
    has_slot |= is_idle;
  }
  const bool could = CanBePlaced(content, num_kv_pages, has_slot);
  for (const int32_t other : unused) ++at(other).num_running;
  for (const int32_t other : unused) at(other).pages.SetReclaimable(false);
  return could;
}

Residency::Answer Residency::Place(int32_t content, int32_t holder, const MakeRoom& make_room) {
  // Nothing is evicted in vain.
  if (!CanBePlaced(content, 0, HasSlot())) return Answer::kNoRoom;
  if (free_slots_.empty()) Evict(OldestIdle(shares_.GiverOfSlot()));
  Entry& entry = at(content);
  std::optional<PackedRows> pages;
  while (!(pages = packer_.Pack(entry.facts.rows)).has_value()) {
    CHECK(make_room()) << "less could be evicted than was counted";
  }
  if (entry.state == State::kFetched) std::erase(fetched_, content);
  entry.pages = std::move(*pages);
  entry.holder = holder;
  CountHeld(entry, 1);
  entry.slot = free_slots_.top();
  free_slots_.pop();
  ++num_copying_;
  ++stats_.copies;
  const AdapterFacts& facts = entry.facts;
  forecast_.Ordered(content, {facts.bytes, facts.rank_max, facts.num_layers}, now_ns_);
  const bool in_host = loader_.Copy({OrderOf(content), entry.slot, entry.pages.extents()});
  // Virtual tokens are read before the first layer, so such requests wait for the whole adapter.
  const bool usable = in_host && facts.num_virtual_tokens == 0;
  SetState(content, usable ? State::kArriving : State::kCopying);
  return usable ? NoteWanted(content) : Answer::kComing;
}

void Residency::CountHeld(const Entry& entry, int32_t change) {
  shares_.AddAdapter(entry.holder, entry.facts.bytes, change);
}

void Residency::SetHolder(int32_t content, int32_t holder) {
  Entry& entry = at(content);
  if (entry.holder == holder || entry.pinned) return;
  const bool is_idle = idle_.Has(content);
  if (is_idle) LeaveIdle(content);
  CountHeld(entry, -1);
  entry.holder = holder;
  CountHeld(entry, 1);
  if (is_idle) EnterIdle(content);
}

Status Residency::Pin(int32_t content, const MakeRoom& make_room) {
  for (;;) {
    ReadClock();
    const Answer answer = Want(content, kNobody, &make_room);
    if (answer == Answer::kReady) break;
    if (answer != Answer::kNoRoom) {
      loader_.WaitForEvent();
      for (LoadEvent& event : loader_.TakeEvents()) RETURN_IF_ERROR(Book(std::move(event)));
      continue;
    }
    return FailedPreconditionError(
        "the adapters do not all fit on the device at once; start the server with a larger pool "
        "(--pool-gib), more --adapters-max, or --cold-start auto");
  }
  at(content).pinned = true;
  CountPinned();
  return OkStatus();
}

// Counts anew: adapters share pages, so one content's cannot just be added or taken away.
void Residency::CountPinned() {
  num_pinned_ = 0;
  std::set<int32_t> pages;
  for (const Entry& entry : entries_) {
    if (!entry.pinned) continue;
    ++num_pinned_;
    for (const PageExtent& extent : entry.pages.extents()) pages.insert(extent.page);
  }
  num_pinned_pages_ = static_cast<int32_t>(pages.size());
}

AdapterSlot Residency::Use(int32_t content, int32_t holder) {
  Entry& entry = at(content);
  CHECK(IsUsable(entry)) << "content " << content;
  ++entry.num_running;
  NoteIdle(content);
  SetHolder(content, holder);
  return entry.slot;
}

void Residency::Unuse(int32_t content) {
  Entry& entry = at(content);
  CHECK_GT(entry.num_running, 0) << "content " << content;
  --entry.num_running;
  entry.used_at = pool_.time();
  NoteIdle(content);
}

bool Residency::CouldBeEvicted(const Entry& entry) const {
  return entry.state == State::kResident && entry.num_running == 0 && !entry.pinned &&
         entry.wanted_at != pool_.time();
}

// The line and the packer's count of what can be given back always agree.
void Residency::NoteIdle(int32_t content) {
  Entry& entry = at(content);
  const bool is_idle = CouldBeEvicted(entry);
  entry.pages.SetReclaimable(is_idle);
  if (is_idle == idle_.Has(content)) return;
  if (is_idle) {
    EnterIdle(content);
  } else {
    LeaveIdle(content);
  }
}

void Residency::EnterIdle(int32_t content) {
  const Entry& entry = at(content);
  idle_.Put(content, entry.holder, entry.used_at);
  idle_bytes_ += entry.facts.bytes;
  shares_.SetEvictable(entry.holder, Evictable::kAdapters, true);
}

void Residency::LeaveIdle(int32_t content) {
  const Entry& entry = at(content);
  idle_.Remove(content);
  idle_bytes_ -= entry.facts.bytes;
  if (idle_.Oldest(entry.holder) < 0) {
    shares_.SetEvictable(entry.holder, Evictable::kAdapters, false);
  }
}

void Residency::Evict(int32_t content) {
  Entry& entry = at(content);
  CHECK(entry.state == State::kResident && entry.num_running == 0) << "content " << content;
  if (idle_.Has(content)) LeaveIdle(content);
  --num_resident_;
  loader_.Free(entry.slot);
  free_slots_.push(std::exchange(entry.slot, kNoAdapter));
  entry.pages.Release();
  SetState(content, State::kAbsent);
  CountHeld(entry, -1);
  entry.holder = kNobody;
  ++stats_.evictions;
}

int32_t Residency::NumPagesBeside(int32_t content) const {
  if (content < 0 || at(content).pinned) return num_pinned_pages_;
  return num_pinned_pages_ + packer_.NumPagesMax(at(content).facts.rows);
}

Status Residency::CheckIntegrity(const std::vector<int32_t>& num_running,
                                 std::vector<int32_t>* page_references) const {
  RETURN_IF_ERROR(packer_.CheckIntegrity(page_references));
  std::vector<bool> slot_taken(static_cast<size_t>(slots_), false);
  int32_t num_taken = 0;
  int64_t bytes = 0;
  for (size_t content = 0; content < entries_.size(); ++content) {
    const Entry& entry = entries_[content];
    const std::string name = "adapter content " + std::to_string(content);
    const bool on_device = entry.state == State::kCopying || IsUsable(entry);
    if (on_device != (entry.slot != kNoAdapter) || on_device == entry.pages.empty()) {
      return InternalError(name + " holds a slot or pages, or lacks them, against its state");
    }
    if (table_.PlaceOf(static_cast<int32_t>(content)) != PlaceOf(entry.state)) {
      return InternalError(name + " is elsewhere than the table was told");
    }
    const int32_t running = content < num_running.size() ? num_running[content] : 0;
    if (entry.num_running != running || (running > 0 && !IsUsable(entry))) {
      return InternalError(name + " is used by others than the running sequences");
    }
    if (!on_device) continue;
    if (slot_taken[static_cast<size_t>(entry.slot)]) return InternalError(name + " shares a slot");
    slot_taken[static_cast<size_t>(entry.slot)] = true;
    ++num_taken;
    bytes += RowsBytes(entry.facts.rows);
  }
  if (num_taken + static_cast<int32_t>(free_slots_.size()) != slots_ ||
      num_taken != num_resident() + num_copying_) {
    return InternalError("an adapter slot is lost");
  }
  if (bytes != packer_.bytes_used()) return InternalError("pages hold rows of no adapter");
  return CheckIdle();
}

// Idle adapters are resident, unused and not pinned. Such an adapter that was wanted of late need
// not be in the line.
Status Residency::CheckIdle() const {
  int32_t num_idle = 0;
  int64_t idle_bytes = 0;
  for (size_t i = 0; i < entries_.size(); ++i) {
    const Entry& entry = entries_[i];
    const int32_t holder = idle_.HolderOf(static_cast<int32_t>(i));
    const bool can_be = entry.state == State::kResident && entry.num_running == 0 && !entry.pinned;
    if (holder != kNobody ? !can_be || holder != entry.holder : can_be && !entry.in_wanted) {
      return InternalError("an adapter is idle against its state");
    }
    if (holder == kNobody) continue;
    ++num_idle;
    idle_bytes += entry.facts.bytes;
  }
  if (idle_bytes != idle_bytes_) return InternalError("the idle adapters' bytes do not add up");
  if (num_idle != idle_.size()) return InternalError("idle adapters are miscounted");
  return idle_.CheckIntegrity();
}

}  // namespace graft
