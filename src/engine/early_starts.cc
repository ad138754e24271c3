#include "engine/early_starts.h"

#include <algorithm>
#include <utility>

namespace graft {

void EarlyStarts::Count() {
  if (sequences_.options().cold_start != ColdStart::kAuto) return;
  if (std::exchange(is_counted_, true)) return;
  num_planned_ = static_cast<int32_t>(
      std::count_if(sequences_.running().begin(), sequences_.running().end(),
                    [](const auto& sequence) { return sequence->num_planned > 0; }));
  stall_ = StallOfPlanned();
}

bool EarlyStarts::BeginsNow(const Sequence& sequence) {
  const SchedulerOptions& options = sequences_.options();
  if (options.cold_start != ColdStart::kAuto) return BeginsEarly(options.cold_start);
  const int32_t content = sequence.adapter.content();
  const auto arrival = sequences_.adapters().ForecastOf(content);
  // Nothing was timed yet. A step that would be empty otherwise loses nothing by waiting.
  if (!arrival.has_value() || !costs_.steps.is_known()) return num_planned_ == 0;
  const ColdStartCase step = {
      .arrival = *arrival,
      .num_rows = room_.num_rows(),
      .num_others = num_planned_,
      .stall = stall_,
      .num_rows_joining =
          std::min({sequence.num_pending(), room_.rows_left(), options.prefill_chunk_max}),
      .is_adapter_named = IsNamed(content)};
  if (!graft::BeginsNow(step, costs_)) return false;
  stall_ = StallWith(step, costs_);
  return true;
}

bool EarlyStarts::IsNamed(int32_t content) const {
  return std::any_of(sequences_.running().begin(), sequences_.running().end(),
                     [content](const auto& sequence) {
                       return sequence->num_planned > 0 && sequence->adapter.content() == content;
                     });
}

ArrivalStall EarlyStarts::StallOfPlanned() {
  Residency& adapters = sequences_.adapters();
  if (!adapters.is_copying() || !costs_.steps.is_known()) return {};
  ColdStartCase step;
  for (const auto& sequence : sequences_.running()) step.num_rows += sequence->num_planned;
  contents_.clear();
  for (const auto& sequence : sequences_.running()) {
    const int32_t content = sequence->adapter.content();
    if (sequence->num_planned == 0 || content < 0 || !adapters.is_arriving(content)) continue;
    const auto arrival = adapters.ForecastOf(content);
    if (!arrival.has_value()) continue;
    step.arrival = *arrival;
    step.is_adapter_named =
        std::find(contents_.begin(), contents_.end(), content) != contents_.end();
    if (!step.is_adapter_named) contents_.push_back(content);
    step.num_rows_joining = sequence->num_planned;
    step.num_rows -= sequence->num_planned;
    step.stall = StallWith(step, costs_);
    step.num_rows += sequence->num_planned;
  }
  return step.stall;
}

}  // namespace graft
