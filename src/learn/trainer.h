// Trainer: a table of adapters that learn side by side on one base. Each has LoRA, virtual tokens,
// or both. A step mixes examples of any of them. An adapter learns the same bits as by itself. A
// TrainingDevice computes, on the CPU or on a GPU. One thread at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "learn/trained_lora.h"
#include "learn/trained_prompt.h"
#include "learn/training_device.h"

namespace graft {

// A sequence and what its adapter learns to say of it.
struct TrainingExample {
  std::vector<int32_t> tokens;
  int32_t adapter = 0;    // the one that learns by it
  int32_t document = -1;  // a frozen adapter that is applied as well; -1: none
  // The adapter of the virtual tokens in front, which get gradients unless it is frozen. -1: those
  // of `adapter` or of `document`, if one has any.
  int32_t prompt = -1;
  int32_t prompt_tokens = 0;  // of those, from the first on; 0: all
  // Rows that are looked at, ascending. For each there are `num_choices` next tokens and their
  // probabilities, as TokenLoss takes them. Rows below 0 are virtual embeddings in front of the
  // tokens; the last of them is -1.
  std::vector<int32_t> rows;
  int32_t num_choices = 1;
  std::vector<int32_t> ids;
  std::vector<float> probabilities;
  // The weight of its rows in the gradients. Losses are told without it.
  float weight = 1.0f;
  int32_t num_prompt_tokens = 0;  // of `tokens`, before a teacher's text
};

// The size of an adapter of the table.
struct TrainedShape {
  int32_t rank = 0;  // of its LoRA; 0: none
  float scale = 1.0f;
  int32_t virtual_tokens = 0;  // 0: none
  VirtualTokenKind kind = VirtualTokenKind::kEmbedding;
  bool is_frozen = false;
};

// The example of next-token prediction: every token but the first.
TrainingExample NextTokenExample(std::vector<int32_t> tokens, int32_t adapter);

// A text that an encoder reads with its virtual tokens behind it. The final states of these become
// virtual tokens of the adapter `memory`, from its token `first` on.
struct EncodedText {
  std::span<const int32_t> tokens;
  int32_t memory = 0;
  int32_t first = 0;
};

// A text that an encoder reads, and rows of it with the keys and values that become tokens of the
// memory.
// The encoder's virtual tokens follow the text's own as rows.
struct ReadText {
  std::span<const int32_t> tokens;
  int32_t memory = 0;
  struct Row {
    int32_t row = 0;       // of the text; its position, too
    int32_t token = 0;     // of the memory
    int32_t position = 0;  // that the key is turned to; may be below 0
  };
  std::vector<Row> rows;
  // The encoder's one virtual token stands wherever `tokens` has kVirtualToken, and not behind
  // them.
  bool is_between = false;
};

// Means over an adapter's rows of one step.
struct TrainingLoss {
  int64_t num_rows = 0;
  double tokens = 0.0;  // cross entropy, nats
};

class Trainer {
 public:
  // See MakeTrainingDevice.
  Trainer(const ModelConfig& config, const ModelWeights& weights, const TrainingLimits& limits,
          Stream& stream, std::function<void()> pause = {}, DeviceTurns* turns = nullptr);

  // Returns the new adapter's number. Numbers count from 0.
  int32_t Add(const TrainedShape& shape);
  int32_t Add(int32_t rank, float scale) { return Add({.rank = rank, .scale = scale}); }
  TrainedLora& adapter(int32_t index) { return *lora(index); }
  // Null if the adapter has none. They have the last step's numbers. Refresh must follow a change.
  TrainedLora* lora(int32_t index);
  TrainedPrompt* prompt(int32_t index);
  // Sets virtual tokens to what training begins with: embeddings of tokens spread over the text, or
  // the base's keys and values of its first tokens. The text must have at least as many tokens.
  void BeginPrompt(int32_t index, std::span<const int32_t> text);

  // Returns the losses of all adapters, and makes anew the gradients of those that examples name.
  // All have the same num_choices. Examples beyond the limits are computed in groups of whole
  // adapters, to the same bits. One adapter's examples must be within the limits.
  std::vector<TrainingLoss> Accumulate(std::span<const TrainingExample* const> examples);
  // The same of one adapter's examples, which are computed in one group. Returns the mean losses of
  // the first `count` examples' rows and of the others'.
  std::pair<double, double> AccumulateTwo(std::span<const TrainingExample* const> examples,
                                          size_t count);
  // The losses alone.
  std::vector<TrainingLoss> Evaluate(std::span<const TrainingExample* const> examples);
  // The losses of the base with the examples' documents, without the adapters that learn.
  std::vector<TrainingLoss> EvaluateWithout(std::span<const TrainingExample* const> examples);

