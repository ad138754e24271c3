#include "learn/trainable.h"

#include <string>

#include "kernels/attention/attention.h"
#include "kernels/attention_backward/attention_backward.h"
#include "learn/training_sizes.h"

namespace graft {
namespace {

Status NotTrainable(const std::string& what) {
  return UnimplementedError("training does not cover " + what);
}

Status NotOnGpu(const std::string& what) {
  return UnimplementedError("training on a GPU does not cover " + what);
}

}  // namespace

Status CheckTrainable(const Device& device) {
  if (!device.is_cpu() && !kHasCuda) return NotTrainable("a GPU: this binary has no CUDA backend");
  return OkStatus();
}

Status CheckTrainableOnGpu(const ModelConfig& config, DType dtype, const Device& device) {
  RETURN_IF_ERROR(CheckTrainable(device));
  if (dtype == DType::kF16) return NotOnGpu("fp16, whose gradients vanish (--dtype bf16)");
  if (dtype == DType::kF32) return OkStatus();
  if (config.hidden_size % 8 != 0 || config.intermediate_size % 8 != 0 ||
      config.vocab_size % 8 != 0) {
    return NotOnGpu(
        "sizes in bf16 that are no multiples of 8 (hidden_size, intermediate_size, "
        "vocab_size)");
  }
  RETURN_IF_ERROR(CheckAttentionBackward(dtype, config.head_dim, device));
  const KvLayout layout = TrainingPoolLayout(config, dtype, device);
  if (!AttentionTellsGivenRows(layout, device)) {
    return NotOnGpu("bf16 with heads of " + std::to_string(config.head_dim) +
                    ", for which attention has no kernel of given rows");
  }
  return OkStatus();
}

Status CheckTrainableWeights(const ServedTypes& types) {
  if (!types.has_codes()) return OkStatus();
  return NotTrainable("weights that are codes: add --weights plain");
}

}  // namespace graft
