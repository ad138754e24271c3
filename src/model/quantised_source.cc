#include "model/quantised_source.h"

#include <algorithm>
#include <iterator>

#include "base/strings.h"
#include "model/quantised_format.h"
#include "model/wrapper.h"

namespace graft {
namespace {

constexpr std::string_view kWeightEnd = ".weight";

}  // namespace

Result<std::unique_ptr<QuantisedSource>> QuantisedSource::Make(FileSource& files,
                                                               const QuantisationConfig& config,
                                                               Stream& stream) {
  ASSIGN_OR_RETURN(ModuleSchemes schemes, ModuleSchemes::Compile(config));
  return std::unique_ptr<QuantisedSource>(
      new QuantisedSource(files, config, std::move(schemes), stream));
}

std::optional<std::string> QuantisedSource::ModuleWithCodes(const std::string& name) const {
  if (!name.ends_with(kWeightEnd)) return std::nullopt;
  const std::string of_family = name.substr(0, name.size() - kWeightEnd.size());
  const std::string mark = files_.StoredName(of_family + std::string(config_.format->mark));
  if (!files_.files().Contains(mark)) return std::nullopt;
  return mark.substr(0, mark.size() - config_.format->mark.size());
}

Result<std::unique_ptr<PackedMatrix>> QuantisedSource::Packed(const std::string& name,
                                                              const std::vector<int64_t>& shape) {
  const std::optional<std::string> module = ModuleWithCodes(name);
  if (!module.has_value()) return std::unique_ptr<PackedMatrix>();
  if (shape.size() != 2) {
    return InvalidArgumentError("tensor " + *module + std::string(config_.format->mark) +
                                " is in the files, but " + name +
                                " is no matrix, and has no codes");
  }
  std::vector<std::string> names = {*module};
  if (files_.is_wrapped()) {
    std::ranges::copy(WrappedNamesOf(name.substr(0, name.size() - kWeightEnd.size())),
                      std::back_inserter(names));
  }
  ASSIGN_OR_RETURN(const std::optional<CodeScheme> scheme, schemes_.Of(names));
  if (!scheme.has_value()) {
    return InvalidArgumentError("tensor " + *module + std::string(config_.format->mark) +
                                " is in the files, but quantization_config leaves " + *module +
                                " as it is");
  }
  std::set<std::string> used;
  const ModuleTensors tensors(files_.files(), *module, used);
  ASSIGN_OR_RETURN(std::unique_ptr<PackedMatrix> matrix,
                   config_.format->read(tensors, config_, *scheme, shape[0], shape[1]));
  for (const std::string& one : used) files_.Use(one);
  return matrix;
}

Result<TensorView> QuantisedSource::Get(const std::string& name,
                                        const std::vector<int64_t>& shape) {
  ASSIGN_OR_RETURN(const std::unique_ptr<PackedMatrix> matrix, Packed(name, shape));
  scattered_.clear();
  if (matrix == nullptr) return files_.Get(name, shape);
  if (!matrix->form().group_of.empty()) scattered_ = name;
  TensorView view{nullptr, matrix->form().dtype, shape};
  void* const numbers = Allocate(view.bytes());
  Dequantise(*matrix, numbers, *stream_.cpu_threads);
  view.data = numbers;
  return view;
}

Status QuantisedSource::Check(const std::string& name, const TensorView& used) {
  return files_.Check(name, used);
}

Status QuantisedSource::CheckColumnsApart(const std::string& name) {
  if (scattered_ != name) return OkStatus();
  return UnimplementedError("--tensor-parallel: the inputs of a group of " + name +
                            " lie apart (g_idx, by desc_act or actorder), and ranks cannot have a "
                            "part of them each; serve it without --tensor-parallel");
}

bool QuantisedSource::Has(const std::string& name) const {
  return ModuleWithCodes(name).has_value() || files_.Has(name);
}

bool IsScaleOfCache(std::string_view name) {
  return name.ends_with(".k_scale") || name.ends_with(".v_scale");
}

bool IsBiasOfZeros(const SafetensorsSet& files, const std::string& name) {
  if (!name.ends_with(".bias")) return false;
  const Result<TensorView> bias = files.Tensor(name);
  if (!bias.ok()) return false;
  const auto* const bytes = static_cast<const char*>(bias->data);
  return std::all_of(bytes, bytes + bias->bytes(), [](char byte) { return byte == 0; });
}

}  // namespace graft
