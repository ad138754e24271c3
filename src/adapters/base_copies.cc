#include "adapters/base_copies.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <optional>
#include <string_view>
#include <utility>

#include "model/family.h"
#include "model/tensor_names.h"
#include "model/tensor_rows.h"
#include "model/wrapper.h"

namespace graft {
namespace {

constexpr std::string_view kPeftPrefix = "base_model.model.";
// Under PEFT's layer where the module is a target, under its own name where it is not.
constexpr std::array<std::string_view, 2> kCopyMiddles = {".base_layer", ""};
constexpr std::string_view kWeight = ".weight";
constexpr std::string_view kBias = ".bias";  // of a head that has one

// Where the base has the numbers of such a tensor, by the family's names; "": the name is of none.
std::string NameInBase(std::string_view name, const ModelConfig& model) {
  if (!name.starts_with(kPeftPrefix)) return "";
  name.remove_prefix(kPeftPrefix.size());
  std::optional<std::string> of_text;
  if (model.wrapper != nullptr) {
    of_text = TextNameOf(name);
    if (!of_text.has_value()) return "";
    name = *of_text;
  }
  const ModulePaths& paths = FamilyOf(model.architecture).paths;
  for (const std::string_view module : {paths.embedding, paths.head}) {
    if (!name.starts_with(module)) continue;
    const std::string_view ending = name.substr(module.size());
    const auto ends_in = [ending](std::string_view parameter) {
      return std::ranges::any_of(kCopyMiddles, [&](std::string_view middle) {
        return ending == std::string(middle).append(parameter);
      });
    };
    if (ends_in(kWeight)) return std::string(module).append(kWeight);
    if (model.head_bias && module == paths.head && ends_in(kBias)) {
      return std::string(module).append(kBias);
    }
  }
  return "";
}

// The first element at which the two differ, or their number. Both are finite or NaN alike: a base
// that holds NaN was refused when it was loaded.
template <typename Base, typename Copy>
int64_t FirstDifference(const TensorView& base, const TensorView& copy) {
  const int64_t n = base.num_elements();
  for (int64_t i = 0; i < n; ++i) {
    const auto of_base = LoadElement<Base>(base.data, i);
    const auto of_copy = LoadElement<Copy>(copy.data, i);
    const bool rounds_to_copy = ToFloat(ConvertElement<Copy>(of_base)) == ToFloat(of_copy);
    if (!rounds_to_copy && ToFloat(ConvertElement<Base>(of_copy)) != ToFloat(of_base)) return i;
  }
  return n;
}

// What the base's files call its embedding and its head.
class StoredNames {
 public:
  static Result<StoredNames> Of(const SafetensorsSet& base, const ModelConfig& model) {
    StoredNames names(base, model);
    if (model.wrapper != nullptr) {
      ASSIGN_OR_RETURN(names.of_text_, StoredTextNames(base.Names()));
    }
    return names;
  }

  // By the family's name. A tied head is the embedding.
  std::string Of(const std::string& name) const {
    const TensorNames names(model_,
                            [this](const std::string& one) { return Find(one).has_value(); });
    const std::string own = names.Of(name);
    if (const std::optional<std::string> found = Find(own)) return *found;
    if (!model_.tied_embeddings || !name.ends_with(kWeight)) return own;
    const ModulePaths& paths = FamilyOf(model_.architecture).paths;
    const std::string head = names.WeightOf(paths.head);
    const std::string other = own == head ? names.WeightOf(paths.embedding) : head;
    return Find(other).value_or(own);
  }

 private:
  StoredNames(const SafetensorsSet& base, const ModelConfig& model) : base_(base), model_(model) {}

  std::optional<std::string> Find(const std::string& name) const {
    const auto of_text = of_text_.find(name);
    if (of_text != of_text_.end()) return of_text->second;
    if (model_.wrapper == nullptr && base_.Contains(name)) return name;
    return std::nullopt;
  }

  const SafetensorsSet& base_;
  const ModelConfig& model_;
  std::map<std::string, std::string> of_text_;  // of a wrapper, by the family's names
};

Status CheckCopy(const std::string& name, const TensorView& copy, const TensorView& base,
                 const std::string& base_name) {
  const std::string what = "tensor \"" + name + "\" is a changed copy of the base's " + base_name;
  if (copy.shape != base.shape) {
    return UnimplementedError(what + ": its shape is " + SizesText(copy.shape) + ", the base's " +
                              SizesText(base.shape) +
                              "; adapters cannot change embeddings or the whole head");
  }
  const int64_t at = DispatchDType(base.dtype, [&]<typename Base>() {
    return DispatchDType(copy.dtype,
                         [&]<typename Copy>() { return FirstDifference<Base, Copy>(base, copy); });
  });
  if (at == base.num_elements()) return OkStatus();
  const int64_t columns = std::max<int64_t>(base.shape.back(), 1);
  return UnimplementedError(what + ", first in row " + std::to_string(at / columns) + ", column " +
                            std::to_string(at % columns) +
                            "; adapters cannot change embeddings or the whole head");
}

}  // namespace

std::vector<std::string> BaseCopiesIn(const SafetensorsFile& file, const ModelConfig& model) {
  std::vector<std::string> copies;
  for (const auto& [name, entry] : file.entries()) {
    if (!NameInBase(name, model).empty()) copies.push_back(name);
  }
  return copies;
}

Status CheckBaseCopies(const SafetensorsFile& file, const std::vector<std::string>& copies,
                       const ModelConfig& model, const std::string& base_folder) {
  if (copies.empty()) return OkStatus();
  const auto cannot_tell = [&](const std::string& why) {
    return UnimplementedError("tensor \"" + copies.front() +
                              "\" is a copy of the base's embedding or head, and cannot be told "
                              "from a changed one: " +
                              why);
  };
  if (base_folder.empty()) return cannot_tell("the base's weights are not at hand");
  const Result<SafetensorsSet> base = SafetensorsSet::Open(base_folder);
  if (!base.ok()) return cannot_tell(base.status().message());
  const Result<StoredNames> stored = StoredNames::Of(*base, model);
  if (!stored.ok()) return cannot_tell(stored.status().message());
  for (const std::string& name : copies) {
    const std::string base_name = stored->Of(NameInBase(name, model));
    ASSIGN_OR_RETURN(const TensorView copy, file.Tensor(name));
    const Result<TensorView> whole = base->Tensor(base_name);
    if (!whole.ok()) return cannot_tell(whole.status().message());
    RETURN_IF_ERROR(CheckCopy(name, copy, *whole, base_name));
  }
  return OkStatus();
}

std::string TellBaseCopies(const std::vector<std::string>& copies) {
  std::string text;
  for (const std::string& name : copies) text += (text.empty() ? "\"" : ", \"") + name + '"';
  if (text.empty()) return "";
  return "its weights hold copies of the base's own, which are left out: " + text;
}

}  // namespace graft
