// compressed-tensors, pack-quantized: MODULE.weight_packed holds each row's codes in words of 32
// bits, as unsigned numbers; weight_scale [out, groups], the dtype of which is the numbers'. Zero
// points are packed along the outputs, or stand as they are. With actorder "group" weight_g_idx has
// each input's group. Source:
// compressed_tensors/compressors/quantized_compressors/pack_quantized.py and
// quantization/lifecycle/forward.py.
#include <algorithm>

#include "base/json.h"
#include "model/quantised_format.h"
#include "model/tensor_rows.h"
#include "model/weight_formats/packed_words.h"

namespace graft {
namespace {

constexpr std::string_view kPackQuantized = "pack-quantized";
constexpr std::string_view kRegexMark = "re:";
constexpr std::string_view kZeroPoints = ".weight_zero_point";

ModuleRule RuleOfTarget(const std::string& target, const std::optional<CodeScheme>& scheme) {
  if (target.starts_with(kRegexMark)) {
    return {ModuleRule::Match::kRegex, target.substr(kRegexMark.size()), scheme};
  }
  // The class of all products that have weights of codes.
  if (target == "Linear") return {ModuleRule::Match::kEvery, "", scheme};
  return {ModuleRule::Match::kName, target, scheme};
}

Status CheckFormat(const ConfigFields& fields, bool may_be_absent) {
  ASSIGN_OR_RETURN(const std::string format,
                   fields.String("format", may_be_absent ? std::string(kPackQuantized) : ""));
  if (format == kPackQuantized) return OkStatus();
  return fields.Unsupported("format", Json(format), "pack-quantized (int of 4 and 8 bits)");
}

// What is null, false or empty where it changes nothing.
Status CheckNeutral(const ConfigFields& fields, std::initializer_list<const char*> names) {
  for (const char* name : names) {
    const Json* const value = fields.Find(name);
    if (value == nullptr || IsNeutral(*value)) continue;
    return fields.Unsupported(name, *value, "checkpoints without it");
  }
  return OkStatus();
}

Status ReadActOrder(const ConfigFields& fields, CodeScheme& scheme) {
  const Json* const value = fields.Find("actorder");
  if (value == nullptr || IsNeutral(*value)) return OkStatus();
  ASSIGN_OR_RETURN(const std::string order, fields.String("actorder", ""));
  // "static" and "dynamic" are other names of them.
  if (order == "group" || order == "dynamic") {
    scheme.has_groups = true;
  } else if (order != "weight" && order != "static") {
    return fields.Unsupported("actorder", *value, "null, weight, group");
  }
  return OkStatus();
}

Result<CodeScheme> ReadWeightArgs(const Json& json, const ConfigFields& fields) {
  RETURN_IF_ERROR(CheckFieldsKnown(json, fields,
                                   {"num_bits", "type", "symmetric", "strategy", "group_size",
                                    "actorder", "dynamic", "block_structure"},
                                   {"observer", "observer_kwargs", "scale_dtype", "zp_dtype"}));
  CodeScheme scheme;
  ASSIGN_OR_RETURN(const std::string type, fields.String("type", "int"));
  if (type != "int") return fields.Unsupported("type", Json(type), "int");
  ASSIGN_OR_RETURN(scheme.bits, ReadBits(fields, "num_bits", {4, 8}));
  ASSIGN_OR_RETURN(scheme.symmetric, fields.Bool("symmetric", true));
  RETURN_IF_ERROR(CheckNeutral(fields, {"dynamic", "block_structure"}));
  ASSIGN_OR_RETURN(const std::string strategy, fields.String("strategy", ""));
  if (strategy == "group") {
    ASSIGN_OR_RETURN(scheme.group_size, ReadGroupSize(fields, "group_size"));
    if (scheme.group_size == 0) return fields.Missing("group_size");
  } else if (strategy != "channel") {
    return fields.Unsupported("strategy", Json(strategy), "group, channel");
  }
  RETURN_IF_ERROR(ReadActOrder(fields, scheme));
  return scheme;
}

Status ReadConfigGroup(const std::string& name, const Json& group, QuantisationConfig& config) {
  const std::string path = "quantization_config.config_groups." + name;
  if (!group.is_object()) return InvalidArgumentError(path + " must be an object");
  const ConfigFields fields(group, path + ".");
  RETURN_IF_ERROR(CheckFieldsKnown(
      group, fields, {"targets", "weights", "input_activations", "output_activations", "format"},
      {}));
  RETURN_IF_ERROR(CheckNeutral(fields, {"input_activations", "output_activations"}));
  RETURN_IF_ERROR(CheckFormat(fields, /*may_be_absent=*/true));
  const Json* const weights = fields.Find("weights");
  if (weights == nullptr) return fields.Missing("weights");
  if (!weights->is_object()) return fields.Wrong("weights", *weights, "an object");
  ASSIGN_OR_RETURN(const CodeScheme scheme,
                   ReadWeightArgs(*weights, ConfigFields(*weights, path + ".weights.")));
  ASSIGN_OR_RETURN(const std::vector<std::string> targets, ReadStrings(fields, "targets"));
  if (targets.empty()) return fields.Missing("targets");
  for (const std::string& target : targets) config.rules.push_back(RuleOfTarget(target, scheme));
  config.text = "int" + std::to_string(scheme.bits) + " of compressed-tensors";
  return OkStatus();
}

Status ReadCompressedConfig(const Json& json, const ConfigFields& fields,
                            QuantisationConfig& config) {
  RETURN_IF_ERROR(CheckFieldsKnown(
      json, fields,
      {"quant_method", "format", "config_groups", "ignore", "kv_cache_scheme",
       "quantization_status", "sparsity_config", "transform_config"},
      {"global_compression_ratio", "version", "moe_sparsity_config", "run_compressed"}));
  RETURN_IF_ERROR(CheckFormat(fields, /*may_be_absent=*/false));
  ASSIGN_OR_RETURN(const std::string status, fields.String("quantization_status", "compressed"));
  if (status != "compressed" && status != "frozen") {
    return fields.Unsupported("quantization_status", Json(status), "compressed, frozen");
  }
  RETURN_IF_ERROR(CheckNeutral(fields, {"transform_config"}));
  const Json* const sparsity = fields.Find("sparsity_config");
  if (sparsity != nullptr && !IsNeutral(*sparsity)) {
    const bool is_dense = sparsity->is_object() && sparsity->value("format", Json()) == "dense";
    if (!is_dense) return fields.Unsupported("sparsity_config", *sparsity, "format dense");
  }
  if (const Json* scheme = fields.Find("kv_cache_scheme"); scheme != nullptr) {
    if (!IsNeutral(*scheme)) config.read_over.push_back("kv_cache_scheme");
  }
  const Json* const groups = fields.Find("config_groups");
  if (groups == nullptr || !groups->is_object() || groups->empty()) {
    return fields.Missing("config_groups");
  }
  ASSIGN_OR_RETURN(const std::vector<std::string> ignored, ReadStrings(fields, "ignore"));
  for (const std::string& target : ignored) {
    config.rules.push_back(RuleOfTarget(target, std::nullopt));
  }
  for (const auto& [name, group] : groups->items()) {
    RETURN_IF_ERROR(ReadConfigGroup(name, group, config));
  }
  if (groups->size() > 1) config.text = "mixed schemes of compressed-tensors";
  return OkStatus();
}

class CompressedMatrix : public PackedMatrix {
 public:
  struct Parts {
    RawTensor codes;
    ScaleTensor scales;
    RawTensor zeros;  // no bytes: the middle of the codes
    bool zeros_packed = false;
  };
  CompressedMatrix(PackedForm form, Parts parts)
      : PackedMatrix(std::move(form)), parts_(std::move(parts)) {}

