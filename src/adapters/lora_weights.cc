#include "adapters/lora_weights.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "adapters/lora_packing.h"
#include "adapters/older_names.h"
#include "base/check.h"
#include "model/family.h"
#include "model/tensor_rows.h"
#include "step/adapter_rows.h"

namespace graft {
namespace {

constexpr std::string_view kPrefix = "base_model.model.";

// How PEFT ends a tensor's name; in memory (and in files of some tools) the adapter's name stands
// before ".weight".
struct Ending {
  std::string_view text;
  LoraSide side;
};
constexpr Ending kEndings[] = {{".lora_A.weight", LoraSide::kA},
                               {".lora_B.weight", LoraSide::kB},
                               {".lora_A.default.weight", LoraSide::kA},
                               {".lora_B.default.weight", LoraSide::kB}};

// Why a tensor that is neither A nor B of a projection cannot be applied.
std::string ForeignReason(const ModelConfig& model, std::string_view name) {
  const auto has = [name](std::string_view part) { return name.find(part) != name.npos; };
  if (has("lora_magnitude_vector")) return "is a magnitude of DoRA, which is not applied";
  const ModulePaths& paths = FamilyOf(model.architecture).paths;
  if (has(paths.embedding) || has("lora_embedding_") ||
      (!paths.positions.empty() && has(paths.positions))) {
    return "belongs to the embedding, which adapters cannot change here";
  }
  if (has(paths.head)) {
    return "belongs to " + std::string(paths.head) + ", which adapters cannot change here";
  }
  if (has("modules_to_save")) return "is a whole module (modules_to_save), which is not applied";
  if (name.ends_with(".bias")) return "is a bias, which is not applied";
  return "is not lora_A or lora_B of a projection of this model (expected names like \"" +
         LoraTensorName(model, 0, LoraModule::kQ, LoraSide::kA) + "\")";
}

struct TensorAddress {
  int32_t layer;
  LoraModule first;
  int num_modules;  // B has rows of so many, the first and those behind it
  LoraSide side;
};

std::optional<TensorAddress> ParseTensorName(const ModelConfig& model, std::string_view name) {
  if (!name.starts_with(kPrefix)) return std::nullopt;
  name.remove_prefix(kPrefix.size());
  for (const Ending& ending : kEndings) {
    if (!name.ends_with(ending.text)) continue;
    const std::string_view path = name.substr(0, name.size() - ending.text.size());
    if (const std::optional<LoraModuleAddress> module = ParseLoraModulePath(model, path)) {
      const int num_modules = StoredProjectionOf(model, module->module).num_modules;
      return TensorAddress{module->layer, module->module, num_modules, ending.side};
    }
    if (const std::optional<OlderPath> older = ParseOlderPath(model, path)) {
      return TensorAddress{older->layer, older->first, older->num_modules, ending.side};
    }
  }
  return std::nullopt;
}

// What PEFT would call a tensor that another tool has named: compiled models, parts of models that
// see, and trainers that save without PEFT put other words in front. "" if it is no such tensor.
std::string PeftNameOf(const ModelConfig& model, std::string_view name) {
  const std::string_view path = FamilyOf(model.architecture).paths.layers;
  const std::string_view list = path.substr(path.find('.') + 1);  // "layers.", "h."
  size_t layers = name.starts_with(list) ? 0 : name.find("." + std::string(list));
  if (layers == name.npos) return "";
  if (layers > 0) ++layers;
  std::string renamed =
      std::string(kPrefix) + std::string(path) + std::string(name.substr(layers + list.size()));
  constexpr std::string_view kCompiled = "_orig_mod.";
  for (size_t at = 0; (at = renamed.find(kCompiled)) != renamed.npos;) {
    renamed.erase(at, kCompiled.size());
  }
  return renamed != name && ParseTensorName(model, renamed).has_value() ? renamed : "";
}

// Why a tensor is of no module.
std::string ReasonAgainst(const ModelConfig& model, std::string_view name) {
  const std::string renamed = PeftNameOf(model, name);
  if (renamed.empty()) return ForeignReason(model, name);
  return "has another name than PEFT gives it; rename it to \"" + renamed +
         "\", and the other tensors likewise";
}

// A tensor of the file.
struct NamedTensor {
  std::string name;
  LoraModule first = LoraModule::kQ;  // as TensorAddress's
  int num_modules = 0;
};

// The names of the file's tensors by module, as far as they belong to the adapter.
class TensorIndex {
 public:
  TensorIndex(std::span<const LoraTarget> targets, const ModelConfig& model)
      : model_(model),
        is_target_(static_cast<size_t>(model.num_lora_matrices())),
        tensors_(is_target_.size()) {
    for (const LoraTarget& target : targets) is_target_[At(target.layer, target.module)] = true;
  }

