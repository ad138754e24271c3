#include "layers/training_pieces.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace graft {
namespace training_pieces_test {

// A GPU that does a TFLOP in `ns_of_tera`; a test adds up the work of its pieces.
class FakeGpu : public TurnMarks {
 public:
  void BeginStep() override {}
  void EndStep() override {}
  void BeginPiece() override { flop = 0.0; }
  void EndPiece() override {}
  int64_t WaitForPiece() override {
    took_ns.push_back(static_cast<int64_t>(flop * 1e-12 * ns_of_tera));
    return took_ns.back();
  }

  double ns_of_tera = 1e6;
  double flop = 0.0;
  std::vector<int64_t> took_ns;
};

class TrainingPiecesTest : public ::testing::Test {
 protected:
  void Work(TrainingPieces& pieces, double flop) {
    pieces.BeforeWork(flop);
    gpu.flop += flop;
  }
  int64_t Longest() const { return *std::ranges::max_element(gpu.took_ns); }

  ManualClock clock;
  FakeGpu gpu;
  DeviceTurns turns{0.3, gpu, clock};
};

TEST_F(TrainingPiecesTest, PiecesComeToTheLengthThatTheyMayHave) {
  TrainingPieces pieces(&turns);
  for (const double ns_of_tera : {1.5e6, 8e6, 0.5e6}) {
    gpu.ns_of_tera = ns_of_tera;
    for (int step = 0; step < 20; ++step) {
      gpu.took_ns.clear();
      const TrainingPieces::Scope piece(pieces);
      for (int i = 0; i < 400; ++i) Work(pieces, 0.02e12);
    }
    EXPECT_LE(Longest(), TrainingPieces::kPieceNs * 11 / 10) << ns_of_tera;
    EXPECT_GE(Longest(), TrainingPieces::kPieceNs / 2) << ns_of_tera;
  }
}

TEST_F(TrainingPiecesTest, ALayerEndsAPieceWhereStepsWantTurns) {
  TrainingPieces pieces(&turns);
  const auto run = [&] {
    gpu.took_ns.clear();
    {
      const TrainingPieces::Scope piece(pieces);
      for (int layer = 0; layer < 4; ++layer) {
        Work(pieces, 1e9);
        pieces.AfterLayer();
      }
    }
    return gpu.took_ns.size();
  };
  EXPECT_EQ(run(), 1u);
  turns.BeginStep();
  turns.EndStep();
  turns.OnStepDone(1'000'000'000);
  EXPECT_EQ(run(), 5u);
}

TEST_F(TrainingPiecesTest, WhatIsTooLongForAPieceIsKnown) {
  TrainingPieces pieces(&turns);
  for (int i = 0; i < 100; ++i) {
    const TrainingPieces::Scope piece(pieces);
    Work(pieces, 1e12);
  }
  EXPECT_TRUE(pieces.Fits(1.4e12));  // a TFLOP takes a millisecond here
  EXPECT_FALSE(pieces.Fits(1.6e12));
  EXPECT_EQ(pieces.RowsOfPart(0.7e9), 1024);
  EXPECT_EQ(pieces.RowsOfPart(1e12), 128);
  EXPECT_TRUE(TrainingPieces(nullptr).Fits(1e15));
}

TEST_F(TrainingPiecesTest, ABreakIsNoPiece) {
  TrainingPieces pieces(&turns);
  {
    const TrainingPieces::Scope piece(pieces);
    const TrainingPieces::Break others(pieces);
    EXPECT_FALSE(turns.has_piece());
  }
  EXPECT_EQ(gpu.took_ns.size(), 2u);
  TrainingPieces alone(nullptr);
  const TrainingPieces::Scope piece(alone);
  Work(alone, 1e15);
  EXPECT_EQ(gpu.took_ns.size(), 2u);
}

}  // namespace training_pieces_test
}  // namespace graft
