// Residency: which adapters are on the device, and which should be. A content is absent,
// being fetched into the host's memory, fetched, being copied into pages, or resident in a slot.
// The engine asks for the contents that its requests want; the loader moves bytes beside the steps.
// A copy from the host's memory arrives layer by layer, and steps that wait for its layers can use
// it at once. A resident adapter that no running sequence uses is idle and can be evicted. An
// adapter that is in use or being copied cannot. The holder of an adapter is the tenant that caused
// its load (RoomShares), later the tenant that used it last. Engine thread only.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <queue>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "cache/content_table.h"
#include "cache/idle_order.h"
#include "cache/page_pool.h"
#include "cache/room_shares.h"
#include "cache/row_packer.h"
#include "engine/cold_start_choice.h"
#include "engine/scheduler_options.h"
#include "step/adapter_loader.h"
#include "step/executor.h"

namespace graft {

struct AdapterStats {
  int64_t fetches = 0;    // into the host's memory asked for
  int64_t copies = 0;     // into pages begun
  int64_t evictions = 0;  // out of pages
  int64_t failures = 0;
};

class Residency {
 public:
  // Called with a content that is forgotten, before its id is given to another.
  using OnForget = std::function<void(int32_t content)>;

  // Everything is borrowed.
  Residency(PagePool& pool, RoomShares& shares, ContentTable& table, AdapterLoader& loader,
            const Clock& clock, const SchedulerOptions& options, const ExecutorLimits& limits,
            OnForget on_forget);
  ~Residency();

  // Frees pages for adapters by evicting what is cached or idle; false: nothing is left that can
  // be.
  using MakeRoom = std::function<bool()>;

  // Called once per step before any Want, or while nothing is on its way. Books what the loader
  // finished, and forgets contents that no request or name holds any more. Returns the contents for
  // which requests must fail, and why.
  std::vector<std::pair<int32_t, Status>> Update();
  // Orders and forecasts take the time that Update, or this function, has read last.
  void ReadClock() { now_ns_ = clock_.NowNs(); }

  enum class Answer : uint8_t {
    kReady,     // resident
    kArriving,  // being copied, and could be used by steps that wait for it
    kComing,    // being fetched, or copied and not to be used yet
    kQueued,    // nothing was begun for it, as many as may be are being fetched for others; or its
                // fetch is slow
    kNoRoom,    // slots or pages are in use by others
  };
  // A waiting request of the holder wants this content. Begins what can be begun to make it
  // resident. A content wanted in this step is not evicted for one wanted after it. Without
  // `make_room` it is only fetched into the host's memory.
  Answer Want(int32_t content, int32_t holder, const MakeRoom* make_room);
  // Makes the content resident, and never evicts it: see `cached` in
  // docs/inside/adapters-paging.md. To be called before the first step; waits for the loader.
  Status Pin(int32_t content, const MakeRoom& make_room);

  // What was wanted in this step so far can be evicted like all that is idle.
  void LetWantedGo();

  // A holder's sequence begins, or one ends, to run on a resident or arriving content.
  AdapterSlot Use(int32_t content, int32_t holder);
  void Unuse(int32_t content);

  // The holder's idle adapter that went unused longest, among those that were not wanted in this
  // step; -1 if there is none.
  int32_t OldestIdle(int32_t holder) const { return idle_.Oldest(holder); }
  // The time of the pool at which an adapter was last used or wanted.
  uint64_t IdleSince(int32_t content) const { return at(content).used_at; }
  void Evict(int32_t content);

  // The hash of a content that was fetched at least once.
  const std::string& HashOf(int32_t content) const { return at(content).facts.hash; }
  // What is known of a content that was fetched at least once.
  const AdapterFacts& FactsOf(int32_t content) const { return at(content).facts; }
  // Pages that adapters may hold while a sequence of this content (-1: of the base model) runs
  // alone; the rest is its own.
  int32_t NumPagesBeside(int32_t content) const;
  // Whether a fetched content would find room if sequences that run gave up so many pages of KV,
  // and contents: `unused` has one for each of them.
  bool CouldBePlaced(int32_t content, std::span<const int32_t> unused, int32_t num_kv_pages);
  bool is_copying() const { return num_copying_ > 0; }
  // Something is under way that an event will end.
  bool is_busy() const { return num_copying_ + num_fetching_ > 0; }
  bool is_arriving(int32_t content) const { return at(content).state == State::kArriving; }
  // Whether it is resident or arriving.
  bool IsThere(int32_t content) const {
    return static_cast<size_t>(content) < entries_.size() && IsUsable(at(content));
  }
  // When an arriving content will be there; nothing as long as none has arrived yet.
  std::optional<ArrivalForecast> ForecastOf(int32_t content) {
    return forecast_.Of(content, now_ns_);
  }
  // The times of the content's last load, both 0 where there was none.
  struct LoadTimes {
    int64_t begin_ns = 0;
    int64_t end_ns = 0;  // 0, or of the load before, while it runs
  };
  LoadTimes LoadTimesOf(int32_t content) const;
  int32_t num_resident() const { return num_resident_; }
  // As many pages as the idle adapters' bytes fill, which could be evicted for others.
  int64_t num_idle_pages() const { return page_bytes_ > 0 ? idle_bytes_ / page_bytes_ : 0; }
  const RowPacker& packer() const { return packer_; }
  const AdapterStats& stats() const { return stats_; }
  // Idle adapters that others were compared with so far, to keep them in order. For tests.
  int64_t num_idle_visits() const { return idle_.num_visits(); }

