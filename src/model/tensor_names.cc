#include "model/tensor_names.h"

#include <algorithm>

namespace graft {

TensorNames::TensorNames(const ModelConfig& config,
                         const std::function<bool(const std::string&)>& has)
    : family_(FamilyOf(config.architecture)) {
  const std::string embedding = WeightOf(family_.paths.embedding);
  const std::string_view in_front = family_.paths.left_out;
  leaves_out_ = !in_front.empty() && !has(embedding) && has(embedding.substr(in_front.size()));
}

std::string TensorNames::Of(std::string_view path) const {
  const std::string_view in_front = family_.paths.left_out;
  if (leaves_out_ && path.starts_with(in_front)) path.remove_prefix(in_front.size());
  return std::string(path);
}

bool TensorNames::IsOurs(std::string_view name) const {
  const ModulePaths& paths = family_.paths;
  if (name.starts_with(Of(paths.layers))) return true;
  for (const std::string_view path :
       {paths.embedding, paths.positions, paths.final_norm, paths.head}) {
    if (!path.empty() && name.starts_with(Of(path) + ".")) return true;
  }
  return false;
}

bool TensorNames::IsIdle(std::string_view name) const {
  // A table of frequencies that old checkpoints carry; computed here.
  if (name.ends_with("rotary_emb.inv_freq")) return true;
  return std::ranges::any_of(family_.unread_endings,
                             [name](std::string_view end) { return name.ends_with(end); });
}

}  // namespace graft
