#include "layers/training_pieces.h"

#include <algorithm>

namespace graft {
namespace {

// Pieces that are shorter, and were thought so, are mostly the launching of kernels, which says
// nothing of others.
constexpr double kTellingNs = 100'000;
constexpr int64_t kRowStep = 128;
constexpr double kNewest = 0.1;  // what the last piece counts among those before

}  // namespace

void TrainingPieces::Begin() {
  if (turns_ != nullptr) turns_->BeginPiece();
  flop_ = 0.0;
}

void TrainingPieces::End() {
  if (turns_ == nullptr) return;
  const auto took_ns = static_cast<double>(turns_->EndPiece());
  if (flop_ <= 0.0 || std::max(took_ns, NsOf(flop_)) < kTellingNs) return;
  ns_of_flop_ += kNewest * (took_ns / flop_ - ns_of_flop_);
}

void TrainingPieces::Pause() {
  End();
  Begin();
}

// A device that is not wanted otherwise would stand still between many short pieces.
void TrainingPieces::AfterLayer() {
  PauseCpu();
  if (turns_ != nullptr && turns_->is_busy()) Pause();
}

int64_t TrainingPieces::RowsOfPart(double flop_of_row) const {
  const double rows = static_cast<double>(kPieceNs) / 2 / NsOf(flop_of_row);
  return std::max<int64_t>(1, static_cast<int64_t>(rows / kRowStep)) * kRowStep;
}

void TrainingPieces::BeforeWork(double flop) {
  if (flop_ > 0.0 && NsOf(flop_ + flop) > static_cast<double>(kPieceNs)) Pause();
  flop_ += flop;
}

}  // namespace graft
