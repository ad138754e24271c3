#include "adapters/host_adapter.h"

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

// The layer of a matrix in an adapter's table, and its module there; of the head num_layers.
int32_t LayerOf(const ModelConfig& model, size_t matrix_idx) {
  return std::min(static_cast<int32_t>(matrix_idx / model.lora_targets.size()), model.num_layers);
}
LoraModule ModuleOf(const ModelConfig& model, size_t matrix_idx) {
  const size_t layer = static_cast<size_t>(LayerOf(model, matrix_idx));
  return static_cast<LoraModule>(matrix_idx - layer * model.lora_targets.size());
}

// Where the rows of A of a module lie.
size_t OwnerOfA(const ModelConfig& model, size_t matrix_idx) {
  const int32_t layer = LayerOf(model, matrix_idx);
  const LoraModule owner = OwnerOfA(model, layer, ModuleOf(model, matrix_idx));
  return static_cast<size_t>(model.lora_matrix(layer, owner));
}

// Room for `num_pointers` behind what there is; returns where it begins.
int64_t AddTable(int64_t num_pointers, HostAdapter* adapter) {
  const int64_t bytes =
      (num_pointers * int64_t{sizeof(void*)} + kRowAlignment - 1) / kRowAlignment * kRowAlignment;
  AddRows(bytes, 1, &adapter->facts.rows);
  adapter->facts.bytes += bytes;
  return adapter->facts.bytes - bytes;
}

void LayOutTables(HostAdapter* adapter) {
  adapter->facts.rows = adapter->weight_rows;
  adapter->facts.bytes = adapter->weight_bytes;
  for (HostAdapter::Matrix& matrix : adapter->matrices) {
    if (matrix.rank > 0) matrix.tables_begin = AddTable(2 * matrix.rank, adapter);
  }
  HostAdapter::Virtual& own = adapter->virtual_tokens;
  if (own.num_tokens > 0) own.table_begin = AddTable(own.num_tokens, adapter);
}

// An adapter of matrices with these ranks and scales: its rows one after the other, behind what
// `adapter` has.
HostAdapter LayOut(std::vector<HostAdapter::Matrix> matrices, const ModelConfig& model, DType dtype,
                   HostAdapter adapter = {}) {
  adapter.matrices = std::move(matrices);
  CHECK_EQ(adapter.matrices.size(), static_cast<size_t>(model.num_lora_matrices()));
  adapter.num_targets = model.num_lora_targets();
  adapter.layer_ends.resize(static_cast<size_t>(model.num_layers));
  for (size_t i = 0; i < adapter.matrices.size(); ++i) {
    HostAdapter::Matrix& matrix = adapter.matrices[i];
    if (matrix.rank > 0) {
      const LoraModuleShape shape = ShapeOfLoraMatrix(model, LayerOf(model, i), ModuleOf(model, i));
      matrix.a_row_bytes = LoraRowBytes(shape.in, dtype);
      matrix.b_row_bytes = LoraRowBytes(shape.out, dtype);
      const size_t owner = OwnerOfA(model, i);
      if (owner == i) {
        matrix.a_begin = adapter.weight_bytes;
        adapter.weight_bytes += matrix.rank * matrix.a_row_bytes;
        AddRows(matrix.a_row_bytes, matrix.rank, &adapter.weight_rows);
      } else {
        matrix.a_begin = adapter.matrices[owner].a_begin;
      }
      matrix.b_begin = adapter.weight_bytes;
      adapter.weight_bytes += matrix.rank * matrix.b_row_bytes;
      AddRows(matrix.b_row_bytes, matrix.rank, &adapter.weight_rows);
    }
    // A layer without any ends where the one before it does.
    const int32_t layer = std::min(LayerOf(model, i), model.num_layers - 1);
    adapter.layer_ends[static_cast<size_t>(layer)] = adapter.weight_bytes;
  }
  LayOutTables(&adapter);
  return adapter;
}

