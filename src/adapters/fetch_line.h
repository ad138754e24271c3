// FetchLine: fetches of adapters from their order to their end, and which of them a free thread
// takes next. A thread first looks for the size of a folder's files, which takes neither a turn nor
// room, and puts the fetch back in its place. Then a thread and room in memory are given at once,
// to holders in turns and to one holder's fetches in their order. So a fetch that has a thread has
// its room, and none that waits for room keeps a thread. The first in turn that finds no room keeps
// it from those behind, so that a large one is read in the end.
// No lock, no clock, no thread: PagedLoader holds its lock over every call.
#pragma once

#include <cstdint>
#include <deque>
#include <list>
#include <optional>

#include "step/adapter_loader.h"

namespace graft {

struct FetchLimits {
  int32_t threads = 2;  // that read folders for one holder
  // Further threads: for other holders, and in the place of threads that hang on a folder.
  int32_t threads_more = 16;
  // After this a fetch is slow (LoadEvent::kSlow), and another thread takes its place once one is
  // free or may be added.
  int64_t slow_ns = 2'000'000'000;
  // After this, in line and at its folder together, it has failed. Where a thread hangs on its
  // folder, further ones of the folder fail at once until the storage has answered.
  int64_t give_up_ns = 120'000'000'000;
  // Memory that reading takes at once, and what was fetched and finds no room in the store. Slow
  // fetches count, and those that were given up do not: what hangs for so long has stopped.
  int64_t bytes_max = int64_t{1} << 30;
  // One that finds less room is read all the same where none is read but slow ones, and so many
  // such at once: it is larger than the limit, or slow ones fill that, or what was fetched does.
  // A holder of which nothing is read has one besides: slow storage is the others'.
  int32_t beyond_max = 4;
  // Contents that are kept for a copy that is not ordered yet.
  int32_t held_max = 8;
};

enum class FetchPhase : uint8_t {
  kOrdered,  // in line, its size unknown
  kLooking,  // for its size, by a thread
  kSized,    // in line for room and a thread
  kReading,  // by a thread
};

struct AdapterFetch {
  FetchOrder order;
  std::optional<CopyOrder> copy;  // what it is fetched for, if it is not for its own sake
  FetchPhase phase = FetchPhase::kOrdered;
  int64_t ordered_ns = 0;
  int64_t since_ns = 0;      // in this phase
  int64_t bytes = 0;         // of memory that reading takes, once it has its size
  bool is_slow = false;      // another thread may take its place, once and for all
  bool is_beyond = false;    // it is read although there was less room
  bool is_done = false;      // it will not be given up any more
  bool is_given_up = false;  // and its thread hangs

  bool has_thread() const { return phase == FetchPhase::kLooking || phase == FetchPhase::kReading; }
};

class FetchLine {
 public:
  explicit FetchLine(const FetchLimits& limits) : limits_(limits) {}

  void Add(FetchOrder order, std::optional<CopyOrder> copy, int64_t now_ns);
  // The next fetch, which is kLooking or kReading from here on; null: none can go on. `held_bytes`
  // of the room are taken beside the line: what was fetched, and reads that stand in no line. It
  // stays where it is until Erase.
  AdapterFetch* TakeNext(int64_t held_bytes, int64_t now_ns);
  bool HasNext(int64_t held_bytes) { return FindNext(held_bytes) != nullptr; }
  // It was looked at; 0 bytes need no room.
  void SetSize(AdapterFetch& fetch, int64_t bytes, int64_t now_ns);
  void Erase(const AdapterFetch& fetch);

  // In order of arrival, those given up too until their threads return. No phase is changed here.
  std::list<AdapterFetch>& fetches() { return fetches_; }
  const std::list<AdapterFetch>& fetches() const { return fetches_; }
  int64_t num_with_thread() const;
  // From when on it is slow if its thread still has it, and is given up in any case.
  int64_t SlowFromNs(const AdapterFetch& fetch) const { return fetch.since_ns + limits_.slow_ns; }
  int64_t GiveUpFromNs(const AdapterFetch& fetch) const {
    return fetch.ordered_ns + limits_.give_up_ns;
  }
  // What reading takes, all in all.
  int64_t bytes() const;

 private:
  AdapterFetch* FindNext(int64_t held_bytes);
  AdapterFetch* FirstInLine(int32_t holder);
  bool MayHaveThread(int32_t holder) const;
  bool HasRoom(const AdapterFetch& fetch, int64_t held_bytes) const;
  bool MayGoBeyond(const AdapterFetch& fetch, bool is_kept) const;
  int64_t BytesThatCount() const;
  void EndTurn(int32_t holder);
  bool IsInLine(int32_t holder) const;

  const FetchLimits limits_;
  std::list<AdapterFetch> fetches_;
  std::deque<int32_t> turns_;  // holders with fetches that are not read yet, the next one first
};

}  // namespace graft
