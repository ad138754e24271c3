#include "learn/device_lora.h"

#include <iterator>

#include "adapters/lora_weights.h"
#include "learn/training_device.h"

namespace graft {
namespace {

int64_t NumParameters(const ModelConfig& config, int32_t rank) {
  int64_t columns = 0;
  for (const LoraModule module : kAllLoraModules) {
    const LoraModuleShape shape = ShapeOfLoraModule(config, module);
    columns += shape.in + shape.out;
  }
  return columns * config.num_layers * rank;
}

int64_t CopyBytes(const ModelConfig& config, int32_t rank, DType dtype) {
  int64_t bytes = 0;
  for (const LoraModule module : kAllLoraModules) {
    const LoraModuleShape shape = ShapeOfLoraModule(config, module);
    bytes += LoraRowBytes(shape.in, dtype) + LoraRowBytes(shape.out, dtype);
  }
  return bytes * config.num_layers * rank;
}

// Modules that share their input with others.
constexpr LoraModule kStackedModules[] = {LoraModule::kQ, LoraModule::kK, LoraModule::kV,
                                          LoraModule::kGate, LoraModule::kUp};

int64_t NumRows(const ModelConfig& config, int32_t rank) {
  return int64_t{2} * kLoraModules * config.num_layers * rank;
}

}  // namespace

DeviceLora::DeviceLora(const ModelConfig& config, TrainedLora& lora, DType dtype, Stream& stream)
    : rank_(lora.rank()), scale_(lora.scale()), masters_(HostMastersOf(lora), dtype, stream) {
  if (!stream.device.is_cpu()) {
    PlaceOnGpu(config, lora, dtype, stream);
    return;
  }
  matrices_.assign(lora.matrices().begin(), lora.matrices().end());
  swapped_.assign(lora.swapped().begin(), lora.swapped().end());
  stacked_.resize(matrices_.size());
}

void DeviceLora::PlaceOnGpu(const ModelConfig& config, const TrainedLora& lora, DType dtype,
                            const Stream& stream) {
  copy_ = Buffer(CopyBytes(config, rank_, dtype), stream.device);
  std::vector<const void*> rows;
  std::vector<RoundedRow> rounded;
  char* out = copy_.as<char>();
  for (int32_t layer = 0; layer < config.num_layers; ++layer) {
    for (const LoraModule module : kAllLoraModules) {
      for (const LoraSide side : {LoraSide::kA, LoraSide::kB}) {
        const TrainedLora::Place place = lora.place(layer, module, side);
        for (int32_t j = 0; j < rank_; ++j, out += LoraRowBytes(place.n, dtype)) {
          rows.push_back(out);
          rounded.push_back({place.begin + j * place.n, place.n, out});
        }
      }
    }
  }
  std::vector<const void*> stacked;
  for (int32_t layer = 0; layer < config.num_layers; ++layer) {
    for (const LoraModule module : kStackedModules) {
      const size_t first =
          2 * static_cast<size_t>(rank_) *
          (static_cast<size_t>(layer) * kLoraModules + static_cast<size_t>(module));
      stacked.insert(stacked.end(), &rows[first], &rows[first] + rank_);
    }
  }
  stacked_rows_ = OnDevice(stacked, stream);
  rows_ = OnDevice(rows, stream);
  masters_.SetRows(rounded);
  const auto* const* table = rows_.as<const void*>();
  for (int32_t i = 0; i < config.num_layers * kLoraModules; ++i, table += 2 * rank_) {
    matrices_.push_back({.a_rows = table, .b_rows = table + rank_, .rank = rank_, .scale = scale_});
    swapped_.push_back({.a_rows = table + rank_, .b_rows = table, .rank = rank_, .scale = scale_});
  }
  stacked_.resize(matrices_.size());
  for (int32_t layer = 0; layer < config.num_layers; ++layer) {
    const auto* const* pointers =
        stacked_rows_.as<const void*>() + int64_t{layer} * std::ssize(kStackedModules) * rank_;
    LoraMatrix* const matrices = &stacked_[static_cast<size_t>(layer) * kLoraModules];
    matrices[static_cast<size_t>(LoraModule::kQ)] = {
        .b_rows = pointers, .rank = 3 * rank_, .scale = scale_};
    matrices[static_cast<size_t>(LoraModule::kGate)] = {
        .b_rows = pointers + 3 * rank_, .rank = 2 * rank_, .scale = scale_};
  }
}

int64_t DeviceLora::BytesFor(const ModelConfig& config, int32_t rank, DType dtype) {
  return DeviceMasters::BytesFor(NumParameters(config, rank), NumRows(config, rank)) +
         CopyBytes(config, rank, dtype) + NumRows(config, rank) * int64_t{sizeof(void*)} +
         std::ssize(kStackedModules) * rank * config.num_layers * int64_t{sizeof(void*)};
}

int64_t DeviceAdapterBytes(const ModelConfig& config, int32_t rank, DType dtype) {
  return DeviceLora::BytesFor(config, rank, dtype);
}

}  // namespace graft