  // Slots, pages and counts agree; `num_running` is by content. For tests.
  Status CheckIntegrity(const std::vector<int32_t>& num_running,
                        std::vector<int32_t>* page_references) const;

 private:
  enum class State : uint8_t { kAbsent, kFetching, kFetched, kCopying, kArriving, kResident };
  struct Entry {
    State state = State::kAbsent;
    bool pinned = false;
    bool in_wanted = false;
    bool unused = false;       // the table gave the content up; forgotten once nothing is under way
    bool is_slow = false;      // its fetch
    int32_t holder = kNobody;  // of what is on the device
    int32_t fetcher = kNobody;  // holder of its fetch, until it is copied or dropped
    AdapterSlot slot = kNoAdapter;
    int32_t num_running = 0;
    uint64_t wanted_at = 0;  // times of the pool
    uint64_t used_at = 0;
    LoadTimes load_times;
    AdapterFacts facts;
    PackedRows pages;
  };

  const Entry& at(int32_t content) const { return entries_[static_cast<size_t>(content)]; }
  Entry& at(int32_t content) { return entries_[static_cast<size_t>(content)]; }
  Entry& Grow(int32_t content);
  // The one way to change a state: the table, where other threads look, is told.
  void SetState(int32_t content, State state);
  static AdapterPlace PlaceOf(State state);
  static bool IsUsable(const Entry& entry) {
    return entry.state == State::kArriving || entry.state == State::kResident;
  }
  Answer NoteWanted(int32_t content);
  bool FindInHost(int32_t content);
  FetchOrder OrderOf(int32_t content) const;
  bool CouldBeEvicted(const Entry& entry) const;
  void NoteIdle(int32_t content);
  void EnterIdle(int32_t content);
  void LeaveIdle(int32_t content);
  bool CanBePlaced(int32_t content, int32_t num_kv_pages, bool has_slot) const;
  bool HasSlot() const { return !free_slots_.empty() || idle_.size() > 0; }
  bool HasFetchPlace(int32_t holder) const;
  Answer Place(int32_t content, int32_t holder, const MakeRoom& make_room);
  void CountHeld(const Entry& entry, int32_t change);
  void SetHolder(int32_t content, int32_t holder);
  Status Book(LoadEvent event);
  void DropUnwanted();
  Status BookFetch(Entry& entry, LoadEvent event);
  void BookCopy(Entry& entry, const LoadEvent& event);
  Status CheckFits(const AdapterFacts& facts) const;
  void Forget(int32_t content);
  void CountPinned();
  Status CheckIdle() const;

  PagePool& pool_;
  RoomShares& shares_;
  ContentTable& table_;
  AdapterLoader& loader_;
  const Clock& clock_;
  const int32_t slots_;
  const int64_t page_bytes_;
  const int32_t fetches_max_;
  const OnForget on_forget_;
  int64_t now_ns_ = 0;
  RowPacker packer_;
  std::vector<Entry> entries_;    // by content
  std::vector<int32_t> fetched_;  // contents, held in the host's memory until copied or dropped
  std::vector<int32_t> wanted_;   // usable contents, in this step
  std::priority_queue<int32_t, std::vector<int32_t>, std::greater<>> free_slots_;
  IdleOrder idle_;          // contents that can be evicted
  int64_t idle_bytes_ = 0;  // of those
  int32_t num_resident_ = 0;
  int32_t num_fetching_ = 0;
  int32_t num_slow_ = 0;  // of them
  int32_t num_pinned_ = 0;
  int32_t num_pinned_pages_ = 0;  // that pinned adapters lie in
  int32_t num_copying_ = 0;       // those that arrive included
  CopyForecast forecast_;
  AdapterStats stats_;
};

}  // namespace graft
