// WantAdapters: the first pass over a request, about its adapter. A request can begin only once its
// adapter is on the device, or while it arrives if the cold start allows that (EarlyStarts). So the
// pass asks for the adapter (Residency::Want), which begins a fetch, or a copy into pages
// that may have to be freed first. It also asks for the adapters of requests that cannot run yet,
// up to a limit, so that these are there when their turn comes. Engine thread only.
#pragma once

#include <cstdint>
#include <optional>

#include "engine/early_starts.h"
#include "engine/give_way.h"
#include "engine/sequences.h"
#include "engine/shortage.h"
#include "engine/verdict.h"

namespace graft {

class WantAdapters {
 public:
  // All are borrowed.
  WantAdapters(Sequences& sequences, Shortage& pages, Shortage& adapter_room, EarlyStarts& early,
               GiveWay& give_way)
      : sequences_(sequences),
        pages_(pages),
        adapter_room_(adapter_room),
        early_(early),
        give_way_(give_way) {}

  // Adapters that a plan asks for ahead of time.
  static constexpr int32_t kPrefetchesMax = 16;

  // A plan begins.
  void Begin() {
    num_prefetches_ = 0;
    stops_for_load_ = false;
  }

  // Asks for the adapter of a request that waits for its turn in line. Returns nothing if the
  // adapter is there, or if the request begins while it arrives; the adapter's properties are known
  // then (Sequences::LearnAdapter). Otherwise the request waits for the adapter, or fails and
  // leaves the line. `can_run`: nothing else keeps the request from beginning.
  std::optional<Verdict::Why> Decide(Sequence& sequence, bool can_run);
  // Asks for the adapter of a request in a step in which none can begin.
  std::optional<Verdict::Why> Prefetch(Sequence& sequence);
  // The plan has asked for as many adapters ahead of time as it may.
  bool has_asked_for_all() const { return num_prefetches_ >= kPrefetchesMax; }

  // Nothing may run until a load has ended (ColdStart::kBlocking): an event of the loader says so.
  bool stops_for_load() const { return stops_for_load_; }

 private:
  std::optional<Verdict::Why> Ask(Sequence& sequence, bool can_run);
  Residency::Answer WantFor(const Sequence& sequence);

  Sequences& sequences_;
  Shortage& pages_;
  Shortage& adapter_room_;
  EarlyStarts& early_;
  GiveWay& give_way_;
  int32_t num_prefetches_ = 0;  // adapters asked for, for requests that cannot run yet
  bool stops_for_load_ = false;
};

}  // namespace graft
