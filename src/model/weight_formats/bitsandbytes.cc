// bitsandbytes' NF4, as transformers saves it: MODULE.weight is codes of 4 bits, row after row, the
// first in the high half of a byte. Each run of `blocksize` codes has an absmax; with double
// quantisation absmax is a code of 8 bits itself, with scales and an offset of its own. What the
// numbers are is in a JSON text beside them. Source: bitsandbytes/functional.py, QuantState.
#include <algorithm>
#include <cmath>
#include <iterator>

#include "base/json.h"
#include "base/strings.h"
#include "kernels/gemm/weight_format.h"
#include "model/quantised_format.h"
#include "model/tensor_rows.h"

namespace graft {
namespace {

constexpr std::string_view kState = ".weight.quant_state.bitsandbytes__nf4";
constexpr int64_t kStateBytesMax = 4096;
constexpr int64_t kNestedCodes = 256;

constexpr float kCodeBookTolerance = 1e-6f;

Status ReadBitsandbytesConfig(const Json& json, const ConfigFields& fields,
                              QuantisationConfig& config) {
  // How it computes, on which device it keeps modules, and what its 8-bit form asks for: no weight
  // depends on them. Whether absmax is quantised each tensor says itself.
  RETURN_IF_ERROR(CheckFieldsKnown(
      json, fields,
      {"quant_method", "load_in_4bit", "_load_in_4bit", "load_in_8bit", "_load_in_8bit",
       "bnb_4bit_quant_type", "llm_int8_skip_modules"},
      {"bnb_4bit_compute_dtype", "bnb_4bit_quant_storage", "bnb_4bit_use_double_quant",
       "llm_int8_enable_fp32_cpu_offload", "llm_int8_has_fp16_weight", "llm_int8_threshold"}));
  for (const char* name : {"load_in_8bit", "_load_in_8bit"}) {
    ASSIGN_OR_RETURN(const bool in_8bit, fields.Bool(name, false));
    if (in_8bit) return fields.Unsupported(name, Json(true), "false: 4 bits as NF4");
  }
  ASSIGN_OR_RETURN(const bool in_4bit, fields.Bool("load_in_4bit", false));
  if (!in_4bit) return fields.Unsupported("load_in_4bit", Json(false), "true");
  // What transformers takes for a field that is absent.
  ASSIGN_OR_RETURN(const std::string type, fields.String("bnb_4bit_quant_type", "fp4"));
  if (type != "nf4") return fields.Unsupported("bnb_4bit_quant_type", Json(type), "nf4");
  ASSIGN_OR_RETURN(const std::vector<std::string> skipped,
                   ReadStrings(fields, "llm_int8_skip_modules"));
  for (const std::string& path : skipped) {
    config.rules.push_back({ModuleRule::Match::kPathPart, path, std::nullopt});
  }
  config.rules.push_back({ModuleRule::Match::kEvery, "", CodeScheme{}});
  config.text = "NF4 of bitsandbytes";
  return OkStatus();
}

// The JSON text beside a weight.
struct Nf4State {
  int64_t block = 0;
  DType dtype = DType::kBF16;
  std::vector<int64_t> shape;
  int64_t nested_block = 0;
  float nested_offset = 0.0f;
};

Status FillNf4State(const Json& json, const ConfigFields& fields, bool is_nested, Nf4State& state) {
  RETURN_IF_ERROR(CheckFieldsKnown(json, fields,
                                   {"quant_type", "blocksize", "dtype", "shape", "nested_blocksize",
                                    "nested_dtype", "nested_offset"},
                                   {}));
  ASSIGN_OR_RETURN(const std::string type, fields.String("quant_type", ""));
  if (type != "nf4") return fields.Unsupported("quant_type", Json(type), "nf4");
  constexpr int64_t kBlockMax = 1 << 16;
  ASSIGN_OR_RETURN(state.block, fields.Int("blocksize", 1, kBlockMax));
  ASSIGN_OR_RETURN(const std::string dtype, fields.String("dtype", ""));
  if (dtype == "bfloat16") {
    state.dtype = DType::kBF16;
  } else if (dtype == "float16") {
    state.dtype = DType::kF16;
  } else if (dtype == "float32") {
    state.dtype = DType::kF32;
  } else {
    return fields.Unsupported("dtype", Json(dtype), "bfloat16, float16, float32");
  }
  constexpr double kDimMax = 1 << 24;
  ASSIGN_OR_RETURN(const std::vector<double> shape, fields.Numbers("shape", 1, kDimMax, 2));
  for (const double dim : shape) state.shape.push_back(static_cast<int64_t>(dim));
  if (!is_nested) return OkStatus();
  ASSIGN_OR_RETURN(state.nested_block, fields.Int("nested_blocksize", 1, kBlockMax));
  ASSIGN_OR_RETURN(const std::string nested, fields.String("nested_dtype", "float32"));
  if (nested != "float32") return fields.Unsupported("nested_dtype", Json(nested), "float32");
  ASSIGN_OR_RETURN(const double offset, fields.Number("nested_offset", -1e30, 1e30));
  state.nested_offset = static_cast<float>(offset);
  return OkStatus();
}

Result<Nf4State> ReadNf4State(const ModuleTensors& tensors, bool is_nested) {
  ASSIGN_OR_RETURN(const RawTensor raw, tensors.Get(kState));
  if (raw.dtype != "U8" || raw.num_elements() > kStateBytesMax) {
    return InvalidArgumentError("tensor " + raw.name + " is no text of at most " +
                                std::to_string(kStateBytesMax) + " bytes");
  }
  const Result<Json> json = ParseJson(std::string_view(raw.bytes.data(), raw.bytes.size()));
  if (!json.ok()) return json.status().WithContext("tensor " + raw.name);
  if (!json->is_object()) return InvalidArgumentError("tensor " + raw.name + " is no JSON object");
  Nf4State state;
  const Status status = FillNf4State(*json, ConfigFields(*json, raw.name + ": "), is_nested, state);
  if (!status.ok()) return status;
  return state;
}

class Nf4Matrix : public PackedMatrix {
 public:
  Nf4Matrix(PackedForm form, RawTensor codes, std::vector<float> scales)
      : PackedMatrix(std::move(form)), codes_(std::move(codes)), scales_(std::move(scales)) {}