// The stretches of a slice, found in those of the whole adapter; fast for those that ascend.
class StretchFinder {
 public:
  StretchFinder(const HostAdapter& whole, HostAdapter* slice)
      : whole_(whole.stretches), slice_(slice->stretches) {}

  // The slice's bytes from `to` on are so many of the whole adapter's from `from` on. What follows
  // on is one stretch, but not beyond one of the whole: a GPU copies nothing at once from memory
  // that was locked in two pieces.
  void Add(int64_t from, int64_t bytes, int64_t to) {
    if (from < whole_[next_].source_begin) next_ = 0;
    while (from >= whole_[next_].source_begin + whole_[next_].bytes) ++next_;
    const HostAdapter::Stretch& in = whole_[next_];
    const char* const data = in.data + (from - in.source_begin);
    if (!slice_.empty() && next_ == last_) {
      HostAdapter::Stretch& before = slice_.back();
      if (before.source_begin + before.bytes == to && before.data + before.bytes == data) {
        before.bytes += bytes;
        return;
      }
    }
    last_ = next_;
    slice_.push_back({to, bytes, data});
  }

 private:
  const std::vector<HostAdapter::Stretch>& whole_;
  std::vector<HostAdapter::Stretch>& slice_;
  size_t next_ = 0;
  size_t last_ = 0;  // that the slice's last one lies in
};

// The words of the rank, block by block. Rows that end before others' do have gaps behind them.
void AddHead(const HostAdapter& whole, const ModelConfig& model, const Shard& shard,
             int64_t element, const HostAdapter& slice, StretchFinder& finder) {
  const auto head = static_cast<size_t>(model.head_matrix());
  const int32_t rank = whole.matrices[head].rank;
  if (rank == 0) return;
  const auto add_a = [&](int32_t row) {
    const HostAdapter::Matrix& from = whole.matrices[head];
    const HostAdapter::Matrix& to = slice.matrices[head];
    finder.Add(from.a_begin + row * from.a_row_bytes, model.hidden_size * element,
               to.a_begin + row * to.a_row_bytes);
  };
  for (int32_t row = 0; row < rank; ++row) add_a(row);
  const std::vector<HeadPiece> pieces = HeadPiecesOf(model, shard);
  for (size_t begin = 0; begin < pieces.size();) {
    size_t end = begin;
    while (end < pieces.size() && pieces[end].to == pieces[begin].to) ++end;
    const HostAdapter::Matrix& to = slice.matrices[head + static_cast<size_t>(pieces[begin].to)];
    for (int32_t row = 0; row < rank; ++row) {
      for (size_t i = begin; i < end; ++i) {
        const HeadPiece& piece = pieces[i];
        const HostAdapter::Matrix& from = whole.matrices[head + static_cast<size_t>(piece.from)];
        finder.Add(from.b_begin + row * from.b_row_bytes + piece.from_word * element,
                   piece.num_words * element,
                   to.b_begin + row * to.b_row_bytes + piece.to_word * element);
      }
    }
    begin = end;
  }
}

// Finds rows of a whole adapter, which no stretch cuts; fast for those that ascend.
class RowFinder {
 public:
  explicit RowFinder(const HostAdapter& whole) : stretches_(whole.stretches) {}
  const char* Find(int64_t begin) {
    if (begin < stretches_[next_].source_begin) next_ = 0;
    while (begin >= stretches_[next_].source_begin + stretches_[next_].bytes) ++next_;
    return stretches_[next_].data + (begin - stretches_[next_].source_begin);
  }

 private:
  const std::vector<HostAdapter::Stretch>& stretches_;
  size_t next_ = 0;
};

void AddVirtualTokens(const VirtualTokens& tokens, HostAdapter* adapter) {
  adapter->virtual_tokens = {.num_tokens = tokens.num_tokens(), .row_bytes = tokens.row_bytes()};
  adapter->facts.num_virtual_tokens = tokens.num_tokens();
  adapter->facts.has_virtual_kv = tokens.kind() == VirtualTokenKind::kKeysValues;
  AddRows(tokens.row_bytes(), tokens.num_tokens(), &adapter->weight_rows);
  adapter->weight_bytes = tokens.buffer().bytes();
  adapter->stretches.push_back({0, adapter->weight_bytes, tokens.buffer().as<char>()});
}

