#include "adapters/lora_effect.h"

#include <algorithm>

#include "model/lora_module.h"
#include "tensor/dtype.h"

namespace graft {
namespace {

bool AllZero(const void* const* rows, int32_t num_rows, int64_t elements, DType dtype) {
  return DispatchDType(dtype, [&]<typename T>() {
    return std::all_of(rows, rows + num_rows, [&](const void* row) {
      const T* const values = static_cast<const T*>(row);
      return std::all_of(values, values + elements, [](T value) { return ToFloat(value) == 0.0f; });
    });
  });
}

}  // namespace

bool ChangesNothing(const LoraWeights& weights, const ModelConfig& model) {
  return std::all_of(
      weights.targets().begin(), weights.targets().end(), [&](const LoraTarget& target) {
        const LoraMatrix& matrix = weights.matrix(target.layer, target.module);
        const LoraModuleShape shape = ShapeOfLoraMatrix(model, target.layer, target.module);
        return matrix.scale == 0.0f ||
               AllZero(matrix.a_rows, matrix.rank, shape.in, weights.dtype()) ||
               AllZero(matrix.b_rows, matrix.rank, shape.out, weights.dtype());
      });
}

}  // namespace graft
