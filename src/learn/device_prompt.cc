#include "learn/device_prompt.h"

#include <vector>

#include "adapters/lora_weights.h"
#include "learn/training_device.h"
#include "model/kv_pool.h"

namespace graft {

DevicePrompt::DevicePrompt(TrainedPrompt& prompt, Stream& stream)
    : prompt_(prompt),
      is_on_cpu_(stream.device.is_cpu()),
      kind_(prompt.kind()),
      num_tokens_(prompt.num_tokens()),
      columns_(prompt.columns()),
      num_frozen_(prompt.num_frozen()),
      dtype_(prompt.dtype()),
      row_bytes_(LoraRowBytes(prompt.layer_columns(), dtype_)),
      masters_(HostMastersOf(prompt), dtype_, stream) {
  if (!is_on_cpu_) PlaceOnGpu(stream);
}

void DevicePrompt::PlaceOnGpu(const Stream& stream) {
  const int64_t layer_columns = prompt_.layer_columns();
  const int64_t num_layers = columns_ / layer_columns;
  copy_ = Buffer(num_layers * num_tokens_ * row_bytes_, stream.device);
  std::vector<const void*> rows;
  std::vector<RoundedRow> rounded;
  char* out = copy_.as<char>();
  for (int64_t layer = 0; layer < num_layers; ++layer) {
    for (int64_t token = 0; token < num_tokens_; ++token, out += row_bytes_) {
      rows.push_back(out);
      rounded.push_back({token * columns_ + layer * layer_columns, layer_columns, out});
    }
  }
  rows_ = OnDevice(rows, stream);
  masters_.SetRows(rounded);
}

int64_t DevicePromptBytes(const ModelConfig& config, VirtualTokenKind kind, int32_t num_tokens,
                          DType dtype, const Device& device) {
  const bool is_embedding = kind == VirtualTokenKind::kEmbedding;
  const int64_t columns = is_embedding ? config.hidden_size : 2 * config.kv_size();
  const int64_t num_rows = int64_t{num_tokens} * (is_embedding ? 1 : config.num_layers);
  const DType rounded = is_embedding ? dtype : TypesOf(dtype, device).kv;
  return DeviceMasters::BytesFor(num_rows * columns, num_rows) +
         num_rows * (LoraRowBytes(columns, rounded) + int64_t{sizeof(void*)});
}

}  // namespace graft
