// Gemma, the first: Llama with GeGLU, scaled embeddings, norm weights that are kept less one, and
// heads of a size that head_dim gives.
#include "model/config_layers.h"
#include "model/config_rope.h"
#include "model/families/gemma_layers.h"

namespace graft {
namespace {

Status ReadGemma(const ConfigFields& fields, ModelConfig& config) {
  RETURN_IF_ERROR(RefuseWindow(fields, config));
  RETURN_IF_ERROR(SetWindowOfAll(fields, 0, config));
  RETURN_IF_ERROR(ReadOneRope(fields, config));
  // The first releases say "gelu" and mean its tanh form, as HF reads them.
  RETURN_IF_ERROR(ReadGeluTanh(fields, config, "gelu"));
  SetGemmaScales(config);
  return OkStatus();
}

}  // namespace

constinit const ModelFamily kGemmaFamily = {
    .architecture = Architecture::kGemma,
    .name = "GemmaForCausalLM",
    .model_type = "gemma",
    .head_dim = 256,
    .tied_embeddings = true,
    .read_layers = ReadGemma,
};

}  // namespace graft
