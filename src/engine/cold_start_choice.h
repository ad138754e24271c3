// What `--cold-start auto` decides by: what steps and copies took of late, and from that what it
// costs to let a request begin while its adapter arrives, and what to let it wait. Arithmetic
// alone: no clock, nothing of one machine. Engine thread only.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>

namespace graft {

// Of an adapter that is being copied, or stands in line for it.
struct ArrivalForecast {
  double ahead_ns = 0.0;   // until its copy begins
  double own_ns = 0.0;     // of its copy, from then on
  int32_t num_layers = 1;  // that come one after the other
};

// Copies in the order in which they are made, and what those that ended took.
class CopyForecast {
 public:
  void Ordered(int32_t content, int64_t bytes, int32_t num_layers, int64_t now_ns);
  // It took `copy_ns`; 0 if it came to nothing.
  void Ended(int32_t content, int64_t copy_ns, int64_t now_ns);
  // Nothing as long as no copy has ended, or the content is not among those ordered.
  std::optional<ArrivalForecast> Of(int32_t content, int64_t now_ns) const;

 private:
  struct Copy {
    int32_t content = -1;
    int64_t bytes = 0;
    int32_t num_layers = 1;
  };
  std::deque<Copy> line_;
  int64_t begin_ns_ = 0;  // of the first in line
  double bytes_ = 0.0;    // of copies that ended, older ones counting less
  double copy_ns_ = 0.0;
};

// Nanoseconds of a step as a line over its rows, fitted to the steps of late.
class StepCost {
 public:
  // One that waited for no adapter.
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

// A step that is being planned, and a request that could join it.
struct ColdStartCase {
  ArrivalForecast arrival;       // of the request's adapter
  int64_t num_rows = 0;          // of the step so far
  int32_t num_others = 0;        // sequences in it
  double stall_ns = 0.0;         // that they wait for layers of others already
  int64_t num_rows_joining = 0;  // the request's
};

// For how long the step waits for layers if the request joins: they are copied and computed beside
// each other, whichever is slower setting the pace.
double StallWith(const ColdStartCase& step, const StepCost& steps);

// Whether all together wait less if the request begins now than if it waits, beside steps without
// it, until its adapter is there.
bool BeginsNow(const ColdStartCase& step, const StepCost& steps);

}  // namespace graft
