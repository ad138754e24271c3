// EncoderRun: an encoder and a decoder learn over many documents, as in "Dynamic LoRA serving
// system for offline context learning" (Cao and Tan, section 3). The encoder is LoRA and virtual
// tokens behind a window of a document; it makes the window's memory. The decoder is LoRA behind
// memories. In stage 1 (ICAE's reconstruction) it learns to say a window from its memory. In stage
// 2 it learns, from the memories of a whole document, what a teacher says that has the window in
// its context. Settings may ask for a stage between them with one window's memory, as in ICAE.
// Gradients go through the memories into the encoder. A step depends only on documents, settings
// and its number, so a run that goes on from a checkpoint ends with the same bits. One thread.
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

// What makes memories: LoRA and virtual tokens behind a window; or a linear map of the base's own
// vectors, one for each of as many equal pieces of the window as its memory has tokens.
enum class Embedder : uint8_t { kTrained, kLast, kMean };

struct EncoderSettings {
  LearnerRates rates;          // passes over the answers
  int32_t rank = 16;           // of each LoRA
  int32_t memory_tokens = 32;  // of each window
  int32_t window_tokens = 128;
  int32_t window_passes = 0;         // in the first stage; 0: as many as over the answers
  int32_t window_answer_passes = 0;  // with only the window's memory in front
  int32_t end_token = 0;             // the decoder says it behind a window
  bool reconstruction_only = false;  // stage 1 alone
  Embedder embedder = Embedder::kTrained;
  int32_t hidden_size = 0;  // the model's, unless embedder is kTrained
  uint64_t seed = 0;
  // Names all else that the run depends on. A checkpoint of another identity is not taken.
  std::string identity;
};

class EncoderRun {
 public:
  // Adds the encoder, the decoder and all memories to the trainer, which is borrowed.
  EncoderRun(Trainer& trainer, std::vector<EncoderDocument> documents,
             const EncoderSettings& settings);

  // The shapes of all that a run adds for documents of so many tokens: encoder, decoder, the rest.
  static std::vector<TrainedShape> ShapesOf(std::span<const size_t> document_tokens,
                                            const EncoderSettings& settings);
  // About how many windows a step's documents have. An encoder reads them at once if it can.
  static int32_t TextsAtOnce(std::span<const size_t> document_tokens,
                             const EncoderSettings& settings);
  // The most rows that stand before an example.
  static int32_t RowsBeforeMax(std::span<const size_t> document_tokens,
                               const EncoderSettings& settings);

  int32_t step() const { return step_; }
  int32_t num_steps() const { return num_reconstructions_ + num_window_answers_ + num_answers_; }
  double last_loss() const { return last_loss_; }
  void Step();

  Status SaveCheckpoint(const std::string& path);
  // Returns false if there is no checkpoint, or only another run's.
  Result<bool> Resume(const std::string& path);

  // Rounds a map to what its file will have, since training moves finer numbers. A trained encoder
  // stays as it is: it computes with its file's numbers already.
  void RoundMap();
  // Makes the memories of all documents with the encoder as it is now.
  void EncodeAll();

  // Means over the tokens of all examples, in nats.
  struct Scores {
    double reconstruction = 0.0;
    double answers_without = 0.0;  // the base's, without a memory
    double answers = 0.0;
    double held_out_without = 0.0, held_out = 0.0;
  };
  // Call EncodeAll before it.
  Scores Evaluate();

  // Null if the encoder is a map.
  TrainedLora* encoder_lora() { return trainer_.lora(encoder_); }
  // Virtual tokens, or a map's rows and its bias.
  TrainedPrompt& encoder_tokens() { return *trainer_.prompt(encoder_); }
  TrainedLora& decoder() { return *trainer_.lora(decoder_); }
  TrainedPrompt& memory(size_t document) { return *trainer_.prompt(memories_[document]); }

 private:
  // A window of a document. Its example says the window from the window's memory.
  struct Window {
    int32_t document;
    TrainingExample example;
  };
  // An answer about a document.
  struct Answer {
    int32_t document;
    int32_t window;  // among the windows of all documents; -1: it is about more than one
    const TrainingExample* example;
  };
  enum class Stage : uint8_t { kReconstruction, kWindowAnswers, kAnswers };
  // An example with only its window's memory in front.
  struct WindowExample {
    int32_t window;
    const TrainingExample* example;
  };

  // A window and its part of a memory.
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
  // The examples of one step, and the order of one pass, which the seed decides.
  std::vector<int32_t> Drawn(Stage stage, int32_t step);
  std::vector<int32_t> OrderOf(Stage stage, int64_t pass) const;
  std::vector<CheckpointPart> State();
  Status ReadState(const std::string& json);

  Trainer& trainer_;
  std::vector<EncoderDocument> documents_;
  const EncoderSettings settings_;
  const std::string identity_;
  int32_t encoder_ = 0, decoder_ = 0;
  int32_t mark_ = 0;               // ICAE's [AE]: a row behind a memory, asks for its window
  std::vector<int32_t> slots_;     // memories of the windows of one step
  std::vector<int32_t> memories_;  // memories of the documents
  std::vector<Window> windows_;
  std::vector<int32_t> first_windows_;  // of each document, then the number of windows
  std::vector<float> vectors_;          // of the windows' pieces, for a map
  std::vector<Answer> answers_;
  std::vector<int32_t> window_answers_;  // indices into answers_ of those about one window
  int32_t num_reconstructions_ = 0, num_window_answers_ = 0, num_answers_ = 0;  // steps
  int32_t step_ = 0;
  double last_loss_ = 0.0;
  std::vector<int32_t> order_;  // the order of order_pass_ in order_stage_
  Stage order_stage_ = Stage::kReconstruction;
  int64_t order_pass_ = -1;
};

}  // namespace graft
