// LoRA beside a GEMM, for the GEMM's kernel alone: shrink and expand of a few rows into
// lora.beside.delta, by multiprocessors of their own. The GEMM is launched right after it on the
// others, learns from lora.beside.words[0] that x is there, and adds the delta last. Hopper's
// alone.
#pragma once

#include "kernels/lora/lora.h"
#include "tensor/stream.h"

namespace graft::lora {

// Blocks take a whole multiprocessor's shared memory each; num_blocks beyond the most that it can
// use are left out.
void LaunchBeside(const LoraArgs& lora, int num_blocks, Stream& stream);

}  // namespace graft::lora
