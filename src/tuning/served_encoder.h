// ServedEncoder: the encoder of a server that learns. Its files stay in the host's memory. Its
// numbers and the room to read documents are on the device from the start on, and again from the
// first document on after something else was learned. One thread: JobRunner's.
#pragma once

#include <memory>
#include <utility>

#include "base/device_turns.h"
#include "base/status.h"
#include "base/turns.h"
#include "runtime/runtime.h"
#include "tuning/encoded_documents.h"

namespace graft {

// What a server without one answers.
Status HasNoEncoder();

class ServedEncoder {
 public:
  // All is borrowed but the encoder; `turns` and `device_turns` as JobRunnerParts has them.
  ServedEncoder(KnownEncoder known, const LoadedModel& model, Stream& stream, int64_t bytes_max,
                Turns* turns, DeviceTurns* device_turns)
      : known_(std::move(known)),
        model_(model),
        stream_(stream),
        bytes_max_(bytes_max),
        turns_(turns),
        device_turns_(device_turns) {}

  const KnownEncoder& known() const { return known_; }
  // The encoder with so much room at least, until the next call. kResourceExhausted and
  // kUnavailable as FitTraining. Waits for its turn; outside of a Piece.
  Result<EncoderAtWork*> With(const EncoderRoom& room);
  // The same for a document of one window.
  Status Warm();
  // Gives the room back to what else is learned.
  void Release() { at_work_.reset(); }

 private:
  Result<EncoderRoom> RoomOfWindow() const;

  const KnownEncoder known_;
  const LoadedModel& model_;
  Stream& stream_;
  const int64_t bytes_max_;  // of the device, for training
  Turns* const turns_;
  DeviceTurns* const device_turns_;
  std::unique_ptr<EncoderAtWork> at_work_;
};

}  // namespace graft
