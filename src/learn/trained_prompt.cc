#include "learn/trained_prompt.h"

#include <algorithm>
#include <string>

#include "base/check.h"
#include "layers/served_types.h"

namespace graft {
namespace {

bool IsEmbedding(VirtualTokenKind kind) { return kind == VirtualTokenKind::kEmbedding; }

int64_t NumPromptLayers(const ModelConfig& config, VirtualTokenKind kind) {
  return IsEmbedding(kind) ? 1 : config.num_layers;
}

int64_t LayerColumns(const ModelConfig& config, VirtualTokenKind kind) {
  return IsEmbedding(kind) ? config.hidden_size : 2 * config.kv_size();
}

DType RoundedType(VirtualTokenKind kind, DType weights, const Device& device) {
  return IsEmbedding(kind) ? weights : TypesOf(weights, device).kv;
}

}  // namespace

TrainedSize TrainedPrompt::SizeOf(const ModelConfig& config, VirtualTokenKind kind,
                                  int32_t num_tokens, DType dtype, const Device& device) {
  TrainedSize size;
  size.AddRows(num_tokens * NumPromptLayers(config, kind), LayerColumns(config, kind),
               RoundedType(kind, dtype, device));
  return size;
}

int64_t TrainedPrompt::BytesFor(const ModelConfig& config, VirtualTokenKind kind,
                                int32_t num_tokens, DType dtype) {
  const TrainedSize size = SizeOf(config, kind, num_tokens, dtype, {});
  return size.bytes() + (IsEmbedding(kind) ? 0 : size.parameters * int64_t{sizeof(float)});
}

// The rows of the copy are [layers][num_tokens].
TrainedPrompt::TrainedPrompt(const ModelConfig& config, VirtualTokenKind kind, int32_t num_tokens,
                             DType dtype, const Device& device)
    : TrainedNumbers(SizeOf(config, kind, num_tokens, dtype, device),
                     RoundedType(kind, dtype, device)),
      kind_(kind),
      num_tokens_(num_tokens),
      layer_columns_(LayerColumns(config, kind)),
      columns_(NumPromptLayers(config, kind) * layer_columns_) {
  CHECK(num_tokens > 0 && num_tokens <= kVirtualTokensMax) << num_tokens;
  if (!IsEmbedding(kind)) rounded_.resize(parameters().size());
  for (int64_t column = 0; column < columns_; column += layer_columns_) {
    for (int64_t i = 0; i < num_tokens; ++i) AddRow(i * columns_ + column, layer_columns_);
  }
}

Status TrainedPrompt::Read(const VirtualTokens& tokens) {
  if (tokens.kind() != kind_ || tokens.num_tokens() != num_tokens_) {
    return InvalidArgumentError(
        "training goes on from a prompt of its own kind with as many "
        "virtual tokens; here " +
        std::to_string(tokens.num_tokens()) + " meet " + std::to_string(num_tokens_));
  }
  CHECK_GE(tokens.row_bytes(), columns_ * int64_t{sizeof(float)}) << "not loaded in fp32";
  for (int64_t i = 0; i < num_tokens_; ++i) {
    const char* row = tokens.buffer().as<char>() + i * tokens.row_bytes();
    std::copy_n(reinterpret_cast<const float*>(row), columns_, parameters().data() + i * columns_);
  }
  Refresh();
  return OkStatus();
}

void TrainedPrompt::Refresh() {
  TrainedNumbers::Refresh();
  if (rounded_.empty()) return;
  for (const RoundedRow& row : rows()) {
    ConvertElements(dtype(), row.out, DType::kF32, rounded_.data() + row.begin, row.n);
  }
}

}  // namespace graft
