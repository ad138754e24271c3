// GPTQ, as AutoGPTQ and GPTQModel write it: MODULE.qweight [in / codes a word, out] holds codes
// packed along the inputs, scales are [groups, out], and qzeros packs zero points along the
// outputs. g_idx has each input's group, which with desc_act may be any. Files of checkpoint_format
// gptq (v1) hold zero points less one, which was subtracted from whole words. Source: gptqmodel
// nn_modules/qlinear/torch.py and utils/model.py (convert_gptq_v1_to_v2_format_module).
#include <algorithm>

#include "base/json.h"
#include "model/quantised_format.h"
#include "model/weight_formats/packed_words.h"

namespace graft {
namespace {

constexpr std::string_view kExcluded = "-:";
constexpr std::string_view kIncluded = "+:";

// What is in none of `read` and is known says how the quantiser worked and what its program kept:
// no weight depends on it.
Status CheckGptqFields(const Json& json, const ConfigFields& fields,
                       std::initializer_list<std::string_view> read) {
  return CheckFieldsKnown(json, fields, read,
                          {"damp_percent",
                           "damp_auto_increment",
                           "static_groups",
                           "model_seqlen",
                           "true_sequential",
                           "model_name_or_path",
                           "model_file_base_name",
                           "meta",
                           "tokenizer",
                           "dataset",
                           "block_name_to_quantize",
                           "modules_in_block_to_quantize",
                           "module_name_preceding_first_block",
                           "batch_size",
                           "pad_token_id",
                           "disable_exllama",
                           "use_exllama",
                           "exllama_config",
                           "max_input_length",
                           "use_cuda_fp16",
                           "cache_block_outputs",
                           "backend",
                           "mse",
                           "act_group_aware",
                           "hyb_act",
                           "fail_safe",
                           "failsafe",
                           "offload_to_disk",
                           "offload_to_disk_path",
                           "parallel_packing",
                           "mock_quantization",
                           "autoround",
                           "data_type",
                           "iters",
                           "nsamples",
                           "seqlen",
                           "low_gpu_mem_usage",
                           "enable_quanted_input",
                           "enable_minmax_tuning",
                           "lr",
                           "minmax_lr",
                           "nblocks",
                           "quantizer",
                           "vram_strategy",
                           "gptaq",
                           "gptaq_alpha",
                           "process"});
}

Status ReadGptqOverrides(const Json& json, const ConfigFields& fields, CodeScheme& scheme) {
  RETURN_IF_ERROR(CheckGptqFields(json, fields, {"bits", "group_size", "sym", "desc_act"}));
  if (fields.Find("bits") != nullptr) {
    ASSIGN_OR_RETURN(scheme.bits, ReadBits(fields, "bits", {4, 8}));
  }
  if (fields.Find("group_size") != nullptr) {
    ASSIGN_OR_RETURN(scheme.group_size, ReadGroupSize(fields, "group_size"));
  }
  ASSIGN_OR_RETURN(scheme.symmetric, fields.Bool("sym", scheme.symmetric));
  ASSIGN_OR_RETURN(scheme.has_groups, fields.Bool("desc_act", scheme.has_groups));
  return OkStatus();
}

// "dynamic": {"-:REGEX": {}, "+:REGEX" or "REGEX": {overrides}}.
Status ReadDynamic(const ConfigFields& fields, const CodeScheme& common,
                   QuantisationConfig& config) {
  const Json* const dynamic = fields.Find("dynamic");
  if (dynamic == nullptr || IsNeutral(*dynamic)) return OkStatus();
  if (!dynamic->is_object()) return fields.Wrong("dynamic", *dynamic, "an object of regexes");
  for (const auto& [pattern, overrides] : dynamic->items()) {
    if (pattern.starts_with(kExcluded)) {
      config.rules.push_back(
          {ModuleRule::Match::kRegex, pattern.substr(kExcluded.size()), std::nullopt});
      continue;
    }
    if (!overrides.is_object()) return fields.Wrong("dynamic", *dynamic, "objects of overrides");
    const std::string regex =
        pattern.starts_with(kIncluded) ? pattern.substr(kIncluded.size()) : pattern;
    CodeScheme scheme = common;
    RETURN_IF_ERROR(ReadGptqOverrides(
        overrides, ConfigFields(overrides, "quantization_config.dynamic." + pattern + "."),
        scheme));
    config.rules.push_back({ModuleRule::Match::kRegex, regex, scheme});
  }
  return OkStatus();
}

// The layout of the files, for which there are two names.
Status ReadGptqLayout(const ConfigFields& fields, QuantisationConfig& config) {
  ASSIGN_OR_RETURN(const std::string format, fields.String("format", ""));
  ASSIGN_OR_RETURN(const std::string layout,
                   fields.String("checkpoint_format", format.empty() ? "gptq" : format));
  if (layout != "gptq" && layout != "gptq_v2") {
    return fields.Unsupported("checkpoint_format", Json(layout), "gptq, gptq_v2");
  }
  if (!format.empty() && format != layout) {
    return fields.Unsupported("format", Json(format), "the same as checkpoint_format");
  }
  config.zeros_less_one = layout == "gptq";
  ASSIGN_OR_RETURN(const std::string pack, fields.String("pack_dtype", "int32"));
  if (pack != "int32" && pack != "torch.int32") {
    return fields.Unsupported("pack_dtype", Json(pack), "int32");
  }
  return OkStatus();
}

Status ReadGptqConfig(const Json& json, const ConfigFields& fields, QuantisationConfig& config) {
  RETURN_IF_ERROR(
      CheckGptqFields(json, fields,
                      {"quant_method", "method", "bits", "group_size", "sym", "desc_act",
                       "checkpoint_format", "format", "dynamic", "lm_head", "pack_dtype"}));
  CodeScheme scheme;
  ASSIGN_OR_RETURN(scheme.bits, ReadBits(fields, "bits", {4, 8}));
  ASSIGN_OR_RETURN(scheme.group_size, ReadGroupSize(fields, "group_size"));
  ASSIGN_OR_RETURN(scheme.symmetric, fields.Bool("sym", true));
  ASSIGN_OR_RETURN(scheme.has_groups, fields.Bool("desc_act", false));
  RETURN_IF_ERROR(ReadGptqLayout(fields, config));
  RETURN_IF_ERROR(ReadDynamic(fields, scheme, config));
  ASSIGN_OR_RETURN(const bool head, fields.Bool("lm_head", false));
  if (!head) config.rules.push_back({ModuleRule::Match::kName, "lm_head", std::nullopt});
  config.rules.push_back({ModuleRule::Match::kEvery, "", scheme});
  config.text = "GPTQ of " + std::to_string(scheme.bits) + " bits";
  return OkStatus();
}

class GptqMatrix : public PackedMatrix {
 public:
  struct Parts {
    RawTensor codes;         // [k / codes a word, n]
    ScaleTensor scales;      // [groups, n]
    RawTensor zeros;         // [groups, n / codes a word]
    uint32_t zeros_add = 0;  // to each word
  };
  GptqMatrix(PackedForm form, Parts parts)
      : PackedMatrix(std::move(form)), parts_(std::move(parts)) {}

