#include "learn/trained_lora.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "base/check.h"
#include "base/random.h"

namespace graft {

TrainedSize TrainedLora::SizeOf(const ModelConfig& config, int32_t rank, DType dtype) {
  const ModelShape shape = ShapeAsStored(config);
  const int64_t count = int64_t{config.num_layers} * rank;
  TrainedSize size;
  for (const TargetSpec& target : shape.lora_targets) {
    size.AddRows(count, (shape.*target.in)(), dtype);
    size.AddRows(count, (shape.*target.out)(), dtype);
  }
  return size;
}

TrainedLora::TrainedLora(const ModelConfig& config, int32_t rank, float scale, DType dtype)
    : TrainedNumbers(SizeOf(config, rank, dtype), dtype),
      config_(config),
      shape_(ShapeAsStored(config)),
      rank_(rank),
      scale_(scale) {
  CHECK(rank > 0 && rank <= kLoraRankMax) << rank;
  for (int32_t layer = 0; layer < config.num_layers; ++layer) {
    for (const LoraModule target : shape_.lora_modules()) {
      for (const LoraSide side : {LoraSide::kA, LoraSide::kB}) {
        const auto [begin, n] = place(layer, target, side);
        for (int32_t j = 0; j < rank; ++j) AddRow(begin + j * n, n);
      }
    }
  }
}

TrainedLora::Place TrainedLora::place(int32_t layer, LoraModule target, LoraSide side) const {
  const TargetSpec& spec = shape_.lora_target(target);
  const int64_t before = shape_.LoraColumnsBefore(layer, target);
  const int64_t in = (shape_.*spec.in)();
  if (side == LoraSide::kA) return {rank_ * before, in};
  return {rank_ * (before + in), (shape_.*spec.out)()};
}

void TrainedLora::Initialize(uint64_t seed) {
  std::ranges::fill(parameters(), 0.0f);
  for (int32_t layer = 0; layer < shape_.num_layers; ++layer) {
    for (const LoraModule target : shape_.lora_modules()) {
      const Place a = place(layer, target, LoraSide::kA);
      const double bound = 1.0 / std::sqrt(static_cast<double>(a.n));
      for (int64_t j = a.begin; j < a.begin + rank_ * a.n; ++j) {
        const double drawn = RandomUniform(seed, static_cast<uint64_t>(j));
        parameters()[static_cast<size_t>(j)] = static_cast<float>((2.0 * drawn - 1.0) * bound);
      }
    }
  }
  Refresh();
}

// A stored projection's modules have one A, and the columns of their B's lie side by side.
Status TrainedLora::Read(const LoraWeights& weights) {
  CHECK(weights.dtype() == DType::kF32) << DTypeName(weights.dtype());
  if (std::ssize(weights.matrices()) != config_.num_lora_matrices()) {
    return InvalidArgumentError("the adapter is of a model with another number of layers");
  }
  if (weights.matrices()[static_cast<size_t>(config_.num_layer_matrices())].rank > 0) {
    return InvalidArgumentError("the adapter changes the head, which is not trained here");
  }
  const auto copy = [&](const void* row, int64_t n, int64_t to) {
    std::copy_n(static_cast<const float*>(row), n, parameters().data() + to);
  };
  const std::span<const StoredProjection> stored = StoredProjections(config_);
  for (int32_t i = 0; i < shape_.num_layers * std::ssize(stored); ++i) {
    const auto layer = static_cast<int32_t>(i / std::ssize(stored));
    const auto target = static_cast<int32_t>(i % std::ssize(stored));
    const StoredProjection& projection = stored[static_cast<size_t>(target)];
    const Place a = place(layer, static_cast<LoraModule>(target), LoraSide::kA);
    const Place b = place(layer, static_cast<LoraModule>(target), LoraSide::kB);
    int64_t column = 0;
    for (int32_t slice = 0; slice < projection.num_modules; ++slice) {
      const auto module = static_cast<LoraModule>(static_cast<int32_t>(projection.first) + slice);
      const LoraMatrix& matrix = weights.matrix(layer, module);
      if (matrix.rank != rank_ || matrix.scale != scale_) {
        return InvalidArgumentError(
            "training goes on from adapters of one rank and one scale on all " +
            std::to_string(stored.size()) + " modules; here rank " + std::to_string(matrix.rank) +
            " meets " + std::to_string(rank_));
      }
      const int64_t n = ShapeOfLoraModule(config_, module).out;
      for (int32_t j = 0; j < rank_; ++j) {
        if (slice == 0) copy(matrix.a_rows[j], a.n, a.begin + j * a.n);
        copy(matrix.b_rows[j], n, b.begin + j * b.n + column);
      }
      column += n;
    }
  }
  Refresh();
  return OkStatus();
}

}  // namespace graft
