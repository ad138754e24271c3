#include "bench/merged_weights.h"

#include "base/check.h"
#include "bench/lora_merge/lora_merge.h"
#include "model/lora_module.h"
#include "tensor/cuda_memory.h"

namespace graft {
namespace {

// Where a projection is, and the first of the modules that are stacked in it.
struct MergedProjection {
  GemmWeight LayerProjections::*weight;
  LoraModule first;
  int32_t num_modules;
};

constexpr MergedProjection kMergedProjections[] = {
    {&LayerProjections::qkv, LoraModule::kQ, 3},
    {&LayerProjections::o, LoraModule::kO, 1},
    {&LayerProjections::gate_up, LoraModule::kGate, 2},
    {&LayerProjections::down, LoraModule::kDown, 1}};

}  // namespace

MergedWeights::MergedWeights(const ModelConfig& config, const ModelWeights& base)
    : config_(config), base_(base), layers_(base.layers.size()) {
  for (size_t i = 0; i < layers_.size(); ++i) {
    for (const MergedProjection& projection : kMergedProjections) {
      layers_[i].*projection.weight = GemmWeight::Like(base.layers[i].*projection.weight);
    }
  }
}

int64_t MergedWeights::BytesFor(const ModelConfig& config, DType dtype, const Device& device) {
  int64_t layer = 0;
  for (const MergedProjection& projection : kMergedProjections) {
    int64_t n = 0;
    for (int32_t i = 0; i < projection.num_modules; ++i) {
      const auto module = static_cast<LoraModule>(static_cast<int>(projection.first) + i);
      n += ShapeOfLoraModule(config, module).out;
    }
    layer += GemmWeight::BytesFor(n, ShapeOfLoraModule(config, projection.first).in, dtype, device);
  }
  return config.num_layers * layer;
}

void MergedWeights::Merge(const LoraTable& loras, int32_t slot, Stream& stream) {
  CHECK(loras.matrices != nullptr);
  const LoraMatrix* matrices = loras.matrices + slot * loras.stride;
  for (size_t i = 0; i < layers_.size(); ++i, matrices += kLoraModules) {
    for (const MergedProjection& projection : kMergedProjections) {
      LoraMergeArgs args{.base = &(base_.layers[i].*projection.weight),
                         .merged = &(layers_[i].*projection.weight),
                         .matrices = matrices + static_cast<int>(projection.first),
                         .num_slices = projection.num_modules};
      for (int32_t s = 0; s < projection.num_modules; ++s) {
        const auto module = static_cast<LoraModule>(static_cast<int>(projection.first) + s);
        args.slice_n[s] = ShapeOfLoraModule(config_, module).out;
      }
      LoraMerge(args, stream);
    }
  }
  Synchronize(stream);  // Gemm may read a weight before it waits for earlier kernels
}

}  // namespace graft
