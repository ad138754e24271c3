#include "learn/gpu_lora.h"

#include <iterator>

#include "base/check.h"
#include "kernels/round_rows/round_rows.h"
#include "model/lora_weights.h"
#include "tensor/cuda_memory.h"

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

Buffer Floats(int64_t n, const Stream& stream) {
  return Buffer(n * int64_t{sizeof(float)}, stream.device);
}

template <typename T>
Buffer OnDevice(const std::vector<T>& values, const Stream& stream) {
  const auto bytes = static_cast<int64_t>(values.size() * sizeof(T));
  Buffer buffer(bytes, stream.device);
  CopyToDevice(buffer.data(), values.data(), bytes, stream);
  Synchronize(stream);
  return buffer;
}

}  // namespace

GpuLora::GpuLora(const ModelConfig& config, const TrainedLora& lora, DType dtype, Stream& stream)
    : stream_(stream),
      dtype_(dtype),
      rank_(lora.rank()),
      scale_(lora.scale()),
      num_parameters_(NumParameters(config, rank_)),
      num_rows_(NumRows(config, rank_)),
      parameters_(Floats(num_parameters_, stream)),
      gradients_(Floats(num_parameters_, stream)),
      first_moments_(Floats(num_parameters_, stream)),
      second_moments_(Floats(num_parameters_, stream)),
      copy_(CopyBytes(config, rank_, dtype), stream.device) {
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
  rounded_ = OnDevice(rounded, stream);
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

int64_t GpuLora::BytesFor(const ModelConfig& config, int32_t rank, DType dtype) {
  constexpr int64_t kFloatsOfParameter = 4;  // itself, its gradient and two moments
  return NumParameters(config, rank) * kFloatsOfParameter * int64_t{sizeof(float)} +
         CopyBytes(config, rank, dtype) +
         NumRows(config, rank) * static_cast<int64_t>(sizeof(void*) + sizeof(RoundedRow)) +
         std::ssize(kStackedModules) * rank * config.num_layers * int64_t{sizeof(void*)};
}

void GpuLora::Follow(const TrainedLora& lora) {
  if (lora.version() == version_) return;
  auto& host = const_cast<TrainedLora&>(lora);
  const int64_t bytes = num_parameters_ * int64_t{sizeof(float)};
  CopyToDevice(parameters_.data(), host.parameters().data(), bytes, stream_);
  CopyToDevice(first_moments_.data(), host.first_moments().data(), bytes, stream_);
  CopyToDevice(second_moments_.data(), host.second_moments().data(), bytes, stream_);
  Round();
  Synchronize(stream_);
  version_ = lora.version();
  is_ahead_ = false;
}

void GpuLora::Fetch(TrainedLora& lora) {
  if (!is_ahead_) return;
  const int64_t bytes = num_parameters_ * int64_t{sizeof(float)};
  CopyFromDevice(lora.parameters().data(), parameters_.data(), bytes, stream_);
  CopyFromDevice(lora.gradients().data(), gradients_.data(), bytes, stream_);
  CopyFromDevice(lora.first_moments().data(), first_moments_.data(), bytes, stream_);
  CopyFromDevice(lora.second_moments().data(), second_moments_.data(), bytes, stream_);
  Synchronize(stream_);
  is_ahead_ = false;
}

void GpuLora::ZeroGradients() { ZeroOnDevice(gradients_.data(), gradients_.bytes(), stream_); }

AdamWItem GpuLora::Item() {
  return {.parameters = parameters_.as<float>(),
          .gradients = gradients_.as<float>(),
          .first_moments = first_moments_.as<float>(),
          .second_moments = second_moments_.as<float>(),
          .n = num_parameters_};
}

void GpuLora::Round() {
  RoundRows({.x = parameters_.as<float>(),
             .rows = rounded_.as<RoundedRow>(),
             .num_rows = num_rows_,
             .dtype = dtype_},
            stream_);
  SetAhead();
}

}  // namespace graft