  Status Add(const std::string& name) {
    const std::optional<TensorAddress> address = ParseTensorName(model_, name);
    if (!address.has_value()) {
      return UnimplementedError("tensor \"" + name + "\" " + ReasonAgainst(model_, name));
    }
    if (address->layer >= model_.num_layers) {
      return InvalidArgumentError("tensor \"" + name + "\" is of layer " +
                                  std::to_string(address->layer) + ", but this model has " +
                                  std::to_string(model_.num_layers) +
                                  " layers: the adapter was made for another base");
    }
    // Older names may stack what the checkpoint has apart.
    const StoredProjection& stored = StoredProjectionOf(model_, address->first);
    for (int i = 0; i < address->num_modules; i += stored.num_modules) {
      const auto module = static_cast<LoraModule>(static_cast<int>(address->first) + i);
      RETURN_IF_ERROR(AddTo(module, name, *address));
    }
    return OkStatus();
  }

  Result<NamedTensor> Find(const LoraTarget& target, LoraSide side) const {
    const LoraModule first = StoredProjectionOf(model_, target.module).first;
    const NamedTensor& tensor = tensors_[At(target.layer, first)][static_cast<size_t>(side)];
    if (!tensor.name.empty()) return tensor;
    return InvalidArgumentError("tensor \"" +
                                LoraTensorName(model_, target.layer, target.module, side) +
                                "\" is missing: adapter_config.json targets " +
                                LoraModulePath(model_, target.layer, target.module));
  }

