// Gemma 2: norms before and behind attention and MLP, GeGLU, caps of scores and logits, scaled
// embeddings, and a window of every second layer.
#include "model/families/gemma_layers.h"

#include "model/config_layers.h"
#include "model/config_rope.h"

namespace graft {
namespace {

Status ReadGemma2(const ConfigFields& fields, ModelConfig& config) {
  ASSIGN_OR_RETURN(const int32_t window, ReadWindow(fields));
  RETURN_IF_ERROR(SetWindows(fields, window, SlidesButEvery(2, config.num_layers), config));
  RETURN_IF_ERROR(ReadOneRope(fields, config));
  RETURN_IF_ERROR(ReadGeluTanh(fields, config));
  return ReadGemmaLayers(fields, {.score_cap = 50.0, .logit_cap = 30.0}, config);
}

}  // namespace

constinit const ModelFamily kGemma2Family = {
    .architecture = Architecture::kGemma2,
    .name = "Gemma2ForCausalLM",
    .model_type = "gemma2",
    .head_dim = 256,
    .tied_embeddings = true,
    .own_fields = kGemmaFields,
    .read_layers = ReadGemma2,
    .norms = kGemmaNorms,
};

}  // namespace graft
