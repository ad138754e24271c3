// CorpusRun: an encoder and a decoder learn over a corpus, no document of which comes twice. The
// encoder is LoRA on the base while it reads a document, and what it keeps is the document's
// memory; the decoder is LoRA behind memories. A step takes a few documents, or parts of them, and
// teaches two things:
//   - Answers. The base that has the document in its context says by its probabilities what the
//     decoder is to say behind the memory. Its documents' questions stand behind each other in one
//     reading of the base, and a few together behind a memory.
//   - Pieces of the document, and of what follows the part that was read (ICAE's reconstruction and
//     continuation): their first tokens are read, and the others said.
// Gradients go through the memories into the encoder. Steps begin with short parts and little
// compression (EncoderStage). A step depends on the documents, the settings and its number; a run
// goes on from a checkpoint to the same bits if the corpus goes on where it was. One thread.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/random.h"
#include "base/status.h"
#include "learn/checkpoint.h"
#include "learn/learner.h"
#include "learn/memory_form.h"
#include "learn/trainer.h"

namespace graft {

// A question about a document, in the form in which users ask.
struct TaughtQuestion {
  std::vector<int32_t> behind;  // what a reader finds behind the document
  std::vector<int32_t> prompt;  // what one without it reads
  std::vector<int32_t> answer;  // with what ends it
  int32_t begin = 0, end = 0;   // tokens of the document that have the answer
};

struct TaughtDocument {
  std::vector<int32_t> tokens;
  std::vector<TaughtQuestion> questions;  // not empty
};

class DocumentSource {
 public:
  virtual ~DocumentSource() = default;
  // Nothing where the corpus ends.
  virtual Result<std::optional<TaughtDocument>> Next() = 0;
};

// Up to a share of the steps: of how many tokens of a document, and how many of them a token of the
// memory stands for, one of these drawn for each step.
struct EncoderStage {
  double until = 1.0;
  int32_t tokens = 0;  // 0: all
  std::vector<int32_t> compressions;
};
// Parts of 512 tokens without compression, of 128 and of 512 with the least of it, then whole
// documents with twice as much each time; the last half of the steps have all of `compressions`,
// which ascend.
std::vector<EncoderStage> CurriculumOf(const std::vector<int32_t>& compressions);

struct CorpusSettings {
  LearnerRates rates = {.learning_rate = 1e-3, .prompt_learning_rate = 5e-3, .batch = 16};
  int32_t steps = 10'000;
  int32_t rank = 16;         // of the encoder's LoRA
  int32_t decoder_rank = 0;  // of the decoder's; 0: the same
  MemoryForm form;
  std::vector<EncoderStage> stages;
  std::vector<int32_t> start;      // what stands before a document that is read
  int32_t prompt_start = 0;        // tokens of a prompt that begin a text, and stand there once
  int32_t document_tokens = 2048;  // of a document, at most; the rest follows it
  int32_t questions = 24;          // of a document in a step, at most
  int32_t questions_together = 4;  // behind one memory, at most; from 1 on, drawn
  int32_t question_tokens = 96;    // of a question with its answer, at most; others are left out
  int32_t pieces = 2;              // of a document in a step
  int32_t piece_tokens = 64;
  float piece_weight = 0.3f;  // of their tokens beside those of answers
  // The share of the corpus' own answers in what is taught, beside the base's probabilities.
  float corpus_share = 0.0f;
  int32_t held_out = 32;  // the corpus' first documents, which are not learned
  uint64_t seed = 0;
  // Names all else that the run depends on. A checkpoint of another identity is not taken.
  std::string identity;
};

class CorpusRun {
 public:
  // Adds encoder, decoder and room for the memories of a step to the trainer. Both are borrowed.
  CorpusRun(Trainer& trainer, DocumentSource& source, const CorpusSettings& settings);

  // What a run adds: the encoder, the decoder, memories.
  static std::vector<TrainedShape> ShapesOf(const CorpusSettings& settings);
  // The most rows of a step's texts with all documents side by side, and texts.
  static int32_t RowsOfDocument(const CorpusSettings& settings);
  static int32_t TextsOfDocument(const CorpusSettings& settings);
  // The tokens of a memory, with any of the stages' compressions.
  static int32_t MemoryTokensMax(const CorpusSettings& settings);