  void Codes(const IndexRange& rows, const IndexRange& inputs, uint8_t* out) const override {
    const int64_t row_words = parts_.codes.shape[1];
    for (int64_t row = rows.begin; row < rows.end; ++row, out += inputs.size()) {
      UnpackCodes(parts_.codes, row * row_words, inputs.begin, inputs.size(), form().bits, out);
    }
  }
  void Scales(const IndexRange& rows, float* out) const override {
    const int64_t groups = form().groups;
    for (int64_t i = 0; i < rows.size() * groups; ++i) {
      out[i] = parts_.scales.At(rows.begin * groups + i);
    }
  }
  void Zeros(const IndexRange& rows, uint8_t* out) const override {
    const int64_t groups = form().groups;
    const int32_t middle = 1 << (form().bits - 1);
    if (parts_.zeros.bytes.empty()) {
      std::fill(out, out + rows.size() * groups, static_cast<uint8_t>(middle));
      return;
    }
    for (int64_t row = rows.begin; row < rows.end; ++row) {
      for (int64_t group = 0; group < groups; ++group) *out++ = ZeroAt(row, group);
    }
  }

 private:
  uint8_t ZeroAt(int64_t row, int64_t group) const {
    const int32_t bits = form().bits;
    if (!parts_.zeros_packed) {
      const int32_t zero = parts_.zeros.At<int8_t>(row * form().groups + group);
      return static_cast<uint8_t>(zero + (1 << (bits - 1)));
    }
    const int64_t per_word = CodesPerWord(bits);
    const auto word = parts_.zeros.At<uint32_t>(row / per_word * form().groups + group);
    return static_cast<uint8_t>((word >> (row % per_word * bits)) & CodeMask(bits));
  }

