#include "tuning/served_encoder.h"

#include <algorithm>

namespace graft {

Status HasNoEncoder() {
  return FailedPreconditionError("this server has no encoder: start it with --learn-encoder DIR");
}

// With the encoder's own compression, a window's memory is what most documents have at most.
Result<EncoderRoom> ServedEncoder::RoomOfWindow() const {
  const auto context = static_cast<size_t>(model_.config.context_tokens_max);
  const size_t start = std::min(context, known_.start.size());
  const auto window = static_cast<size_t>(known_.form.memory.window_tokens);
  return RoomFor(known_, std::min(window, context - start), known_.CompressionOr(0), model_.config);
}

Status ServedEncoder::Warm() {
  ASSIGN_OR_RETURN(const EncoderRoom room, RoomOfWindow());
  return With(room).status();
}

Result<EncoderAtWork*> ServedEncoder::With(const EncoderRoom& room) {
  if (at_work_ != nullptr && at_work_->room().Holds(room)) return at_work_.get();
  at_work_.reset();
  const auto fits = [this](const EncoderRoom& taken) {
    LearnSizes sizes = SizesOf(known_, taken, model_.config);
    sizes.threads = stream_.cpu_threads->num_threads();
    return FitTraining(sizes, model_.shape(), bytes_max_, *model_.budget);
  };
  // As much as documents mostly take, so that the next one does not take another room.
  EncoderRoom taken = room;
  if (const Result<EncoderRoom> window = RoomOfWindow(); window.ok()) {
    taken = {std::max(room.rows, window->rows),
             std::max(room.memory_tokens, window->memory_tokens)};
  }
  Result<TrainingFit> fit = fits(taken);
  if (!fit.ok()) fit = fits(taken = room);
  if (!fit.ok()) return fit.status().WithContext("the encoder");
  // No backward follows.
  fit->limits.activation_bytes_max = 0;
  fit->limits.transposed_bytes_max = 0;
  ASSIGN_OR_RETURN(at_work_, EncoderAtWork::Make(known_, taken, model_, fit->limits, stream_,
                                                 turns_, device_turns_));
  return at_work_.get();
}

}  // namespace graft
