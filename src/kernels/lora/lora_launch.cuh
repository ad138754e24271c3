// How the LoRA kernels of bf16 and fp16 are launched. lora_cuda.cu makes these choices; the bench
// may choose otherwise to measure them. None of the choices changes a bit of a result, but where
// that is subnormal (below 1.2e-38): add_in_l2 makes it zero.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/lora/lora.h"

namespace graft::lora {

enum class Part { kShrink, kExpand };

struct LaunchOptions {
  bool overlap = true;     // programmatic dependent launch
  int32_t depth = 0;       // stages in flight; 0: lora_cuda.cu chooses
  int32_t row_splits = 0;  // blocks that share a segment's rows; 0: lora_cuda.cu chooses
  int32_t wide = -1;       // 0 or 1: use the shrink for many rows; -1: lora_cuda.cu chooses
  int32_t add_in_l2 = -1;  // 0 or 1; -1: lora_cuda.cu chooses
};

struct KernelArgs {
  LoraArgs lora;
  int32_t depth = 1;       // stages in flight
  int32_t row_splits = 1;  // blocks that share the rows of a segment
  int32_t team_bytes = 0;  // shared memory of a team, where a block has several
  bool vectors = false;    // x, y, k and all n allow accesses of 16 bytes
  bool add_in_l2 = false;  // y += in the L2 cache: no thread waits, but L2 adds slowly
};

struct Launch {
  dim3 grid;
  unsigned teams = 1;  // teams of kThreads threads in a block
  int shared_bytes = 0;
  bool overlap = true;
  cudaStream_t stream = nullptr;
};

// Launches a kernel of bf16 or fp16.
void LaunchLora(Part part, const LoraArgs& args, const LaunchOptions& options, Stream& stream);

// The kernels, and the shared memory that a block of each needs.
int ShrinkSharedBytes(int depth, int64_t rank_max);
void LaunchShrink(const KernelArgs& args, const Launch& launch);
// For many rows. rows: those of a block at a time, as many as RowsOfWideShrink says for a card on
// which a block may have so much shared memory.
int RowsOfWideShrink(int64_t rank_max, int shared_bytes_max);
int WideShrinkSharedBytes(int depth, int64_t rank_max, int rows);
void LaunchWideShrink(const KernelArgs& args, const Launch& launch, int rows);
// columns: those of a block, kNarrow or kChunk. is_prefill: there are many rows of few adapters.
int ExpandSharedBytes(int depth, int64_t rank_max, int columns);
void LaunchExpand(const KernelArgs& args, const Launch& launch, int columns, bool is_prefill);

// The expand that also computes lora.activated. KernelArgs::vectors must hold.
int ExpandActivateSharedBytes(int depth, int64_t rank_max);
void LaunchExpandActivate(const KernelArgs& args, const Launch& launch);

// Whether x, y, k and all n allow accesses of 16 bytes.
bool AllowsVectors(const LoraArgs& args);

// fp32, for checks: correct, not fast.
void LaunchLoraF32(Part part, const LoraArgs& args, Stream& stream);

}  // namespace graft::lora
