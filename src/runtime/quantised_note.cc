#include "runtime/quantised_note.h"

#include <algorithm>

#include "base/strings.h"
#include "model/safetensors.h"
#include "model/weights.h"

namespace graft {

Result<std::string> QuantisedNote(const std::string& folder, const ServedShape& shape) {
  if (!shape.config.quantisation.has_value()) return std::string();
  ASSIGN_OR_RETURN(const SafetensorsSet files, SafetensorsSet::Open(folder));
  int64_t bytes = 0;
  for (const SafetensorsFile& file : files.files()) bytes += file.file_bytes();
  const int64_t in_memory = WeightsBytes(shape.config, shape.types, shape.device, shape.num_ranks);
  const QuantisationConfig& quantisation = *shape.config.quantisation;
  std::string note =
      "the base is " + quantisation.text + ", " + BytesText(bytes) + " in its files; its weights " +
      (shape.types.keeps_codes ? "stay codes where kernels take them, and else become "
                               : "become ") +
      std::string(DTypeName(shape.types.operands)) + " while they are read, " +
      BytesText(in_memory) + " in memory" + (shape.num_ranks > 1 ? " of each rank" : "");
  if (!quantisation.read_over.empty()) {
    note += "; not applied: quantization_config." + Joined(quantisation.read_over, ", ");
  }
  return note;
}

std::string QuantisedWord(const ModelConfig& config) {
  if (!config.quantisation.has_value()) return "";
  std::string word = config.quantisation->text;
  std::ranges::replace(word, ' ', '-');
  return word;
}

}  // namespace graft