  const Parts parts_;
};

// Zero points of whole words along the outputs, or of one byte each.
Status ReadZeroPoints(const ModuleTensors& tensors, const PackedForm& form,
                      CompressedMatrix::Parts& parts) {
  ASSIGN_OR_RETURN(const RawTensor any, tensors.Get(kZeroPoints));
  parts.zeros_packed = any.dtype == "I32";
  if (parts.zeros_packed) {
    const int64_t per_word = CodesPerWord(form.bits);
    ASSIGN_OR_RETURN(parts.zeros, tensors.Get(kZeroPoints, {"I32"},
                                              {(form.n + per_word - 1) / per_word, form.groups}));
    return OkStatus();
  }
  ASSIGN_OR_RETURN(parts.zeros, tensors.Get(kZeroPoints, {"I32", "I8"}, {form.n, form.groups}));
  const int32_t middle = 1 << (form.bits - 1);
  for (int64_t i = 0; i < parts.zeros.num_elements(); ++i) {
    const int32_t zero = parts.zeros.At<int8_t>(i);
    if (zero >= -middle && zero < middle) continue;
    return DataLossError("tensor " + parts.zeros.name + " has zero point " + std::to_string(zero) +
                         " at " + std::to_string(i) + ", which is no code of " +
                         std::to_string(form.bits) + " bits");
  }
  return OkStatus();
}

// The library sorts inputs by their groups and takes as many for each: others have no meaning.
Status CheckGroupsEven(const ModuleTensors& tensors, const PackedForm& form) {
  std::vector<int64_t> counts(static_cast<size_t>(form.groups), 0);
  for (const int32_t group : form.group_of) ++counts[static_cast<size_t>(group)];
  for (size_t group = 0; !form.group_of.empty() && group < counts.size(); ++group) {
    if (counts[group] == form.group_size()) continue;
    return DataLossError("tensor " + tensors.NameOf(".weight_g_idx") + " puts " +
                         std::to_string(counts[group]) + " inputs into group " +
                         std::to_string(group) + ", which has " +
                         std::to_string(form.group_size()));
  }
  return OkStatus();
}

Result<std::unique_ptr<PackedMatrix>> ReadCompressed(const ModuleTensors& tensors,
                                                     const QuantisationConfig& /*config*/,
                                                     const CodeScheme& scheme, int64_t n,
                                                     int64_t k) {
  PackedForm form{.n = n, .k = k, .bits = scheme.bits};
  ASSIGN_OR_RETURN(form.groups, GroupsOf(tensors, scheme, k));
  ASSIGN_OR_RETURN(const RawTensor shape, tensors.Get(".weight_shape", {"I64"}, {2}));
  if (shape.At<int64_t>(0) != n || shape.At<int64_t>(1) != k) {
    return InvalidArgumentError("tensor " + shape.name + " says " +
                                SizesText({shape.At<int64_t>(0), shape.At<int64_t>(1)}) +
                                ", config.json asks for " + SizesText({n, k}));
  }
  const int64_t per_word = CodesPerWord(scheme.bits);
  CompressedMatrix::Parts parts;
  ASSIGN_OR_RETURN(parts.codes,
                   tensors.Get(".weight_packed", {"I32"}, {n, (k + per_word - 1) / per_word}));
  ASSIGN_OR_RETURN(parts.scales, tensors.Scales(".weight_scale", {n, form.groups}));
  form.dtype = parts.scales.dtype;
  if (!scheme.symmetric) RETURN_IF_ERROR(ReadZeroPoints(tensors, form, parts));
  if (scheme.has_groups) {
    ASSIGN_OR_RETURN(form.group_of, tensors.Groups(".weight_g_idx", k, form.groups));
    RETURN_IF_ERROR(CheckGroupsEven(tensors, form));
  }
  return std::unique_ptr<PackedMatrix>(
      std::make_unique<CompressedMatrix>(std::move(form), std::move(parts)));
}

}  // namespace

constinit const QuantisedFormat kCompressedTensorsFormat = {
    .name = "compressed-tensors",
    .takes = "pack-quantized int of 4 and 8 bits",
    .mark = ".weight_packed",
    .read_config = ReadCompressedConfig,
    .read = ReadCompressed,
};

}  // namespace graft
