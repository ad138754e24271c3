// StateDistance: how far rows of hidden states are from a teacher's, and which way each number
// differs. StateGradient: the gradient of that distance. Each row depends on itself alone.
//
// On a GPU that trains; a CPU does this beside its forward (learn/trainer.cc), and here for tests.
#pragma once

#include <cstdint>

#include "tensor/dtype.h"
#include "tensor/stream.h"

namespace graft {

// losses[t] += shares[t] * sum of |states[rows[t]] - taught[t]|
struct StateDistanceArgs {
  const float* states = nullptr;   // [rows, n]
  const int32_t* rows = nullptr;   // [num_targets], no row twice; null: row t is target t's
  const float* taught = nullptr;   // [num_targets, n]
  const double* shares = nullptr;  // [num_targets]; 0: nothing is taught here
  int32_t num_targets = 0;
  int64_t n = 0;
  double* losses = nullptr;  // [num_targets]
  int8_t* signs = nullptr;   // [num_targets, n] of the differences: -1, 0 or 1; null: not wanted
};

// d_states[rows[t]] += shares[t] * signs[t]
struct StateGradientArgs {
  const int8_t* signs = nullptr;   // [num_targets, n]
  const int32_t* rows = nullptr;   // as above
  const double* shares = nullptr;  // [num_targets]
  int32_t num_targets = 0;
  int64_t n = 0;
  float* d_states = nullptr;  // [rows, n]
  void* copy = nullptr;       // as d_states, of copy_dtype, or null: what these become, rounded
  DType copy_dtype = DType::kF32;
};

void StateDistance(const StateDistanceArgs& args, Stream& stream);
void StateGradient(const StateGradientArgs& args, Stream& stream);

}  // namespace graft
