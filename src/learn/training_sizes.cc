#include "learn/training_sizes.h"

#include <algorithm>
#include <vector>

#include "kernels/attention_backward/attention_backward.h"
#include "kernels/gemm/gemm.h"
#include "kernels/lora/lora.h"
#include "model/kv_pool.h"
#include "model/rope_table.h"

namespace graft {
namespace {

constexpr int64_t kFloatBytes = sizeof(float);
constexpr int32_t kTrainingPageTokens = 16;

struct Matrix {
  int64_t n;
  int64_t k;
  int64_t TransposedBytes(DType dtype) const { return GemmWeight::BytesFor(k, n, dtype, {}); }
};

std::vector<Matrix> LayerMatrices(const ModelConfig& config) {
  return {{config.qkv_size(), config.hidden_size},
          {config.hidden_size, config.q_size()},
          {int64_t{2} * config.intermediate_size, config.hidden_size},
          {config.hidden_size, config.intermediate_size}};
}

}  // namespace

int64_t NumLayersWithin(int64_t bytes_max, int64_t layer_bytes, const ModelConfig& config) {
  return std::min<int64_t>(bytes_max / layer_bytes, config.num_layers);
}

KvLayout TrainingPoolLayout(const ModelConfig& config, DType dtype) {
  KvLayout layout = MakeKvLayout(config, kTrainingPageTokens, TypesOf(dtype).kv);
  layout.num_layers = 1;
  return layout;
}

int32_t NumTrainingPages(const TrainingLimits& limits) {
  const int32_t prefix_pages =
      (limits.prefix_tokens_max + kTrainingPageTokens - 1) / kTrainingPageTokens;
  return limits.rows_max / kTrainingPageTokens + limits.sequences_max * (1 + prefix_pages);
}

int64_t LayerActivationBytes(const ModelConfig& config, int32_t rows_max) {
  const int64_t row = config.qkv_size() + config.q_size() + config.hidden_size +
                      int64_t{2} * config.intermediate_size;
  return row * rows_max * kFloatBytes;
}

int64_t LayerTransposedBytes(const ModelConfig& config, DType dtype) {
  int64_t bytes = 0;
  for (const Matrix& matrix : LayerMatrices(config)) bytes += matrix.TransposedBytes(dtype);
  return bytes;
}

TrainingSizes SizesOf(const TrainingLimits& limits, const ModelConfig& config, DType dtype,
                      int num_threads) {
  const int64_t rows = limits.rows_max;
  const int64_t hidden = config.hidden_size;
  const int64_t layer_bytes = LayerActivationBytes(config, limits.rows_max);
  const int64_t num_kept = NumLayersWithin(limits.activation_bytes_max, layer_bytes, config);
  const int64_t num_transposed =
      NumLayersWithin(limits.transposed_bytes_max, LayerTransposedBytes(config, dtype), config);
  const Matrix head = {config.vocab_size, hidden};
  TrainingSizes sizes;
  sizes.layer_inputs = (config.num_layers + 1) * rows * hidden * kFloatBytes;
  sizes.kept_activations = (num_kept + (num_kept < config.num_layers ? 1 : 0)) * layer_bytes;
  sizes.kept_transposed =
      head.TransposedBytes(dtype) + num_transposed * LayerTransposedBytes(config, dtype);
  for (const Matrix& matrix : LayerMatrices(config)) {
    if (num_transposed == config.num_layers) break;
    sizes.made_transposed = std::max(sizes.made_transposed, matrix.TransposedBytes(dtype));
  }
  const int64_t row_floats = 3 * hidden + 2 * config.intermediate_size +
                             int64_t{2} * config.intermediate_size + config.q_size() +
                             config.qkv_size();
  sizes.gradients = rows * row_floats * kFloatBytes;
  sizes.lora = rows * (kLoraSlicesMax + 1) * limits.rank_max * kFloatBytes;
  sizes.logits = limits.logits_rows_max * (4 * hidden + config.vocab_size) * kFloatBytes;
  const int64_t prefix_rows = int64_t{limits.sequences_max} * limits.prefix_tokens_max;
  sizes.attention = AttentionBackwardFloats(limits.rows_max + limits.prefix_tokens_max,
                                            config.head_dim, num_threads) *
                        kFloatBytes +
                    prefix_rows * 2 * config.kv_size() * kFloatBytes +
                    TrainingPoolLayout(config, dtype).PageBytes() * NumTrainingPages(limits);
  // Cosines, sines, and the sines of turns back.
  sizes.ropes = RopeTablesBytes(config, config.context_tokens_max) * 3 / 2;
  const int64_t widest = std::max<int64_t>(
      {hidden, config.q_size(), config.qkv_size(), int64_t{2} * config.intermediate_size});
  sizes.thread_rows =
      std::max(GemmScratchBytes(rows, widest, dtype, num_threads),
               GemmScratchBytes(limits.logits_rows_max, config.vocab_size, dtype, num_threads));
  return sizes;
}

}  // namespace graft
