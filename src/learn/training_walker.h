// TrainingWalker: TrainingDevice on the CPU and on one GPU. The transformer runs forward by the
// server's own layers and with their bits, and backward to the gradients of LoRA and of virtual
// tokens. The base is frozen.
// The residual stream, products and the activations' gradients that products make are fp32. What
// products read, and what a layer keeps for its backward (LayerKept), is in the activations' dtype
// (ServedTypes::activations). Norms and the gated activation are computed again from that. Layers
// beyond the budget are computed again from the residual stream, with the same bits. Every sum has
// a fixed order that does not depend on what else is in the batch. All memory but the adapters' is
// taken at construction. One thread at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "kernels/attention_backward/attention_backward.h"
#include "kernels/sampling/sampling.h"
#include "kernels/virtual_gradient/virtual_gradient.h"
#include "layers/block.h"
#include "layers/embedding_layer.h"
#include "layers/head.h"
#include "layers/launch_plan.h"
#include "layers/learning_step.h"
#include "layers/norm.h"
#include "learn/device_lora.h"
#include "learn/device_masters.h"
#include "learn/training_device.h"
#include "learn/training_sizes.h"
#include "model/kv_pool.h"
#include "model/rope_table.h"
#include "tensor/buffer.h"

namespace graft {

class TrainingWalker : public TrainingDevice {
 public:
  // See MakeTrainingDevice.
  TrainingWalker(const ModelConfig& config, const ModelWeights& weights,
                 const TrainingLimits& limits, Stream& stream, std::function<void()> pause = {},
                 DeviceTurns* turns = nullptr);

  int32_t page_tokens() const override { return pool_.layout().page_tokens; }
  int32_t num_kept_layers() const override { return sizes_.num_kept; }
  int32_t num_transposed_layers() const { return transposed_.num_kept(); }
  void Add(const AdapterInTraining& adapter) override { adapters_.push_back(adapter); }
  void BeginGradients(std::span<const int32_t> adapters) override;
  std::vector<double> Run(const TrainingBatch& batch, const TrainingTargets& targets,
                          bool backward) override;
  void Apply(std::span<const Update> updates) override;
  void Fetch(int32_t adapter) override;
  void KeepBest(int32_t adapter) override;
  void TakeBest(int32_t adapter) override;
  std::vector<float> FetchBest(int32_t adapter) override;
  void Encode(const TrainingBatch& batch, std::span<const EncodedRows> rows) override;
  void BackwardEncoded(const TrainingBatch& batch, std::span<const EncodedRows> rows) override;
  void EncodeKeysValues(const TrainingBatch& batch,
                        std::span<const EncodedKeysValues> rows) override;
  void BackwardKeysValues(const TrainingBatch& batch,
                          std::span<const EncodedKeysValues> rows) override;
  TrainingChoices Choose(const TrainingBatch& batch, std::span<const int32_t> rows,
                         int32_t num_choices) override;
  void BeginPrompt(const TrainingBatch& batch, TrainedPrompt& prompt) override;
  void TakeStates(const TrainingBatch& batch, std::span<const int32_t> rows,
                  float* states) override;

 private:
  // An adapter's numbers on the device that computes. A kind that it has not is null.
  struct OnThisDevice {
    std::unique_ptr<DeviceLora> lora;
    std::unique_ptr<DeviceMasters> prompt;
  };
  // PromptGradients of one kind of virtual tokens, in the device's memory.
  struct Prompts {
    int32_t num_items = 0;
    const VirtualGradientItem* items;
    const int32_t* places;
  };
  // A batch in the device's memory.
  struct Batch {
    DeviceBatch arrays;                              // what the layers read
    const LoraSegment* segments;                     // cut to sizes that suit LoRA's kernels
    std::span<const LoraSegment> part_segments;      // the same, in row numbers of their parts
    std::span<const LoraSegment> document_segments;  // cut, too, of frozen adapters
    std::span<const LoraGradientSegment> gradients;  // an adapter's rows each
    Prompts embeddings, keys_values;
    std::span<const VirtualRun> runs;  // of keys and values
    const AttentionPrefix* prefixes;   // [layers, sequences]; null: none
    int32_t num_targets = 0, num_choices = 0;
    const int32_t *rows, *ids;
    const float *probabilities, *weights;
  };
  // Which rows of a batch make the gradient of which prompt, as VirtualGradientArgs has them.
  struct PromptGradients {
    std::vector<VirtualGradientItem> items;
    std::vector<int32_t> places;
  };
  // What is made here for a batch, in the host's memory.
  struct BatchLists {
    std::vector<LoraSegment> segments, part_segments, document_segments;
    std::vector<LoraGradientSegment> gradients;
    PromptGradients embeddings, keys_values;
    std::vector<AttentionPrefix> prefixes;
  };

