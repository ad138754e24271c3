#include "openai/generation_defaults.h"

#include <functional>

#include "base/file.h"
#include "base/json.h"
#include "http/field_reader.h"
#include "request/generator.h"

namespace graft {
namespace {

// Reads one field, unless what it has fits no request. Such files come from programs that search in
// another way than was asked for, or have a default of another program's: none of it is a reason
// not to serve the model.
void TakeDefault(const Json& json, const char* name, const std::function<void(FieldReader&)>& read,
                 GenerationDefaults* defaults) {
  const GenerationDefaults before = *defaults;
  if (!json.contains(name)) return;
  const Json alone = {{name, json[name]}};
  FieldReader reader(alone, "");
  read(reader);
  std::string wrong = reader.failed() ? reader.Finish()->message : "";
  if (wrong.empty()) wrong = ValidateSamplingParams(defaults->sampling, kInt32Max).message();
  if (wrong.empty()) return;
  *defaults = before;
  defaults->ignored.push_back(wrong);
}

// Its other fields say how to search, which tokens end a text (the model's config has those) or
// where it comes from.
GenerationDefaults ReadDefaults(const Json& json) {
  GenerationDefaults defaults;
  SamplingParams& sampling = defaults.sampling;
  const auto take_number = [&](const char* name, float* value) {
    TakeDefault(
        json, name, [=](FieldReader& reader) { reader.Float(name, value); }, &defaults);
  };
  take_number("temperature", &sampling.temperature);
  take_number("top_p", &sampling.top_p);
  take_number("min_p", &sampling.min_p);
  take_number("repetition_penalty", &sampling.repetition_penalty);
  TakeDefault(
      json, "top_k",
      [&](FieldReader& reader) {
        reader.Int("top_k", -1, kInt32Max, &sampling.top_k);
        if (sampling.top_k == -1) sampling.top_k = 0;
      },
      &defaults);
  TakeDefault(
      json, "max_new_tokens",
      [&](FieldReader& reader) {
        reader.OptionalInt("max_new_tokens", 1, kInt32Max, &defaults.tokens_max);
      },
      &defaults);
  return defaults;
}

}  // namespace

Result<GenerationDefaults> LoadGenerationDefaults(const std::string& model_dir) {
  const std::string path = model_dir + "/generation_config.json";
  const Result<std::string> text = ReadFile(path, int64_t{1} << 20);
  if (text.status().code() == StatusCode::kNotFound) return GenerationDefaults();
  if (!text.ok()) return text.status();
  const Result<Json> json = ParseJson(*text);
  return json.ok() && json->is_object() ? ReadDefaults(*json) : GenerationDefaults();
}

}  // namespace graft
