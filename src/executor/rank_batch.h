// A step as rank 0 sends it to the other ranks. Every member of a HostBatch is named here, with
// whether it is sent, each rank has its own, or ranks need none. A new member that is not named
// does not compile. Pure functions.
#pragma once

#include "executor/rank_message.h"
#include "model/forward_batch.h"

namespace graft {

// Calls use(member) for each of BatchArrays.
template <typename Arrays, typename Use>
void ForEachArray(Arrays& arrays, const Use& use) {
  auto& [tokens, positions, row_page, row_slot, row_begin, page_begin, pages, kv_tokens, num_given,
         logits_rows, lora_segments, lora_prompt_segments, settled_segments,
         settled_prompt_segments, head_segments, virtual_embeddings, virtual_kv] = arrays;
  const auto use_all = [&use](auto&... members) { (use(members), ...); };
  use_all(tokens, positions, row_page, row_slot, row_begin, page_begin, pages, kv_tokens, num_given,
          logits_rows, lora_segments, lora_prompt_segments, settled_segments,
          settled_prompt_segments, head_segments, virtual_embeddings, virtual_kv);
}

// CHECKs that the step has nothing that ranks cannot do.
void WriteBatch(const HostBatch& batch, MessageWriter* message);

// The batch's arrays lie in the message. The table of adapters and their virtual tokens are the
// rank's own; the step brings the table's bound on ranks. The caller adds the rank's gate.
HostBatch ReadBatch(const LoraTable& own_adapters, const VirtualRows* own_virtual_rows,
                    MessageReader& message);

}  // namespace graft
