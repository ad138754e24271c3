#include "adapters/lora_weights.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "adapters/lora_packing.h"
#include "adapters/older_names.h"
#include "base/check.h"
#include "model/family.h"
#include "model/tensor_rows.h"
#include "model/wrapper.h"
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

// Whether a tensor is of a wrapper's tower.
bool IsTowerTensor(const ModelConfig& model, std::string_view name) {
  return model.wrapper != nullptr && name.starts_with(kPrefix) &&
         IsOfTower(name.substr(kPrefix.size()));
}

// Why a tensor that is neither A nor B of a projection cannot be applied.
std::string ForeignReason(const ModelConfig& model, std::string_view name) {
  const auto has = [name](std::string_view part) { return name.find(part) != name.npos; };
  if (IsTowerTensor(model, name)) {
    return "is of a tower of " + std::string(ClassNameOf(model)) +
           ", whose text alone is served; --text-only leaves such tensors out";
  }
  if (has("lora_magnitude_vector")) return "is a magnitude of DoRA, which is not applied";
  const ModulePaths& paths = FamilyOf(model.architecture).paths;
  if (has(paths.embedding) || has("lora_embedding_") ||
      (!paths.positions.empty() && has(paths.positions))) {
    return "belongs to the embedding, which adapters cannot change here";
  }
  if (has(paths.head)) {
    return "belongs to the head, of which lora_A and lora_B alone are applied";
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
  bool is_head = false;   // see LoraModuleAddress
  bool is_older = false;  // by the name of an earlier class (older_names.h)
};

std::optional<TensorAddress> ParseTensorName(const ModelConfig& model, std::string_view name) {
  if (!name.starts_with(kPrefix)) return std::nullopt;
  name.remove_prefix(kPrefix.size());
  for (const Ending& ending : kEndings) {
    if (!name.ends_with(ending.text)) continue;
    const std::string_view path = name.substr(0, name.size() - ending.text.size());
    if (const std::optional<LoraModuleAddress> module = ParseLoraModulePath(model, path)) {
      const int num_modules =
          module->is_head ? 1 : StoredProjectionOf(model, module->module).num_modules;
      return TensorAddress{module->layer, module->module, num_modules, ending.side,
                           module->is_head};
    }
    if (const std::optional<OlderPath> older = ParseOlderPath(model, path)) {
      return TensorAddress{older->layer,     older->first, older->num_modules, ending.side, false,
                           /*is_older=*/true};
    }
  }
  return std::nullopt;
}

// What PEFT would call a tensor that another tool has named: compiled models, parts of models that
// see, and trainers that save without PEFT put other words in front. "" if it is no such tensor.
std::string PeftNameOf(const ModelConfig& model, std::string_view name) {
  const bool is_ours = !name.starts_with(kPrefix) || !IsOfTower(name.substr(kPrefix.size()));
  if (!is_ours) return "";
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
    if (model_.text_only && IsTowerTensor(model_, name)) return OkStatus();
    const std::optional<TensorAddress> address = ParseTensorName(model_, name);
    if (!address.has_value()) {
      return UnimplementedError("tensor \"" + name + "\" " + ReasonAgainst(model_, name));
    }
    const auto& [layer, first, num_modules, side, is_head, is_older] = *address;
    if (is_head) return AddTo(first, name, *address);
    if (layer >= model_.num_layers) {
      return InvalidArgumentError("tensor \"" + name + "\" is of layer " + std::to_string(layer) +
                                  ", but this model has " + std::to_string(model_.num_layers) +
                                  " layers: the adapter was made for another base");
    }
    // Older names may stack what the checkpoint has apart.
    const int step = StoredProjectionOf(model_, first).num_modules;
    for (int i = 0; i < num_modules; i += step) {
      const auto module = static_cast<LoraModule>(static_cast<int>(first) + i);
      RETURN_IF_ERROR(AddTo(module, name, *address));
    }
    return OkStatus();
  }

  Result<NamedTensor> Find(const LoraTarget& target, LoraSide side) const {
    const LoraModule first = OwnerOfA(model_, target.layer, target.module);
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
  const LoraModuleShape module = model.is_head(target.layer)
                                     ? ShapeOfStoredWeight(model, target.layer, target.module)
                                     : ShapeOf(tensor, model);
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

// Where a target's rows lie in B: a module's, or those of a block of the head.
std::vector<IndexRange> RowsOfB(const NamedTensor& tensor, const LoraTarget& target,
                                const ModelConfig& model) {
  const LoraModule module = target.module;
  const int64_t out = ShapeOfLoraMatrix(model, target.layer, module).out;
  if (model.is_head(target.layer)) {
    const int64_t begin = RowInStoredWeight(model, target.layer, module);
    return {{begin, begin + out}};
  }
  if (tensor.num_modules == StoredProjectionOf(model, module).num_modules) {
    return StoredRowsOf(model, module, {0, out});
  }
  int64_t begin = 0;
  for (int m = static_cast<int>(tensor.first); m < static_cast<int>(module); ++m) {
    begin += ShapeOfLoraModule(model, static_cast<LoraModule>(m)).out;
  }
  return {{begin, begin + out}};
}

// Keeps only the target's rows of B.
void TakeSlice(const NamedTensor& tensor, const LoraTarget& target, const ModelConfig& model,
               LoraTensors& tensors) {
  const std::vector<IndexRange> stored = RowsOfB(tensor, target, model);
  const int64_t out = ShapeOfLoraMatrix(model, target.layer, target.module).out;
  const int64_t row_bytes = target.rank * DTypeBytes(tensors.b.dtype);
  const auto* const from = static_cast<const char*>(tensors.b.data);
  tensors.file_b = tensors.b;
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

// How the class that an adapter was trained on named its modules.
struct ModuleNaming {
  std::string_view text_prefix = "";  // ClassModulePath's
  bool has_older_names = false;       // ResolveLoraTargets'
};

ModuleNaming NamingOf(const SafetensorsFile& file, const ModelConfig& model) {
  if (model.wrapper == nullptr) {
    // PEFT adapts today's class by its names alone: older ones in the config match nothing there.
    return {.has_older_names = std::ranges::any_of(file.entries(), [&](const auto& tensor) {
              const std::optional<TensorAddress> address = ParseTensorName(model, tensor.first);
              return address.has_value() && address->is_older;
            })};
  }
  std::string_view prefix;
  for (const auto& [name, entry] : file.entries()) {
    if (!name.starts_with(kPrefix)) continue;
    prefix = TextPrefixOf(std::string_view(name).substr(kPrefix.size()));
    if (!prefix.empty()) break;
  }
  return {.text_prefix = prefix};
}

}  // namespace

int64_t LoraRowBytes(int64_t elements, DType dtype) {
  return (elements * DTypeBytes(dtype) + kRowAlignment - 1) / kRowAlignment * kRowAlignment;
}

std::string LoraTensorName(const ModelConfig& model, int32_t layer, LoraModule module,
                           LoraSide side) {
  return std::string(kPrefix) + ClassModulePath(model, layer, module) +
         (side == LoraSide::kA ? ".lora_A.weight" : ".lora_B.weight");
}

Result<std::vector<LoraTarget>> LoraTargetsOf(const SafetensorsFile& file, const PeftConfig& peft,
                                              const ModelConfig& model) {
  const ModuleNaming naming = NamingOf(file, model);
  return ResolveLoraTargets(peft, model, naming.text_prefix, naming.has_older_names);
}

std::string TellSkippedTargetsOf(const SafetensorsFile& file, const PeftConfig& peft,
                                 const ModelConfig& model) {
  const ModuleNaming naming = NamingOf(file, model);
  return TellSkippedTargets(peft, model, naming.text_prefix, naming.has_older_names);
}

std::vector<std::string> TowerTensors(const SafetensorsFile& file, const ModelConfig& model) {
  std::vector<std::string> names;
  for (const auto& [name, entry] : file.entries()) {
    if (IsTowerTensor(model, name)) names.push_back(name);
  }
  return names;
}

Result<std::vector<LoraTensors>> MatchLoraTensors(const SafetensorsFile& file,
                                                  std::span<const LoraTarget> targets,
                                                  const PeftConfig& peft,
                                                  const ModelConfig& model) {
  TensorIndex index(targets, model);
  for (const auto& [name, entry] : file.entries()) {
    if (std::ranges::find(peft.base_copies, name) != peft.base_copies.end()) continue;
    RETURN_IF_ERROR(index.Add(name));
  }
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
  ASSIGN_OR_RETURN(weights.targets_, LoraTargetsOf(file, peft, model));
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
    return OwnerOfA(model, target.layer, target.module) == target.module;
  };
  int64_t bytes = 0;
  size_t num_rows = 0;
  for (const LoraTarget& target : targets_) {
    const LoraModuleShape shape = ShapeOfLoraMatrix(model, target.layer, target.module);
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
    const LoraModuleShape shape = ShapeOfLoraMatrix(model, target.layer, target.module);
    LoraMatrix* const layer =
        &matrices_[static_cast<size_t>(model.lora_matrix(target.layer, LoraModule{}))];
    LoraMatrix& matrix = layer[static_cast<size_t>(target.module)];
    matrix.rank = target.rank;
    matrix.scale = target.scale;
    const LoraModule first = OwnerOfA(model, target.layer, target.module);
    matrix.a_rows = owns_a(target) ? lay_rows(target.rank, LoraRowBytes(shape.in, dtype_))
                                   : layer[static_cast<size_t>(first)].a_rows;
    matrix.b_rows = lay_rows(target.rank, LoraRowBytes(shape.out, dtype_));
  }
  CHECK_EQ(next - buffer_.as<char>(), bytes);
  CHECK_EQ(rows_.size(), num_rows);
}

LoraWeights LoraWeights::SliceOf(const ModelConfig& model, const Shard& shard) const {
  const ModelConfig of_rank = ShardConfig(model, shard.num_ranks);
  LoraWeights slice;
  slice.dtype_ = dtype_;
  for (LoraTarget target : targets_) {
    if (!model.is_head(target.layer)) {
      slice.targets_.push_back(target);
    } else if (target.module == LoraModule{}) {
      for (const LoraModule block : of_rank.head_blocks()) {
        target.module = block;
        slice.targets_.push_back(target);
      }
    }
  }
  slice.LayOut(of_rank);
  const auto copy = [this](const void* const* from, const IndexRange& elements, int32_t rank,
                           const void* const* to, int64_t to_begin = 0) {
    const int64_t element = DTypeBytes(dtype_);
    for (int32_t j = 0; j < rank; ++j) {
      std::memcpy(static_cast<char*>(const_cast<void*>(to[j])) + to_begin * element,
                  static_cast<const char*>(from[j]) + elements.begin * element,
                  static_cast<size_t>(elements.size() * element));
    }
  };
  const LoraMatrix& head = matrix(model.num_layers, LoraModule{});
  if (head.rank > 0) {
    copy(head.a_rows, {0, model.hidden_size}, head.rank,
         slice.matrix(model.num_layers, LoraModule{}).a_rows);
    for (const HeadPiece& piece : HeadPiecesOf(model, shard)) {
      copy(matrix(model.num_layers, piece.from).b_rows,
           {piece.from_word, piece.from_word + piece.num_words}, head.rank,
           slice.matrix(model.num_layers, piece.to).b_rows, piece.to_word);
    }
  }
  for (const LoraTarget& target : targets_) {
    if (model.is_head(target.layer)) continue;
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
