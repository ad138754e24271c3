#include "learn/training_device.h"

#include <utility>

#include "learn/training_walker.h"

namespace graft {

std::unique_ptr<TrainingDevice> MakeTrainingDevice(const ModelConfig& config,
                                                   const ModelWeights& weights,
                                                   const TrainingLimits& limits, Stream& stream,
                                                   std::function<void()> pause,
                                                   DeviceTurns* turns) {
  if (!stream.device.is_cpu()) pause = {};
  return std::make_unique<TrainingWalker>(config, weights, limits, stream, std::move(pause), turns);
}

int64_t DevicePromptBytes(const ModelConfig& config, VirtualTokenKind kind, int32_t num_tokens,
                          DType dtype, const Device& device) {
  return TrainedPrompt::SizeOf(config, kind, num_tokens, dtype, device).bytes();
}

}  // namespace graft
