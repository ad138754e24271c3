// Documents' adapters, which are there beside the one that learns and get no gradient: what their
// LoRA adds follows the products.
#include "kernels/lora/lora.h"
#include "learn/training_walker.h"

namespace graft {

LoraArgs TrainingWalker::OfDocuments(LoraArgs args) const {
  args.segments = batch_.document_segments;
  args.num_segments = batch_.num_document_segments;
  return args;
}

void TrainingWalker::AddDocuments(const Product& product, const void* x,
                                  const ResidualTarget& target) {
  if (batch_.num_document_segments == 0) return;
  LoraArgs args = OfDocuments(ArgsOfLora(product, x, target.y));
  args.scale = target.scale;
  Lora(args, stream_);
}

// By the room of the forward's h: AddGradients reads the other one.
void TrainingWalker::AddDocumentsBack(const Product& product, const void* d_y, float* d_x) {
  for (int32_t slice = 0; slice < product.targets.count; ++slice) {
    if (batch_.num_document_segments == 0) return;
    LoraArgs back = OfDocuments(MakeBackArgs(product, slice, d_y, d_x));
    back.h = context_.scratch.lora_h.as<float>();
    back.h_stride = limits_.rank_max;
    Lora(back, stream_);
  }
}

}  // namespace graft
