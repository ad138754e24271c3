#include "runtime/weights_kept.h"

#include <cstdlib>
#include <string>
#include <string_view>

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

// Codes on a GPU.
Status CheckGpuCodes(const std::string& asked, DType dtype) {
  if (!TriesGpuCodes()) {
    return UnimplementedError(asked + ": a GPU computes with numbers so far; leave it out, or " +
                              "add --device cpu");
  }
  if (dtype == DType::kBF16) return OkStatus();
  return InvalidArgumentError(asked + ": a GPU multiplies codes in bf16; add --dtype bf16");
}

}  // namespace

bool TriesGpuCodes() {
  const char* const word = std::getenv("GRAFT_GPU_CODES");
  return word != nullptr && std::string_view(word) == "1";
}

Result<ServedTypes> ChooseServedTypes(const RuntimeOptions& options, const ModelConfig& config,
                                      DType dtype, const Device& device) {
  ServedTypes types = TypesOf(dtype, device);
  types.weights = FormatOf(options.weights, dtype);
  const bool is_quantised = config.quantisation.has_value();
  if (!types.weights.is_plain()) {
    const std::string asked =
        std::string("--weights ") + WordOf(options.weights, kWeightsKeptWords);
    if (!device.is_cpu()) RETURN_IF_ERROR(CheckGpuCodes(asked, dtype));
    if (is_quantised) {
      return InvalidArgumentError(asked + ": the model is " + config.quantisation->text +
                                  " already; leave it out, or take the model in 16 bits");
    }
  }
  // --dtype fp32 asks for the numbers that the library has.
  const bool can_keep =
      device.is_cpu() ? options.dtype != DType::kF32 : TriesGpuCodes() && dtype == DType::kBF16;
  types.keeps_codes = is_quantised && can_keep && options.weights == WeightsKept::kAuto;
  return types;
}

std::string WeightFormatText(const WeightFormat& format) {
  if (format.is_plain()) return std::string(DTypeName(format.operands));
  const std::string kind =
      format.codes == WeightCodes::kNormal4 ? "NF4" : "int" + std::to_string(format.bits);
  return kind + " in groups of " + std::to_string(format.scale_numbers);
}

}  // namespace graft
