#include "adapters/host_sum.h"

#include <optional>
#include <utility>
#include <vector>

namespace graft {
namespace {

Status CheckAddends(std::span<const HostAddend> addends) {
  int num_with_tokens = 0;
  for (const HostAddend& addend : addends) {
    if (addends.size() > 1 && !addend.adapter->facts.invocation_tokens.empty()) {
      return InvalidArgumentError(
          "an activated LoRA, which acts from its invocation on, is not added to other adapters; "
          "name it alone");
    }
    if (addend.adapter->virtual_tokens.num_tokens == 0) continue;
    if (addend.weight != 1.0f) {
      return InvalidArgumentError(
          "an adapter with virtual tokens, which are in front of a prompt or not, has the weight "
          "1; leave its weight out");
    }
    if (++num_with_tokens == 2) {
      return InvalidArgumentError(
          "two adapters with virtual tokens, of which one alone is in front of a prompt; name one "
          "of them");
    }
  }
  return OkStatus();
}

}  // namespace

Result<AdapterWeights> AddAdapters(std::span<const HostAddend> addends, const ModelConfig& model,
                                   DType dtype) {
  RETURN_IF_ERROR(CheckAddends(addends));
  std::vector<HostRows> rows;
  std::vector<LoraAddend> parts;
  std::optional<VirtualTokens> tokens;
  for (const HostAddend& addend : addends) rows.push_back(HostRowsOf(*addend.adapter));
  for (size_t i = 0; i < addends.size(); ++i) {
    parts.push_back({.matrices = rows[i].matrices, .weight = addends[i].weight});
    const HostAdapter& adapter = *addends[i].adapter;
    if (adapter.virtual_tokens.num_tokens == 0) continue;
    tokens = VirtualTokens::CopyOf(
        adapter.facts.has_virtual_kv ? VirtualTokenKind::kKeysValues : VirtualTokenKind::kEmbedding,
        adapter.virtual_tokens.row_bytes, rows[i].virtual_rows);
  }
  ASSIGN_OR_RETURN(LoraWeights lora, LoraWeights::Sum(parts, model, dtype));
  return AdapterWeights(std::move(lora), std::move(tokens));
}

}  // namespace graft
