#include "adapters/lora_packing.h"

#include <algorithm>
#include <vector>

#include "base/unwanted_work.h"
#include "model/tensor_rows.h"

namespace graft {
namespace {

// B [out, rank] into rows of B^T, in tiles: neither side is walked with long strides.
template <typename From, typename To>
bool TransposeRows(const TensorView& b, const void* const* rows) {
  constexpr int64_t kTile = 64;
  const int64_t out = b.shape[0];
  const int64_t rank = b.shape[1];
  bool finite = true;
  for (int64_t begin = 0; begin < out; begin += kTile) {
    const int64_t end = std::min(begin + kTile, out);
    for (int64_t j = 0; j < rank; ++j) {
      To* const row = static_cast<To*>(const_cast<void*>(rows[j]));
      for (int64_t o = begin; o < end; ++o) {
        row[o] = ConvertElement<To>(LoadElement<From>(b.data, o * rank + j));
        finite &= IsFinite(row[o]);
      }
    }
  }
  return finite;
}

Status PackModule(const LoraTensors& tensors, const LoraTarget& target, const LoraMatrix& to,
                  const ModelConfig& model, DType dtype) {
  const TensorView& a = tensors.a;
  const TensorView& b = tensors.b;
  const auto name = [&](LoraSide side) {
    return LoraTensorName(model, target.layer, target.module, side);
  };
  const bool shares_a = OwnerOfA(model, target.layer, target.module) != target.module;
  const bool a_finite = shares_a || CopyTensorRows(a, dtype, to.a_rows);
  if (!a_finite) return NotFiniteError(name(LoraSide::kA), 0, a, dtype);
  const bool b_finite = DispatchCopy(b.dtype, dtype, [&]<typename From, typename To>() {
    return TransposeRows<From, To>(b, to.b_rows);
  });
  if (!b_finite) return NotFiniteError(name(LoraSide::kB), tensors.b_row, b, dtype);
  return OkStatus();
}

}  // namespace

Status PackLora(std::span<const LoraTensors> tensors, std::span<const LoraTarget> targets,
                std::span<const LoraMatrix> matrices, const ModelConfig& model, DType dtype,
                WorkCrew* crew) {
  std::vector<Status> packed(targets.size());
  WorkCrew::Batch batch(crew, std::ssize(targets), [&](int64_t piece) {
    const auto i = static_cast<size_t>(piece);
    if (WorkIsUnwanted()) {
      packed[i] = UnwantedWork();
      return;
    }
    const LoraTarget& target = targets[i];
    const LoraMatrix& to =
        matrices[static_cast<size_t>(model.lora_matrix(target.layer, target.module))];
    packed[i] = PackModule(tensors[i], target, to, model, dtype);
  });
  batch.Wait();
  for (Status& status : packed) RETURN_IF_ERROR(std::move(status));
  return OkStatus();
}

}  // namespace graft
