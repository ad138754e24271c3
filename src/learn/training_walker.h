// TrainingWalker: TrainingDevice on the CPU and on one GPU: the transformer forwards, by the
// server's own kernels and with its bits, and backwards to the gradients of LoRA and of virtual
// tokens. The base is frozen. Ops choose the device. The residual stream, products and gradients of
// activations that products make are fp32; what products read is in the activations' dtype
// (ServedTypes::activations), and so is what a layer keeps for its backward: the inputs of its two
// norms, q, k, v as attention took them, what it made, gate and up. Norms and SwiGLU are computed
// again from these. What does not fit the budget is computed again from the residual stream, with
// the same bits. Every sum has a fixed order that does not depend on what else is in the batch. All
// memory is taken at construction, but for adapters. One thread at a time.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "kernels/attention_backward/attention_backward.h"
#include "kernels/gemm/gemm.h"
#include "kernels/lora/lora.h"
#include "kernels/lora_gradient/lora_gradient.h"
#include "layers/attention_layer.h"
#include "layers/embedding_layer.h"
#include "layers/head.h"
#include "layers/launch_plan.h"
#include "layers/norm.h"
#include "layers/projection.h"
#include "learn/device_lora.h"
#include "learn/device_prompt.h"
#include "learn/prompt_gradients.h"
#include "learn/training_device.h"
#include "learn/training_pieces.h"
#include "learn/training_sizes.h"
#include "learn/transposed_weights.h"
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
  int32_t num_kept_layers() const override { return static_cast<int32_t>(kept_.size()); }
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
  void Map(int32_t map, std::span<const MappedRows> rows) override;
  void BackwardMap(int32_t map, std::span<const MappedRows> rows) override;
  void BeginPrompt(const TrainingBatch& batch, TrainedPrompt& prompt) override;
  void TakeStates(const TrainingBatch& batch, std::span<const int32_t> rows,
                  float* states) override;

 private:
  // Of dtype_.
  struct Activations {
    Buffer input;     // [rows, hidden], of attention's norm
    Buffer qkv;       // [rows, q + k + v], turned
    Buffer attended;  // [rows, q]
    Buffer middle;    // [rows, hidden], of the MLP's norm
    Buffer gate_up;   // [rows, 2 intermediate]
    Buffer unnormed;  // [rows, q + k], where there are norms of queries and keys
    // [rows, hidden], where there are output norms: what they read.
    Buffer attention_branch, mlp_branch;
    AttentionKept attention() { return {qkv.data(), attended.data(), unnormed.data()}; }
  };
  struct Product {
    int32_t layer;
    LayerProduct which;
    const Projection& projection;
    const GemmWeight& weight;
    ProductTargets targets;
  };
  // Whose gradients what stands in front of a batch's sequences makes, of one kind.
  struct Prompts {
    int32_t num_items = 0;
    const VirtualGradientItem* items;
    const int32_t* places;
  };
  // Rows of the batch that a product takes at once, and their LoRA segments.
  struct Part {
    int32_t row_begin = 0, num_rows = 0;
    const LoraSegment* segments = nullptr;  // of the device, in rows of the part
    int32_t num_segments = 0;
  };
  // A batch in the device's memory.
  struct Batch {
    int32_t num_rows = 0, num_sequences = 0;
    int32_t num_segments = 0, num_gradient_segments = 0, num_document_segments = 0;
    DeviceBatch arrays;                            // what the layers read
    const LoraSegment* segments;                   // cut to what LoRA's kernels like
    const LoraSegment* part_segments;              // likewise, by the rows of their parts
    const LoraSegment* document_segments;          // likewise, of what does not learn
    const LoraGradientSegment* gradient_segments;  // an adapter's rows each
    Prompts embeddings, keys_values;
    std::span<const VirtualRun> runs;  // of keys and values
    const AttentionPrefix* prefixes;   // [layers, sequences]; null: none
    int32_t num_targets = 0, num_choices = 0;
    const int32_t *rows, *ids;
    const float *probabilities, *weights;
  };

  Activations MakeActivations() const;
  Activations& ActivationsOf(int32_t layer);
  Product ProductOf(int32_t layer, LayerProduct product) const;
  int32_t first_kept() const { return config_.num_layers - num_kept_layers(); }

  // Of LoRA, then of virtual tokens.
  std::vector<DeviceMasters*> MastersOf(int32_t adapter);
  // The device has what the host's adapters have now.
  void FollowAdapters();
  void ListMatrices();
  void ListPrompts();
  PromptGradients ListGradients(std::span<const VirtualRun> runs);
  std::vector<AttentionPrefix> ListPrefixes(const TrainingBatch& batch);
  void CutParts(std::span<const LoraSegment> cut, int32_t num_rows,
                std::vector<LoraSegment>* by_parts);
  // Those of a product that is longer than a piece; else all of the batch is one.
  std::span<const Part> PartsOf(const Product& product) const;
  GemmArgs OfPart(GemmArgs args, const Part& part) const;
  LoraArgs OfPart(LoraArgs args, const Part& part) const;
  Projection::Call OfPart(Projection::Call call, const Product& product, const Part& part) const;
  void PutBatch(const TrainingBatch& batch, const TrainingTargets& targets);
  // What of a batch is made here.
  struct BatchLists {
    std::vector<LoraSegment> segments, part_segments, document_segments;
    std::vector<LoraGradientSegment> gradients;
    PromptGradients embeddings, keys_values;
    std::vector<AttentionPrefix> prefixes;
  };
  BatchLists ListsOf(const TrainingBatch& batch);
  // All arrays into batch_on_host_, for a copy to `target`.
  Batch Pack(const TrainingBatch& batch, const BatchLists& lists, const TrainingTargets& targets,
             const char* target);

  DeviceMasters& EmbeddingsOf(int32_t adapter);
  // Calls back with vectors that are in the residual stream's room, which is free meanwhile.
  void ForEachMapped(std::span<const MappedRows> rows,
                     const std::function<void(const MappedRows& part)>& function);
  void BackwardMemory(const EncodedRows& rows);

  void Forward();
  // Up to gate and up, and from there on.
  void ComputeLayer(int32_t layer, Activations& activations);
  void FinishLayer(int32_t layer, Activations& activations);
  // A product that leads back to the residual stream, of o or down: adds it, or its norm, in which
  // case `branch` keeps what the norm read.
  void ProjectBack(const Product& product, const void* x, const Buffer& norm, Buffer& branch);
  void Normalize(const Buffer& weight, Buffer& copy);
  void Activate(int32_t layer, Activations& activations);
  void ProjectGateUp(int32_t layer, Activations& activations);
  void Project(const Product& product, const Projection::Call& all);  // and LoRA
  void RoundH(const Product& product, const Part& part);
  // LoRA's h of a product, rounded, as AddGradients takes it: [rows, slices, RankStride()].
  void* HOf(const Product& product);
  // Where the part's rows of such h begin.
  void* RankRows(void* h, const Product& product, const Part& part) const;
  int64_t RankStride() const { return LoraGradientRankStride(limits_.rank_max); }
  LoraArgs ArgsOfLora(const Product& product, const void* x, float* y) const;

  LayerStep Step() { return {.batch = batch_.arrays, .stream = stream_}; }
  LayerStep StepOf(const Part& part);
  Norm NormOf(const Buffer& weight) const {
    return {weight, config_.hidden_size, config_.rms_norm_epsilon};
  }
  // What documents' LoRA adds to a product, and, from the gradient of its output, to that of its
  // input.
  LoraArgs OfDocuments(LoraArgs args) const;
  void AddDocuments(const Product& product, const void* x, const ResidualTarget& target);
  void AddDocumentsBack(const Product& product, const void* d_y, float* d_x);
  void RunHead(bool backward);
  void ZeroStreamGradients();
  void Backward();
  void BackwardMlp(int32_t layer, Activations& activations);
  void BackwardAttention(int32_t layer, Activations& activations);
  // The gradient of the product's input, unless d_x is null, and what AddGradients needs. Returns
  // its type: dtype_ where the product adds LoRA itself, else fp32.
  DType BackwardInput(const Product& product, const void* d_y, void* d_x, bool may_round = true);
  // The gradient of what such a product made, as products read it.
  const void* BranchGradient(int32_t layer, const Buffer& norm, Buffer& branch);
  // Of a slice, or with `stacked` of the expand of all.
  LoraArgs MakeBackArgs(const Product& product, int32_t slice, const void* d_y, float* d_x,
                        bool stacked = false) const;
  void RoundBackH(const Product& product, const Part& part);
  // After BackwardInput of the same product.
  void AddGradients(const Product& product, const void* x, const void* d_y);
  // Where a module's matrix begins, in rows of a rank.
  int64_t RankOffset(int32_t layer, LoraModule module, LoraSide side) const;
  void PlaceKeysAndValues(int32_t layer);
  void AddPromptGradients(const Prompts& prompts, const Buffer& x, int64_t n, int64_t stride,
                          int64_t offset, float scale = 1.0f);
  // `copy_scale`: of the product that leads back next on the way down.
  void BackwardNorm(const Buffer& x, const Buffer& weight, bool has_gradient, DType d_dtype,
                    float copy_scale);
  // Of what the layer adds; of the one below the first: 1.
  float ResidualScaleOf(int32_t layer) const {
    return layer < 0 ? 1.0f : spec(layer).residual_scale;
  }

  // What pieces reckon with: of a product, and of a layer's attention, whose FLOP take so much
  // longer than a product's.
  static double FlopOf(const GemmWeight& weight, int64_t num_rows) {
    return 2.0 * static_cast<double>(num_rows * weight.n()) * static_cast<double>(weight.k());
  }
  static constexpr double kForwardEffort = 5.0, kBackwardEffort = 20.0;
  double AttentionFlop(int32_t layer, double effort) const {
    const int32_t window = spec(layer).window;
    const int32_t seen =
        window > 0 ? std::min(window, batch_.arrays.kv_tokens_max) : batch_.arrays.kv_tokens_max;
    return effort * batch_.num_rows * static_cast<double>(config_.q_size()) * seen;
  }

  const AttentionPrefix* PrefixesOf(int32_t layer) const {
    if (batch_.prefixes == nullptr) return nullptr;
    return batch_.prefixes + int64_t{layer} * batch_.num_sequences;
  }
  const void* Columns(const void* x, int64_t column) const {
    return static_cast<const char*>(x) + column * DTypeBytes(dtype_);
  }
  float* hidden() { return context_.scratch.hidden.as<float>(); }
  const LayerSpec& spec(int32_t layer) const { return config_.layers[static_cast<size_t>(layer)]; }
  // The residual stream's gradient, times what the model scales what is added to it by, as products
  // read it.
  const void* d_hidden() const {
    return d_hidden_copy_.bytes() == 0 ? d_hidden_.data() : d_hidden_copy_.data();
  }

  const ModelConfig config_;
  const ModelWeights& weights_;
  const TrainingLimits limits_;
  Stream& stream_;
  const DType dtype_;  // of activations
  const TrainingBuffers sizes_;
  TrainingPieces pieces_;
  const std::vector<RopeTable> ropes_;
  std::vector<Buffer> back_sins_;  // of turns back, by ropes_
  KvPool pool_;                    // of one layer, which all take in turn
  const LoraPlace lora_place_;     // of prompts' products: inside where the card can, else after
  TransposedWeights transposed_;
  LayerContext context_;
  const EmbeddingLayer embedding_;
  const Head head_;
  std::vector<AttentionLayer> attention_;  // of each layer
  std::vector<Projection> projections_;    // of each layer, in LayerProduct's order

  std::vector<AdapterInTraining> adapters_;
  // By adapter, of those that were followed; null: it has none.
  std::vector<std::unique_ptr<DeviceLora>> loras_;
  std::vector<std::unique_ptr<DevicePrompt>> prompts_;
  Buffer virtual_rows_;                  // [layers, adapters], of embeddings in the first alone
  Buffer matrices_, swapped_, stacked_;  // of all adapters, one after the other
  bool can_stack_ = false;               // all LoRA that learns is of rank_max
  // Of all that learn, and of no document: gradients are rounded in every batch, or in none.
  bool can_round_ = false;
  std::vector<char> batch_on_host_;
  Buffer batch_bytes_;
  Batch batch_;
  LaunchPlan plan_;          // of the batch's products
  Part whole_;               // of the batch
  std::vector<Part> parts_;  // likewise
  bool learns_ = false;      // a backward follows

  std::vector<Buffer> inputs_;     // fp32, of the layers that are computed again
  std::vector<Activations> kept_;  // of the last layers
  Activations shared_;             // of the others, in turn
  Buffer normed_, gate_up_, activated_;
  Buffer d_hidden_, d_hidden_copy_, d_normed_, d_gate_up_, d_attended_, d_qkv_;
  Buffer lora_d_h_;
  Buffer rounded_h_, rounded_d_h_;  // of all layers' products, and of one
  Buffer gradient_scratch_, gradient_counters_;
  Buffer backward_scratch_;
  Buffer d_prefixes_;  // of one layer, fp32
  Buffer head_input_, head_d_normed_, d_logits_, losses_;
  Buffer norms_, adamw_scratch_;
};

}  // namespace graft