  void Codes(const IndexRange& rows, const IndexRange& inputs, uint8_t* out) const override {
    const int32_t bits = form().bits;
    const int64_t per_word = CodesPerWord(bits);
    const uint32_t mask = CodeMask(bits);
    for (int64_t input = 0; input < inputs.size(); input += per_word) {
      const int64_t first = (inputs.begin + input) / per_word * form().n;
      const int64_t num = std::min(per_word, inputs.size() - input);
      uint8_t* to = out + input;
      for (int64_t row = rows.begin; row < rows.end; ++row, to += inputs.size()) {
        auto word = parts_.codes.At<uint32_t>(first + row);
        for (int64_t i = 0; i < num; ++i, word >>= bits) {
          to[i] = static_cast<uint8_t>(word & mask);
        }
      }
    }
  }
  void Scales(const IndexRange& rows, float* out) const override {
    const int64_t groups = form().groups;
    for (int64_t group = 0; group < groups; ++group) {
      for (int64_t row = 0; row < rows.size(); ++row) {
        out[row * groups + group] = parts_.scales.At(group * form().n + rows.begin + row);
      }
    }
  }
  void Zeros(const IndexRange& rows, uint8_t* out) const override {
    for (int64_t row = rows.begin; row < rows.end; ++row) {
      for (int64_t group = 0; group < form().groups; ++group) *out++ = ZeroAt(row, group);
    }
  }

