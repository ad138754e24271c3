// AdamW over a table of adapters, each with a step, a rate and a clip of its own (PyTorch's
// formulas, decay apart from the gradient). fp32. An adapter's result is the same bits
// whatever others there are.
#pragma once

#include <cstdint>

#include "tensor/stream.h"

namespace graft {

struct AdamWItem {
  float* parameters = nullptr;  // [n]
  const float* gradients = nullptr;
  float* first_moments = nullptr;
  float* second_moments = nullptr;
  int64_t n = 0;
  int32_t step = 0;  // from 1
  float learning_rate = 0.0f;
  float beta1 = 0.9f;
  float beta2 = 0.999f;
  float epsilon = 1e-8f;
  float weight_decay = 0.0f;
  float norm_max = 0.0f;   // gradients of a larger norm are scaled down to it; 0: never
  double* norm = nullptr;  // of the gradients, written
};

struct AdamWArgs {
  const AdamWItem* items = nullptr;  // [num_items], in the host's memory
  int32_t num_items = 0;
  double* scratch = nullptr;  // AdamWScratchDoubles
};

// 0 on the CPU.
int64_t AdamWScratchDoubles(const Device& device, int32_t num_items);

void AdamW(const AdamWArgs& args, Stream& stream);

}  // namespace graft
