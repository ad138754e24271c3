#include "tuning/encoder_folder.h"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <utility>

#include "base/fault.h"
#include "base/file.h"
#include "base/json.h"
#include "base/json_fields.h"
#include "tuning/asked_form.h"
#include "tuning/learning_plan.h"
#include "tuning/recipe.h"
#include "tuning/teacher_prompts.h"

namespace graft {
namespace {

constexpr const char* kEncoder = "/encoder";
constexpr const char* kDecoder = "/decoder";
constexpr const char* kFormFile = "/encoder/graft.json";

template <typename T, size_t N>
bool ReadWord(const Json& json, const char* key, const OptionWord<T> (&words)[N], T* value) {
  const std::string word = json.value(key, "");
  for (const OptionWord<T>& one : words) {
    if (word != one.word) continue;
    *value = one.value;
    return true;
  }
  return false;
}

Result<EncoderForm> FormIn(const std::string& path, const Json& json) {
  const Json made = json.value("encoder", Json::object());
  EncoderForm form;
  bool is_known = made.is_object() && made.contains("read_tokens") && made.contains("behind") &&
                  made.contains("compressions") && made["read_tokens"].is_number_integer() &&
                  made["behind"].is_number_integer() && made["compressions"].is_array();
  is_known = is_known && ReadWord(made, "memory", kCarrierWords, &form.memory.carrier) &&
             ReadWord(made, "rows", kMemoryRowsWords, &form.memory.rows) &&
             ReadWord(made, "places", kPlacesWords, &form.memory.places);
  if (is_known) {
    form.memory.window_tokens = made["read_tokens"].get<int32_t>();
    form.memory.behind = made["behind"].get<int32_t>();
    for (const Json& one : made["compressions"]) {
      if (one.is_number_integer()) form.compressions.push_back(one.get<int32_t>());
    }
    form.prompts = made.value("prompts", "") == WordOf(TeacherPrompts::kChat)
                       ? TeacherPrompts::kChat
                       : TeacherPrompts::kPlain;
  }
  const MemoryForm& memory = form.memory;
  const auto is_above_0 = [](int32_t number) { return number > 0; };
  is_known = is_known && !form.compressions.empty() &&
             std::ranges::all_of(form.compressions, is_above_0) && memory.window_tokens > 0 &&
             memory.behind > 0 &&
             (memory.carrier == MemoryCarrier::kKeysValues || memory.rows == MemoryRows::kBehind);
  if (is_known) return form;
  return InvalidArgumentError(path + " is not of an encoder that this version makes");
}

}  // namespace

OrderedJson ToJson(const EncoderForm& form) {
  return {{"memory", WordOf(form.memory.carrier, kCarrierWords)},
          {"rows", WordOf(form.memory.rows, kMemoryRowsWords)},
          {"places", WordOf(form.memory.places, kPlacesWords)},
          {"read_tokens", form.memory.window_tokens},
          {"behind", form.memory.behind},
          {"compressions", form.compressions},
          {"prompts", WordOf(form.prompts)}};
}

bool HasEncoder(const std::string& folder) {
  return FileExists(folder + kFormFile) && FileExists(folder + kDecoder + "/graft.json");
}

Status CheckEncodes(const ModelConfig& config) {
  if (config.logit_scale != 1.0f || config.logit_cap != 0.0f) {
    return UnimplementedError("an encoder is not taught by a model that changes its logits");
  }
  if (config.num_positions > 0) {
    return UnimplementedError("an encoder's memories have no learned positions");
  }
  const auto is_scaled = [](const RopeConfig& rope) { return rope.attention_factor != 1.0; };
  if (std::ranges::any_of(config.ropes, is_scaled)) {
    return UnimplementedError("an encoder does not move keys whose turns are scaled");
  }
  return OkStatus();
}

// Its numbers mean nothing to other weights, and its tokens to other words.
Status CheckEncoderOf(const std::string& folder, const std::string& model_dir) {
  if (!HasEncoder(folder)) {
    return NotFoundError("there is no encoder in " + folder +
                         ": graft learn --corpus teaches one, and --encoder names its folder");
  }
  ASSIGN_OR_RETURN(const Json json, ParseJsonFile(folder + kFormFile));
  ASSIGN_OR_RETURN(const BaseIdentity base, IdentifyBase(model_dir));
  std::string text_hash, weights_hash;
  if (json.is_object() && json.contains("base") && json["base"].is_object()) {
    ReadField(json["base"], "text_hash", &text_hash);
    ReadField(json["base"], "weights_hash", &weights_hash);
  }
  if (text_hash == base.text_hash && weights_hash == base.weights_hash) return OkStatus();
  return FailedPreconditionError("the encoder in " + folder +
                                 " was taught on another base model than " + model_dir +
                                 ": graft learn --corpus teaches one on it");
}

Result<int64_t> EncoderBytes(const std::string& folder) {
  std::error_code error;
  uintmax_t bytes = 0;
  for (const char* const part : {kEncoder, kDecoder}) {
    for (std::filesystem::recursive_directory_iterator entry(folder + part, error), end;
         !error && entry != end; entry.increment(error)) {
      if (entry->is_regular_file(error)) bytes += entry->file_size(error);
    }
    if (error) return SystemError(error.value(), "cannot read " + folder + part);
  }
  return static_cast<int64_t>(bytes);
}

Status WriteEncoder(const std::string& folder, const LoadedModel& model, const EncoderForm& form,
                    OrderedJson provenance, CorpusRun& run) {
  OrderedJson made = ToJson(form);
  made.update(provenance["encoder"]);
  provenance["encoder"] = std::move(made);
  RETURN_IF_ERROR(WriteAdapter(folder + kEncoder, {&run.encoder_lora(), run.encoder_tokens()},
                               provenance, model)
                      .status());
  return WriteAdapter(folder + kDecoder, {.lora = &run.decoder()}, provenance, model).status();
}

Result<KnownEncoder> OpenEncoder(const std::string& folder, const std::string& model_dir,
                                 const ModelConfig& config, const Tokenizer& tokenizer) {
  RETURN_IF_ERROR(CheckEncoderOf(folder, model_dir));
  RETURN_IF_ERROR(CheckEncodes(config));
  ASSIGN_OR_RETURN(const Json json, ParseJsonFile(folder + kFormFile));
  KnownEncoder known;
  ASSIGN_OR_RETURN(known.form, FormIn(folder + kFormFile, json));
  std::optional<ChatTemplate> chat;
  if (known.form.prompts == TeacherPrompts::kChat) {
    ASSIGN_OR_RETURN(chat, LoadChatTemplate(model_dir));
  }
  ASSIGN_OR_RETURN(const AskedForm texts, AskedForm::Make(chat, tokenizer));
  known.start = texts.start();
  ASSIGN_OR_RETURN(known.encoder, ReadFrozenDocument("encoder", folder + kEncoder, config));
  ASSIGN_OR_RETURN(known.decoder, ReadFrozenDocument("decoder", folder + kDecoder, config));
  return known;
}

}  // namespace graft
