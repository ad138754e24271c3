#include "learn/device_lora.h"

#include "layers/projection.h"
#include "learn/training_device.h"

namespace graft {

DeviceLora::DeviceLora(TrainedLora& lora, Stream& stream) : lora_(lora), masters_(lora, stream) {
  const int32_t rank = lora.rank();
  const float scale = lora.scale();
  const void* const* rows = masters_.row_pointers();
  for (int64_t i = 0; i < lora.shape().num_layer_matrices(); ++i, rows += 2 * rank) {
    matrices_.push_back({.a_rows = rows, .b_rows = rows + rank, .rank = rank, .scale = scale});
    swapped_.push_back({.a_rows = rows + rank, .b_rows = rows, .rank = rank, .scale = scale});
  }
  stacked_.resize(matrices_.size());
  if (!stream.device.is_cpu()) Stack(stream);
}

void DeviceLora::Stack(const Stream& stream) {
  const ModelShape& shape = lora_.shape();
  const auto rank = static_cast<size_t>(lora_.rank());
  std::vector<const void*> pointers;
  for (size_t i = 0; i < matrices_.size(); ++i) {
    for (const RoundedRow& row : lora_.rows().subspan(2 * i * rank, rank)) {  // A's
      pointers.push_back(masters_.copy() +
                         (static_cast<const char*>(row.out) - lora_.copy().as<char>()));
    }
  }
  stacked_rows_ = OnDevice(pointers, stream);
  for (int32_t layer = 0; layer < shape.num_layers; ++layer) {
    for (int product = 0; product < kLayerProducts; ++product) {
      const ProductTargets targets = TargetsOf(shape, static_cast<LayerProduct>(product));
      const int64_t matrix = shape.lora_matrix(layer, targets.first);
      stacked_[static_cast<size_t>(matrix)] = {
          .b_rows = stacked_rows_.as<const void*>() + matrix * lora_.rank(),
          .rank = targets.count * lora_.rank(),
          .scale = lora_.scale()};
    }
  }
}

int64_t DeviceLora::BytesFor(const ModelConfig& config, int32_t rank, DType dtype) {
  const int64_t stacked = ShapeAsStored(config).num_layer_matrices() * rank;
  return TrainedLora::SizeOf(config, rank, dtype).bytes() + stacked * int64_t{sizeof(void*)};
}

int64_t DeviceAdapterBytes(const ModelConfig& config, int32_t rank, DType dtype) {
  return DeviceLora::BytesFor(config, rank, dtype);
}

}  // namespace graft
