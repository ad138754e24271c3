// TrainingDevice: what computes a Trainer's steps, on the CPU or on a GPU. A GPU has copies of the
// adapters' numbers. It follows the host's TrainedLora and TrainedPrompt by their versions, and
// Fetch hands its numbers back. One thread at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "base/device_turns.h"
#include "base/status.h"
#include "learn/trained_lora.h"
#include "learn/trained_prompt.h"
#include "learn/training_batch.h"
#include "learn/training_sizes.h"
#include "model/config.h"
#include "model/weights.h"
#include "tensor/stream.h"

namespace graft {

struct UpdateSettings {
  float learning_rate = 1e-3f;
  float weight_decay = 0.0f;
  float norm_max = 1.0f;  // of the gradients; 0: no bound
};

// Rows of a batch that are looked at, as TokenLoss takes them. No row is there twice.
struct TrainingTargets {
  std::span<const int32_t> rows;
  int32_t num_choices = 1;
  std::span<const int32_t> ids;  // [rows, num_choices]
  std::span<const float> probabilities;
  std::span<const float> weights;  // [rows]
};

// Rows of a batch with an encoder's virtual tokens. Their final states become tokens of the memory,
// an adapter with embeddings, from its token `first` on.
struct EncodedRows {
  int32_t row = 0;
  int32_t num_rows = 0;
  int32_t memory = 0;
  int32_t first = 0;
};

// A row of an encoder's batch, with the keys and values of every layer that become those of a token
// of the memory, an adapter with keys and values. Its key is turned from the row's position to the
// token's, which may be below 0.
struct EncodedKeysValues {
  int32_t row = 0;
  int32_t from = 0, to = 0;
  int32_t memory = 0;
  int32_t token = 0;
};

// The likeliest next tokens behind rows of a batch.
struct TrainingChoices {
  std::vector<int32_t> ids;          // [rows, num_choices], likeliest first
  std::vector<float> probabilities;  // of all that there are
};

// An adapter that sequences of a TrainingBatch name. Either part may be missing.
struct AdapterInTraining {
  TrainedLora* lora = nullptr;
  TrainedPrompt* prompt = nullptr;
  bool is_frozen = false;  // gets no gradients
};

class TrainingDevice {
 public:
  virtual ~TrainingDevice() = default;

  virtual int32_t page_tokens() const = 0;
  virtual int32_t num_kept_layers() const = 0;

  // Adds the next adapter, which batches name by its number, counted from 0. Borrowed.
  virtual void Add(const AdapterInTraining& adapter) = 0;

  // Sets all gradients of these adapters to zero. Frozen ones never have any.
  virtual void BeginGradients(std::span<const int32_t> adapters) = 0;

  // With `backward` adds to the gradients of the batch's adapters. Returns each target's loss in
  // nats, not weighted.
  virtual std::vector<double> Run(const TrainingBatch& batch, const TrainingTargets& targets,
                                  bool backward) = 0;

  // A step of AdamW, the adapter's `step`th, counted from 1.
  struct Update {
    int32_t adapter = 0;
    int32_t step = 0;
    UpdateSettings settings;         // of LoRA
    UpdateSettings prompt_settings;  // of virtual tokens
  };
  virtual void Apply(std::span<const Update> updates) = 0;

  // Copies the adapter's numbers to the host's memory if the device's are newer.
  virtual void Fetch(int32_t adapter) = 0;

  // Keeps a copy of the adapter's numbers, makes the copy its numbers again, or returns the copy:
  // LoRA's, then the virtual tokens'. The adapter must have been in a Run.
  virtual void KeepBest(int32_t adapter) = 0;
  virtual void TakeBest(int32_t adapter) = 0;
  virtual std::vector<float> FetchBest(int32_t adapter) = 0;

  // Runs an encoder's batch forward. The final norm's outputs in these rows become the memories'
  // numbers, here and, by Fetch, in the host's memory.
  virtual void Encode(const TrainingBatch& batch, std::span<const EncodedRows> rows) = 0;
  // Runs the same forward, and backward from the memories' gradients. Adds to the gradients of the
  // batch's adapters.
  virtual void BackwardEncoded(const TrainingBatch& batch, std::span<const EncodedRows> rows) = 0;

  // The same of memories that are keys and values. No two rows have one token.
  virtual void EncodeKeysValues(const TrainingBatch& batch,
                                std::span<const EncodedKeysValues> rows) = 0;
  virtual void BackwardKeysValues(const TrainingBatch& batch,
                                  std::span<const EncodedKeysValues> rows) = 0;

  // Runs the batch's one sequence through the base. The tokens' embeddings, or their keys and
  // values, become the prompt's numbers in the host's memory.
  virtual void BeginPrompt(const TrainingBatch& batch, TrainedPrompt& prompt) = 0;

  // The num_choices likeliest tokens, at most kLogprobsMax, behind each of these rows.
  virtual TrainingChoices Choose(const TrainingBatch& batch, std::span<const int32_t> rows,
                                 int32_t num_choices) = 0;

  // The hidden states of these rows after the final norm: [rows, hidden], in the host's memory.
  virtual void TakeStates(const TrainingBatch& batch, std::span<const int32_t> rows,
                          float* states) = 0;
};

// The bytes of the device that one adapter's LoRA and its virtual tokens take.
int64_t DeviceAdapterBytes(const ModelConfig& config, int32_t rank, DType dtype);
int64_t DevicePromptBytes(const ModelConfig& config, VirtualTokenKind kind, int32_t num_tokens,
                          DType dtype, const Device& device);

// Computes on the stream's device, where the model must be trainable. `config` and `limits` are
// copied, the rest is borrowed.
// `pause`: the CPU calls it between micro-steps, so that others can use the stream's threads. May
// be {}. A GPU never calls it.
// `turns`: a GPU takes turns with a server's steps. Null: it has the GPU to itself.
std::unique_ptr<TrainingDevice> MakeTrainingDevice(const ModelConfig& config,
                                                   const ModelWeights& weights,
                                                   const TrainingLimits& limits, Stream& stream,
                                                   std::function<void()> pause, DeviceTurns* turns);

}  // namespace graft
