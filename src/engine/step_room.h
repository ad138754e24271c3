// StepRoom: the rows of the plan that is being made, and how many of the rest a tenant's prompt may
// have. If a tenant's prompt ends in the step, the step brings that tenant's first token, which
// must not wait for the long prompts of others. So the others' prompts have as many rows as the
// largest such tenant has, or as many as lengthen the step by half, whichever is more. A tenant
// that is alone, or has its turn before any prompt ends in the step, may have all rows. Many
// decoding sequences give way, too (GiveWay). Engine thread only.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <utility>

#include "engine/cold_start_choice.h"

namespace graft {

class StepRoom {
 public:
  // `cost` is that of the steps so far.
  explicit StepRoom(const StepCost& cost) : cost_(cost) {}

  // A step with so many rows of sequences that decode, and so many left for prompts.
  void Begin(int32_t num_rows, int32_t rows_left) {
    num_rows_ = num_rows;
    rows_left_ = rows_left;
    num_rows_max_ = -1;
    first_ = second_ = {};
  }

  // How many rows more a tenant's prompt may have, where the tenant has so many in the step.
  int32_t RowsFor(const void* tenant, int32_t its_rows, double weight) const {
    const int32_t as_others = AsOthers(tenant, weight);
    if (as_others == kNoBound) return rows_left_;
    const int32_t rows_max = std::max({as_others - its_rows, num_rows_max_ - num_rows_, 0});
    return std::min(rows_left_, rows_max);
  }

  int32_t num_rows() const { return num_rows_; }
  int32_t rows_left() const { return rows_left_; }

  // Whether a prompt ends in the step.
  bool ends_prompts() const { return first_.tenant != nullptr; }
  // As many rows, for the weight, as the largest of the other tenants with prompts that end in the
  // step has; kNoBound: there is none.
  int32_t AsOthers(const void* tenant, double weight) const {
    const Ended& others = first_.tenant == tenant ? second_ : first_;
    return others.tenant == nullptr ? kNoBound : static_cast<int32_t>(others.rows * weight);
  }
  // The number of further rows that take as long as a step with `num_rows`.
  int32_t AsLongAs(int32_t num_rows) const {
    if (cost_.is_known()) {
      const double step_ns = cost_.At(num_rows);
      const double more_ns = cost_.At(int64_t{2} * num_rows) - step_ns;  // of as many again
      if (more_ns > 0.0) return static_cast<int32_t>(std::min(step_ns / more_ns * num_rows, 2e6));
    }
    return num_rows;
  }

  static constexpr int32_t kNoBound = std::numeric_limits<int32_t>::max();

  // The tenant was given `num_rows` rows, and has `its_rows` now. They end a prompt, or do not.
  void Add(const void* tenant, int32_t its_rows, double weight, int32_t num_rows, bool ends) {
    num_rows_ += num_rows;
    rows_left_ -= num_rows;
    if (!ends) return;
    if (num_rows_max_ < 0) num_rows_max_ = num_rows_ + AsLongAs(num_rows_) / 2;
    const Ended ended = {.tenant = tenant, .rows = its_rows / weight};
    if (tenant == first_.tenant) {
      first_ = ended;
    } else if (ended.rows > first_.rows) {
      second_ = std::exchange(first_, ended);
    } else if (ended.rows > second_.rows) {
      second_ = ended;
    }
  }

 private:
  // A tenant with prompts that end in the step, and its rows over its weight.
  struct Ended {
    const void* tenant = nullptr;
    double rows = 0.0;
  };

  const StepCost& cost_;
  int32_t num_rows_ = 0;
  int32_t rows_left_ = 0;
  int32_t num_rows_max_ = -1;  // -1: no prompt ends in the step so far
  Ended first_;                // the most rows
  Ended second_;               // of another tenant
};

}  // namespace graft