  uint8_t ZeroAt(int64_t row, int64_t group) const {
    const int32_t bits = form().bits;
    const int64_t per_word = CodesPerWord(bits);
    const uint32_t word =
        parts_.zeros.At<uint32_t>(group * (form().n / per_word) + row / per_word) +
        parts_.zeros_add;
    return static_cast<uint8_t>((word >> (row % per_word * bits)) & CodeMask(bits));
  }

 private:
  const Parts parts_;
};

// A symmetric weight's zero points are the middle: kernels of other servers do not even read them.
Status CheckMiddle(const ModuleTensors& tensors, const GptqMatrix& matrix) {
  const PackedForm& form = matrix.form();
  const int32_t middle = 1 << (form.bits - 1);
  for (int64_t row = 0; row < form.n; ++row) {
    for (int64_t group = 0; group < form.groups; ++group) {
      const int32_t zero = matrix.ZeroAt(row, group);
      if (zero == middle) continue;
      return DataLossError("tensor " + tensors.NameOf(".qzeros") + " has zero point " +
                           std::to_string(zero) + " for output " + std::to_string(row) +
                           ", but quantization_config.sym asks for " + std::to_string(middle) +
                           "; is its checkpoint_format right?");
    }
  }
  return OkStatus();
}

Result<std::unique_ptr<PackedMatrix>> ReadGptq(const ModuleTensors& tensors,
                                               const QuantisationConfig& config,
                                               const CodeScheme& scheme, int64_t n, int64_t k) {
  PackedForm form{.n = n, .k = k, .bits = scheme.bits};
  ASSIGN_OR_RETURN(form.groups, GroupsOf(tensors, scheme, k));
  const int64_t per_word = CodesPerWord(scheme.bits);
  RETURN_IF_ERROR(CheckDivides(tensors, "inputs", k, per_word));
  RETURN_IF_ERROR(CheckDivides(tensors, "outputs", n, per_word));
  GptqMatrix::Parts parts;
  ASSIGN_OR_RETURN(parts.codes, tensors.Get(".qweight", {"I32"}, {k / per_word, n}));
  ASSIGN_OR_RETURN(parts.scales, tensors.Scales(".scales", {form.groups, n}));
  ASSIGN_OR_RETURN(parts.zeros, tensors.Get(".qzeros", {"I32"}, {form.groups, n / per_word}));
  if (config.zeros_less_one) parts.zeros_add = scheme.bits == 4 ? 0x11111111u : 0x01010101u;
  form.dtype = parts.scales.dtype;
  // The library reads it whatever desc_act says, and some writers leave it out without desc_act.
  if (scheme.has_groups || tensors.Has(".g_idx")) {
    ASSIGN_OR_RETURN(form.group_of, tensors.Groups(".g_idx", k, form.groups));
  }
  auto matrix = std::make_unique<GptqMatrix>(std::move(form), std::move(parts));
  if (scheme.symmetric) RETURN_IF_ERROR(CheckMiddle(tensors, *matrix));
  return std::unique_ptr<PackedMatrix>(std::move(matrix));
}

}  // namespace

constinit const QuantisedFormat kGptqFormat = {
    .name = "gptq",
    .takes = "4 and 8 bits",
    .mark = ".qweight",
    .read_config = ReadGptqConfig,
    .read = ReadGptq,
};

}  // namespace graft
