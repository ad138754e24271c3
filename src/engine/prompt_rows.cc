#include "engine/prompt_rows.h"

#include <algorithm>
#include <functional>

namespace graft {
namespace {

// Requests of the line that a plan looks at for this; those beyond are taken to be alike.
constexpr int32_t kLookedAt = 64;

int32_t TokensLeft(const Sequence& sequence) {
  return sequence.output_tokens_max - sequence.num_output_tokens();
}

}  // namespace

int32_t PromptRows::Max(int32_t rows_left, int32_t num_decodes) {
  if (!is_for_throughput()) {
    return num_decodes > 0 ? std::min(rows_left, budget_.RowsMax()) : rows_left;
  }
  const int32_t rows_max = std::min(rows_left, budget_.RowsMax());
  demand_.Clear();
  AddRunning();
  AddWaiting();
  return size_.RowsFor(demand_, rows_max);
}

void PromptRows::Learn(const StepPlan& plan, int64_t step_ns) {
  budget_.Learn(plan, step_ns);
  if (is_for_throughput()) size_.Learn(plan, step_ns);
}

void PromptRows::LearnAnswer(const Sequence& sequence) {
  if (!is_for_throughput() || sequence.output_tokens_max == 0) return;
  size_.LearnAnswer(sequence.num_output_tokens());
}

void PromptRows::AddRunning() {
  for (const auto& sequence : sequences_.running()) {
    const double tokens = size_.TokensOf(TokensLeft(*sequence));
    if (sequence->num_pending() > 1) {
      demand_.AddPrompts(1.0, sequence->num_pending(), tokens);
    } else {
      demand_.AddStream(tokens);
    }
  }
}

// What the prefix cache was found to have of a prompt takes no rows. A request that waits for its
// adapter does not begin now.
void PromptRows::AddWaiting() {
  const FairLine& line = sequences_.line();
  const auto num_places =
      std::min<int32_t>(sequences_.num_free_slots(), static_cast<int32_t>(line.size()));
  if (num_places == 0) return;
  const int32_t looked_at = std::min(num_places, kLookedAt);
  int32_t num = 0;
  double rows = 0.0, tokens = 0.0;
  const auto add = [&](const Sequence& sequence) {
    const int32_t content = sequence.adapter.content();
    if (content >= 0 && !sequences_.adapters().IsThere(content)) return;
    const int32_t cached = sequence.prefix_match.num_pages * sequences_.limits().page_tokens;
    const double its_rows = std::max(1, sequence.num_pending() - cached);
    const double its_tokens = size_.TokensOf(TokensLeft(sequence));
    demand_.AddPrompts(1.0, its_rows, its_tokens);
    ++num;
    rows += its_rows;
    tokens += its_tokens;
  };
  line.ForSome(looked_at, std::ref(add));  // a copy of it would be allocated
  const int32_t num_more = (num_places - looked_at) * num / looked_at;
  if (num_more > 0) demand_.AddPrompts(num_more, rows / num, tokens / num);
}

}  // namespace graft
