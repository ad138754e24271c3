#include "adapters/virtual_tokens.h"

#include <cstring>
#include <string>
#include <vector>

#include "adapters/lora_weights.h"
#include "model/tensor_rows.h"

namespace graft {
namespace {

constexpr char kPromptTensor[] = "prompt_embeddings";

Status CheckPromptShape(const std::vector<int64_t>& shape, const std::vector<int64_t>& wanted,
                        const PromptConfig& prompt, const ModelConfig& model) {
  if (shape == wanted) return OkStatus();
  std::string message = "tensor \"" + std::string(kPromptTensor) + "\" has shape " +
                        SizesText(shape) + ", but " + std::to_string(prompt.num_tokens) +
                        " virtual tokens of this model take " + SizesText(wanted);
  if (shape.size() == 2 && shape[1] == wanted[1]) {
    message += ": the file does not hold the num_virtual_tokens that adapter_config.json gives";
  } else {
    message += ": the adapter was made for another base";
    if (!prompt.base_model.empty()) message += ", it says '" + prompt.base_model + "'";
    if (!model.name_or_path.empty()) message += "; this one is '" + model.name_or_path + "'";
  }
  return InvalidArgumentError(message);
}

}  // namespace

Result<VirtualTokens> VirtualTokens::Load(const SafetensorsFile& file, const PromptConfig& prompt,
                                          const ModelConfig& model, const ServedTypes& types) {
  for (const auto& [name, entry] : file.entries()) {
    if (name == kPromptTensor) continue;
    return UnimplementedError("tensor \"" + name + "\" is no part of a prompt, which is \"" +
                              kPromptTensor + "\" alone");
  }
  const Result<TensorView> tensor = file.Tensor(kPromptTensor);
  if (!tensor.ok()) return InvalidArgumentError(tensor.status().message());
  const bool is_embedding = prompt.kind == VirtualTokenKind::kEmbedding;
  const int64_t columns =
      is_embedding ? model.hidden_size : int64_t{2} * model.num_layers * model.kv_size();
  RETURN_IF_ERROR(CheckPromptShape(tensor->shape, {prompt.num_tokens, columns}, prompt, model));
  const DType dtype = is_embedding ? types.embeddings : types.kv;
  VirtualTokens tokens;
  tokens.kind_ = prompt.kind;
  tokens.num_tokens_ = prompt.num_tokens;
  tokens.row_bytes_ = LoraRowBytes(columns, dtype);
  tokens.buffer_ = Buffer(tokens.num_tokens_ * tokens.row_bytes_);
  std::vector<const void*> rows(static_cast<size_t>(tokens.num_tokens_));
  for (size_t i = 0; i < rows.size(); ++i) {
    rows[i] = tokens.buffer_.as<char>() + static_cast<int64_t>(i) * tokens.row_bytes_;
  }
  if (!CopyTensorRows(*tensor, dtype, rows.data())) {
    return NotFiniteError(kPromptTensor, 0, *tensor, dtype);
  }
  return tokens;
}

VirtualTokens VirtualTokens::CopyOf(VirtualTokenKind kind, int64_t row_bytes,
                                    std::span<const void* const> rows) {
  VirtualTokens tokens;
  tokens.kind_ = kind;
  tokens.num_tokens_ = static_cast<int32_t>(rows.size());
  tokens.row_bytes_ = row_bytes;
  tokens.buffer_ = Buffer(tokens.num_tokens_ * row_bytes);
  char* to = tokens.buffer_.as<char>();
  for (const void* const row : rows) {
    std::memcpy(to, row, static_cast<size_t>(row_bytes));
    to += row_bytes;
  }
  return tokens;
}

}  // namespace graft
