// QuantisedFormat: what sets one library's quantised checkpoints apart from another's, one file
// each in weight_formats/: the fields of its quantization_config, the tensors that stand for a
// weight, and how codes, scales and zero points are read from them. Constants; any thread.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/json_fwd.h"
#include "base/status.h"
#include "model/config_fields.h"
#include "model/module_tensors.h"
#include "model/packed_matrix.h"
#include "model/quantisation_config.h"

namespace graft {

struct QuantisedFormat {
  std::string_view name;   // quantization_config.quant_method
  std::string_view takes;  // as errors list it
  // The ends of the names of a weight's tensors behind MODULE; the first is there wherever a
  // module has codes.
  std::string_view mark;
  // Reads rules, text and what else the config has. `json` is the object of `fields`.
  Status (*read_config)(const Json& json, const ConfigFields& fields, QuantisationConfig& config);
  // The weight [n, k] of a module with these codes, which borrows the files.
  Result<std::unique_ptr<PackedMatrix>> (*read)(const ModuleTensors& tensors,
                                                const QuantisationConfig& config,
                                                const CodeScheme& scheme, int64_t n, int64_t k);
};

// In the order in which errors name them.
std::span<const QuantisedFormat* const> QuantisedFormats();

// One file each.
extern const QuantisedFormat kBitsandbytesFormat;
extern const QuantisedFormat kCompressedTensorsFormat;
extern const QuantisedFormat kGptqFormat;
extern const QuantisedFormat kAwqFormat;

// What readers of quantization_config share.

// Refuses a field of `json` that is in neither list and has a value that is not neutral. `ignored`
// are fields that change no number of the weights.
Status CheckFieldsKnown(const Json& json, const ConfigFields& fields,
                        std::initializer_list<std::string_view> read,
                        std::initializer_list<std::string_view> ignored);
// The list of strings, empty where it is absent.
Result<std::vector<std::string>> ReadStrings(const ConfigFields& fields, std::string_view name);
// 4 or 8, of those that the format has.
Result<int32_t> ReadBits(const ConfigFields& fields, std::string_view name,
                         std::initializer_list<int32_t> supported);
// -1 or absent: 0, all inputs.
Result<int32_t> ReadGroupSize(const ConfigFields& fields, std::string_view name);

// What readers of tensors share.

// The groups of k inputs. kInvalidArgument names the module where the size does not divide k.
Result<int64_t> GroupsOf(const ModuleTensors& tensors, const CodeScheme& scheme, int64_t k);
// kInvalidArgument where n numbers of `what` do not fill whole words of `step`.
Status CheckDivides(const ModuleTensors& tensors, std::string_view what, int64_t n, int64_t step);

}  // namespace graft
