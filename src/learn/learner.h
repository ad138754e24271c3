// Learner: what an adapter is trained on to know a document, and at which rates. One file each;
// the training is everybody's (training_run.h). One thread at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "learn/trainer.h"

namespace graft {

// Learners' rates differ by a factor of fifty: each has its own.
struct LearnerRates {
  double learning_rate = 1e-3;
  double warmup_share = 0.06;  // of the steps: the rate rises, and falls to 0 in the others
  int32_t passes = 16;         // over the examples
  int32_t batch = 8;           // examples of a step
  float norm_max = 1.0f;       // of the gradients
  float weight_decay = 0.0f;
  bool keeps_best = false;  // by the loss on what is held out; else the last step's numbers
};

struct LearnerInput {
  std::vector<int32_t> start;   // what the model's texts begin with: BOS, or nothing
  std::vector<int32_t> tokens;  // the document
  int32_t window_tokens = 256;  // of the document in one example, at most
  double held_out_share = 0.05;
  uint64_t seed = 0;
};

struct LearnerData {
  std::vector<TrainingExample> training;  // not empty
  std::vector<TrainingExample> held_out;  // may be empty: the document is short
};

class Learner {
 public:
  virtual ~Learner() = default;
  virtual std::string_view name() const = 0;
  virtual LearnerRates rates() const = 0;
  // Tokens of an example at most, for documents in windows of this many.
  virtual int32_t ExampleTokensMax(int32_t window_tokens) const = 0;
  // The same for the same input.
  virtual Result<LearnerData> Prepare(const LearnerInput& input) = 0;
};

// The control of all others: the document's own text, every token from those before it.
std::unique_ptr<Learner> MakeNextTokenLearner();

// A window of a document: tokens [begin, end), of which those from `fresh` on are in no window
// before.
struct DocumentWindow {
  int64_t begin = 0;
  int64_t fresh = 0;
  int64_t end = 0;
};

// Windows of up to `window_tokens` that overlap by a tenth, so that all but the first tokens have
// something before them. The last one may be shorter.
std::vector<DocumentWindow> WindowsOf(int64_t num_tokens, int32_t window_tokens);

}  // namespace graft
