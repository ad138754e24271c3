// TrainingDevice: what computes a Trainer's steps, on the CPU or on a GPU. A GPU has adapters'
// numbers of its own, follows those of the host's TrainedLora and TrainedPrompt by their versions,
// and hands them back when somebody asks. One thread at a time.
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

// Rows of a batch that are looked at, no row twice, as TokenLoss takes them.
struct TrainingTargets {
  std::span<const int32_t> rows;
  int32_t num_choices = 1;
  std::span<const int32_t> ids;  // [rows, num_choices]
  std::span<const float> probabilities;
  std::span<const float> weights;  // [rows]
};

// Rows of a batch where an encoder's virtual tokens stand, and the numbers that their final states
// are: those of a memory, an adapter with embeddings, from its token `first` on.
struct EncodedRows {
  int32_t row = 0;
  int32_t num_rows = 0;
  int32_t memory = 0;
  int32_t first = 0;
};

// Vectors of which a linear map makes a memory's tokens from `first` on. The map is an adapter with
// embeddings: hidden_size rows and its bias (linear_map.h).
struct MappedRows {
  const float* vectors = nullptr;  // [num_rows, hidden_size], in the host's memory
  int32_t num_rows = 0;
  int32_t memory = 0;
  int32_t first = 0;
};

// What the sequences of a TrainingBatch name. Either may be missing.
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

  // The next adapter, as batches count them, from 0 on. Borrowed.
  virtual void Add(const AdapterInTraining& adapter) = 0;

  // No number of these adapters has a gradient; of frozen ones none ever has.
  virtual void BeginGradients(std::span<const int32_t> adapters) = 0;

  // With `backward` adds to the gradients of the batch's adapters. Returns each target's loss in
  // nats, without its weight.
  virtual std::vector<double> Run(const TrainingBatch& batch, const TrainingTargets& targets,
                                  bool backward) = 0;

  // A step of AdamW, the adapter's `step`th, from 1 on.
  struct Update {
    int32_t adapter = 0;
    int32_t step = 0;
    UpdateSettings settings;         // of LoRA
    UpdateSettings prompt_settings;  // of virtual tokens
  };
  virtual void Apply(std::span<const Update> updates) = 0;

  // The adapter's numbers in the host's memory become the device's, if those are newer.
  virtual void Fetch(int32_t adapter) = 0;

  // The adapter's numbers now, and what they are again; those that were kept last, LoRA's and then
  // the virtual tokens'. Of an adapter that has been in a Run.
  virtual void KeepBest(int32_t adapter) = 0;
  virtual void TakeBest(int32_t adapter) = 0;
  virtual std::vector<float> FetchBest(int32_t adapter) = 0;

  // An encoder's batch forward: what the final norm makes of these rows become the memories'
  // numbers, here and, by Fetch, in the host's memory.
  virtual void Encode(const TrainingBatch& batch, std::span<const EncodedRows> rows) = 0;
  // The same forward, and back from the memories' gradients, which adds to those of the batch's
  // adapters.
  virtual void BackwardEncoded(const TrainingBatch& batch, std::span<const EncodedRows> rows) = 0;

  // The same by a map, and back, which adds to the map's gradients.
  virtual void Map(int32_t map, std::span<const MappedRows> rows) = 0;
  virtual void BackwardMap(int32_t map, std::span<const MappedRows> rows) = 0;

  // What the base makes of the batch's one sequence, without an adapter, become the prompt's
  // numbers in the host's memory: the tokens' embeddings, or their keys and values.
  virtual void BeginPrompt(const TrainingBatch& batch, TrainedPrompt& prompt) = 0;

  // The hidden states of these rows behind the final norm: [rows, hidden], in the host's memory.
  virtual void TakeStates(const TrainingBatch& batch, std::span<const int32_t> rows,
                          float* states) = 0;
};

// What one adapter's LoRA and its virtual tokens take of the device.
int64_t DeviceAdapterBytes(const ModelConfig& config, int32_t rank, DType dtype);
int64_t DevicePromptBytes(const ModelConfig& config, VirtualTokenKind kind, int32_t num_tokens,
                          DType dtype, const Device& device);

// Of the stream's device, for a model that is trainable there. `config` and `limits` are copied,
// the rest is borrowed.
// `pause`: the CPU calls it between micro-steps, for others to have the stream's threads. {}: it
// does not. A GPU never calls it.
// `turns`: a GPU takes them with the steps of a server; null: it has the GPU for itself.
std::unique_ptr<TrainingDevice> MakeTrainingDevice(const ModelConfig& config,
                                                   const ModelWeights& weights,
                                                   const TrainingLimits& limits, Stream& stream,
                                                   std::function<void()> pause, DeviceTurns* turns);

}  // namespace graft
