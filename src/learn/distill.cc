// The learner distill: Deep Context Distillation (arXiv 2503.08727). The base that has a window of
// the document in its context teaches the adapter that has not. Both predict the same texts: what
// the base writes about the window, and the document's own text behind each half window. The
// teacher's likeliest tokens are stored while it writes, once; each text is visited many times.
#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/random.h"
#include "learn/learner.h"

namespace graft {
namespace {

constexpr int64_t kTaughtTokensMin = 4;  // of a text that is worth an example
constexpr size_t kExamplesToHoldOut = 8;

std::vector<int32_t> Joined(std::vector<int32_t> first, std::span<const int32_t> second) {
  first.insert(first.end(), second.begin(), second.end());
  return first;
}

// What the student reads before a text, in place of all that the teacher reads.
struct Lesson {
  WriteOrder order;
  std::vector<int32_t> student_prompt;
};

TrainingExample ExampleOf(const Lesson& lesson, const TaughtText& text, int32_t num_choices) {
  TrainingExample example;
  example.num_choices = num_choices;
  example.tokens = Joined(lesson.student_prompt, text.tokens);
  const auto before = static_cast<int32_t>(lesson.student_prompt.size());
  example.teacher_prompt = lesson.order.prompt;
  example.num_replaced = before;
  for (size_t i = 0; i < text.tokens.size(); ++i) {
    const int32_t row = before + static_cast<int32_t>(i) - 1;
    if (row < 0) continue;  // nothing stands before it
    example.rows.push_back(row);
    const auto k = static_cast<size_t>(num_choices);
    for (size_t j = i * k; j < (i + 1) * k; ++j) {
      example.ids.push_back(text.ids[j]);
      example.probabilities.push_back(text.probabilities[j]);
    }
  }
  return example;
}

class DistillLearner : public Learner {
 public:
  explicit DistillLearner(DistillSettings settings) : settings_(std::move(settings)) {}

  std::string_view name() const override { return "distill"; }
  LearnerRates rates() const override {
    return {.learning_rate = 1e-3, .passes = 16, .batch = 8, .keeps_best = true};
  }
  bool writes() const override { return true; }
  // The document's own text is behind what texts begin with, of which one token is reckoned with.
  int32_t ExampleTokensMax(int32_t window_tokens) const override {
    size_t longest = 0;
    for (const DistillPrompt& prompt : settings_.prompts) {
      longest = std::max(longest, prompt.student.size());
    }
    return std::max(static_cast<int32_t>(longest) + settings_.output_tokens, 1 + window_tokens / 2);
  }
  int32_t TeacherTokensMax(int32_t window_tokens) const override {
    size_t longest = 0;
    for (const DistillPrompt& prompt : settings_.prompts) {
      longest = std::max(longest, prompt.before.size() + prompt.behind.size());
    }
    return std::max(static_cast<int32_t>(longest) + window_tokens + settings_.output_tokens,
                    1 + window_tokens);
  }

  int64_t TaughtRowsMax(const LearnerInput& input) const override {
    const auto num_tokens = static_cast<int64_t>(input.tokens.size());
    const auto num_windows =
        static_cast<int64_t>(WindowsOf(num_tokens, input.window_tokens).size());
    const auto num_prompts = static_cast<int64_t>(settings_.prompts.size());
    return num_windows * num_prompts * settings_.outputs * settings_.output_tokens + num_tokens;
  }

  Result<LearnerData> Prepare(const LearnerInput& input, TextWriter* writer) override {
    CHECK(writer != nullptr);
    const std::vector<Lesson> lessons = MakeLessons(input);
    std::vector<WriteOrder> orders;
    for (const Lesson& lesson : lessons) orders.push_back(lesson.order);
    ASSIGN_OR_RETURN(const std::vector<TaughtText> texts, writer->Write(orders));
    CHECK_EQ(texts.size(), lessons.size());
    std::vector<TrainingExample> examples;
    for (size_t i = 0; i < lessons.size(); ++i) {
      if (static_cast<int64_t>(texts[i].tokens.size()) < kTaughtTokensMin) continue;
      examples.push_back(ExampleOf(lessons[i], texts[i], writer->num_choices()));
    }
    if (examples.empty()) {
      return InvalidArgumentError("the document has " + std::to_string(input.tokens.size()) +
                                  " tokens, and the base wrote nothing about them");
    }
    return HoldOut(std::move(examples), input.held_out_share);
  }

 private:
  std::vector<Lesson> MakeLessons(const LearnerInput& input) const {
    const std::span<const int32_t> tokens = input.tokens;
    std::vector<Lesson> lessons;
    for (const DocumentWindow& window :
         WindowsOf(static_cast<int64_t>(tokens.size()), input.window_tokens)) {
      const auto text = tokens.subspan(static_cast<size_t>(window.begin),
                                       static_cast<size_t>(window.end - window.begin));
      for (const DistillPrompt& prompt : settings_.prompts) {
        for (int32_t i = 0; i < settings_.outputs; ++i) {
          lessons.push_back({{.prompt = Joined(Joined(prompt.before, text), prompt.behind),
                              .tokens_max = settings_.output_tokens,
                              .seed = RandomBits(input.seed, lessons.size())},
                             prompt.student});
        }
      }
    }
    const auto half = static_cast<size_t>(input.window_tokens) / 2;
    for (size_t begin = half; begin < tokens.size(); begin += half) {
      const auto given = tokens.subspan(begin, std::min(half, tokens.size() - begin));
      lessons.push_back({{.prompt = Joined(input.start, tokens.subspan(begin - half, half)),
                          .given = {given.begin(), given.end()}},
                         input.start});
    }
    return lessons;
  }

  // Texts spread over all of them: of every window, unlike a window that nobody learns.
  static LearnerData HoldOut(std::vector<TrainingExample> examples, double share) {
    LearnerData data;
    const size_t n = examples.size();
    size_t num_held_out = 0;
    if (n >= kExamplesToHoldOut && share > 0.0) {
      num_held_out = std::max<size_t>(1, static_cast<size_t>(static_cast<double>(n) * share + 0.5));
    }
    for (size_t i = 0; i < n; ++i) {
      const bool is_held_out = (i + 1) * num_held_out / n > i * num_held_out / n;
      (is_held_out ? data.held_out : data.training).push_back(std::move(examples[i]));
    }
    return data;
  }

  const DistillSettings settings_;
};

}  // namespace

std::unique_ptr<Learner> MakeDistillLearner(DistillSettings settings) {
  return std::make_unique<DistillLearner>(std::move(settings));
}

}  // namespace graft
