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
      return WeightFormat::Integers(operands, 8, kIntegersOfScale);
    case WeightsKept::kInt4:
      return WeightFormat::Integers(operands, 4, kIntegersOfScale);
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
    if (!device.is_cpu()) {
      return UnimplementedError(asked + ": a GPU computes with numbers so far; leave it out, or " +
                                "add --device cpu");
    }
    if (is_quantised) {
      return InvalidArgumentError(asked + ": the model is " + config.quantisation->text +
                                  " already; leave it out, or take the model in 16 bits");
    }
  }
  // --dtype fp32 asks for the numbers that the library has.
  types.keeps_codes = is_quantised && device.is_cpu() && options.weights == WeightsKept::kAuto &&
                      options.dtype != DType::kF32;
  return types;
}

std::string WeightFormatText(const WeightFormat& format) {
  if (format.is_plain()) return std::string(DTypeName(format.operands));
  const std::string kind =
      format.codes == WeightCodes::kNormal4 ? "NF4" : "int" + std::to_string(format.bits);
  return kind + " in groups of " + std::to_string(format.scale_numbers);
}

}  // namespace graft
