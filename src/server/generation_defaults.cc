#include "server/generation_defaults.h"

#include "base/file.h"
#include "base/json.h"
#include "request/generator.h"
#include "server/field_reader.h"

namespace graft {
namespace {

// Its other fields say how to search, which tokens end a text (the model's config has those) or
// where it comes from.
Result<GenerationDefaults> ReadDefaults(const Json& json) {
  GenerationDefaults defaults;
  FieldReader reader(json, "");
  reader.Float("temperature", &defaults.sampling.temperature);
  reader.Float("top_p", &defaults.sampling.top_p);
  reader.Int("top_k", -1, kInt32Max, &defaults.sampling.top_k);
  if (defaults.sampling.top_k == -1) defaults.sampling.top_k = 0;
  reader.Float("min_p", &defaults.sampling.min_p);
  reader.Float("repetition_penalty", &defaults.sampling.repetition_penalty);
  reader.OptionalInt("max_new_tokens", 1, kInt32Max, &defaults.tokens_max);
  if (reader.failed()) return InvalidArgumentError(reader.Finish()->message);
  RETURN_IF_ERROR(ValidateSamplingParams(defaults.sampling, kInt32Max));
  return defaults;
}

}  // namespace

Result<GenerationDefaults> LoadGenerationDefaults(const std::string& model_dir) {
  const std::string path = model_dir + "/generation_config.json";
  const Result<std::string> text = ReadFile(path, int64_t{1} << 20);
  if (text.status().code() == StatusCode::kNotFound) return GenerationDefaults();
  if (!text.ok()) return text.status();
  const Result<Json> json = ParseJson(*text);
  if (!json.ok()) return json.status().WithContext(path);
  Result<GenerationDefaults> defaults = ReadDefaults(*json);
  if (defaults.ok()) return defaults;
  return defaults.status().WithContext(path + " (--generation-config none leaves it aside)");
}

}  // namespace graft
