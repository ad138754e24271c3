// AWQ in the layout of gemm, as AutoAWQ writes it: MODULE.qweight [in, out / 8] and qzeros
// [groups, out / 8] pack 8 outputs into a word in the order 0 2 4 6 1 3 5 7; scales are
// [groups, out]. Source: AutoAWQ, awq/utils/packing_utils.py (dequantize_gemm).
#include <algorithm>
#include <array>

#include "base/json.h"
#include "base/strings.h"
#include "model/quantised_format.h"
#include "model/weight_formats/packed_words.h"

namespace graft {
namespace {

constexpr int64_t kOutputsPerWord = 8;
// Where in a word output i of eight is, in codes.
constexpr std::array<int32_t, kOutputsPerWord> kAwqPlaces = {0, 4, 1, 5, 2, 6, 3, 7};

Status ReadAwqConfig(const Json& json, const ConfigFields& fields, QuantisationConfig& config) {
  // Which kernels its program took, and how it quantised.
  RETURN_IF_ERROR(CheckFieldsKnown(
      json, fields,
      {"quant_method", "method", "bits", "group_size", "zero_point", "version", "format",
       "checkpoint_format", "backend", "modules_to_not_convert", "pack_dtype", "lm_head", "sym",
       "desc_act", "dynamic"},
      {"do_fuse", "fuse_max_seq_len", "modules_to_fuse", "exllama_config", "meta", "damp_percent",
       "true_sequential", "static_groups", "calib_data", "max_calib_samples", "duo_scaling",
       "apply_clip", "n_parallel_calib_samples", "max_calib_seq_len"}));
  CodeScheme scheme;
  scheme.symmetric = false;
  ASSIGN_OR_RETURN(scheme.bits, ReadBits(fields, "bits", {4}));
  ASSIGN_OR_RETURN(scheme.group_size, ReadGroupSize(fields, "group_size"));
  ASSIGN_OR_RETURN(const bool zero_point, fields.Bool("zero_point", true));
  if (!zero_point) return fields.Unsupported("zero_point", Json(false), "true");
  for (const char* name : {"version", "format", "checkpoint_format"}) {
    ASSIGN_OR_RETURN(const std::string layout, fields.String(name, "gemm"));
    if (LowerCase(layout) != "gemm") return fields.Unsupported(name, Json(layout), "gemm");
  }
  ASSIGN_OR_RETURN(const std::string backend, fields.String("backend", "autoawq"));
  if (LowerCase(backend) == "llm-awq") {
    return fields.Unsupported("backend", Json(backend), "autoawq");
  }
  for (const char* name : {"desc_act", "dynamic"}) {
    const Json* const value = fields.Find(name);
    if (value == nullptr || IsNeutral(*value)) continue;
    return fields.Unsupported(name, *value, "checkpoints without it");
  }
  ASSIGN_OR_RETURN(const std::vector<std::string> left,
                   ReadStrings(fields, "modules_to_not_convert"));
  for (const std::string& part : left) {
    config.rules.push_back({ModuleRule::Match::kSubstring, part, std::nullopt});
  }
  ASSIGN_OR_RETURN(const bool head, fields.Bool("lm_head", false));
  if (!head) config.rules.push_back({ModuleRule::Match::kName, "lm_head", std::nullopt});
  config.rules.push_back({ModuleRule::Match::kEvery, "", scheme});
  config.text = "AWQ of 4 bits";
  return OkStatus();
}

class AwqMatrix : public PackedMatrix {
 public:
  struct Parts {
    RawTensor codes;     // [k, n / 8]
    ScaleTensor scales;  // [groups, n]
    RawTensor zeros;     // [groups, n / 8]
  };
  AwqMatrix(PackedForm form, Parts parts)
      : PackedMatrix(std::move(form)), parts_(std::move(parts)) {}

  void Codes(const IndexRange& rows, const IndexRange& inputs, uint8_t* out) const override {
    for (int64_t input = 0; input < inputs.size(); ++input) {
      Unpack(parts_.codes, inputs.begin + input, rows, inputs.size(), out + input);
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
    for (int64_t group = 0; group < form().groups; ++group) {
      Unpack(parts_.zeros, group, rows, form().groups, out + group);
    }
  }

 private:
  // The codes of these outputs in line `line` of a tensor of words, `stride` bytes apart.
  void Unpack(const RawTensor& words, int64_t line, const IndexRange& rows, int64_t stride,
              uint8_t* out) const {
    const int64_t first = line * (form().n / kOutputsPerWord);
    for (int64_t row = rows.begin; row < rows.end;) {
      const auto word = words.At<uint32_t>(first + row / kOutputsPerWord);
      const int64_t end = std::min((row / kOutputsPerWord + 1) * kOutputsPerWord, rows.end);
      for (; row < end; ++row, out += stride) {
        const int32_t place = kAwqPlaces[static_cast<size_t>(row % kOutputsPerWord)];
        *out = static_cast<uint8_t>((word >> (4 * place)) & 15u);
      }
    }
  }

  const Parts parts_;
};

Result<std::unique_ptr<PackedMatrix>> ReadAwq(const ModuleTensors& tensors,
                                              const QuantisationConfig& /*config*/,
                                              const CodeScheme& scheme, int64_t n, int64_t k) {
  PackedForm form{.n = n, .k = k, .bits = scheme.bits};
  ASSIGN_OR_RETURN(form.groups, GroupsOf(tensors, scheme, k));
  RETURN_IF_ERROR(CheckDivides(tensors, "outputs", n, kOutputsPerWord));
  const int64_t words = n / kOutputsPerWord;
  AwqMatrix::Parts parts;
  ASSIGN_OR_RETURN(parts.codes, tensors.Get(".qweight", {"I32"}, {k, words}));
  ASSIGN_OR_RETURN(parts.scales, tensors.Scales(".scales", {form.groups, n}));
  ASSIGN_OR_RETURN(parts.zeros, tensors.Get(".qzeros", {"I32"}, {form.groups, words}));
  form.dtype = parts.scales.dtype;
  return std::unique_ptr<PackedMatrix>(
      std::make_unique<AwqMatrix>(std::move(form), std::move(parts)));
}

}  // namespace

constinit const QuantisedFormat kAwqFormat = {
    .name = "awq",
    .takes = "4 bits, version gemm",
    .mark = ".qweight",
    .read_config = ReadAwqConfig,
    .read = ReadAwq,
};

}  // namespace graft
