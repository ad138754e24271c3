#include "executor/arithmetic_id.h"

#include "kernels/common/cpu_isa.h"

namespace graft {
namespace {

// Raised when any kernel rounds, or adds up, otherwise than before.
constexpr int kKernelsVersion = 3;

std::string ProcessorOf(const Device& device) {
  if (!device.is_cpu()) return GpuArithmetic(TraitsOf(device));
  const std::string isa = CpuIsaName(ActiveCpuIsa());
  const bool has_bf16 = ActiveCpuIsa() == CpuIsa::kAvx512 && CpuHasAvx512Bf16();
  return "cpu-" + isa + (has_bf16 ? "bf16" : "");
}

std::string NameOfTypes(const ServedTypes& types) {
  std::string name(DTypeName(types.operands));
  if (!types.weights.is_plain()) {
    name += types.weights.codes == WeightCodes::kNormal4
                ? " weights-nf4"
                : " weights-int" + std::to_string(types.weights.bits);
    name += "-of-" + std::to_string(types.weights.scale_numbers);
  } else if (types.weights != types.operands) {
    name += " weights-" + std::string(DTypeName(types.weights.operands));
  }
  if (types.keeps_codes) name += " codes";
  if (types.embeddings != types.operands) {
    name += " embeddings-" + std::string(DTypeName(types.embeddings));
  }
  if (types.adapters != types.operands) {
    name += " adapters-" + std::string(DTypeName(types.adapters));
  }
  return name + " kv-" + std::string(DTypeName(types.kv));
}

}  // namespace

std::string GpuArithmetic(const DeviceTraits& traits) {
  if (traits.has_hopper_code) return "hopper";
  std::string name = "sm" + std::to_string(traits.own_compute());
  if (traits.is_forced()) name += "-as-" + std::string(traits.stands_in_for);
  return name;
}

std::string MakeArithmeticId(const Device& device, const ArithmeticParts& parts) {
  std::string id = "k" + std::to_string(kKernelsVersion) + " " + ProcessorOf(device);
  id += " " + NameOfTypes(parts.types);
  if (!parts.base_codes.empty()) id += " base-" + parts.base_codes;
  id += " page" + std::to_string(parts.page_tokens) + " ranks" + std::to_string(parts.ranks);
  return id;
}

}  // namespace graft