 private:
  Status AddTo(LoraModule module, const std::string& name, const TensorAddress& address) {
    if (!is_target_[At(address.layer, module)]) {
      return InvalidArgumentError("tensor \"" + name + "\" is of " +
                                  LoraModulePath(model_, address.layer, module) +
                                  ", which adapter_config.json does not target");
    }
    NamedTensor& slot = tensors_[At(address.layer, module)][static_cast<size_t>(address.side)];
    if (!slot.name.empty()) {
      return InvalidArgumentError("tensors \"" + slot.name + "\" and \"" + name +
                                  "\" are the same matrix twice");
    }
    slot = {name, address.first, address.num_modules};
    return OkStatus();
  }
  size_t At(int32_t layer, LoraModule module) const {
    return static_cast<size_t>(model_.lora_matrix(layer, module));
  }
  const ModelConfig& model_;
  std::vector<bool> is_target_;
  std::vector<std::array<NamedTensor, 2>> tensors_;
};

// The shape of all modules together that share the tensor.
LoraModuleShape ShapeOf(const NamedTensor& tensor, const ModelConfig& model) {
  LoraModuleShape shape = {ShapeOfLoraModule(model, tensor.first).in, 0};
  for (int i = 0; i < tensor.num_modules; ++i) {
    const auto module = static_cast<LoraModule>(static_cast<int>(tensor.first) + i);
    shape.out += ShapeOfLoraModule(model, module).out;
  }
  return shape;
}

Status CheckShape(const NamedTensor& tensor, const std::vector<int64_t>& shape,
                  const LoraTarget& target, LoraSide side, const PeftConfig& peft,
                  const ModelConfig& model) {
  const std::string& name = tensor.name;
  const LoraModuleShape module = ShapeOf(tensor, model);
  const bool is_a = side == LoraSide::kA;
  const std::vector<int64_t> wanted = is_a ? std::vector<int64_t>{target.rank, module.in}
                                           : std::vector<int64_t>{module.out, target.rank};
  if (shape == wanted) return OkStatus();
  std::string message = "tensor \"" + name + "\" has shape " + SizesText(shape) + ", but " +
                        LoraModulePath(model, target.layer, target.module) +
                        " of this model, weight " + SizesText({module.out, module.in}) +
                        ", with rank " + std::to_string(target.rank) + " takes " +
                        SizesText(wanted);
  const size_t rank_dim = is_a ? 0 : 1;
  if (shape.size() != 2) {
    message += ": it is not a matrix";
  } else if (shape[1 - rank_dim] == wanted[1 - rank_dim]) {
    message += ": the file does not hold the rank that adapter_config.json gives (r, rank_pattern)";
  } else {
    message += ": the adapter was made for another base";
    if (!peft.base_model.empty()) message += ", it says '" + peft.base_model + "'";
    if (!model.name_or_path.empty()) message += "; this one is '" + model.name_or_path + "'";
  }
  return InvalidArgumentError(message);
}

// Where a module's rows lie in B.
std::vector<IndexRange> RowsOfB(const NamedTensor& tensor, LoraModule module,
                                const ModelConfig& model) {
  const int64_t out = ShapeOfLoraModule(model, module).out;
  if (tensor.num_modules == StoredProjectionOf(model, module).num_modules) {
    return StoredRowsOf(model, module, {0, out});
  }
  int64_t begin = 0;
  for (int m = static_cast<int>(tensor.first); m < static_cast<int>(module); ++m) {
    begin += ShapeOfLoraModule(model, static_cast<LoraModule>(m)).out;
  }
  return {{begin, begin + out}};
}

// Keeps only the module's rows of B.
void TakeSlice(const NamedTensor& tensor, const LoraTarget& target, const ModelConfig& model,
               LoraTensors& tensors) {
  const int64_t out = ShapeOfLoraModule(model, target.module).out;
  const std::vector<IndexRange> stored = RowsOfB(tensor, target.module, model);
  const int64_t row_bytes = target.rank * DTypeBytes(tensors.b.dtype);
  const auto* const from = static_cast<const char*>(tensors.b.data);
  tensors.b_row = stored.front().begin;
  tensors.b.shape[0] = out;
  tensors.b.data = from + tensors.b_row * row_bytes;
  if (stored.size() == 1) return;
  tensors.b_rows = Buffer(out * row_bytes);
  char* to = tensors.b_rows.as<char>();
  for (const IndexRange& rows : stored) {
    const int64_t bytes = rows.size() * row_bytes;
    std::memcpy(to, from + rows.begin * row_bytes, static_cast<size_t>(bytes));
    to += bytes;
  }
  tensors.b.data = tensors.b_rows.data();
}

}  // namespace

int64_t LoraRowBytes(int64_t elements, DType dtype) {
  return (elements * DTypeBytes(dtype) + kRowAlignment - 1) / kRowAlignment * kRowAlignment;
}

std::string LoraTensorName(const ModelConfig& model, int32_t layer, LoraModule module,
                           LoraSide side) {
  return std::string(kPrefix) + LoraModulePath(model, layer, module) +
         (side == LoraSide::kA ? ".lora_A.weight" : ".lora_B.weight");
}

Result<std::vector<LoraTensors>> MatchLoraTensors(const SafetensorsFile& file,
                                                  std::span<const LoraTarget> targets,
                                                  const PeftConfig& peft,
                                                  const ModelConfig& model) {
  TensorIndex index(targets, model);
  for (const auto& [name, entry] : file.entries()) RETURN_IF_ERROR(index.Add(name));
  std::vector<LoraTensors> matched;
  matched.reserve(targets.size());
  for (const LoraTarget& target : targets) {
    LoraTensors tensors;
    NamedTensor of_b;
    for (const LoraSide side : {LoraSide::kA, LoraSide::kB}) {
      ASSIGN_OR_RETURN(const NamedTensor named, index.Find(target, side));
      ASSIGN_OR_RETURN(TensorView tensor, file.Tensor(named.name));
      RETURN_IF_ERROR(CheckShape(named, tensor.shape, target, side, peft, model));
      (side == LoraSide::kA ? tensors.a : tensors.b) = std::move(tensor);
      of_b = named;
    }
    TakeSlice(of_b, target, model, tensors);
    matched.push_back(std::move(tensors));
  }
  return matched;
}

Result<LoraWeights> LoraWeights::Load(const SafetensorsFile& file, const PeftConfig& peft,
                                      const ModelConfig& model, DType dtype, WorkCrew* crew) {
  LoraWeights weights;
  weights.dtype_ = dtype;
  ASSIGN_OR_RETURN(weights.targets_, ResolveLoraTargets(peft, model));
  ASSIGN_OR_RETURN(const std::vector<LoraTensors> tensors,
                   MatchLoraTensors(file, weights.targets_, peft, model));
  weights.LayOut(model);
  RETURN_IF_ERROR(PackLora(tensors, weights.targets_, weights.matrices_, model, dtype, crew));
  return weights;
}

LoraWeights LoraWeights::None(const ModelConfig& model, DType dtype) {
  LoraWeights weights;
  weights.dtype_ = dtype;
  weights.LayOut(model);
  return weights;
}

// Every shape is known to be the file's own by now: the buffer is about as large as the file.
void LoraWeights::LayOut(const ModelConfig& model) {
  const auto owns_a = [&](const LoraTarget& target) {
    return StoredProjectionOf(model, target.module).first == target.module;
  };
  int64_t bytes = 0;
  size_t num_rows = 0;
  for (const LoraTarget& target : targets_) {
    const LoraModuleShape shape = ShapeOfLoraModule(model, target.module);
    bytes += target.rank * LoraRowBytes(shape.out, dtype_);
    if (owns_a(target)) bytes += target.rank * LoraRowBytes(shape.in, dtype_);
    num_rows += (owns_a(target) ? 2 : 1) * static_cast<size_t>(target.rank);
    rank_max_ = std::max(rank_max_, target.rank);
  }
  buffer_ = Buffer(bytes);
  rows_.reserve(num_rows);  // so that pointers into it hold
  num_targets_ = model.num_lora_targets();
  matrices_.resize(static_cast<size_t>(model.num_lora_matrices()));
  char* next = buffer_.as<char>();
  const auto lay_rows = [&](int32_t rank, int64_t row_bytes) {
    const void* const* const first = rows_.data() + rows_.size();
    for (int32_t j = 0; j < rank; ++j, next += row_bytes) rows_.push_back(next);
    return first;
  };
  for (const LoraTarget& target : targets_) {
    const LoraModuleShape shape = ShapeOfLoraModule(model, target.module);
    LoraMatrix* const layer =
        &matrices_[static_cast<size_t>(model.lora_matrix(target.layer, LoraModule{}))];
    LoraMatrix& matrix = layer[static_cast<size_t>(target.module)];
    matrix.rank = target.rank;
    matrix.scale = target.scale;
    const LoraModule first = StoredProjectionOf(model, target.module).first;
    matrix.a_rows = owns_a(target) ? lay_rows(target.rank, LoraRowBytes(shape.in, dtype_))
                                   : layer[static_cast<size_t>(first)].a_rows;
    matrix.b_rows = lay_rows(target.rank, LoraRowBytes(shape.out, dtype_));
  }
  CHECK_EQ(next - buffer_.as<char>(), bytes);
  CHECK_EQ(rows_.size(), num_rows);
}

LoraWeights LoraWeights::SliceOf(const ModelConfig& model, const Shard& shard) const {
  LoraWeights slice;
  slice.dtype_ = dtype_;
  slice.targets_ = targets_;
  slice.LayOut(ShardConfig(model, shard.num_ranks));
  const auto copy = [this](const void* const* from, const IndexRange& elements, int32_t rank,
                           const void* const* to) {
    const int64_t element = DTypeBytes(dtype_);
    for (int32_t j = 0; j < rank; ++j) {
      std::memcpy(const_cast<void*>(to[j]),
                  static_cast<const char*>(from[j]) + elements.begin * element,
                  static_cast<size_t>(elements.size() * element));
    }
  };
  for (const LoraTarget& target : targets_) {
    const LoraModuleSlice elements = SliceOfLoraModule(model, target.module, shard);
    const LoraMatrix& from = matrix(target.layer, target.module);
    const LoraMatrix& to = slice.matrix(target.layer, target.module);
    copy(from.a_rows, elements.in, target.rank, to.a_rows);
    copy(from.b_rows, elements.out, target.rank, to.b_rows);
  }
  return slice;
}

int64_t LoraWeights::bytes() const {
  return buffer_.bytes() + static_cast<int64_t>(rows_.size() * sizeof(rows_[0])) +
         static_cast<int64_t>(matrices_.size() * sizeof(matrices_[0]));
}

}  // namespace graft
