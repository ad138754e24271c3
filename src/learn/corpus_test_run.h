// A corpus and the settings of a run for tests on every device. For tests only.
#pragma once

#include <gtest/gtest.h>

#include <optional>
#include <utility>

#include "base/random.h"
#include "learn/corpus_run.h"

namespace graft::testing {

// Documents without an end that each have their own word, which the answer is. Most of a document
// says nothing.
class Words : public DocumentSource {
 public:
  explicit Words(int32_t count = 1 << 30) : count_(count) {}
  Result<std::optional<TaughtDocument>> Next() override {
    if (next_ == count_) return std::optional<TaughtDocument>();
    Random random(RandomBits(3, static_cast<uint64_t>(next_++)));
    const auto word = 30 + static_cast<int32_t>(random.Below(4));
    TaughtDocument document;
    for (int32_t i = 0; i < 12; ++i) document.tokens.push_back(i % 2 == 0 ? word : 40 + i);
    TaughtQuestion question{.behind = {7}, .prompt = {1, 7}, .answer = {word, 2}, .end = 12};
    document.questions.assign(2, question);
    return std::optional<TaughtDocument>(std::move(document));
  }
  int32_t next() const { return next_; }
  void Skip(int64_t documents) { next_ += static_cast<int32_t>(documents); }

 private:
  const int32_t count_;
  int32_t next_ = 0;
};

inline CorpusSettings SettingsOf(const MemoryForm& form) {
  return {.rates = {.learning_rate = 1e-2, .prompt_learning_rate = 1e-2, .batch = 4},
          .steps = 60,
          .rank = 4,
          .decoder_rank = 4,
          .form = form,
          .stages = {{0.2, 6, {1}}, {1.0, 0, {2, 4}}},
          .start = {1},
          .prompt_start = 1,
          .document_tokens = 12,
          .questions = 2,
          .questions_together = 2,
          .question_tokens = 8,
          .pieces = 1,
          .piece_tokens = 10,
          .corpus_share = 1.0f,
          .held_out = 6,
          .seed = 5};
}

inline TrainingLimits LimitsOf(const CorpusSettings& settings) {
  TrainingLimits limits{.rank_max = 4};
  limits.rows_max = settings.rates.batch * CorpusRun::RowsOfDocument(settings);
  limits.sequences_max = settings.rates.batch * CorpusRun::TextsOfDocument(settings);
  limits.prefix_tokens_max = CorpusRun::MemoryTokensMax(settings);
  limits.chooses = true;
  return limits;
}

// A run with its trainer and its corpus.
struct CorpusRunOf {
  CorpusRunOf(const ModelConfig& config, const ModelWeights& weights, Stream& stream,
              const CorpusSettings& settings, int32_t count = 1 << 30)
      : source(count),
        trainer(config, weights, LimitsOf(settings), stream),
        run(trainer, source, settings) {}
  bool Begin(const std::string& checkpoint) {
    return *run.Begin(checkpoint, [this](int64_t documents) {
      source.Skip(documents);
      return OkStatus();
    });
  }
  // All steps that are left.
  void Learn() {
    while (!run.is_done()) ASSERT_TRUE(run.Step().ok());
  }
  Words source;
  Trainer trainer;
  CorpusRun run;
};

}  // namespace graft::testing