  void Codes(const IndexRange& rows, const IndexRange& inputs, uint8_t* out) const override {
    const auto* const bytes = reinterpret_cast<const uint8_t*>(codes_.bytes.data());
    for (int64_t row = rows.begin; row < rows.end; ++row) {
      const int64_t first = row * form().k + inputs.begin;
      for (int64_t i = first; i < first + inputs.size(); ++i) {
        *out++ = i % 2 == 0 ? bytes[i / 2] >> 4 : bytes[i / 2] & 15;
      }
    }
  }
  void Scales(const IndexRange& rows, float* out) const override {
    const auto begin = scales_.begin() + rows.begin * form().groups;
    std::copy(begin, begin + rows.size() * form().groups, out);
  }
  void Zeros(const IndexRange&, uint8_t*) const override {}

 private:
  const RawTensor codes_;
  const std::vector<float> scales_;  // [n, groups]
};

Result<std::vector<float>> ReadFloats(const ModuleTensors& tensors, std::string_view end,
                                      int64_t n) {
  ASSIGN_OR_RETURN(const ScaleTensor floats, tensors.Scales(end, {n}));
  std::vector<float> values(static_cast<size_t>(n));
  for (int64_t i = 0; i < n; ++i) values[static_cast<size_t>(i)] = floats.At(i);
  return values;
}

// The scales of all blocks: absmax = nested_quant_map[code] * nested_absmax + nested_offset, each
// step rounded to fp32.
Result<std::vector<float>> ReadAbsmax(const ModuleTensors& tensors, const Nf4State& state,
                                      bool is_nested, int64_t blocks) {
  if (!is_nested) return ReadFloats(tensors, ".weight.absmax", blocks);
  ASSIGN_OR_RETURN(const RawTensor codes, tensors.Get(".weight.absmax", {"U8"}, {blocks}));
  const int64_t nested_blocks = (blocks + state.nested_block - 1) / state.nested_block;
  ASSIGN_OR_RETURN(const std::vector<float> nested,
                   ReadFloats(tensors, ".weight.nested_absmax", nested_blocks));
  ASSIGN_OR_RETURN(const std::vector<float> map,
                   ReadFloats(tensors, ".weight.nested_quant_map", kNestedCodes));
  std::vector<float> absmax(static_cast<size_t>(blocks));
  for (int64_t i = 0; i < blocks; ++i) {
    const float product =
        map[codes.At<uint8_t>(i)] * nested[static_cast<size_t>(i / state.nested_block)];
    absmax[static_cast<size_t>(i)] = product + state.nested_offset;
    if (std::isfinite(absmax[static_cast<size_t>(i)])) continue;
    return DataLossError("tensor " + codes.name + " stands for a scale of NaN or Inf at " +
                         std::to_string(i) + "; the file is damaged");
  }
  return absmax;
}

Result<std::vector<float>> ReadCodeBook(const ModuleTensors& tensors) {
  ASSIGN_OR_RETURN(std::vector<float> book,
                   ReadFloats(tensors, ".weight.quant_map", std::size(kNormal4Numbers)));
  for (size_t i = 0; i < std::size(kNormal4Numbers); ++i) {
    if (std::fabs(book[i] - kNormal4Numbers[i]) <= kCodeBookTolerance) continue;
    return UnimplementedError("tensor " + tensors.NameOf(".weight.quant_map") +
                              " is not the code book of NF4: entry " + std::to_string(i) + " is " +
                              std::to_string(book[i]));
  }
  return book;
}

Result<std::unique_ptr<PackedMatrix>> ReadNf4(const ModuleTensors& tensors,
                                              const QuantisationConfig& /*config*/,
                                              const CodeScheme& /*scheme*/, int64_t n, int64_t k) {
  const bool is_nested = tensors.Has(".weight.nested_absmax");
  if (!tensors.Has(kState) && tensors.Has(".weight.quant_state.bitsandbytes__fp4")) {
    return UnimplementedError("tensor " + tensors.NameOf(".weight") +
                              " is FP4 of bitsandbytes, which is not supported; supported: NF4");
  }
  ASSIGN_OR_RETURN(const Nf4State state, ReadNf4State(tensors, is_nested));
  if (state.shape != std::vector<int64_t>{n, k}) {
    return InvalidArgumentError("tensor " + tensors.NameOf(kState) + " says shape " +
                                SizesText(state.shape) + ", config.json asks for " +
                                SizesText({n, k}));
  }
  RETURN_IF_ERROR(CheckDivides(tensors, "inputs", k, state.block));
  const int64_t blocks = n * (k / state.block);
  PackedForm form{.n = n, .k = k, .bits = 4, .groups = k / state.block, .dtype = state.dtype};
  ASSIGN_OR_RETURN(form.code_book, ReadCodeBook(tensors));
  // bnb_4bit_quant_storage gives the bytes another dtype, and leaves them as they are.
  ASSIGN_OR_RETURN(RawTensor codes, tensors.Get(".weight"));
  if (static_cast<int64_t>(codes.bytes.size()) != (n * k + 1) / 2) {
    return InvalidArgumentError("tensor " + codes.name + " has " +
                                std::to_string(codes.bytes.size()) + " bytes, NF4 of " +
                                SizesText({n, k}) + " has " + std::to_string((n * k + 1) / 2));
  }
  ASSIGN_OR_RETURN(std::vector<float> scales, ReadAbsmax(tensors, state, is_nested, blocks));
  return std::unique_ptr<PackedMatrix>(
      std::make_unique<Nf4Matrix>(std::move(form), std::move(codes), std::move(scales)));
}

}  // namespace

constinit const QuantisedFormat kBitsandbytesFormat = {
    .name = "bitsandbytes",
    .takes = "NF4",
    .mark = ".weight.absmax",
    .read_config = ReadBitsandbytesConfig,
    .read = ReadNf4,
};

}  // namespace graft