HostAdapter Describe(const LoraWeights& lora, const VirtualTokens* tokens, const ModelConfig& model,
                     std::string hash, std::string base_model) {
  HostAdapter adapter;
  if (tokens != nullptr) AddVirtualTokens(*tokens, &adapter);
  const int64_t lora_begin = adapter.weight_bytes;
  std::vector<HostAdapter::Matrix> matrices(lora.matrices().size());
  for (size_t i = 0; i < matrices.size(); ++i) {
    matrices[i].rank = lora.matrices()[i].rank;
    matrices[i].scale = lora.matrices()[i].scale;
  }
  adapter = LayOut(std::move(matrices), model, lora.dtype(), std::move(adapter));
  const char* const begin = lora.buffer().as<char>();
  for (size_t i = 0; i < adapter.matrices.size(); ++i) {
    const LoraMatrix& from = lora.matrices()[i];
    if (from.rank == 0) continue;
    CHECK(from.a_rows[0] == begin + (adapter.matrices[i].a_begin - lora_begin) &&
          from.b_rows[0] == begin + (adapter.matrices[i].b_begin - lora_begin))
        << "rows are not one after the other";
  }
  const int64_t bytes = adapter.weight_bytes - lora_begin;
  CHECK_EQ(bytes, lora.buffer().bytes());
  if (bytes > 0) adapter.stretches.push_back({lora_begin, bytes, begin});
  adapter.facts.hash = std::move(hash);
  adapter.facts.base_model = std::move(base_model);
  adapter.facts.rank_max = lora.rank_max();
  adapter.facts.num_layers = model.num_layers;
  return adapter;
}

}  // namespace

HostAdapter DescribeHostAdapter(const AdapterWeights& weights, const ModelConfig& model,
                                std::string hash, std::string base_model) {
  return Describe(weights.lora,
                  weights.virtual_tokens.has_value() ? &*weights.virtual_tokens : nullptr, model,
                  std::move(hash), std::move(base_model));
}

HostAdapter DescribeHostAdapter(const LoraWeights& weights, const ModelConfig& model,
                                std::string hash, std::string base_model) {
  return Describe(weights, nullptr, model, std::move(hash), std::move(base_model));
}

HostRows HostRowsOf(const HostAdapter& adapter) {
  HostRows found;
  RowFinder finder(adapter);
  for (int32_t i = 0; i < adapter.virtual_tokens.num_tokens; ++i) {
    found.virtual_rows.push_back(finder.Find(i * adapter.virtual_tokens.row_bytes));
  }
  size_t num_rows = 0;
  for (const HostAdapter::Matrix& matrix : adapter.matrices) {
    num_rows += 2 * static_cast<size_t>(matrix.rank);
  }
  found.rows.reserve(num_rows);  // so that pointers into it hold
  const auto find_rows = [&](int64_t begin, int64_t row_bytes, int32_t rank) {
    const void* const* const first = found.rows.data() + found.rows.size();
    for (int32_t j = 0; j < rank; ++j) found.rows.push_back(finder.Find(begin + j * row_bytes));
    return first;
  };
  for (const HostAdapter::Matrix& from : adapter.matrices) {
    LoraMatrix& to = found.matrices.emplace_back();
    to.rank = from.rank;
    to.scale = from.scale;
    to.a_rows = find_rows(from.a_begin, from.a_row_bytes, from.rank);
    to.b_rows = find_rows(from.b_begin, from.b_row_bytes, from.rank);
  }
  return found;
}