  const LayerKept& KeptOf(int32_t layer) const;
  int32_t first_kept() const { return config_.num_layers - sizes_.num_kept; }

  // LoRA's masters, then those of virtual tokens.
  std::vector<DeviceMasters*> MastersOf(int32_t adapter);
  DeviceMasters& EmbeddingsOf(int32_t adapter);
  // Brings the device's numbers up to date with the host's adapters.
  void FollowAdapters();
  void ListMatrices();
  void ListPrompts();

  // Each run begins with a prompt's first token, and an adapter's runs have as many tokens. `place`
  // is the first row of a run's gradient. An adapter's rows are listed in the order of the runs.
  PromptGradients ListGradients(std::vector<VirtualRun> runs);
  std::vector<AttentionPrefix> ListPrefixes(const TrainingBatch& batch);
  void CutParts(std::span<const LoraSegment> cut, int32_t num_rows,
                std::vector<LoraSegment>* by_parts);
  BatchLists ListsOf(const TrainingBatch& batch);
  // Puts all arrays into batch_on_host_, for a copy to `target`.
  Batch Pack(const TrainingBatch& batch, const BatchLists& lists, const TrainingTargets& targets,
             const char* target);
  // Brings a batch to the device for a forward and, if it `learns`, for a backward.
  void PutBatch(const TrainingBatch& batch, const TrainingTargets& targets, bool learns);
  void TellLayers(const BatchLists& lists);
  LayerStep Step() const {
    return {.batch = batch_.arrays, .stream = stream_, .plan = plan_, .learning = &learning_};
  }
  int64_t num_rows() const { return std::ssize(batch_.arrays.tokens); }
  int64_t StreamBytes() const { return num_rows() * config_.hidden_size * int64_t{sizeof(float)}; }

  void Forward();
  void RunLayer(int32_t layer);
  void RunHead(bool backward);
  void ZeroStreamGradients();
  void Backward(const KvMemory& memory = {});
  void PlaceKeysAndValues(int32_t layer);
  void AddPromptGradients(const Prompts& prompts, const Buffer& x, int64_t n, int64_t stride,
                          int64_t offset, float scale = 1.0f);
  void BackwardMemory(const EncodedRows& rows);
  // In the device's memory. `gradients`: of the tokens, else their numbers.
  Buffer KvRowsOf(std::span<const EncodedKeysValues> rows, bool gradients);
  void BeginKeysAndValues(TrainedPrompt& prompt);

  // The scale of what the layer adds to the residual stream; 1 below the first layer.
  float ResidualScaleOf(int32_t layer) const {
    return layer < 0 ? 1.0f : config_.layers[static_cast<size_t>(layer)].residual_scale;
  }
  double HeadFlop(int64_t num_rows) const {
    return 2.0 * static_cast<double>(num_rows * config_.vocab_size) *
           static_cast<double>(config_.hidden_size);
  }
  float* hidden() { return context_.scratch.hidden.as<float>(); }

  const ModelConfig config_;
  const ModelWeights& weights_;
  const TrainingLimits limits_;
  Stream& stream_;
  const DType dtype_;  // of activations
  const TrainingBuffers sizes_;
  TrainingPieces pieces_;
  const std::vector<RopeTable> ropes_;
  KvPool pool_;  // of one layer, which all layers use in turn
  TransposedWeights transposed_;
  LayerContext context_;
  const EmbeddingLayer embedding_;
  const Head head_;
  const Norm final_norm_;
  std::vector<Block> blocks_;

  std::vector<AdapterInTraining> adapters_;
  std::vector<OnThisDevice> followed_;   // of the first adapters; later ones are not followed yet
  Buffer virtual_rows_;                  // [layers, adapters]; embeddings are in the first layer's
  Buffer matrices_, swapped_, stacked_;  // of all adapters, one after the other
  std::vector<char> batch_on_host_;
  Buffer batch_bytes_;
  Batch batch_;
  LaunchPlan plan_;  // of the batch's products
  std::vector<RowPart> parts_;

  std::vector<Buffer> inputs_;       // fp32, of layers that are computed again
  std::vector<LayerKeptRoom> kept_;  // one that such layers share, then the last layers'
  BackScratch room_;
  Buffer d_prefixes_;  // of one layer, fp32
  Buffer head_input_, head_d_normed_, d_logits_, losses_;
  Buffer norms_, adamw_scratch_;
  SamplingScratch choosing_;  // with what Choose finds; empty where it is never called
  PinnedBuffer chosen_;
  LearningStep learning_;
};

}  // namespace graft
