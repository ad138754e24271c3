// EncoderRun: an encoder and a decoder learn over many documents, in two stages, as "Dynamic
// LoRA serving system for offline context learning" (Cao and Tan, section 3) has them. The encoder,
// LoRA and virtual tokens behind a window of a document, makes the window's memory; the decoder,
// LoRA behind memories, first says the window from its memory (stage 1, ICAE's reconstruction),
// then what a teacher with the window in its context says, from the memories of the whole document
// (stage 2), and before that, where that is asked for, from the window's memory alone, as ICAE has
// it. Gradients go through the memories into the encoder. A step depends on documents, settings and
// its own number alone, so a run that goes on from a checkpoint ends with the same bits. On
// whatever device the trainer has. One thread.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "learn/checkpoint.h"
#include "learn/learner.h"
#include "learn/trainer.h"

namespace graft {

struct EncoderDocument {
  std::vector<int32_t> tokens;
  LearnerData answers;
};

// What makes memories: LoRA and virtual tokens behind a window; or the base's own vectors of equal
// pieces of it, one for a token of the memory, which a linear map takes to embeddings.
enum class Embedder : uint8_t { kTrained, kLast, kMean };

struct EncoderSettings {
  LearnerRates rates;          // passes: over the answers
  int32_t rank = 16;           // of either LoRA
  int32_t memory_tokens = 32;  // of a window
  int32_t window_tokens = 128;
  int32_t window_passes = 0;         // of the first stage; 0: as many as over the answers
  int32_t window_answer_passes = 0;  // over the answers behind the memory of their window alone
  int32_t end_token = 0;             // said behind a window
  bool reconstruction_only = false;  // stage 1 alone
  Embedder embedder = Embedder::kTrained;
  int32_t hidden_size = 0;  // of the model, where that is not kTrained
  uint64_t seed = 0;
  // Of all that the run depends on besides its answers: no other one's checkpoint is taken.
  std::string identity;
};

class EncoderRun {
 public:
  // Adds the encoder, the decoder and all memories to the trainer, which is borrowed.
  EncoderRun(Trainer& trainer, std::vector<EncoderDocument> documents,
             const EncoderSettings& settings);

  // All that it adds, the encoder first, then the decoder; of documents of so many tokens.
  static std::vector<TrainedShape> ShapesOf(std::span<const size_t> document_tokens,
                                            const EncoderSettings& settings);
  // Windows of the documents that a step's answers are of, about: what an encoder reads at once, if
  // it can.
  static int32_t TextsAtOnce(std::span<const size_t> document_tokens,
                             const EncoderSettings& settings);
  // Rows that stand before an example at most.
  static int32_t RowsBeforeMax(std::span<const size_t> document_tokens,
                               const EncoderSettings& settings);

  int32_t step() const { return step_; }
  int32_t num_steps() const { return num_reconstructions_ + num_window_answers_ + num_answers_; }
  double last_loss() const { return last_loss_; }
  void Step();

  Status SaveCheckpoint(const std::string& path);
  // false: there is none, or it is another run's.
  Result<bool> Resume(const std::string& path);

  // A map becomes what its file will have: training moves numbers that are finer. Nothing happens
  // to a trained encoder, which computes with its file's.
  void RoundMap();
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

  // Null of a map.
  TrainedLora* encoder_lora() { return trainer_.lora(encoder_); }
  // Virtual tokens, or a map's rows and its bias.
  TrainedPrompt& encoder_tokens() { return *trainer_.prompt(encoder_); }
  TrainedLora& decoder() { return *trainer_.lora(decoder_); }
  TrainedPrompt& memory(size_t document) { return *trainer_.prompt(memories_[document]); }

 private:
  // A window of a document, which says itself behind its memory.
  struct Window {
    int32_t document;
    TrainingExample example;
  };
  // An answer about a document.
  struct Answer {
    int32_t document;
    int32_t window;  // of all documents'; -1: it is about more
    const TrainingExample* example;
  };
  enum class Stage : uint8_t { kReconstruction, kWindowAnswers, kAnswers };
  // An example behind its window's memory alone.
  struct WindowExample {
    int32_t window;
    const TrainingExample* example;
  };

  // A window, and its part of a memory.
  struct WindowMemory {
    int32_t window;
    int32_t memory;
    int32_t first;
  };

  void AddDocument(EncoderDocument& document, int32_t memory);
  void BeginMap();
  bool is_map() const { return settings_.embedder != Embedder::kTrained; }
  std::vector<EncodedText> TextsOf(std::span<const WindowMemory> windows) const;
  std::vector<MappedRows> MappedOf(std::span<const WindowMemory> windows) const;
  void Encode(std::span<const WindowMemory> windows);
  void BackwardEncoder(std::span<const WindowMemory> windows);
  std::vector<WindowExample> WindowsAt(std::span<const int32_t> drawn) const;
  std::vector<WindowExample> WindowAnswersAt(std::span<const int32_t> drawn) const;
  double RunBehindWindows(std::span<const WindowExample> examples, bool learns);
  void StepAnswers(std::span<const int32_t> answers);
  void Apply(int32_t step, int32_t num_steps, bool with_mark);
  // Adds the windows of a document, each with its part of the document's memory.
  void AddWindows(int32_t document, std::vector<WindowMemory>* windows) const;
  double MeanLoss(bool held_out, bool with_memory);
  LearnerRates RatesOf(Stage stage) const;
  size_t CountOf(Stage stage) const;
  // The examples of a step of a stage, and the order of a pass, drawn from the seed.
  std::vector<int32_t> Drawn(Stage stage, int32_t step);
  std::vector<int32_t> OrderOf(Stage stage, int64_t pass) const;
  std::vector<CheckpointPart> State();
  Status ReadState(const std::string& json);

  Trainer& trainer_;
  std::vector<EncoderDocument> documents_;
  const EncoderSettings settings_;
  const std::string identity_;
  int32_t encoder_ = 0, decoder_ = 0;
  int32_t mark_ = 0;               // ICAE's [AE]: one row behind a memory that is to be said
  std::vector<int32_t> slots_;     // memories of the windows of a step
  std::vector<int32_t> memories_;  // of documents
  std::vector<Window> windows_;
  std::vector<int32_t> first_windows_;  // of each document, and behind the last one's
  std::vector<float> vectors_;          // of windows, where there is a map
  std::vector<Answer> answers_;
  std::vector<int32_t> window_answers_;  // those of them that are about one window
  int32_t num_reconstructions_ = 0, num_window_answers_ = 0, num_answers_ = 0;  // steps
  int32_t step_ = 0;
  double last_loss_ = 0.0;
  std::vector<int32_t> order_;  // of order_pass_ in order_stage_
  Stage order_stage_ = Stage::kReconstruction;
  int64_t order_pass_ = -1;
};

}  // namespace graft
