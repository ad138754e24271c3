// ModelWeights: a base model's bytes in the layouts its kernels want. Projections that share an
// input are stacked (q, k, v; gate, up) so that each is one GEMM. Matrices are as ServedTypes says
// (fp32, bf16; fp16 on GPUs), norms and biases in fp32, all on the device that serves. Immutable
// once made; any thread.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "kernels/gemm/gemm.h"
#include "layers/layer_weights.h"
#include "layers/served_types.h"
#include "model/config.h"
#include "model/shard.h"
#include "tensor/buffer.h"
#include "tensor/stream.h"

namespace graft {

struct ModelWeights {
  ServedTypes types;
  IndexRange vocabulary;  // the words that the tables have: all, or a rank's
  Buffer embedding;       // [vocabulary, hidden] of types.embeddings
  Buffer positions;       // [ModelConfig::num_positions, hidden] of types.embeddings, or empty
  std::vector<LayerWeights> layers;
  Buffer final_norm;    // fp32 [ModelShape::norm_size]
  GemmWeight lm_head;   // [vocabulary, hidden]; of tied embeddings, the same numbers packed
  Buffer lm_head_bias;  // fp32 [vocabulary], or empty

  int64_t bytes() const;
};

// The dtype to serve in: `asked`, else on the CPU bf16 for a bf16 checkpoint and fp32 for all
// others (fp16's small numbers would drown in bf16), on a GPU fp16 for an fp16 checkpoint and bf16
// for all others (fp32 is right there, but slow).
DType ServingDType(const ModelConfig& config, std::optional<DType> asked,
                   const Device& device = {});

// What ModelWeights::bytes will be, at most; of one of several ranks, for what ShardConfig gives.
int64_t WeightsBytes(const ModelConfig& config, const ServedTypes& types, const Device& device,
                     int32_t num_ranks = 1);
// What reading them takes beside them, of the host's memory: the largest tensor, as it is
// converted.
int64_t WeightsReadingBytes(const ModelConfig& config, const ServedTypes& types);

// What the embedding's rows are multiplied by: 1, or sqrt(hidden_size) in the bits of the table's
// dtype, as HF rounds it.
float EmbeddingScale(const ModelConfig& config, DType dtype);

// Called with parameters done and in total, on the loading thread.
using LoadProgress = std::function<void(int64_t done, int64_t total)>;

// Reads an HF folder's tensors. Errors name the tensor: missing, of the wrong shape or dtype,
// holding NaN or Inf, or belonging to a module of ours that does not have it (a bias where the
// config says none). Tensors of other modules are listed in the log and left alone. One of several
// ranks reads its slices of the same files: `config` is the whole model's.
Result<ModelWeights> LoadWeights(const std::string& model_dir, const ModelConfig& config,
                                 const ServedTypes& types, Stream& stream,
                                 const LoadProgress& progress = {}, const Shard& shard = {});

// Weights drawn from (seed, tensor, element) with HF's initial spread, for benchmarks of any shape.
// The same on any number of threads, and the same model on any number of ranks.
ModelWeights RandomWeights(const ModelConfig& config, const ServedTypes& types, uint64_t seed,
                           Stream& stream, const LoadProgress& progress = {},
                           const Shard& shard = {});

}  // namespace graft
