// Gemma 3, text: Gemma 2 with norms of each head of q and k in place of caps, and with angles of
// their own for layers that slide.
#include "model/config_layers.h"
#include "model/config_rope.h"
#include "model/families/gemma_layers.h"

namespace graft {
namespace {

constexpr double kGemma3Theta = 1e6;  // of layers that attend fully

constexpr NormNames Gemma3Norms() {
  NormNames names = kGemmaNorms;
  names.q = "self_attn.q_norm";
  names.k = "self_attn.k_norm";
  return names;
}

// Every so many'th layer attends fully.
Result<int32_t> ReadPattern(const ConfigFields& fields) {
  const bool is_older = fields.Find("sliding_window_pattern") != nullptr;
  return fields.Int(is_older ? "sliding_window_pattern" : "_sliding_window_pattern", 1, 1 << 20, 6);
}

// Each set has a field of its own in the older form.
Status ReadGemmaRopes(const ConfigFields& fields, ModelConfig& config) {
  RopeConfig full{.theta = kGemma3Theta}, sliding;
  RETURN_IF_ERROR(ReadTheta("rope_theta", fields, full));
  RETURN_IF_ERROR(ReadTheta("rope_local_base_freq", fields, sliding));
  return ReadTwoRopes(fields, full.theta, sliding.theta, config);
}

Status ReadGemma3(const ConfigFields& fields, ModelConfig& config) {
  ASSIGN_OR_RETURN(const int32_t window, ReadWindow(fields));
  ASSIGN_OR_RETURN(const int32_t pattern, ReadPattern(fields));
  RETURN_IF_ERROR(SetWindows(fields, window, SlidesButEvery(pattern, config.num_layers), config));
  RETURN_IF_ERROR(ReadGemmaRopes(fields, config));
  RETURN_IF_ERROR(ReadGeluTanh(fields, config));
  return ReadGemmaLayers(fields, {}, config);
}

}  // namespace

constinit const ModelFamily kGemma3Family = {
    .architecture = Architecture::kGemma3,
    .name = "Gemma3ForCausalLM",
    .model_type = "gemma3_text",
    .head_dim = 256,
    .tied_embeddings = true,
    .norms_qk = true,
    .own_fields = kGemmaFields,
    .read_layers = ReadGemma3,
    .norms = Gemma3Norms(),
};

}  // namespace graft