// Every rank has all embeddings, as it has all hidden states, and the keys and values of its heads.
HostAdapter AdapterSlicer::VirtualTokensOf(const HostAdapter& whole) const {
  HostAdapter slice;
  const HostAdapter::Virtual& from = whole.virtual_tokens;
  if (from.num_tokens == 0) return slice;
  const bool is_kv = whole.facts.has_virtual_kv;
  slice.facts.num_virtual_tokens = from.num_tokens;
  slice.facts.has_virtual_kv = is_kv;
  const int64_t head = is_kv ? model_.head_dim * DTypeBytes(types_.kv) : from.row_bytes;
  const int64_t num_heads = is_kv ? model_.num_kv_heads : 1;
  const IndexRange heads = is_kv ? KvHeadsOf(model_, shard_) : IndexRange{0, 1};
  const int64_t num_parts = is_kv ? int64_t{2} * model_.num_layers : 1;
  const int64_t row_bytes =
      (num_parts * heads.size() * head + kRowAlignment - 1) / kRowAlignment * kRowAlignment;
  slice.virtual_tokens = {.num_tokens = from.num_tokens, .row_bytes = row_bytes};
  slice.weight_bytes = from.num_tokens * row_bytes;
  AddRows(row_bytes, from.num_tokens, &slice.weight_rows);
  StretchFinder finder(whole, &slice);
  for (int32_t token = 0; token < from.num_tokens; ++token) {
    for (int64_t part = 0; part < num_parts; ++part) {
      finder.Add(token * from.row_bytes + (part * num_heads + heads.begin) * head,
                 heads.size() * head, token * row_bytes + part * heads.size() * head);
    }
  }
  return slice;
}

HostAdapter AdapterSlicer::Slice(const HostAdapter& whole) const {
  const ModelConfig of_rank = ShardConfig(model_, shard_.num_ranks);
  const auto head = static_cast<size_t>(model_.head_matrix());
  std::vector<HostAdapter::Matrix> matrices(static_cast<size_t>(of_rank.num_lora_matrices()));
  for (size_t i = 0; i < matrices.size(); ++i) {
    if (i >= head + of_rank.head_blocks().size()) break;
    const HostAdapter::Matrix& from = whole.matrices[std::min(i, head)];
    matrices[i].rank = from.rank;
    matrices[i].scale = from.scale;
  }
  HostAdapter slice = LayOut(std::move(matrices), of_rank, types_.adapters, VirtualTokensOf(whole));
  slice.facts.hash = whole.facts.hash;
  slice.facts.base_model = whole.facts.base_model;
  slice.facts.rank_max = whole.facts.rank_max;
  slice.facts.num_layers = whole.facts.num_layers;
  slice.facts.invocation_tokens = whole.facts.invocation_tokens;
  slice.facts.text = whole.facts.text;
  slice.facts.changes_nothing = whole.facts.changes_nothing;
  slice.facts.left_out = whole.facts.left_out;
  StretchFinder finder(whole, &slice);
  const int64_t element = DTypeBytes(types_.adapters);
  for (size_t i = 0; i < head; ++i) {
    const HostAdapter::Matrix& to = slice.matrices[i];
    const HostAdapter::Matrix& from = whole.matrices[i];
    const LoraModule module = ModuleOf(model_, i);
    const LoraModuleSlice elements = SliceOfLoraModule(model_, module, shard_);
    const auto add_rows = [&](const IndexRange& range, int64_t from_begin, int64_t from_row_bytes,
                              int64_t to_begin, int64_t to_row_bytes) {
      for (int32_t j = 0; j < to.rank; ++j) {
        finder.Add(from_begin + j * from_row_bytes + range.begin * element, range.size() * element,
                   to_begin + j * to_row_bytes);
      }
    };
    if (OwnerOfA(model_, i) == i) {
      add_rows(elements.in, from.a_begin, from.a_row_bytes, to.a_begin, to.a_row_bytes);
    }
    add_rows(elements.out, from.b_begin, from.b_row_bytes, to.b_begin, to.b_row_bytes);
  }
  AddHead(whole, model_, shard_, element, slice, finder);
  return slice;
}

}  // namespace graft
