#include "model/shard.h"

#include <algorithm>
#include <string>

#include "base/check.h"

namespace graft {
namespace {

// More ranks than this no model here is worth.
constexpr int32_t kRanksTriedMax = 64;

// What so many ranks cannot share; "" if they can share it all.
std::string Indivisible(const ModelConfig& config, int32_t num_ranks) {
  const auto name = [](const char* what, int32_t count) {
    return std::string(what) + " " + std::to_string(count);
  };
  if (config.num_heads % num_ranks != 0) return name("num_attention_heads", config.num_heads);
  if (config.num_kv_heads % num_ranks != 0 && num_ranks % config.num_kv_heads != 0) {
    return name("num_key_value_heads", config.num_kv_heads);
  }
  if (config.intermediate_size % num_ranks != 0) {
    return name("intermediate_size", config.intermediate_size);
  }
  // Ranks have ceil(size / ranks) words each, as far as they go.
  if ((num_ranks - 1) * VocabularySliceMax(config, num_ranks) >= config.vocab_size) {
    return name("vocab_size", config.vocab_size);
  }
  return "";
}

std::string CountsThatWork(const ModelConfig& config) {
  std::string text;
  for (int32_t ranks = 2; ranks <= kRanksTriedMax; ++ranks) {
    if (Indivisible(config, ranks).empty()) {
      text += (text.empty() ? "" : ", ") + std::to_string(ranks);
    }
  }
  return text;
}

IndexRange Equal(int64_t total, const Shard& shard) {
  CHECK_EQ(total % shard.num_ranks, 0);
  const int64_t n = total / shard.num_ranks;
  return {shard.rank * n, (shard.rank + 1) * n};
}

IndexRange Times(const IndexRange& range, int64_t n) { return {range.begin * n, range.end * n}; }

// What a rank has of a target's inputs or outputs: how they are cut follows from which they are.
IndexRange PartOfSize(const ModelConfig& config, int64_t (ModelShape::*size)() const,
                      const Shard& shard) {
  if (size == &ModelShape::q_size) return Times(HeadsOf(config, shard), config.head_dim);
  if (size == &ModelShape::kv_size) return Times(KvHeadsOf(config, shard), config.head_dim);
  if (size == &ModelShape::intermediate) return IntermediateOf(config, shard);
  CHECK(size == &ModelShape::hidden) << "a size that ranks cannot cut";
  return {0, config.hidden_size};
}

}  // namespace

Status CheckRanks(const ModelConfig& config, int32_t num_ranks) {
  const std::string what = Indivisible(config, num_ranks);
  if (what.empty()) return OkStatus();
  const std::string works = CountsThatWork(config);
  return InvalidArgumentError(
      std::to_string(num_ranks) + " ranks cannot share the model's " + what + " evenly; " +
      (works.empty() ? "this model runs on one" : "as many as can: " + works));
}

ModelConfig ShardConfig(const ModelConfig& config, int32_t num_ranks) {
  CHECK(CheckRanks(config, num_ranks).ok());
  ModelConfig shard = config;
  shard.whole_heads = config.num_heads;
  shard.whole_kv_heads = config.num_kv_heads;
  shard.num_heads = config.num_heads / num_ranks;
  shard.num_kv_heads = std::max(1, config.num_kv_heads / num_ranks);
  shard.intermediate_size = config.intermediate_size / num_ranks;
  shard.head_words = static_cast<int32_t>(VocabularySliceMax(config, num_ranks));
  return shard;
}

IndexRange HeadsOf(const ModelConfig& config, const Shard& shard) {
  return Equal(config.num_heads, shard);
}

IndexRange KvHeadsOf(const ModelConfig& config, const Shard& shard) {
  if (config.num_kv_heads >= shard.num_ranks) return Equal(config.num_kv_heads, shard);
  const int64_t head = int64_t{shard.rank} * config.num_kv_heads / shard.num_ranks;
  return {head, head + 1};
}

IndexRange IntermediateOf(const ModelConfig& config, const Shard& shard) {
  return Equal(config.intermediate_size, shard);
}

IndexRange VocabularyOf(const ModelConfig& config, const Shard& shard) {
  const int64_t n = VocabularySliceMax(config, shard.num_ranks);
  return {shard.rank * n, std::min<int64_t>((shard.rank + 1) * n, config.vocab_size)};
}

int64_t VocabularySliceMax(const ModelConfig& config, int32_t num_ranks) {
  return (int64_t{config.vocab_size} + num_ranks - 1) / num_ranks;
}

std::vector<HeadPiece> HeadPiecesOf(const ModelConfig& config, const Shard& shard) {
  const int64_t whole = config.head_block_words();
  const int64_t own = ShardConfig(config, shard.num_ranks).head_block_words();
  const IndexRange words = VocabularyOf(config, shard);
  std::vector<HeadPiece> pieces;
  for (int64_t word = words.begin; word < words.end;) {
    const int64_t own_word = word - words.begin;
    HeadPiece piece{.from = static_cast<LoraModule>(word / whole),
                    .to = static_cast<LoraModule>(own_word / own),
                    .from_word = word % whole,
                    .to_word = own_word % own};
    piece.num_words = std::min({whole - piece.from_word, own - piece.to_word, words.end - word});
    pieces.push_back(piece);
    word += piece.num_words;
  }
  return pieces;
}

LoraModuleSlice SliceOfLoraModule(const ModelConfig& config, LoraModule module,
                                  const Shard& shard) {
  const TargetSpec& target = config.lora_target(module);
  return {PartOfSize(config, target.in, shard), PartOfSize(config, target.out, shard)};
}

std::vector<IndexRange> StoredRowsOf(const ModelConfig& config, LoraModule module,
                                     const IndexRange& rows) {
  const StoredProjection& projection = StoredProjectionOf(config, module);
  const int place = static_cast<int>(module) - static_cast<int>(projection.first);
  if (!projection.by_heads) {
    int64_t begin = 0;
    for (int i = 0; i < place; ++i) {
      const auto before = static_cast<LoraModule>(static_cast<int>(projection.first) + i);
      begin += ShapeOfLoraModule(config, before).out;
    }
    return {{begin + rows.begin, begin + rows.end}};
  }
  const int64_t head_dim = config.head_dim;
  CHECK(rows.begin % head_dim == 0 && rows.end % head_dim == 0) << "parts of heads";
  std::vector<IndexRange> stored;
  for (int64_t head = rows.begin / head_dim; head < rows.end / head_dim; ++head) {
    const int64_t begin = (head * projection.num_modules + place) * head_dim;
    stored.push_back({begin, begin + head_dim});
  }
  return stored;
}

std::vector<int64_t> StoredRowsOf(const ModelConfig& config, const StoredProjection& projection) {
  std::vector<int64_t> rows;
  for (int i = 0; i < projection.num_modules; ++i) {
    const auto module = static_cast<LoraModule>(static_cast<int>(projection.first) + i);
    const IndexRange all = {0, ShapeOfLoraModule(config, module).out};
    for (const IndexRange& range : StoredRowsOf(config, module, all)) {
      for (int64_t row = range.begin; row < range.end; ++row) rows.push_back(row);
    }
  }
  return rows;
}

}  // namespace graft