  // Takes the documents that are held out from the source, and reads a checkpoint, if there is one
  // of this run. Then `skip` is called with how many documents it had taken since.
  Result<bool> Begin(const std::string& checkpoint,
                     const std::function<Status(int64_t documents)>& skip);

  int32_t step() const { return step_; }
  bool is_done() const { return step_ == settings_.steps || is_empty_; }
  int64_t num_documents() const { return num_documents_; }
  int64_t num_tokens() const { return num_tokens_; }  // of documents, read since the start
  // The mean losses of about the last twenty steps, nats a token.
  double answer_loss() const { return answer_loss_; }
  double piece_loss() const { return piece_loss_; }
  const EncoderStage& stage() const;

  // kOutOfRange if the corpus ended: the run is done then.
  Status Step();
  Status SaveCheckpoint(const std::string& path);

  // Shares of the held out questions that are answered right, from the first token to the end, each
  // asked by itself.
  struct Look {
    int32_t compression = 0;
    int32_t num_questions = 0;
    double without = 0.0;     // by the base alone
    double in_context = 0.0;  // by the base with the document
    double memory = 0.0;      // by the decoder with the document's memory
    double other = 0.0;       // by the decoder with another document's
    double recovery() const {
      return in_context > without ? (memory - without) / (in_context - without) : 0.0;
    }
  };
  Look LookAt(int32_t compression);

  TrainedLora& encoder_lora() { return *trainer_.lora(encoder_); }
  TrainedPrompt* encoder_tokens() { return trainer_.prompt(encoder_); }  // null: it has none
  TrainedLora& decoder() { return *trainer_.lora(decoder_); }

 private:
  // A document, or a part of one, in a step.
  struct Lesson {
    std::vector<int32_t> tokens, following;
    std::vector<TaughtQuestion> questions;
    MemoryReading reading;
    int32_t slot = 0;
  };
  // Where a question's answer stands among an example's rows.
  struct AnswerPlace {
    int32_t question = 0;
    int32_t first_row = 0;
    int32_t num_rows = 0;
  };
  struct Asked {
    TrainingExample example;
    std::vector<AnswerPlace> answers;
  };

  Result<std::optional<TaughtDocument>> Take();
  Lesson LessonOf(TaughtDocument document, int32_t tokens_max, int32_t compression, Random& random);
  // Several questions of a lesson behind each other, behind the document or without it.
  Asked Ask(const Lesson& lesson, int32_t first, int32_t count, bool in_context) const;
  void Learn(const std::vector<Lesson>& lessons, Random& random);
  std::vector<TrainingExample> Teach(const std::vector<Lesson>& lessons, Random& random);
  void TeachRows(const Asked& read, const TrainingChoices& said, int32_t first, int32_t together,
                 TrainingExample* example) const;
  TrainingExample PieceOf(const Lesson& lesson, Random& random) const;
  // All windows, as either carrier has them.
  struct Texts {
    std::vector<ReadText> read;
    std::vector<EncodedText> states;
  };
  static Texts TextsOf(const std::vector<Lesson>& lessons);
  bool has_states() const { return settings_.form.carrier == MemoryCarrier::kStates; }
  void Encode(const std::vector<Lesson>& lessons);
  void BackwardEncoder(const std::vector<Lesson>& lessons);
  void SetMemory(const Lesson& lesson, TrainingExample* example) const;
  // How many of the answers are, from their first token to their last.
  int32_t NumRight(const std::vector<Asked>& asked, bool with_adapters);
  int32_t CountRight(const std::vector<Lesson>& lessons, bool in_context);
  int32_t CountRightBehind(const std::vector<Lesson>& lessons, size_t shift);
  std::vector<std::vector<Lesson>> HeldOutLessons(int32_t compression);
  std::vector<CheckpointPart> State();
  Status ReadState(const std::string& json);

  Trainer& trainer_;
  DocumentSource& source_;
  const CorpusSettings settings_;
  int32_t encoder_ = 0, decoder_ = 0;
  std::vector<int32_t> slots_;  // memories of a step's documents
  std::vector<TaughtDocument> held_out_;
  std::optional<std::pair<int32_t, int32_t>> base_right_;  // without and in context, once known
  int32_t step_ = 0;
  bool is_empty_ = false;
  int64_t num_documents_ = 0, num_tokens_ = 0;
  double answer_loss_ = 0.0, piece_loss_ = 0.0;
};

}  // namespace graft
