#include <cmath>
#include <cstring>

#include "adapters/lora_weights.h"
#include "base/check.h"

namespace graft {
namespace {

size_t IndexOf(const ModelConfig& model, int32_t layer, LoraModule module) {
  return static_cast<size_t>(model.lora_matrix(layer, module));
}

// What the module's product is multiplied by.
double ScaleOf(const LoraAddend& addend, size_t matrix_idx) {
  return static_cast<double>(addend.weight) *
         static_cast<double>(addend.matrices[matrix_idx].scale);
}

template <typename T>
void ScaleRow(const void* from, int64_t elements, float factor, void* to) {
  const T* const source = static_cast<const T*>(from);
  T* const target = static_cast<T*>(to);
  for (int64_t i = 0; i < elements; ++i) target[i] = FromFloat<T>(factor * ToFloat(source[i]));
}

struct RowCopy {
  const void* const* from = nullptr;
  const void* const* to = nullptr;
  int32_t num_rows = 0;
  int64_t elements = 0;
};

void CopyRows(const RowCopy& copy, double factor, DType dtype) {
  for (int32_t j = 0; j < copy.num_rows; ++j) {
    void* const to = const_cast<void*>(copy.to[j]);
    if (factor == 1.0) {
      std::memcpy(to, copy.from[j], static_cast<size_t>(copy.elements * DTypeBytes(dtype)));
      continue;
    }
    DispatchDType(dtype, [&]<typename T>() {
      ScaleRow<T>(copy.from[j], copy.elements, static_cast<float>(factor), to);
    });
  }
}

}  // namespace

// The sum changes every module that one of them changes, with all their ranks and the largest
// scale.
Status LoraWeights::TargetSum(std::span<const LoraAddend> addends, const ModelConfig& model) {
  for (int32_t layer = 0; layer <= model.num_layers; ++layer) {
    const bool is_head = model.is_head(layer);
    for (const LoraModule module : is_head ? model.head_blocks() : model.lora_modules()) {
      const size_t idx = IndexOf(model, layer, module);
      int32_t rank = 0;
      double scale = 0.0;
      for (const LoraAddend& addend : addends) {
        if (addend.matrices[idx].rank == 0) continue;
        rank += addend.matrices[idx].rank;
        if (std::abs(ScaleOf(addend, idx)) > std::abs(scale)) scale = ScaleOf(addend, idx);
      }
      if (rank == 0) continue;
      if (rank > kLoraRankMax) {
        return InvalidArgumentError("the adapters' ranks add up to " + std::to_string(rank) +
                                    " in " + LoraModulePath(model, layer, module) +
                                    ", a sum may have " + std::to_string(kLoraRankMax) +
                                    "; name fewer adapters, or some of smaller ranks");
      }
      if (!std::isfinite(static_cast<float>(scale))) {
        return InvalidArgumentError("an adapter's weight times its scale is too large in " +
                                    LoraModulePath(model, layer, module));
      }
      targets_.push_back({layer, module, rank, static_cast<float>(scale)});
    }
  }
  return OkStatus();
}

Result<LoraWeights> LoraWeights::Sum(std::span<const LoraAddend> addends, const ModelConfig& model,
                                     DType dtype) {
  LoraWeights sum;
  sum.dtype_ = dtype;
  for (const LoraAddend& addend : addends) {
    CHECK_EQ(addend.matrices.size(), static_cast<size_t>(model.num_lora_matrices()));
  }
  RETURN_IF_ERROR(sum.TargetSum(addends, model));
  sum.LayOut(model);
  for (const LoraTarget& target : sum.targets_) {
    const size_t idx = IndexOf(model, target.layer, target.module);
    const LoraModuleShape shape = ShapeOfLoraMatrix(model, target.layer, target.module);
    const bool owns_a = OwnerOfA(model, target.layer, target.module) == target.module;
    const LoraMatrix& to = sum.matrices_[idx];
    int32_t row = 0;
    for (const LoraAddend& addend : addends) {
      const LoraMatrix& from = addend.matrices[idx];
      if (from.rank == 0) continue;
      // Where no adapter has a scale, nothing is to be shared out.
      const double factor =
          target.scale == 0.0f ? 1.0 : ScaleOf(addend, idx) / static_cast<double>(target.scale);
      if (owns_a) {
        CopyRows({from.a_rows, to.a_rows + row, from.rank, shape.in}, factor, dtype);
      }
      CopyRows({from.b_rows, to.b_rows + row, from.rank, shape.out}, 1.0, dtype);
      row += from.rank;
    }
    CHECK_EQ(row, target.rank);
  }
  return sum;
}

}  // namespace graft