  // Makes memories of texts by an encoder, an adapter with embeddings. BackwardEncoder, after an
  // Accumulate of examples behind these memories, makes the encoder's gradients anew; it computes
  // the forward again. A text and the encoder's virtual tokens have at most rows_max rows.
  void Encode(int32_t encoder, std::span<const EncodedText> texts);
  void BackwardEncoder(int32_t encoder, std::span<const EncodedText> texts);

  // The same where the memories are keys and values. Behind the texts stand the encoder's virtual
  // tokens, if it has any.
  void EncodeKeysValues(int32_t encoder, std::span<const ReadText> texts);
  void BackwardKeysValues(int32_t encoder, std::span<const ReadText> texts);

  // The likeliest tokens behind the examples' rows, example by example, by their adapters or by the
  // base alone. Their ids are not read.
  std::vector<TrainingChoices> Choose(std::span<const TrainingExample* const> examples,
                                      int32_t num_choices, bool with_adapters);

  // Makes one step of AdamW for each of these adapters, by the gradients of the last Accumulate.
  // LoRA and virtual tokens have separate rates and norms.
  struct Update {
    int32_t adapter = 0;
    UpdateSettings settings;
    UpdateSettings prompt_settings = {};
  };
  void Apply(std::span<const Update> updates);
  // Sets how many steps the adapter has made before a checkpoint, for AdamW's corrections.
  void set_num_updates(int32_t index, int32_t num_updates) {
    adapters_[static_cast<size_t>(index)].num_updates = num_updates;
  }

  // KeepBest keeps a copy of the adapter's numbers; TakeBest makes the copy its numbers again.
  // best() returns LoRA's numbers and then the virtual tokens', for a checkpoint.
  void KeepBest(int32_t index);
  bool has_best(int32_t index) const;
  void TakeBest(int32_t index);
  std::vector<float> best(int32_t index);
  void set_best(int32_t index, std::vector<float> numbers);

  const ModelConfig& config() const { return config_; }
  const TrainingLimits& limits() const { return limits_; }
  const TrainingDevice& device() const { return *device_; }

 private:
  struct Adapter {
    std::unique_ptr<TrainedLora> lora;
    std::unique_ptr<TrainedPrompt> prompt;
    bool is_frozen = false;
    int32_t num_updates = 0;
    std::vector<float> best;  // empty if there is none, or if the device has it
    bool device_has_best = false;
  };
  // A row of the batch that is looked at.
  struct Target {
    const TrainingExample* example;
    int32_t index;  // into example->rows
    int32_t row;    // of the batch
  };

  // Calls back with each part of the texts that fits a forward.
  using OnEncoderBatch =
      std::function<void(const TrainingBatch& batch, std::span<const EncodedRows> rows)>;
  void ForEachEncoderBatch(int32_t encoder, std::span<const EncodedText> texts,
                           const OnEncoderBatch& on_batch);
  using OnReadBatch =
      std::function<void(const TrainingBatch& batch, std::span<const EncodedKeysValues> rows)>;
  void ForEachReadBatch(int32_t encoder, std::span<const ReadText> texts,
                        const OnReadBatch& on_batch);
  TrainingSequence SequenceOf(const TrainingExample& example, int32_t adapter) const;
  std::vector<TrainingLoss> Run(std::span<const TrainingExample* const> examples, bool backward,
                                bool with_adapters);
  // How many of the first examples, sorted by adapter, fit the limits together.
  size_t GroupOf(std::span<const TrainingExample* const> sorted, bool with_adapters) const;
  void RunGroup(std::span<const TrainingExample* const> sorted, bool backward, bool with_adapters,
                std::vector<TrainingLoss>& losses);
  std::vector<std::span<float>> NumbersOf(int32_t index);
  // As TokenLoss takes targets.
  struct TargetArrays {
    std::vector<int32_t> rows, ids;
    std::vector<float> probabilities, weights;
    TrainingTargets AsTargets(int32_t num_choices) const {
      return {rows, num_choices, ids, probabilities, weights};
    }
  };
  TargetArrays ArraysOf(std::span<const Target> targets, const std::vector<TrainingLoss>& losses);
  static void AddTokenLosses(std::span<const Target> targets, std::span<const double> row_losses,
                             std::vector<TrainingLoss>& losses);

  const ModelConfig config_;
  const TrainingLimits limits_;
  const DType dtype_;
  Stream& stream_;
  std::vector<Adapter> adapters_;
  std::unique_ptr<TrainingDevice> device_;  // borrows the adapters' numbers
  std::vector<Target> targets_;             // of the last group, and their losses
  std::vector<double> row_losses_;
};

}  // namespace graft
