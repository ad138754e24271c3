// Documents that an encoder learns in tests, and what must hold on every device. For tests only.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "learn/encoder_run.h"

namespace graft::testing {

// Three documents of few different tokens each. Every answer says tokens of its own document.
inline std::vector<EncoderDocument> Documents() {
  std::vector<EncoderDocument> documents;
  for (int32_t i = 0; i < 3; ++i) {
    EncoderDocument document;
    for (int32_t j = 0; j < 10 + 5 * i; ++j) document.tokens.push_back(40 * i + 20 + j % 3);
    for (int32_t j = 0; j < 4; ++j) {
      TrainingExample example;
      example.tokens = {1, 200 + j, 40 * i + 20, 40 * i + 21};
      example.rows = {1, 2};
      example.ids = {40 * i + 20, 40 * i + 21};
      example.probabilities = {1.0f, 1.0f};
      (j == 3 ? document.answers.held_out : document.answers.training).push_back(example);
    }
    documents.push_back(std::move(document));
  }
  return documents;
}

inline EncoderSettings Settings() {
  return {.rates = {.learning_rate = 1e-2, .prompt_learning_rate = 1e-2, .passes = 12, .batch = 3},
          .rank = 4,
          .memory_tokens = 2,
          .window_tokens = 12,
          .end_token = 2,
          .seed = 5};
}

inline EncoderSettings MapSettings(const ModelConfig& config, Embedder embedder) {
  EncoderSettings settings = Settings();
  settings.embedder = embedder;
  settings.hidden_size = config.hidden_size;
  return settings;
}

// The numbers of an encoder, its decoder and a document's memory, as files have them.
inline std::vector<float> NumbersOf(EncoderRun& run) {
  run.EncodeAll();
  std::vector<float> all;
  std::vector<std::span<const float>> parts = {
      run.encoder_tokens().parameters(), run.decoder().parameters(), run.memory(2).parameters()};
  if (run.encoder_lora() != nullptr) parts.push_back(run.encoder_lora()->parameters());
  for (const auto part : parts) all.insert(all.end(), part.begin(), part.end());
  return all;
}

inline void ExpectGoesOn(const ModelConfig& config, const ModelWeights& weights,
                         const TrainingLimits& limits,
                         const std::vector<EncoderDocument>& documents, EncoderSettings settings,
                         Stream& stream) {
  settings.rates.passes = 2;
  settings.identity = "one";
  const std::string path = ::testing::TempDir() + "encoder.learning";
  Trainer trainer(config, weights, limits, stream);
  EncoderRun whole(trainer, documents, settings);
  std::vector<std::string> saved;
  while (whole.step() < whole.num_steps()) {
    whole.Step();
    if (whole.step() != 1 && whole.step() != whole.num_steps() - 2) continue;
    saved.push_back(path + std::to_string(whole.step()));
    ASSERT_TRUE(whole.SaveCheckpoint(saved.back()).ok());
  }
  ASSERT_EQ(saved.size(), 2u);
  const std::vector<float> expected = NumbersOf(whole);
  for (const std::string& checkpoint : saved) {
    SCOPED_TRACE(checkpoint);
    Trainer another(config, weights, limits, stream);
    EncoderRun run(another, documents, settings);
    ASSERT_TRUE(*run.Resume(checkpoint));
    while (run.step() < run.num_steps()) run.Step();
    EXPECT_TRUE(NumbersOf(run) == expected);
    EXPECT_EQ(run.last_loss(), whole.last_loss());
  }
  {
    std::vector<EncoderDocument> others = documents;
    others[1].answers.training[0].ids[0] += 1;
    Trainer another(config, weights, limits, stream);
    EncoderRun run(another, others, settings);
    EXPECT_FALSE(*run.Resume(saved[0])) << "its answers were written anew";
  }
  settings.identity = "other";
  Trainer another(config, weights, limits, stream);
  EncoderRun other(another, documents, settings);
  EXPECT_FALSE(*other.Resume(saved[0]));
  for (const std::string& checkpoint : saved) std::filesystem::remove(checkpoint);
}

}  // namespace graft::testing
