// StepDemand: the sequences for which a step's size is chosen: streams that decode, and prompts
// that go on or could begin now, in the order in which they have rows. It is a summary of a bounded
// size, whatever their number, so that many sizes can be compared. Engine thread only.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

namespace graft {

class StepDemand {
 public:
  static constexpr size_t kStreamsMax = 32;
  static constexpr size_t kPromptsMax = 32;

  // Streams with answers that go on for about as long.
  struct Streams {
    double num = 0.0;
    double tokens = 0.0;  // that each still draws, on average
  };
  // Prompts that follow each other and end at about the same row.
  struct Prompts {
    double num = 0.0;
    double rows = 0.0;      // of all of them
    double rows_end = 0.0;  // rows up to the end of each, on average, of those before it included
    double tokens = 0.0;    // that each will draw, on average
  };

  void Clear();
  // `tokens`: that it is expected to draw still, one at least.
  void AddStream(double tokens);
  // So many prompts of `rows` rows each, one at least, behind those that were added before.
  void AddPrompts(double num, double rows, double tokens);

  double num_streams() const { return num_streams_; }
  double num_prompts() const { return num_prompts_; }
  double num_rows() const { return num_rows_; }  // of all prompts
  std::span<const Streams> streams() const { return streams_; }
  std::span<const Prompts> prompts() const { return prompts_; }

 private:
  void Halve();

  std::array<Streams, kStreamsMax>
      streams_;                   // by the bits of the number of their tokens; many are empty
  std::vector<Prompts> prompts_;  // reused, so that a step allocates nothing once warm
  double num_streams_ = 0.0;
  double num_prompts_ = 0.0;
  double num_rows_ = 0.0;
};

}  // namespace graft
