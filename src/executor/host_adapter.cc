#include "executor/host_adapter.h"

#include <algorithm>
#include <utility>

namespace graft {
namespace {

void AddRows(int64_t row_bytes, int32_t num_rows, std::vector<RowRun>* runs) {
  if (!runs->empty() && runs->back().row_bytes == row_bytes) {
    runs->back().num_rows += num_rows;
  } else {
    runs->push_back({static_cast<int32_t>(row_bytes), num_rows});
  }
}

}  // namespace

HostAdapter DescribeHostAdapter(const LoraWeights& weights, const ModelConfig& model,
                                std::string hash, std::string base_model) {
  HostAdapter adapter;
  adapter.matrices.resize(weights.matrices().size());
  adapter.layer_ends.resize(weights.matrices().size() / kLoraModules);
  const char* const begin = weights.buffer().as<char>();
  for (const LoraTarget& target : weights.targets()) {
    const LoraModuleShape shape = ShapeOfLoraModule(model, target.module);
    const LoraMatrix& from = weights.matrix(target.layer, target.module);
    HostAdapter::Matrix& to = adapter.matrices[static_cast<size_t>(&from - &weights.matrices()[0])];
    to.rank = from.rank;
    to.scale = from.scale;
    to.a_begin = static_cast<const char*>(from.a_rows[0]) - begin;
    to.a_row_bytes = LoraRowBytes(shape.in, weights.dtype());
    to.b_begin = static_cast<const char*>(from.b_rows[0]) - begin;
    to.b_row_bytes = LoraRowBytes(shape.out, weights.dtype());
    // Modules of a stacked projection share the rows of A, which lie where the first one has them.
    const bool shares_a = to.a_begin < adapter.weight_bytes;
    const int64_t a_end = to.a_begin + to.rank * to.a_row_bytes;
    CHECK_GE(to.a_begin, shares_a ? 0 : adapter.weight_bytes);
    CHECK_EQ(to.b_begin, shares_a ? adapter.weight_bytes : a_end)
        << "rows are not one after the other";
    adapter.weight_bytes = to.b_begin + to.rank * to.b_row_bytes;
    // Targets ascend: a layer without any ends where the one before it does.
    std::fill(adapter.layer_ends.begin() + target.layer, adapter.layer_ends.end(),
              adapter.weight_bytes);
    if (!shares_a) AddRows(to.a_row_bytes, to.rank, &adapter.weight_rows);
    AddRows(to.b_row_bytes, to.rank, &adapter.weight_rows);
  }
  CHECK_EQ(adapter.weight_bytes, weights.buffer().bytes());
  adapter.stretches = {{0, adapter.weight_bytes, begin}};
  adapter.facts.rows = adapter.weight_rows;
  int64_t tables_begin = adapter.weight_bytes;
  for (HostAdapter::Matrix& matrix : adapter.matrices) {
    if (matrix.rank == 0) continue;
    matrix.tables_begin = tables_begin;
    const int64_t bytes = (2 * matrix.rank * int64_t{sizeof(void*)} + kRowAlignment - 1) /
                          kRowAlignment * kRowAlignment;
    AddRows(bytes, 1, &adapter.facts.rows);
    tables_begin += bytes;
  }
  adapter.facts.hash = std::move(hash);
  adapter.facts.base_model = std::move(base_model);
  adapter.facts.rank_max = weights.rank_max();
  adapter.facts.num_layers = model.num_layers;
  adapter.facts.bytes = tables_begin;
  return adapter;
}

}  // namespace graft
