// How an adapter's tensors get into the rows that the kernels read: A as it is, B transposed, both
// in the served dtype. Each module is a piece of work of its own, for as many threads as are free.
// Pure function; any thread.
#pragma once

#include <span>

#include "adapters/lora_weights.h"
#include "base/status.h"
#include "base/work_crew.h"
#include "kernels/lora/lora.h"

namespace graft {

// Fills the rows that the modules' matrices ([ModelShape::num_lora_matrices]) point to. `tensors`
// stand in the order of `targets`. kInvalidArgument names the first value that is not finite in
// `dtype`, in that order; kCancelled: the work is unwanted. Without a crew the caller's thread does
// it all.
Status PackLora(std::span<const LoraTensors> tensors, std::span<const LoraTarget> targets,
                std::span<const LoraMatrix> matrices, const ModelConfig& model, DType dtype,
                WorkCrew* crew);

}  // namespace graft
