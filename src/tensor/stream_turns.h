// StreamTurns: the order of a GPU's two streams that take turns (DeviceTurns), by events. As
// TurnMarks says of threads.
#pragma once

#include "base/device_turns.h"
#include "tensor/cuda_memory.h"
#include "tensor/stream.h"

namespace graft {

class StreamTurns : public TurnMarks {
 public:
  // Borrows both, of one device.
  StreamTurns(const Stream& steps, const Stream& pieces)
      : steps_(steps),
        pieces_(pieces),
        step_end_(steps.device),
        piece_begin_(steps.device, /*timed=*/true),
        piece_end_(steps.device, /*timed=*/true) {}

  void BeginStep() override { piece_end_.HoldUp(steps_); }
  void EndStep() override { step_end_.Record(steps_); }
  void BeginPiece() override {
    step_end_.HoldUp(pieces_);
    piece_begin_.Record(pieces_);
  }
  void EndPiece() override { piece_end_.Record(pieces_); }
  int64_t WaitForPiece() override {
    piece_end_.Wait();
    return piece_end_.NsSince(piece_begin_);
  }

 private:
  const Stream& steps_;
  const Stream& pieces_;
  StreamEvent step_end_, piece_begin_, piece_end_;
};

}  // namespace graft
