// HostAdapter: one adapter in the host's memory, in the order in which it goes into pages: the rows
// of its virtual tokens, then the rows of A and of B^T of all its modules (the source of
// step/adapter_rows.h). Behind them is room for the tables of pointers to rows, which are filled
// once the rows have their places in pages. Plain data.
#pragma once

#include <cstdint>
#include <vector>

#include "adapters/adapter_weights.h"
#include "kernels/lora/lora.h"
#include "model/shard.h"
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
  // Its virtual tokens; their rows begin the source.
  struct Virtual {
    int32_t num_tokens = 0;
    int64_t row_bytes = 0;
    int64_t table_begin = 0;  // [num_tokens] pointers
  };
  // A stretch of the rows.
  struct Stretch {
    int64_t source_begin = 0;
    int64_t bytes = 0;
    const char* data = nullptr;
  };

  // Its rows are the weights', then the tables; in a host store that several ranks read, those of
  // one rank's slice, as all ranks' pages hold the same.
  AdapterFacts facts;
  std::vector<RowRun> weight_rows;
  int64_t weight_bytes = 0;
  Virtual virtual_tokens;
  std::vector<Matrix> matrices;  // [ModelShape::num_lora_matrices]
  int32_t num_targets = 0;       // of a layer
  // [layers] where a layer's rows end and the next one's begin. The last one's has the head, too.
  std::vector<int64_t> layer_ends;
  // The stretches of the weights, in order; between those of a slice there may be gaps of bytes
  // that mean nothing.
  std::vector<Stretch> stretches;

  bool changes_head() const {
    const size_t head = layer_ends.size() * static_cast<size_t>(num_targets);
    return head < matrices.size() && matrices[head].rank > 0;
  }
  // The matrices of `first` and the targets after it in that layer.
  std::span<const Matrix> matrices_of(int32_t layer, LoraModule first) const {
    return std::span(matrices).subspan(
        static_cast<size_t>(layer) * static_cast<size_t>(num_targets) + static_cast<size_t>(first));
  }
};

// The adapter that has its rows in `weights`, which outlive it.
HostAdapter DescribeHostAdapter(const AdapterWeights& weights, const ModelConfig& model,
                                std::string hash, std::string base_model);
HostAdapter DescribeHostAdapter(const LoraWeights& weights, const ModelConfig& model,
                                std::string hash, std::string base_model);

// Where a whole adapter's rows are in the host's memory, as the kernels take them. Pointers hold as
// long as the adapter does; movable.
struct HostRows {
  std::vector<const void*> rows;
  std::vector<LoraMatrix> matrices;  // [ModelShape::num_lora_matrices], into `rows`
  std::vector<const void*> virtual_rows;
};
HostRows HostRowsOf(const HostAdapter& adapter);

// Cuts out the part that one rank of a model keeps of each adapter. Any thread.
class AdapterSlicer {
 public:
  AdapterSlicer() = default;  // of one rank, which keeps all
  AdapterSlicer(const ModelConfig& model, const Shard& shard, const ServedTypes& types)
      : model_(model), shard_(shard), types_(types) {}

  bool keeps_all() const { return shard_.num_ranks == 1; }
  // The slice as an adapter of its own; its stretches are pieces of the whole one's.
  HostAdapter Slice(const HostAdapter& whole) const;

 private:
  HostAdapter VirtualTokensOf(const HostAdapter& whole) const;

  ModelConfig model_;
  Shard shard_;
  ServedTypes types_;
};

}  // namespace graft
