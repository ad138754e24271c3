// TrainingPieces: cuts what a training step does so that others come between. On the CPU they have
// the stream's threads in pauses. What is launched on a GPU is cut into pieces of DeviceTurns, so
// that a server's steps come between them. A piece is a layer's forward or backward at most while
// steps follow each other, and never longer than kPieceNs by what is known: work is judged by its
// FLOP, and by how long those of the pieces before took. Without turns everything is launched
// at once. The thread that trains.
#pragma once

#include <cstdint>
#include <functional>
#include <utility>

#include "base/device_turns.h"

namespace graft {

class TrainingPieces {
 public:
  // Borrowed; null: there are no turns. {}: there are no pauses.
  explicit TrainingPieces(DeviceTurns* turns, std::function<void()> pause = {})
      : turns_(turns), pause_(std::move(pause)) {}

  // Covers what is launched while it lives.
  class Scope {
   public:
    explicit Scope(TrainingPieces& pieces) : pieces_(pieces) { pieces_.Begin(); }
    ~Scope() { pieces_.End(); }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    TrainingPieces& pieces_;
  };
  // Within a Scope, for as long as it lives: the host copies and waits, and others may launch.
  class Break {
   public:
    explicit Break(TrainingPieces& pieces) : pieces_(pieces) { pieces_.End(); }
    ~Break() { pieces_.Begin(); }
    Break(const Break&) = delete;
    Break& operator=(const Break&) = delete;

   private:
    TrainingPieces& pieces_;
  };

  // What the CPU does next may wait.
  void PauseCpu() const {
    if (pause_) pause_();
  }
  // Within a Scope, where a piece may end: with a layer, for as long as steps want turns, and
  // before work of so many FLOP that the piece would become too long.
  void AfterLayer();
  void BeforeWork(double flop);
  // The same before work that is bound by memory.
  void BeforeBytes(int64_t bytes) { BeforeWork(kFlopOfByte * static_cast<double>(bytes)); }
  // Whether such work is a piece at most; else it is to be launched in parts.
  bool Fits(double flop) const {
    return turns_ == nullptr || NsOf(flop) <= static_cast<double>(kPieceNs);
  }
  // How many rows of such work a part then has, about half a piece.
  int64_t RowsOfPart(double flop_of_row) const;

  // What pieces are held to, half of the 3 ms that they are to have at most: one in a hundred takes
  // half as long again as was reckoned.
  static constexpr int64_t kPieceNs = 1'500'000;

 private:
  void Begin();
  void End();
  void Pause();
  double NsOf(double flop) const { return flop * ns_of_flop_; }

  // A GPU computes for so long while it reads or writes a byte: 600 TFLOP/s, 3 TB/s.
  static constexpr double kFlopOfByte = 200.0;

  DeviceTurns* const turns_;
  const std::function<void()> pause_;
  double flop_ = 0.0;  // of the piece so far
  // Until the first piece was measured a slow GPU's.
  double ns_of_flop_ = 1e-5;
};

}  // namespace graft
