#include "learn/training_device.h"

#include <utility>

#include "learn/cpu_training.h"
#include "learn/gpu_training.h"

namespace graft {

std::unique_ptr<TrainingDevice> MakeTrainingDevice(const ModelConfig& config,
                                                   const ModelWeights& weights,
                                                   const TrainingLimits& limits, Stream& stream,
                                                   std::function<void()> pause,
                                                   DeviceTurns* turns) {
  if (stream.device.is_cpu()) {
    return std::make_unique<CpuTraining>(config, weights, limits, stream, std::move(pause));
  }
  return std::make_unique<GpuTraining>(config, weights, limits, stream, turns);
}

}  // namespace graft
