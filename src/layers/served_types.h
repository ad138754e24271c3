// ServedTypes: what a served model's numbers are kept in, each kind by its own name. --dtype gives
// all of them at once. Plain data; any thread.
#pragma once

#include "kernels/gemm/weight_format.h"
#include "tensor/device.h"
#include "tensor/dtype.h"

namespace graft {

struct ServedTypes {
  WeightFormat weights = DType::kF32;  // the matrices of the projections; the head's are plain
  DType operands = DType::kF32;        // what products take them as
  DType embeddings = DType::kF32;      // the table of embeddings, and virtual tokens of its kind
  DType adapters = DType::kF32;        // the rows of A and B
  DType kv = DType::kF32;              // keys and values in pages
  bool keeps_codes = false;            // matrices that files hold as codes stay so, where they can

  bool has_codes() const { return keeps_codes || !weights.is_plain(); }

  // What products read on their other side, and so do LoRA's. On the CPU it is fp32, because
  // rounding it to bf16 in every layer would cost more than half of what is precise.
  DType activations(const Device& device) const { return device.is_cpu() ? DType::kF32 : operands; }
  bool operator==(const ServedTypes&) const = default;
};

// Everything in `dtype`, but keys and values beside bf16 on the CPU: they are fp16, the same bytes
// and an eighth of the rounding. A key or value beyond fp16's 65504 becomes infinite and fails its
// request.
constexpr ServedTypes TypesOf(DType dtype, const Device& device = {}) {
  const bool is_bf16_on_cpu = dtype == DType::kBF16 && device.is_cpu();
  return {.weights = dtype,
          .operands = dtype,
          .embeddings = dtype,
          .adapters = dtype,
          .kv = is_bf16_on_cpu ? DType::kF16 : dtype};
}

}  // namespace graft
