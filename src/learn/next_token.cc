// The learner next-token: cross entropy on the document's own text. It learns the wording well but
// answers questions worse than distillation does. All other learners are compared with it.
#include <algorithm>
#include <string>

#include "base/check.h"
#include "learn/learner.h"

namespace graft {
namespace {

constexpr int64_t kTokensMin = 8;        // a shorter document teaches nothing
constexpr size_t kWindowsToHoldOut = 8;  // a shorter document is learned whole

TrainingExample WindowExample(const LearnerInput& input, const DocumentWindow& window) {
  TrainingExample example;
  const auto num_fresh = static_cast<size_t>(window.end - window.fresh);
  example.tokens.reserve(input.start.size() + static_cast<size_t>(window.end - window.begin));
  example.rows.reserve(num_fresh);
  example.ids.reserve(num_fresh);
  example.probabilities.reserve(num_fresh);
  example.tokens = input.start;
  example.tokens.insert(example.tokens.end(), input.tokens.begin() + window.begin,
                        input.tokens.begin() + window.end);
  const auto start = static_cast<int64_t>(input.start.size());
  // The row before a token learns to say it.
  for (int64_t at = window.fresh; at < window.end; ++at) {
    const int64_t row = start + at - window.begin - 1;
    if (row < 0) continue;
    example.rows.push_back(static_cast<int32_t>(row));
    example.ids.push_back(input.tokens[static_cast<size_t>(at)]);
    example.probabilities.push_back(1.0f);
  }
  return example;
}

class NextTokenLearner : public Learner {
 public:
  explicit NextTokenLearner(int32_t start_tokens) : start_tokens_(start_tokens) {}

  std::string_view name() const override { return "next-token"; }
  LearnerRates rates() const override {
    return {.learning_rate = 1e-3, .passes = 32, .batch = 2, .keeps_best = false};
  }
  int32_t ExampleTokensMax(int32_t window_tokens) const override {
    return start_tokens_ + window_tokens;
  }
  LearnerDataSize DataMax(const LearnerInput& input, int32_t /*num_choices*/) const override {
    const auto windows = WindowsOf(static_cast<int64_t>(input.tokens.size()), input.window_tokens);
    LearnerDataSize size;
    size.Add(static_cast<int64_t>(windows.size()), start_tokens_, input.window_tokens, 1);
    return size;
  }

  Result<LearnerData> Prepare(const LearnerInput& input, TextWriter* /*writer*/) override {
    const auto num_tokens = static_cast<int64_t>(input.tokens.size());
    if (num_tokens < kTokensMin) {
      return InvalidArgumentError("the document has " + std::to_string(num_tokens) +
                                  " tokens; there is nothing to learn below " +
                                  std::to_string(kTokensMin));
    }
    const std::vector<DocumentWindow> windows = WindowsOf(num_tokens, input.window_tokens);
    const size_t n = windows.size();
    size_t num_held_out = 0;
    if (n >= kWindowsToHoldOut && input.held_out_share > 0.0) {
      num_held_out = std::max<size_t>(
          1, static_cast<size_t>(static_cast<double>(n) * input.held_out_share + 0.5));
    }
    LearnerData data;
    for (size_t i = 0; i < n; ++i) {
      (IsHeldOut(i, num_held_out, n) ? data.held_out : data.training)
          .push_back(WindowExample(input, windows[i]));
    }
    return data;
  }

 private:
  const int32_t start_tokens_;
};

}  // namespace

std::unique_ptr<Learner> MakeNextTokenLearner(int32_t start_tokens) {
  return std::make_unique<NextTokenLearner>(start_tokens);
}

void LearnerDataSize::Add(int64_t count, int64_t prompt_tokens, int64_t rows, int32_t num_choices) {
  constexpr int64_t kToken = sizeof(int32_t);
  constexpr int64_t kChoice = sizeof(int32_t) + sizeof(float);
  examples += count;
  tokens += count * (prompt_tokens + rows);
  // A row is a token, its place and its choices.
  bytes += count * (int64_t{sizeof(TrainingExample)} + prompt_tokens * kToken +
                    rows * (2 * kToken + num_choices * kChoice));
}

std::vector<DocumentWindow> WindowsOf(int64_t num_tokens, int32_t window_tokens) {
  CHECK_GT(window_tokens, 1);
  const int64_t overlap = window_tokens / 10;
  const int64_t fresh_max = window_tokens - overlap;
  const int64_t count = num_tokens <= window_tokens ? 1 : (num_tokens + fresh_max - 1) / fresh_max;
  std::vector<DocumentWindow> windows;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t fresh = num_tokens * i / count;
    windows.push_back({std::max<int64_t>(0, fresh - overlap), fresh, num_tokens * (i + 1) / count});
  }
  return windows;
}

}  // namespace graft
