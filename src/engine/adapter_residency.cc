#include "engine/adapter_residency.h"

#include <algorithm>
#include <set>

namespace graft {
namespace {

// Contents fetched or being fetched for requests that wait: more would only fill the host's memory
// before there are pages for them.
constexpr size_t kFetchesMax = 4;

}  // namespace

AdapterResidency::AdapterResidency(PagePool& pool, AdapterTable& table, AdapterLoader& loader,
                                   const Clock& clock, int32_t slots, int64_t page_bytes,
                                   int32_t copies_at_once)
    : pool_(pool),
      table_(table),
      loader_(loader),
      clock_(clock),
      slots_(slots),
      packer_(pool, PageUse::kAdapters, std::max<int64_t>(page_bytes, 1)),
      forecast_(copies_at_once) {
  for (AdapterSlot slot = 0; slot < slots; ++slot) free_slots_.push(slot);
}

// Orders under way write to pages: they end before the pages do.
AdapterResidency::~AdapterResidency() {
  while (is_busy()) {
    loader_.WaitForEvent();
    for (LoadEvent& event : loader_.TakeEvents()) (void)Book(std::move(event));
  }
}

AdapterResidency::Entry& AdapterResidency::Grow(int32_t content) {
  CHECK_GE(content, 0);
  if (entries_.size() <= static_cast<size_t>(content)) {
    entries_.resize(static_cast<size_t>(content) + 1);
  }
  return at(content);
}

AdapterPlace AdapterResidency::PlaceOf(State state) {
  if (state == State::kAbsent) return AdapterPlace::kElsewhere;
  return state == State::kResident ? AdapterPlace::kResident : AdapterPlace::kLoading;
}

void AdapterResidency::SetState(int32_t content, State state) {
  const State before = std::exchange(at(content).state, state);
  if (PlaceOf(state) != PlaceOf(before)) table_.SetPlace(content, PlaceOf(state));
}

std::vector<std::pair<int32_t, Status>> AdapterResidency::Update() {
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
  // More than once in a step where loads block it: what is wanted in this one stays.
  std::erase_if(wanted_, [this](int32_t content) {
    Entry& entry = at(content);
    if (entry.wanted_at == pool_.time()) return false;
    entry.in_wanted = false;
    NoteIdle(entry);
    return true;
  });
  return failures;
}

// Gives up what was fetched for requests that are gone, or stand further back in the line.
void AdapterResidency::DropUnwanted() {
  std::erase_if(fetched_, [this](int32_t content) {
    if (at(content).wanted_at == pool_.time()) return false;
    loader_.Drop(content);
    SetState(content, State::kAbsent);
    return true;
  });
}

Status AdapterResidency::Book(LoadEvent event) {
  Entry& entry = at(event.content);
  const int32_t content = event.content;
  Status status = event.status;
  if (event.kind == LoadEvent::Kind::kFetched) {
    CHECK(entry.state == State::kFetching) << "content " << content;
    --num_fetching_;
    status = BookFetch(entry, std::move(event));
    if (entry.state == State::kFetched) fetched_.push_back(content);
  } else {
    CHECK(entry.state == State::kCopying || (entry.state == State::kArriving && status.ok()))
        << "content " << content;
    --num_copying_;
    forecast_.Ended(content, event.copy_ns, clock_.NowNs());
    SetState(content, status.ok() ? State::kResident : State::kAbsent);
    entry.used_at = pool_.time();
    if (status.ok()) {
      resident_.push_back(content);
      NoteIdle(entry);
    } else {
      entry.pages.Release();
      free_slots_.push(std::exchange(entry.slot, kNoAdapter));
    }
  }
  if (entry.unused) Forget(content);
  return status;
}

Status AdapterResidency::BookFetch(Entry& entry, LoadEvent event) {
  Status status = event.status;
  if (status.ok()) {
    status = CheckFits(event.facts);
    if (!status.ok()) loader_.Drop(event.content);
  }
  SetState(event.content, status.ok() ? State::kFetched : State::kAbsent);
  if (status.ok()) entry.facts = std::move(event.facts);
  return status;
}

// Beside it a sequence needs a page at least.
Status AdapterResidency::CheckFits(const AdapterFacts& facts) const {
  const int32_t num_pages = packer_.NumPages(facts.rows);
  if (num_pages < 0) {
    return FailedPreconditionError(
        "a row of the adapter is longer than a page of the pool; start the server with more "
        "--page-tokens");
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

// Nobody holds the content: gone at once, or when what is under way has ended.
void AdapterResidency::Forget(int32_t content) {
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
  table_.Recycle(content);
}

// Once it was read, a content is what it was then, whether the table has been told or not.
FetchOrder AdapterResidency::OrderOf(int32_t content) const {
  AdapterSource source = table_.SourceOf(content);
  if (!at(content).facts.hash.empty()) source.hash = at(content).facts.hash;
  return {.content = content,
          .path = std::move(source.path),
          .hash = std::move(source.hash),
          .key = std::move(source.key)};
}

AdapterResidency::Answer AdapterResidency::NoteWanted(int32_t content) {
  Entry& entry = at(content);
  entry.used_at = pool_.time();
  entry.pages.SetReclaimable(false);
  if (!std::exchange(entry.in_wanted, true)) wanted_.push_back(content);
  return entry.state == State::kResident ? Answer::kReady : Answer::kArriving;
}

AdapterResidency::Answer AdapterResidency::Want(int32_t content, const MakeRoom* make_room) {
  Entry& entry = Grow(content);
  entry.wanted_at = pool_.time();
  switch (entry.state) {
    case State::kArriving:
    case State::kResident:
      return NoteWanted(content);
    case State::kFetching:
    case State::kCopying:
      return Answer::kComing;
    case State::kFetched:
      return make_room == nullptr ? Answer::kNoRoom : Place(content, *make_room);
    case State::kAbsent:
      break;
  }
  if (make_room != nullptr && FindInHost(content)) return Place(content, *make_room);
  if (static_cast<size_t>(num_fetching_) + fetched_.size() == kFetchesMax) DropUnwanted();
  if (static_cast<size_t>(num_fetching_) + fetched_.size() == kFetchesMax) return Answer::kQueued;
  SetState(content, State::kFetching);
  ++num_fetching_;
  ++stats_.fetches;
  loader_.Fetch(OrderOf(content));
  return Answer::kComing;
}

// What was read before, for whomever, need not be fetched, which would take a step. What does not
// fit is: a fetch can say so.
bool AdapterResidency::FindInHost(int32_t content) {
  Entry& entry = at(content);
  const std::string hash =
      entry.facts.hash.empty() ? table_.SourceOf(content).hash : entry.facts.hash;
  if (hash.empty()) return false;
  std::optional<AdapterFacts> facts = loader_.FindInHost(hash);
  if (!facts.has_value() || !CheckFits(*facts).ok()) return false;
  entry.facts = std::move(*facts);
  return true;
}

bool AdapterResidency::CanBePlaced(int32_t content, int32_t num_kv_pages) const {
  if (free_slots_.empty() && OldestIdle() < 0) return false;
  const int32_t evictable = packer_.num_reclaimable();
  const int32_t by_pages = pool_.num_free() + pool_.num_cached() + num_kv_pages + evictable;
  const int32_t by_quota =
      pool_.quota(PageUse::kAdapters) - pool_.num_used(PageUse::kAdapters) + evictable;
  return packer_.NumPages(at(content).facts.rows) <= std::min(by_pages, by_quota);
}

bool AdapterResidency::CouldBePlaced(int32_t content, std::span<const int32_t> unused,
                                     int32_t num_kv_pages) {
  // Tried out, since pages are shared: one is had only if all whose rows lie in it give it up.
  for (const int32_t other : unused) --at(other).num_running;
  for (const int32_t other : unused) NoteIdle(at(other));
  const bool could = CanBePlaced(content, num_kv_pages);
  for (const int32_t other : unused) ++at(other).num_running;
  for (const int32_t other : unused) NoteIdle(at(other));
  return could;
}

AdapterResidency::Answer AdapterResidency::Place(int32_t content, const MakeRoom& make_room) {
  // Nothing is thrown out in vain.
  if (!CanBePlaced(content, 0)) return Answer::kNoRoom;
  if (free_slots_.empty()) Evict(OldestIdle());
  Entry& entry = at(content);
  std::optional<PackedRows> pages;
  while (!(pages = packer_.Pack(entry.facts.rows)).has_value()) {
    CHECK(make_room()) << "less could be evicted than was counted";
  }
  if (entry.state == State::kFetched) std::erase(fetched_, content);
  entry.pages = std::move(*pages);
  entry.slot = free_slots_.top();
  free_slots_.pop();
  ++num_copying_;
  ++stats_.copies;
  const AdapterFacts& facts = entry.facts;
  forecast_.Ordered(content, {facts.bytes, facts.rank_max, facts.num_layers}, clock_.NowNs());
  const bool usable = loader_.Copy({OrderOf(content), entry.slot, entry.pages.extents()});
  SetState(content, usable ? State::kArriving : State::kCopying);
  return usable ? NoteWanted(content) : Answer::kComing;
}

Status AdapterResidency::Pin(int32_t content, const MakeRoom& make_room) {
  for (;;) {
    const Answer answer = Want(content, &make_room);
    if (answer == Answer::kReady) break;
    if (answer != Answer::kNoRoom) {
      loader_.WaitForEvent();
      for (LoadEvent& event : loader_.TakeEvents()) RETURN_IF_ERROR(Book(std::move(event)));
      continue;
    }
    return FailedPreconditionError(
        "the adapters do not all fit on the device at once; start the server with a larger pool "
        "(--pool-gib), more --adapters-max, or another --cold-start than cached");
  }
  at(content).pinned = true;
  CountPinned();
  return OkStatus();
}

// Anew: pages are shared, so that no content's can be added or taken away.
void AdapterResidency::CountPinned() {
  num_pinned_ = 0;
  std::set<int32_t> pages;
  for (const Entry& entry : entries_) {
    if (!entry.pinned) continue;
    ++num_pinned_;
    for (const PageExtent& extent : entry.pages.extents()) pages.insert(extent.page);
  }
  num_pinned_pages_ = static_cast<int32_t>(pages.size());
}

AdapterSlot AdapterResidency::Use(int32_t content) {
  Entry& entry = at(content);
  CHECK(IsUsable(entry)) << "content " << content;
  ++entry.num_running;
  entry.pages.SetReclaimable(false);
  return entry.slot;
}

void AdapterResidency::Unuse(int32_t content) {
  Entry& entry = at(content);
  CHECK_GT(entry.num_running, 0) << "content " << content;
  --entry.num_running;
  entry.used_at = pool_.time();
  NoteIdle(entry);
}

void AdapterResidency::NoteIdle(Entry& entry) {
  entry.pages.SetReclaimable(entry.state == State::kResident && entry.num_running == 0 &&
                             !entry.pinned && entry.wanted_at != pool_.time());
}

int32_t AdapterResidency::OldestIdle() const {
  int32_t oldest = -1;
  for (const int32_t content : resident_) {
    const Entry& entry = at(content);
    if (entry.num_running > 0 || entry.pinned || entry.wanted_at == pool_.time()) continue;
    if (oldest < 0 || entry.used_at < at(oldest).used_at) oldest = content;
  }
  return oldest;
}

void AdapterResidency::Evict(int32_t content) {
  Entry& entry = at(content);
  CHECK(entry.state == State::kResident && entry.num_running == 0) << "content " << content;
  std::erase(resident_, content);
  loader_.Free(entry.slot);
  free_slots_.push(std::exchange(entry.slot, kNoAdapter));
  entry.pages.Release();
  SetState(content, State::kAbsent);
  ++stats_.evictions;
}

int32_t AdapterResidency::NumPagesBeside(int32_t content) const {
  if (content < 0 || at(content).pinned) return num_pinned_pages_;
  return num_pinned_pages_ + packer_.NumPagesMax(at(content).facts.rows);
}

Status AdapterResidency::CheckIntegrity(const std::vector<int32_t>& num_running,
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
  return OkStatus();
}

}  // namespace graft
