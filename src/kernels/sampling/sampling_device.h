// What sampling.cc hands to the CUDA twin: rows with their lists in page-locked memory, and where
// the kernels keep what lies between their passes.
#pragma once

#include <cstdint>

#include "kernels/sampling/sampling.h"
#include "tensor/stream.h"

namespace graft {

struct DeviceRow {
  SamplingRow settings;      // its lists are page-locked
  int32_t row_idx = 0;       // of logits and out
  int32_t given_token = -1;  // not below 0: its log-probability is asked, nothing is drawn
};

struct DrawRowsArgs {
  const float* logits = nullptr;  // [rows, vocab_size] on the device
  int32_t vocab_size = 0;
  SampledToken* out = nullptr;       // [rows], page-locked
  int32_t* device_tokens = nullptr;  // [rows] on the device, or null
  // Rows that want the largest logit and nothing else. Null: rows 0 to num_greedy - 1.
  const int32_t* greedy_rows = nullptr;
  int32_t num_greedy = 0;
  const DeviceRow* rows = nullptr;  // all others
  int32_t num_rows = 0;
  float* adjusted = nullptr;  // [num_rows, vocab_size] on the device
  // [num_greedy] each, on the device, of rows that several blocks look at; zero between launches.
  uint64_t* greedy_best = nullptr;
  uint32_t* tickets = nullptr;
};

void DrawRowsCuda(const DrawRowsArgs& args, Stream& stream);

}  // namespace graft
