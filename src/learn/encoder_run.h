// EncoderRun: an encoder and a decoder learn over many documents, in the seed's two stages
// (002_d7cecee0a3a0e3c5.txt, section 3). The encoder, LoRA and virtual tokens behind a window of a
// document, makes the window's memory; the decoder, LoRA behind memories, first says the window
// from its memory (stage 1, ICAE's reconstruction), then what a teacher with the window in its
// context says, from the memories of the whole document (stage 2). Gradients go through the
// memories into the encoder. A run depends on its documents and settings alone. One thread.
#pragma once

#include <cstdint>
#include <vector>

#include "learn/learner.h"
#include "learn/trainer.h"

namespace graft {

struct EncoderDocument {
  std::vector<int32_t> tokens;
  LearnerData answers;
};

struct EncoderSettings {
  LearnerRates rates;          // passes: over the windows, then over the answers
  int32_t rank = 16;           // of either LoRA
  int32_t memory_tokens = 32;  // of a window
  int32_t window_tokens = 128;
  int32_t end_token = 0;    // said behind a window
  bool has_answers = true;  // false: stage 1 alone
  uint64_t seed = 0;
};

class EncoderRun {
 public:
  // Adds the encoder, the decoder and all memories to the trainer, which is borrowed.
  EncoderRun(Trainer& trainer, std::vector<EncoderDocument> documents,
             const EncoderSettings& settings);

  // The most windows that one of these documents has.
  static int32_t WindowsMax(std::span<const size_t> document_tokens, int32_t window_tokens);

  int32_t step() const { return step_; }
  int32_t num_steps() const { return num_reconstructions_ + num_answers_; }
  double last_loss() const { return last_loss_; }
  void Step();
  // The memories of all documents, as the encoder makes them now.
  void EncodeAll();

  // Means over the tokens of all examples, in nats.
  struct Scores {
    double reconstruction = 0.0;
    double answers_without = 0.0;  // the base's, of no memory
    double answers = 0.0;
    double held_out_without = 0.0, held_out = 0.0;
  };
  // After EncodeAll.
  Scores Evaluate();

  TrainedLora& encoder_lora() { return *trainer_.lora(encoder_); }
  TrainedPrompt& encoder_tokens() { return *trainer_.prompt(encoder_); }
  TrainedLora& decoder() { return *trainer_.lora(decoder_); }
  TrainedPrompt& memory(size_t document) { return *trainer_.prompt(memories_[document]); }

 private:
  void StepReconstruction(std::span<const int32_t> windows);
  void StepAnswers(std::span<const int32_t> answers);
  double Reconstruct(std::span<const int32_t> windows, bool learns);
  void Apply(int32_t step, int32_t num_steps, bool with_mark);
  std::vector<EncodedText> TextsOf(int32_t document) const;
  double MeanLoss(bool held_out, bool with_memory);
  // The examples of a step of `count` ones, drawn from the seed.
  std::vector<int32_t> Drawn(int32_t step, int32_t count, uint64_t stage);

  // A window of a document, which says itself behind its memory.
  struct Window {
    int32_t document;
    TrainingExample example;
  };
  // An answer about a document.
  struct Answer {
    int32_t document;
    const TrainingExample* example;
  };

  Trainer& trainer_;
  std::vector<EncoderDocument> documents_;
  const EncoderSettings settings_;
  int32_t encoder_ = 0, decoder_ = 0;
  int32_t mark_ = 0;               // ICAE's [AE]: one row behind a memory that is to be said
  std::vector<int32_t> slots_;     // memories of the windows of a step, each with the mark's row
  std::vector<int32_t> memories_;  // of documents
  std::vector<Window> windows_;
  std::vector<Answer> answers_;
  int32_t num_reconstructions_ = 0, num_answers_ = 0;  // steps
  int32_t step_ = 0;
  double last_loss_ = 0.0;
};

}  // namespace graft
