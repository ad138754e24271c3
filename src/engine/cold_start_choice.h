// The arithmetic of `--cold-start auto`. From recent times of steps, copies and the CPU's answers
// it predicts what it costs to let a request begin while its adapter arrives, in either way, and
// what it costs to let it wait. There is no clock in it, and nothing of one machine. Engine thread
// only.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "step/bridge_rates.h"

namespace graft {

struct CopySize {
  int64_t bytes = 0;
  int32_t rank = 0;        // the adapter's highest
  int32_t num_layers = 1;  // that come one after the other
};

// When an adapter will be there that is being copied, or stands in line for a copy.
struct ArrivalForecast {
  double ahead_ns = 0.0;  // until its copy begins
  double own_ns = 0.0;    // of its copy, from then on
  CopySize size;
};

// CopyForecast: when copies will end. They begin in the order in which they were ordered; the first
// few share the bus in turns. It learns from the copies that ended. It predicts the whole line at
// once, and a copy that is ordered later continues from there, so that a plan which asks for every
// request of the line looks at each copy only a few times.
class CopyForecast {
 public:
  explicit CopyForecast(int32_t copies_at_once)
      : copies_at_once_(static_cast<size_t>(copies_at_once)) {}
  void Ordered(int32_t content, const CopySize& size, int64_t now_ns);
  // The content's own bytes took `copy_ns`; 0 if the copy came to nothing.
  void Ended(int32_t content, int64_t copy_ns, int64_t now_ns);
  // Nothing as long as no copy has ended, or the content is not among those ordered. To ask for
  // many at one `now_ns` costs little more than to ask for one.
  std::optional<ArrivalForecast> Of(int32_t content, int64_t now_ns);
  // Copies that were looked at so far. For tests.
  int64_t num_visits() const { return num_visits_; }

 private:
  struct Copy {
    int32_t content = -1;
    uint64_t number = 0;  // of the order: the line is sorted by it
    CopySize size;
    double bytes_left = 0.0;
    double begin_ns = 0.0;  // as foreseen at seen_ns_, from then on
    double end_ns = 0.0;
  };
  // Copies that share the bus at a time that is foreseen.
  struct Sharing {
    size_t idx = 0;  // in line_
    double bytes_left = 0.0;
  };
  struct Moment {
    double ns = 0.0;  // since seen_ns_
    std::vector<Sharing> sharing;
  };
  double ShareFor(double ns);
  void AdvanceTo(int64_t now_ns);
  void Foresee();
  void Enter(size_t idx);
  void ForeseeEnds();
  void GoOnToNextEnd(Moment& moment);
  Copy* Find(int32_t content);

  const size_t copies_at_once_;
  std::vector<Copy> line_;         // the first copies_at_once_ were begun
  std::vector<uint64_t> numbers_;  // by content, of its last order
  uint64_t num_orders_ = 0;
  int64_t seen_ns_ = 0;  // when bytes_left was so
  double bytes_ = 0.0;   // of copies that ended, older ones counting less
  double copy_ns_ = 0.0;
  bool is_foreseen_ = false;  // begin_ns and end_ns are so
  Moment last_begin_;         // when the last one of the line begins, if it is
  Moment moment_;             // scratch
  int64_t num_visits_ = 0;
};

// Nanoseconds of a step as a line over its rows, fitted to the steps of late.
class StepCost {
 public:
  // For a step that waited for no adapter.
  void Observe(int64_t num_rows, int64_t ns);
  bool is_known() const { return weight_ > 0.0; }
  double At(int64_t num_rows) const;

 private:
  double weight_ = 0.0;  // sums over the observations, older ones counting less
  double rows_ = 0.0;
  double ns_ = 0.0;
  double rows_rows_ = 0.0;
  double rows_ns_ = 0.0;
};

// What the CPU computes in each layer of a step, by the rates measured at start.
struct BridgeWork {
  int32_t num_adapters = 0;
  int64_t num_rows = 0;
  double read_ns = 0.0;  // all by one worker
  double rows_ns = 0.0;
};

// How long BridgeWork takes: the time measured at start, times a factor that bridged steps teach.
class BridgePace {
 public:
  explicit BridgePace(BridgeRates rates = {}) : rates_(std::move(rates)) {}

  // Whether there are workers at all.
  bool is_known() const { return !rates_.ranks.empty(); }
  // Rows of an adapter, which is the work's already unless `is_new`.
  void Add(const CopySize& size, int64_t num_rows, bool is_new, BridgeWork* work) const;
  double LayerNs(const BridgeWork& work) const;
  // A step took `ns` longer for so many layers of this work.
  void Observe(const BridgeWork& work, int32_t num_layers, double ns);
  // A step did without: what was observed counts less, so that one bad day is not for ever.
  void Forget();

 private:
  double NsByRates(const BridgeWork& work) const;

  BridgeRates rates_;
  // Sums over the observations, older ones counting less; the rates are the first one.
  double weight_ = 1.0;
  double times_rates_ = 1.0;  // what layers took, in times of what the rates say
};

struct ColdStartCosts {
  StepCost steps;
  BridgePace bridge;
};

// What a step loses to adapters on their way that it names.
struct ArrivalStall {
  double wait_ns = 0.0;    // if it waits for rows before its layers
  double bridge_ns = 0.0;  // if the CPU computes where rows are missing; the same where none does
  BridgeWork work;         // that is the CPU's then
  ArrivalForecast last;    // of the adapter that is there last

  // Cores are taken for a gain alone.
  bool bridges() const { return bridge_ns < wait_ns; }
  double least_ns() const { return std::min(wait_ns, bridge_ns); }
};

// A step that is being planned, and a request that could join it.
struct ColdStartCase {
  ArrivalForecast arrival;        // of the request's adapter
  int64_t num_rows = 0;           // of the step so far
  int32_t num_others = 0;         // sequences in it
  ArrivalStall stall;             // of the step so far
  int64_t num_rows_joining = 0;   // the request's
  bool is_adapter_named = false;  // by another one in it
};

// What the step loses if the request joins. Layers are copied and computed side by side, and the
// slower of the two sets the pace. The CPU computes a layer if the step reaches it before its copy.
ArrivalStall StallWith(const ColdStartCase& step, const ColdStartCosts& costs);

// Whether all together wait less if the request begins now than if it waits, beside steps without
// it, until its adapter is there.
bool BeginsNow(const ColdStartCase& step, const ColdStartCosts& costs);

}  // namespace graft
