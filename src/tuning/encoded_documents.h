// An encoder reads documents, one after the other: what it makes of one is an adapter as it is, or
// where the learner distill begins. For the command and for jobs beside the serving.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/device_turns.h"
#include "base/json_fwd.h"
#include "base/status.h"
#include "base/turns.h"
#include "learn/learned_folder.h"
#include "learn/trainer.h"
#include "runtime/runtime.h"
#include "tuning/encoder_folder.h"
#include "tuning/learn_memory.h"
#include "tuning/learning_plan.h"

namespace graft {

// What reading takes: the rows of a window, and the largest memory.
struct EncoderRoom {
  int32_t rows = 0;
  int32_t memory_tokens = 0;

  bool Holds(const EncoderRoom& other) const {
    return rows >= other.rows && memory_tokens >= other.memory_tokens;
  }
};
// For documents of so many tokens at most. kInvalidArgument for more than the model's context.
Result<EncoderRoom> RoomFor(const KnownEncoder& encoder, size_t document_tokens,
                            int32_t compression, const ModelConfig& config);
// That of the plan's largest document.
Result<EncoderRoom> RoomFor(const KnownEncoder& encoder, const LearningPlan& plan,
                            int32_t compression, const ModelConfig& config);
LearnSizes SizesOf(const KnownEncoder& encoder, const EncoderRoom& room, const ModelConfig& config);

// An encoder with its numbers on the device. One thread.
class EncoderAtWork {
 public:
  // All but the room is borrowed. `limits` are those of the room's sizes. Beside a server's steps
  // it takes `turns` on the CPU and `device_turns` on a GPU, outside of a Piece.
  static Result<std::unique_ptr<EncoderAtWork>> Make(const KnownEncoder& encoder,
                                                     const EncoderRoom& room,
                                                     const LoadedModel& model,
                                                     const TrainingLimits& limits, Stream& stream,
                                                     Turns* turns = nullptr,
                                                     DeviceTurns* device_turns = nullptr);

  const EncoderRoom& room() const { return room_; }
  // Called with the reading of each window, which it calls or returns why not.
  using Compute = std::function<Status(const std::function<Status()>& window)>;
  // The adapter of a document that the room holds, until the next call. Fails as `compute` does;
  // without one all windows are read.
  Result<LearnedAdapter> Read(std::span<const int32_t> tokens, int32_t compression,
                              const Compute& compute = {});

 private:
  EncoderAtWork(const KnownEncoder& encoder, const EncoderRoom& room, const LoadedModel& model,
                const TrainingLimits& limits, Stream& stream, std::function<void()> pause,
                DeviceTurns* turns);
  Status ReadWindow(const MemoryReading& reading, size_t window);

  const KnownEncoder& encoder_;
  const EncoderRoom room_;
  const DType dtype_;
  const Device device_;
  Trainer trainer_;
  const int32_t reads_, answers_, memory_;  // adapters of the trainer
  std::unique_ptr<TrainedPrompt> read_;     // of the last document, as many tokens as it has
};

// What graft.json says of a document's adapter that an encoder has made.
OrderedJson OriginOfEncoded(const KnownEncoder& encoder, int32_t compression,
                            const LearningPlan& plan, const LearningDocument& document,
                            int32_t memory_tokens, const LoadedModel& model,
                            const BaseIdentity& base);

// The plan's documents begin with what the encoder makes of them: first their shapes, from which
// the sizes follow, and once the model is there, the numbers. kInvalidArgument where the method
// asks for another rank or for a scale.
Status BeginEncoded(const KnownEncoder& encoder, const ModelConfig& config, LearningPlan* plan);
Status ReadBeginnings(EncoderAtWork& encoder, LearningPlan* plan,
                      const EncoderAtWork::Compute& compute = {});

}  // namespace graft
