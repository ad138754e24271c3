#include "learn/trained_prompt.h"

#include <algorithm>
#include <string>

#include "adapters/lora_weights.h"
#include "base/check.h"
#include "model/kv_pool.h"

namespace graft {
namespace {

struct PromptShape {
  PromptShape(const ModelConfig& config, VirtualTokenKind kind, DType weights,
              const Device& device = {})
      : is_embedding(kind == VirtualTokenKind::kEmbedding),
        num_layers(is_embedding ? 1 : config.num_layers),
        layer_columns(is_embedding ? config.hidden_size : 2 * config.kv_size()),
        dtype(is_embedding ? weights : TypesOf(weights, device).kv) {}

  bool is_embedding;
  int32_t num_layers;
  int64_t layer_columns;
  DType dtype;
};

}  // namespace

TrainedPrompt::TrainedPrompt(const ModelConfig& config, VirtualTokenKind kind, int32_t num_tokens,
                             DType dtype, const Device& device)
    : kind_(kind), num_tokens_(num_tokens) {
  CHECK(num_tokens > 0 && num_tokens <= kVirtualTokensMax) << num_tokens;
  const PromptShape shape(config, kind, dtype, device);
  num_layers_ = shape.num_layers;
  layer_columns_ = shape.layer_columns;
  columns_ = num_layers_ * layer_columns_;
  dtype_ = shape.dtype;
  const auto num_parameters = static_cast<size_t>(num_tokens * columns_);
  for (std::vector<float>* all : {&parameters_, &gradients_, &first_moments_, &second_moments_}) {
    all->resize(num_parameters);
  }
  if (!shape.is_embedding) rounded_.resize(num_parameters);
  const int64_t row_bytes = LoraRowBytes(layer_columns_, dtype_);
  const int64_t num_rows = int64_t{num_layers_} * num_tokens;
  copy_ = Buffer(num_rows * row_bytes);
  for (int64_t i = 0; i < num_rows; ++i) rows_.push_back(copy_.as<char>() + i * row_bytes);
}

int64_t TrainedPrompt::BytesFor(const ModelConfig& config, VirtualTokenKind kind,
                                int32_t num_tokens, DType dtype) {
  const PromptShape shape(config, kind, dtype);
  const int64_t floats = shape.is_embedding ? 4 : 5;
  return int64_t{num_tokens} * shape.num_layers *
         (floats * shape.layer_columns * int64_t{sizeof(float)} +
          LoraRowBytes(shape.layer_columns, shape.dtype) + int64_t{sizeof(void*)});
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
    std::copy_n(reinterpret_cast<const float*>(row), columns_, parameters_.data() + i * columns_);
  }
  Refresh();
  return OkStatus();
}

void TrainedPrompt::Refresh() {
  ++version_;
  for (int32_t layer = 0; layer < num_layers_; ++layer) {
    for (int64_t i = 0; i < num_tokens_; ++i) {
      const int64_t at = i * columns_ + layer * layer_columns_;
      const auto row = static_cast<size_t>(layer * int64_t{num_tokens_} + i);
      char* const copy =
          copy_.as<char>() + (static_cast<const char*>(rows_[row]) - copy_.as<char>());
      ConvertElements(DType::kF32, parameters_.data() + at, dtype_, copy, layer_columns_);
      if (rounded_.empty()) continue;
      ConvertElements(dtype_, copy, DType::kF32, rounded_.data() + at, layer_columns_);
    }
  }
}

void TrainedPrompt::ZeroGradients() { std::fill(gradients_.begin(), gradients_.end(), 0.0f); }

}  // namespace graft
