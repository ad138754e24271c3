// Cosines and sines of every position's rotary angles, as HF computes them (yarn's and longrope's
// times their attention factor). Immutable; any thread.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "layers/attention_layer.h"
#include "model/config.h"
#include "tensor/buffer.h"
#include "tensor/stream.h"

namespace graft {

// The rotary_dim / 2 angular frequencies (radians per position) after scaling. llama3: Llama 3.1's
// smooth interpolation between the frequencies it keeps and those it divides by the factor. yarn: a
// linear one between two dimensions (Peng et al., section 3.2).
// No rotation: all are 0, so that cosines are 1 and sines 0.
// longrope: those of contexts of up to num_positions; chosen once for all sequences, since keys
// that were turned by one set cannot be read by another.
std::vector<float> RopeFrequencies(const RopeConfig& rope, int32_t rotary_dim,
                                   int32_t num_positions);

class RopeTable {
 public:
  // For positions [0, num_positions). Calls `pause`, where there is one, between pieces: others may
  // have the stream's threads then. `goes_back`: with the sines of turns back.
  RopeTable(const RopeConfig& rope, int32_t rotary_dim, int32_t num_positions, Stream& stream,
            const std::function<void()>& pause = {}, bool goes_back = false);

  int32_t num_positions() const { return num_positions_; }
  const float* cos() const { return cos_.as<float>(); }  // [num_positions, rotary_dim / 2]
  const float* sin() const { return sin_.as<float>(); }
  const float* back_sin() const { return back_sin_.as<float>(); }  // null without
  // [num_positions], of queries alone; null: they are not scaled (RopeConfig::query_beta).
  const float* query_scale() const { return query_scale_.as<float>(); }
  RopeAngles angles() const { return {cos(), sin(), query_scale(), back_sin()}; }

 private:
  int32_t num_positions_;
  Buffer cos_;
  Buffer sin_;
  Buffer back_sin_;
  Buffer query_scale_;
};

// Bytes of all of the model's tables.
int64_t RopeTablesBytes(const ModelConfig& config, int32_t num_positions, bool go_back = false);

// One table for each of the model's ropes.
std::vector<RopeTable> MakeRopeTables(const ModelConfig& config, int32_t num_positions,
                                      Stream& stream, const std::function<void()>& pause = {},
                                      bool go_back = false);

}  // namespace graft
