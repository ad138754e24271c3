#include "model/cut_adapter.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "tensor/cuda_memory.h"

namespace graft {
namespace {

constexpr int64_t kRowBorder = 64;

bool LeadsBack(LoraModule module) {
  return module == LoraModule::kO || module == LoraModule::kDown;
}

// Rows one after the other, each on a border; the first is of zeros, and as long as any.
class RowWriter {
 public:
  RowWriter(DType dtype, int64_t zeros) : element_(DTypeBytes(dtype)) {
    bytes_.resize(static_cast<size_t>(Rounded(zeros)));
  }
  // Where it begins.
  int64_t Add(const void* row, const IndexRange& columns) {
    const auto begin = static_cast<int64_t>(bytes_.size());
    bytes_.resize(static_cast<size_t>(begin + Rounded(columns.size())));
    std::memcpy(bytes_.data() + begin, static_cast<const char*>(row) + columns.begin * element_,
                static_cast<size_t>(columns.size() * element_));
    return begin;
  }
  Buffer Take(const Stream& stream) {
    Buffer buffer(static_cast<int64_t>(bytes_.size()));
    std::memcpy(buffer.data(), bytes_.data(), bytes_.size());
    return MoveToDevice(std::move(buffer), stream);
  }

 private:
  int64_t Rounded(int64_t elements) const {
    return (elements * element_ + kRowBorder - 1) / kRowBorder * kRowBorder;
  }

  const int64_t element_;
  std::vector<char> bytes_;
};

}  // namespace

CutAdapter CutBothSides(const LoraWeights& whole, const ModelConfig& config, const Shard& shard,
                        const Stream& stream) {
  constexpr int64_t kZeros = 0;
  RowWriter rows(whole.dtype(), std::max({config.hidden_size, config.intermediate_size,
                                          static_cast<int32_t>(config.q_size())}));
  std::vector<int64_t> table;  // where the rows of A and of B of each matrix begin
  for (size_t i = 0; i < whole.matrices().size(); ++i) {
    const LoraMatrix& from = whole.matrices()[i];
    const auto module = static_cast<LoraModule>(i % kLoraModules);
    LoraModuleSlice cut = SliceOfLoraModule(config, module, shard);
    const bool leads_back = LeadsBack(module);
    if (leads_back) cut.out = EvenShare(config.hidden_size, shard);
    const IndexRange own = leads_back ? IndexRange{0, from.rank} : EvenShare(from.rank, shard);
    for (int64_t j = 0; j < from.rank; ++j) {
      const bool is_own = j >= own.begin && j < own.end;
      table.push_back(is_own ? rows.Add(from.a_rows[j], cut.in) : kZeros);
    }
    for (int64_t j = 0; j < from.rank; ++j) table.push_back(rows.Add(from.b_rows[j], cut.out));
  }
  CutAdapter adapter;
  adapter.rows = rows.Take(stream);
  Buffer pointers(static_cast<int64_t>(table.size() * sizeof(void*)));
  for (size_t i = 0; i < table.size(); ++i) {
    pointers.as<const void*>()[i] = adapter.rows.as<char>() + table[i];
  }
  adapter.tables = MoveToDevice(std::move(pointers), stream);
  auto* next = adapter.tables.as<const void*>();
  for (const LoraMatrix& from : whole.matrices()) {
    adapter.matrices.push_back({.rank = from.rank, .scale = from.scale});
    if (from.rank == 0) continue;
    adapter.matrices.back().a_rows = next;
    adapter.matrices.back().b_rows = next + from.rank;
    next += 2 * from.rank;
  }
  return adapter;
}

}  // namespace graft
