#include "learn/trained_lora.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "base/random.h"

namespace graft {

TrainedLora::TrainedLora(const ModelConfig& config, int32_t rank, float scale, DType dtype)
    : num_layers_(config.num_layers), rank_(rank), scale_(scale), dtype_(dtype) {
  CHECK(rank > 0 && rank <= kLoraRankMax) << rank;
  int64_t elements = 0;
  int64_t bytes = 0;
  std::vector<int64_t> row_offsets;
  const auto add = [&](int64_t n) {
    places_.push_back({elements, n});
    elements += rank * n;
    for (int32_t j = 0; j < rank; ++j, bytes += LoraRowBytes(n, dtype)) {
      row_offsets.push_back(bytes);
    }
  };
  for (int32_t layer = 0; layer < num_layers_; ++layer) {
    for (const LoraModule module : kAllLoraModules) {
      const LoraModuleShape shape = ShapeOfLoraModule(config, module);
      add(shape.in);
      add(shape.out);
    }
  }
  const auto num_parameters = static_cast<size_t>(elements);
  for (std::vector<float>* all : {&parameters_, &gradients_, &first_moments_, &second_moments_}) {
    all->resize(num_parameters);
  }
  copy_ = Buffer(bytes);
  rows_.reserve(row_offsets.size());
  for (const int64_t offset : row_offsets) rows_.push_back(copy_.as<char>() + offset);
  for (size_t i = 0; i < places_.size(); i += 2) {
    const void* const* a = rows_.data() + i * static_cast<size_t>(rank);
    matrices_.push_back({.a_rows = a, .b_rows = a + rank, .rank = rank, .scale = scale});
    swapped_.push_back({.a_rows = a + rank, .b_rows = a, .rank = rank, .scale = scale});
  }
}

int64_t TrainedLora::BytesFor(const ModelConfig& config, int32_t rank, DType dtype) {
  constexpr int64_t kFloatsOfParameter = 4;  // itself, its gradient and two moments
  int64_t bytes = 0;
  for (const LoraModule module : kAllLoraModules) {
    const LoraModuleShape shape = ShapeOfLoraModule(config, module);
    for (const int64_t n : {shape.in, shape.out}) {
      bytes += kFloatsOfParameter * n * int64_t{sizeof(float)} + LoraRowBytes(n, dtype) +
               int64_t{sizeof(void*)};
    }
  }
  return bytes * config.num_layers * rank;
}

void TrainedLora::Initialize(uint64_t seed) {
  std::fill(parameters_.begin(), parameters_.end(), 0.0f);
  for (size_t i = 0; i < places_.size(); i += 2) {
    const Place& a = places_[i];
    const double bound = 1.0 / std::sqrt(static_cast<double>(a.n));
    for (int64_t j = a.begin; j < a.begin + rank_ * a.n; ++j) {
      const double drawn = RandomUniform(seed, static_cast<uint64_t>(j));
      parameters_[static_cast<size_t>(j)] = static_cast<float>((2.0 * drawn - 1.0) * bound);
    }
  }
  Refresh();
}

Status TrainedLora::Read(const LoraWeights& weights) {
  CHECK(weights.dtype() == DType::kF32) << DTypeName(weights.dtype());
  if (weights.matrices().size() != matrices_.size() + kHeadBlocksMax) {
    return InvalidArgumentError("the adapter is of a model with another number of layers");
  }
  if (weights.matrices()[matrices_.size()].rank > 0) {
    return InvalidArgumentError("the adapter changes the head, which is not trained here");
  }
  for (size_t i = 0; i < matrices_.size(); ++i) {
    const LoraMatrix& matrix = weights.matrices()[i];
    if (matrix.rank != rank_ || matrix.scale != scale_) {
      return InvalidArgumentError(
          "training goes on from adapters of one rank and one scale on all " +
          std::to_string(kLoraModules) + " modules; here rank " + std::to_string(matrix.rank) +
          " meets " + std::to_string(rank_));
    }
    for (int side = 0; side < 2; ++side) {
      const Place& place = places_[2 * i + static_cast<size_t>(side)];
      const void* const* rows = side == 0 ? matrix.a_rows : matrix.b_rows;
      for (int32_t j = 0; j < rank_; ++j) {
        std::copy_n(static_cast<const float*>(rows[j]), place.n,
                    parameters_.data() + place.begin + j * place.n);
      }
    }
  }
  Refresh();
  return OkStatus();
}

void TrainedLora::Refresh() {
  ++version_;
  size_t row = 0;
  for (const Place& place : places_) {
    for (int32_t j = 0; j < rank_; ++j, ++row) {
      const int64_t offset = static_cast<const char*>(rows_[row]) - copy_.as<char>();
      ConvertElements(DType::kF32, parameters_.data() + place.begin + j * place.n, dtype_,
                      copy_.as<char>() + offset, place.n);
    }
  }
}

void TrainedLora::ZeroGradients() { std::fill(gradients_.begin(), gradients_.end(), 0.0f); }

}  // namespace graft
