// TrainingTransformer: the transformer forwards, by the server's own kernels and with a
// Transformer's bits, and backwards to the gradients of LoRA on all seven modules and of virtual
// tokens, embeddings or keys and values. The base is frozen. What of a forward does not fit the
// budget is computed again, with the same bits. On the CPU; all memory is taken at construction.
// One thread at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <utility>
#include <vector>

#include "base/status.h"
#include "kernels/attention_backward/attention_backward.h"
#include "layers/launch_plan.h"
#include "learn/adapter_in_training.h"
#include "learn/training_batch.h"
#include "learn/training_sizes.h"
#include "model/config.h"
#include "model/kv_pool.h"
#include "model/rope_table.h"
#include "model/weights.h"
#include "tensor/buffer.h"
#include "tensor/stream.h"

namespace graft {

// kUnimplemented names what of the model, or of the device, training does not cover; a GPU covers
// less still (CheckTrainableOnGpu).
Status CheckTrainable(const ModelConfig& config, const Device& device);

class TrainingTransformer {
 public:
  // For a model that is trainable. `config` and `limits` are copied, the rest is borrowed.
  // `pause` is called between micro-steps, each at most one layer's forward or backward, or
  // logits_rows_max rows of the head, or a piece of a weight's transpose: others may have the
  // stream's threads meanwhile. {}: nothing.
  TrainingTransformer(const ModelConfig& config, const ModelWeights& weights,
                      const TrainingLimits& limits, Stream& stream,
                      std::function<void()> pause = {});

  void Pause() const {
    if (pause_) pause_();
  }

  // What sequences name counts `adapters`. Batch and adapters are borrowed until the backward.
  // `observe` sees each layer's [rows, q + k + v], turned, keys and values as the pages hold them.
  using Observe = std::function<void(int32_t layer, const float* qkv)>;
  void Forward(const TrainingBatch& batch, std::span<const AdapterInTraining> adapters,
               const Observe& observe = {});

  // The residual stream before layer `layer`, or behind the last one: [rows, hidden].
  const float* hidden(int32_t layer) const {
    return hidden_[static_cast<size_t>(layer)].as<float>();
  }

  // The logits [rows, vocab] of these rows, at most logits_rows_max; to be replaced by their
  // gradients.
  float* ComputeHead(std::span<const int32_t> rows);
  // The final norm alone, of as many rows; and its gradients [rows, hidden] into the residual
  // stream.
  const float* ComputeNormed(std::span<const int32_t> rows);
  void BackwardNormed(std::span<const int32_t> rows, const float* d_normed);
  // Begins the backward: no row has a gradient.
  void ZeroGradients();
  // Takes the gradients of the last ComputeHead into the residual stream.
  void BackwardHead(std::span<const int32_t> rows);
  // Adds to the adapters' gradients; those of prompts are in the order of the sequences.
  void Backward();

  int32_t page_tokens() const { return pool_.layout().page_tokens; }
  int32_t num_kept_layers() const { return static_cast<int32_t>(kept_.size()); }
  int32_t num_transposed_layers() const { return static_cast<int32_t>(transposed_.size()); }

 private:
  // What a layer's backward needs of its forward, besides its input.
  struct Activations {
    Buffer qkv;       // [rows, q + k + v], turned, keys and values rounded as pages hold them
    Buffer attended;  // [rows, q]
    Buffer middle;    // [rows, hidden], the residual stream between attention and MLP
    Buffer gate_up;   // [rows, 2 intermediate]
  };
  struct Product {
    const GemmWeight& weight;
    const GemmWeight* transposed;  // null: to be made
    const Buffer& bias;
    LoraModule first;
    int32_t num_slices;
    int64_t slice_n[kLoraSlicesMax];
  };
  struct Transposed {
    GemmWeight qkv, o, gate_up, down;
  };

  Activations MakeActivations() const;
  Activations& ActivationsOf(int32_t layer);
  Product ProductOf(int32_t layer, LayerProduct product) const;
  void CopyAdapters(std::span<const AdapterInTraining> adapters);
  // Up to gate and up, and from there to the next layer's input.
  void ComputeLayer(int32_t layer, Activations& activations);
  void FinishLayer(int32_t layer, const Activations& activations);
  void AttendSequences(int32_t layer, Activations& activations);
  void RoundKeysAndValues(float* qkv);
  void Normalize(const float* x, const Buffer& weight, float* out);
  void Activate(const Activations& activations);
  void Project(const Product& product, int32_t layer, const float* x, float* y, bool accumulate);
  LoraArgs MakeLoraArgs(std::span<const LoraSegment> segments, const Product& product,
                        int32_t layer, const float* x, float* y) const;
  void PlaceKeysAndValues(int32_t layer);

  void BackwardMlp(int32_t layer, const Activations& activations);
  void BackwardAttention(int32_t layer, const Activations& activations);
  // The gradients of the product's adapters; with `d_x`, that of its input, too.
  void BackwardProduct(const Product& product, int32_t layer, const float* x, const float* d_y,
                       float* d_x);
  // The same of one slice of it, by these segments of either kind.
  void BackwardSlice(std::span<const LoraSegment> segments, const Product& product, int32_t layer,
                     int32_t slice, const float* x, const float* d_slice, float* d_x);
  void AddGradients(const Product& product, int32_t layer, int32_t slice, LoraSide side,
                    const float* h, const float* x, int64_t x_stride);
  std::vector<AttentionPrefix> PrefixesOf(int32_t layer);
  void AddPrefixGradients(int32_t layer);
  void AddPromptGradients(std::span<const VirtualRun> runs, const float* x, int64_t n,
                          int64_t stride, int64_t offset);
  void AddEmbeddingGradients();

  const ModelConfig config_;
  const ModelWeights& weights_;
  const TrainingLimits limits_;
  Stream& stream_;
  std::function<void()> pause_;  // before what is made with it
  const std::vector<RopeTable> ropes_;
  std::vector<float> back_sin_;         // of turns back
  std::vector<Transposed> transposed_;  // of the last layers
  GemmWeight transposed_head_;
  KvPool pool_;  // of one layer, which all take in turn

  const TrainingBatch* batch_ = nullptr;
  std::vector<AdapterInTraining> adapters_;
  std::vector<LoraMatrix> matrices_;  // of adapters_, one after the other
  std::vector<LoraMatrix> swapped_;

  std::vector<Buffer> hidden_;     // [layers + 1]
  std::vector<Activations> kept_;  // of the last layers
  Activations shared_;             // of the others, one at a time
  Buffer normed_, activated_;
  Buffer d_hidden_, d_normed_, d_activated_, d_gate_up_, d_attended_, d_qkv_;
  Buffer lora_h_, lora_d_h_;
  Buffer attention_scratch_;
  Buffer d_prefixes_;  // of one layer
  std::vector<char> rounded_;
  Buffer head_hidden_, head_normed_, head_d_normed_, head_d_hidden_, logits_;
};

}  // namespace graft
