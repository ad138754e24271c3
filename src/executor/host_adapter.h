// One adapter in the host's memory, as it goes into pages: the rows of A and of B^T of all its
// modules one after the other (the source of step/adapter_rows.h), and behind them room for the
// tables of pointers to rows, which are only known once the rows have their places. Plain data.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/lora/lora.h"
#include "model/lora_weights.h"
#include "step/adapter_loader.h"

namespace graft {

struct HostAdapter {
  // Where a module's rows and tables begin in the source.
  struct Matrix {
    int32_t rank = 0;
    float scale = 0.0f;
    int64_t a_begin = 0;
    int64_t a_row_bytes = 0;
    int64_t b_begin = 0;
    int64_t b_row_bytes = 0;
    int64_t tables_begin = 0;  // [2][rank] pointers: A's, then B's
  };
  // A stretch of the rows.
  struct Stretch {
    int64_t source_begin = 0;
    int64_t bytes = 0;
    const char* data = nullptr;
  };

  AdapterFacts facts;  // its rows are the weights', then the tables
  std::vector<RowRun> weight_rows;
  int64_t weight_bytes = 0;
  std::vector<Matrix> matrices;     // [layers * kLoraModules]
  std::vector<int64_t> layer_ends;  // [layers] where a layer's rows end and the next one's begin
  std::vector<Stretch> stretches;   // of the weights, in order
};

// The adapter whose rows lie in `weights`, which outlives it.
HostAdapter DescribeHostAdapter(const LoraWeights& weights, const ModelConfig& model,
                                std::string hash, std::string base_model);

}  // namespace graft
