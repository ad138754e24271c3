// Trainer: a table of adapters that learn side by side on one base, each LoRA, virtual tokens, or
// both. A step mixes examples of any of them; what an adapter learns is the same bits as by itself,
// whatever the others are. A TrainingDevice computes: the CPU, or, what of it a GPU covers, that.
// One thread at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "learn/trained_lora.h"
#include "learn/trained_prompt.h"
#include "learn/training_device.h"

namespace graft {

// A sequence and what its adapter is to say of it.
struct TrainingExample {
  std::vector<int32_t> tokens;
  int32_t adapter = 0;    // that learns by it
  int32_t document = -1;  // one that is there as well and learns nothing; -1: none
  // Whose virtual tokens stand in front, and get gradients unless they are frozen; -1: those of
  // `adapter` or of `document`, where one has any.
  int32_t prompt = -1;
  int32_t mark = -1;  // whose virtual embeddings stand between those and the tokens; -1: nobody's
  // Rows that are looked at, ascending, and for each what comes next: `num_choices` tokens and
  // their probabilities, as TokenLoss takes them. Rows below 0 are those of virtual embeddings in
  // front of the tokens, of which the last is -1.
  std::vector<int32_t> rows;
  int32_t num_choices = 1;
  std::vector<int32_t> ids;
  std::vector<float> probabilities;
  // What its rows count beside others in the tokens' gradients; losses are told without it.
  float weight = 1.0f;
  int32_t window = -1;            // of the document, which it is about; -1: of no one alone
  int32_t num_prompt_tokens = 0;  // of `tokens`, before what a teacher says behind them
};

// What an adapter of the table has.
struct TrainedShape {
  int32_t rank = 0;  // of its LoRA; 0: none
  float scale = 1.0f;
  int32_t virtual_tokens = 0;  // 0: none
  VirtualTokenKind kind = VirtualTokenKind::kEmbedding;
  bool is_frozen = false;
};

// The example of next-token prediction: every token but the first.
TrainingExample NextTokenExample(std::vector<int32_t> tokens, int32_t adapter);

// A text that an encoder reads with its virtual tokens behind it, and the virtual tokens that their
// final hidden states become: those of an adapter of the table, from `first` on.
struct EncodedText {
  std::span<const int32_t> tokens;
  int32_t memory = 0;
  int32_t first = 0;
};

// Of a text's states: the last one, or their mean.
enum class StatePooling : uint8_t { kLast, kMean };

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

  // Returns its number, from 0 on.
  int32_t Add(const TrainedShape& shape);
  int32_t Add(int32_t rank, float scale) { return Add({.rank = rank, .scale = scale}); }
  TrainedLora& adapter(int32_t index) { return *lora(index); }
  // Null where the adapter has none. With the numbers of the last step; who changes them calls its
  // Refresh.
  TrainedLora* lora(int32_t index);
  TrainedPrompt* prompt(int32_t index);
  // Where training of virtual tokens begins: embeddings are those of tokens spread over the text,
  // keys and values the base's own of its first tokens. The text has as many tokens at least.
  void BeginPrompt(int32_t index, std::span<const int32_t> text);

  // The losses of all adapters, and the gradients of those that the examples name, anew. All
  // examples have one num_choices. What has more rows or sequences than the limits is computed in
  // groups of whole adapters, to the same bits; one adapter's examples are within the limits.
  std::vector<TrainingLoss> Accumulate(std::span<const TrainingExample* const> examples);
  // The losses alone.
  std::vector<TrainingLoss> Evaluate(std::span<const TrainingExample* const> examples);
  // Likewise, of the base and the examples' documents without what learns.
  std::vector<TrainingLoss> EvaluateWithout(std::span<const TrainingExample* const> examples);

  // Memories by an encoder, an adapter with embeddings: what it makes of the texts, and, after an
  // Accumulate of examples behind these memories, its gradients anew. The forward is computed again
  // for them. A text and the encoder's virtual tokens have at most rows_max rows.
  void Encode(int32_t encoder, std::span<const EncodedText> texts);
  void BackwardEncoder(int32_t encoder, std::span<const EncodedText> texts);

  // The same by a linear map of vectors. Rows of one memory follow each other.
  void Map(int32_t map, std::span<const MappedRows> rows);
  void BackwardMap(int32_t map, std::span<const MappedRows> rows);
  // The base's final states of each text, pooled, to the length 1, as /v1/embeddings has them:
  // [texts, hidden]. A text has at most rows_max tokens.
  std::vector<float> Embed(std::span<const std::span<const int32_t>> texts, StatePooling pooling);

  // One step of AdamW for each of these adapters, by the gradients of the last Accumulate. LoRA and
  // virtual tokens have rates and norms of their own.
  struct Update {
    int32_t adapter = 0;
    UpdateSettings settings;
    UpdateSettings prompt_settings = {};
  };
  void Apply(std::span<const Update> updates);
  // How many steps the adapter has made: AdamW's corrections follow that. To go on from a
  // checkpoint.
  void set_num_updates(int32_t index, int32_t num_updates) {
    adapters_[static_cast<size_t>(index)].num_updates = num_updates;
  }

  // The numbers of an adapter's best step so far, beside its own: it keeps those that it has now,
  // and takes them back. For a checkpoint they are LoRA's and then the virtual tokens'.
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
    std::vector<float> best;  // empty: none, or the device has it
    bool device_has_best = false;
  };
  // One looked-at row of the batch.
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
  TrainingSequence SequenceOf(const TrainingExample& example, int32_t adapter) const;
  std::vector<TrainingLoss> Run(std::span<const TrainingExample* const> examples, bool backward,
                                bool with_adapters);
  // How many of the first examples, sorted by adapter, are within the limits.
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
  std::vector<Target> targets_;
};

}  // namespace graft
