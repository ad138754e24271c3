#include "runtime/weights_kept.h"

#include <string>

namespace graft {
namespace {

WeightFormat FormatOf(WeightsKept kept, DType operands) {
  switch (kept) {
    case WeightsKept::kAuto:
    case WeightsKept::kPlain:
      return operands;
    case WeightsKept::kInt8:
      return WeightFormat::Integers(operands, 8, kIntegersOfScale, false, DType::kBF16);
    case WeightsKept::kInt4:
      return WeightFormat::Integers(operands, 4, kIntegersOfScale, false, DType::kBF16);
    case WeightsKept::kNf4:
      return WeightFormat::Normal4(operands);
  }
  __builtin_unreachable();
}

}  // namespace

Result<ServedTypes> ChooseServedTypes(const RuntimeOptions& options, const ModelConfig& config,
                                      DType dtype, const Device& device) {
  ServedTypes types = TypesOf(dtype, device);
  types.weights = FormatOf(options.weights, dtype);
  const bool is_quantised = config.quantisation.has_value();
  if (!types.weights.is_plain()) {
    const std::string asked =
        std::string("--weights ") + WordOf(options.weights, kWeightsKeptWords);
    if (is_quantised) {
      return InvalidArgumentError(asked + ": the model is " + config.quantisation->text +
                                  " already; leave it out, or take the model in 16 bits");
    }
    if (!device.is_cpu() && dtype != DType::kBF16) {
      return InvalidArgumentError(asked + ": a GPU multiplies codes in bf16; add --dtype bf16");
    }
  }
  // --dtype fp32 asks for the numbers that the library has. A GPU multiplies codes in bf16 alone.
  const bool can_keep = device.is_cpu() ? options.dtype != DType::kF32 : dtype == DType::kBF16;
  types.keeps_codes = is_quantised && can_keep && options.weights == WeightsKept::kAuto;
  return types;
}

std::string WeightFormatText(const WeightFormat& format) {
  if (format.is_plain()) return std::string(DTypeName(format.operands));
  const std::string kind =
      format.codes == WeightCodes::kNormal4 ? "NF4" : "int" + std::to_string(format.bits);
  return kind + " in groups of " + std::to_string(format.scale_numbers);
}

std::string ServedWeightsText(const ModelConfig& config, const ServedTypes& types) {
  return types.keeps_codes ? config.quantisation->text : WeightFormatText(types.weights);
}

}  // namespace graft
