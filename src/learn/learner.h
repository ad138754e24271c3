// Learner: what an adapter is trained on to know a document, and at which rates. Each has a file of
// its own, but those that distill's texts teach share study_learner.cc. All train alike
// (training_run.h). One thread at a time.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "learn/text_writer.h"
#include "learn/trainer.h"

namespace graft {

// Each learner has its own, since their best rates differ by a factor of fifty.
struct LearnerRates {
  double learning_rate = 1e-3;         // of LoRA
  double prompt_learning_rate = 1e-2;  // of virtual tokens
  double warmup_share = 0.06;          // share of steps with a rising rate; then it falls to 0
  int32_t passes = 16;                 // over the examples
  int32_t steps = 0;                   // in place of those that the passes make; 0: these
  int32_t batch = 8;                   // examples of a step
  float norm_max = 1.0f;               // bound on the gradients' norm
  float weight_decay = 0.0f;
  bool keeps_best = false;  // by the loss on what is held out; else the last step's numbers

  int32_t StepsFor(size_t num_examples) const {
    if (steps > 0) return steps;
    const int64_t visits = static_cast<int64_t>(num_examples) * passes;
    return static_cast<int32_t>((visits + batch - 1) / batch);
  }
  // The passes that all steps need, of which the last may end early; more than anything runs for
  // are as many as there are numbers for.
  int32_t PassesFor(size_t num_examples) const {
    constexpr int64_t kPassesMax = std::numeric_limits<int32_t>::max();
    if (steps == 0 || num_examples == 0) return passes;
    const auto examples = static_cast<int64_t>(num_examples);
    const int64_t needed = (int64_t{steps} * batch + examples - 1) / examples;
    return static_cast<int32_t>(std::min(kPassesMax, needed));
  }
  // What step `step` of num_steps has if the rate rises to `rate`.
  UpdateSettings SettingsAt(double rate, int32_t step, int32_t num_steps) const {
    const auto warmup = static_cast<int32_t>(std::ceil(warmup_share * num_steps));
    const double share = step < warmup
                             ? static_cast<double>(step + 1) / (warmup + 1)
                             : static_cast<double>(num_steps - step) / (num_steps - warmup);
    return {.learning_rate = static_cast<float>(rate * share),
            .weight_decay = weight_decay,
            .norm_max = norm_max};
  }
};

struct LearnerInput {
  std::vector<int32_t> start;   // the model's texts begin with it: mostly BOS, or nothing
  std::vector<int32_t> tokens;  // the document
  int32_t window_tokens = 128;  // of the document in one example, at most
  double held_out_share = 0.05;
  uint64_t seed = 0;
};

// A question as a model is asked it, and the base's answer with the document in front.
struct AskedQuestion {
  std::vector<int32_t> prompt;
  std::vector<int32_t> answer;  // with the token that ends it
};

// What an adapter begins with in place of its learner's own numbers: those of another adapter of
// its shape.
struct AdapterNumbers {
  std::shared_ptr<const std::vector<float>> lora;  // of many documents the same; null: none
  std::vector<float> prompt;                       // of virtual tokens; empty: none
};

struct LearnerData {
  std::vector<TrainingExample> training;  // not empty
  std::vector<TrainingExample> held_out;  // may be empty: the document is short
  std::vector<AskedQuestion> asked;       // the questions among held_out
  // Examples that have nothing to do with the document. They are learned, but are in no score. A
  // pass has kept_of_pass of them, in turns.
  std::vector<TrainingExample> kept;
  int32_t kept_of_pass = 0;
  std::vector<int32_t> text;  // of the document, where virtual tokens begin
  AdapterNumbers begins = {};
};

// The memory that examples will take, and the tokens of a pass, before there are any examples.
struct LearnerDataSize {
  int64_t examples = 0;
  int64_t bytes = 0;
  int64_t tokens = 0;

