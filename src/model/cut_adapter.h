// CutAdapter: what one of several ranks holds of an adapter where both sides of its modules are cut
// (S-LoRA, section 5; TransformerLimits::cuts_both_sides): to compare with adapters of which one
// side is whole (model/shard.h). Of q, k, v, gate and up a rank has its share of A's rows, and B's
// columns of its outputs; of o and down A's columns of its inputs, and its share of B's columns. A
// table of rows names a row of zeros where A's row is another rank's, so that h is a summand.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/lora/lora.h"
#include "model/config.h"
#include "model/lora_weights.h"
#include "model/shard.h"
#include "tensor/buffer.h"
#include "tensor/stream.h"

namespace graft {

struct CutAdapter {
  std::vector<LoraMatrix> matrices;  // [layers * kLoraModules], for LoraStore::Place
  Buffer rows;                       // in the device's memory, as is
  Buffer tables;                     // what matrices point to
  int64_t bytes() const { return rows.bytes() + tables.bytes(); }
};

CutAdapter CutBothSides(const LoraWeights& whole, const ModelConfig& config, const Shard& shard,
                        const Stream& stream);

}  // namespace graft