  // Adds `count` examples of `prompt_tokens` tokens and, behind them, `rows` rows to look at.
  void Add(int64_t count, int64_t prompt_tokens, int64_t rows, int32_t num_choices);
};

// The sizes of a learner's adapters, unless others are asked for.
struct LearnerParts {
  int32_t rank = 16;           // of LoRA; 0: none
  int32_t virtual_tokens = 0;  // 0: it trains none
  VirtualTokenKind kind = VirtualTokenKind::kEmbedding;
};

class Learner {
 public:
  virtual ~Learner() = default;
  virtual std::string_view name() const = 0;
  virtual LearnerRates rates() const = 0;
  virtual LearnerParts parts() const { return {}; }
  // The most tokens of an example, for documents in windows of this many.
  virtual int32_t ExampleTokensMax(int32_t window_tokens) const = 0;
  // Whether it has texts written. TeacherTokensMax bounds their prompts with their answers.
  virtual bool writes() const { return false; }
  virtual int32_t TeacherTokensMax(int32_t /*window_tokens*/) const { return 0; }
  // Bounds what Prepare makes of the input, with texts that have num_choices choices a token.
  virtual LearnerDataSize DataMax(const LearnerInput& input, int32_t num_choices) const = 0;
  // Returns the same for the same input. `writer` must not be null if writes().
  virtual Result<LearnerData> Prepare(const LearnerInput& input, TextWriter* writer) = 0;
};

// The learner that all others are compared with. It learns every token of the document from those
// before it. `start_tokens`: the size of LearnerInput::start.
std::unique_ptr<Learner> MakeNextTokenLearner(int32_t start_tokens = 1);

// What the base reads about a window, and what the adapter reads in place of it.
struct DistillPrompt {
  std::vector<int32_t> before;  // the window
  std::vector<int32_t> behind;
  std::vector<int32_t> student;
};

// Questions as users will ask them. Code that knows the words makes one (tuning/teacher_prompts.h).
class QuestionForm {
 public:
  virtual ~QuestionForm() = default;
  // What the base reads so that it writes questions. No adapter is taught such a text.
  virtual const DistillPrompt& writes() const = 0;
  // About how many questions such a text has.
  virtual int32_t questions_a_text() const = 0;
  // The questions in a text of the base, as users will ask them. The teacher has the window, too.
  virtual Result<std::vector<DistillPrompt>> QuestionsIn(std::span<const int32_t> text) const = 0;
  // The most tokens that a question adds to the window and to the answer. Longer ones are left out.
  virtual int32_t prompt_tokens_max() const = 0;
  virtual int32_t answer_tokens_max() const = 0;
  // How many of the tokens that the base said are the answer, with the token that ends it.
  virtual size_t AnswerTokens(std::span<const int32_t> said) const = 0;
};

struct DistillSettings {
  std::vector<DistillPrompt> prompts;
  int32_t start_tokens = 1;  // of LearnerInput::start
  int32_t outputs = 4;       // texts of each window and prompt
  int32_t output_tokens = 128;
  std::shared_ptr<const QuestionForm>
      form;               // shared by copies of these settings; null: no questions
  int32_t questions = 0;  // about as many for a whole window; a shorter one has fewer
  // How many examples all steps visit; no more questions are asked. 0: as many as above.
  int64_t visits = 0;
  // Texts that hold the adapter to the base on other subjects, so many in each pass. They are
  // pieces of the given texts, if there are any. Else the base writes them behind each of these
  // starts in turn, none of which is empty. Passes have different ones as long as there are any.
  int32_t kept = 0;
  int32_t kept_passes = 1;
  float kept_weight = 1.0f;  // TrainingExample::weight
  std::vector<std::vector<int32_t>> kept_starts;
  std::vector<std::vector<int32_t>> kept_texts;
};
// The base has the document in its context and teaches the adapter, which has not.
std::unique_ptr<Learner> MakeDistillLearner(DistillSettings settings);

// Virtual tokens of one document. They begin as tokens spread over it and are taught like distill's
// adapter, with LoRA if a rank is asked for. It is a cheap form of the memory tokens of "Dynamic
// LoRA serving system for offline context learning" (Cao and Tan).
std::unique_ptr<Learner> MakeMemoryLearner(DistillSettings settings);

// Cartridges (Eyuboglu et al. 2025): keys and values of every layer. They begin as the base's own
// of the document's first tokens, and are taught like distill's adapter.
std::unique_ptr<Learner> MakePrefixLearner(DistillSettings settings);

// That paper's own form of memory: an encoder makes virtual tokens of any document, and a decoder's
// LoRA reads them. Both are taught over a corpus (corpus_run.h).
std::unique_ptr<Learner> MakeEncoderLearner(DistillSettings settings);

// A question as it will be asked, and its answer.
struct TaskQuestion {
  std::vector<int32_t> prompt;  // not empty
  std::vector<int32_t> answer;  // not empty
  int32_t document = -1;        // the frozen adapter in the trainer's table; -1: none
};
// DCD's shared extractor: one LoRA that is taught beside the frozen adapters of many documents.
std::unique_ptr<Learner> MakeTaskLearner(std::vector<TaskQuestion> questions);

// Whether the i-th of n is held out, if num_held_out are, spread over all. The first never is.
inline bool IsHeldOut(size_t i, size_t num_held_out, size_t n) {
  return (i + 1) * num_held_out / n > i * num_held_out / n;
}

// A window of a document: tokens [begin, end). Those from `fresh` on are in no window before it.
struct DocumentWindow {
  int64_t begin = 0;
  int64_t fresh = 0;
  int64_t end = 0;
};

// Windows of up to `window_tokens`. They overlap by a tenth of that, so that all but the first
// tokens have something before them. All have as many fresh tokens, give or take one, so that no
// few tokens weigh as much as a whole window.
std::vector<DocumentWindow> WindowsOf(int64_t num_tokens, int32_t window_tokens);

}  // namespace graft
