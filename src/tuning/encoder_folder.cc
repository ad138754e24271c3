#include "tuning/encoder_folder.h"

#include <algorithm>
#include <utility>

#include "base/file.h"
#include "base/json.h"
#include "learn/trainable.h"
#include "tuning/recipe.h"

namespace graft {
namespace {

constexpr const char* kEncoder = "/encoder";
constexpr const char* kDecoder = "/decoder";

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

Result<EncoderForm> FormIn(const std::string& folder) {
  const std::string path = folder + kEncoder + "/graft.json";
  ASSIGN_OR_RETURN(const Json json, ParseJsonFile(path));
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
  if (is_known && !form.compressions.empty() && form.memory.window_tokens > 0) return form;
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
  return FileExists(folder + kEncoder + "/graft.json") &&
         FileExists(folder + kDecoder + "/graft.json");
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

Result<KnownEncoder> OpenEncoder(const std::string& folder, const ModelConfig& config) {
  if (!HasEncoder(folder)) {
    return NotFoundError("there is no encoder in " + folder +
                         ": --corpus learns one, and --encoder names its folder");
  }
  RETURN_IF_ERROR(CheckEncodes(config));
  KnownEncoder known;
  ASSIGN_OR_RETURN(known.form, FormIn(folder));
  ASSIGN_OR_RETURN(known.encoder, ReadFrozenDocument("encoder", folder + kEncoder, config));
  ASSIGN_OR_RETURN(known.decoder, ReadFrozenDocument("decoder", folder + kDecoder, config));
  return known;
}

Result<LearnSizes> SizesByEncoder(const KnownEncoder& encoder, const AskedForm& texts,
                                  int32_t compression, const LearningPlan& plan,
                                  const ModelConfig& config) {
  LearnSizes sizes{.batch = 1, .rank = encoder.decoder.shape.rank};
  sizes.frozen.rank = encoder.encoder.shape.rank;
  sizes.frozen.shapes.push_back(encoder.encoder.shape);
  const MemoryForm& form = encoder.form.memory;
  const bool has_states = form.carrier == MemoryCarrier::kStates;
  for (const LearningDocument& document : plan.documents) {
    const size_t tokens = document.input.tokens.size();
    const size_t start = texts.start().size();
    const int32_t memory = MemoryTokensOf(start, tokens, form, compression);
    const int32_t longest =
        form.places == MemoryPlaces::kAsRead ? static_cast<int32_t>(start + tokens) : memory;
    if (longest > config.context_tokens_max) {
      return InvalidArgumentError(document.document.name + " has " + std::to_string(tokens) +
                                  " tokens, and the model's context " +
                                  std::to_string(config.context_tokens_max) +
                                  ": make adapters of its parts");
    }
    const auto rows =
        static_cast<int32_t>(start + std::min(tokens, static_cast<size_t>(form.window_tokens)));
    sizes.example_tokens_max =
        std::max(sizes.example_tokens_max, rows + (form.rows == MemoryRows::kPieces ? 0 : memory));
    int32_t& most = has_states ? sizes.frozen.embeddings : sizes.frozen.keys_values;
    most = std::max(most, memory);
    sizes.frozen.shapes.push_back(
        {.virtual_tokens = memory,
         .kind = has_states ? VirtualTokenKind::kEmbedding : VirtualTokenKind::kKeysValues});
  }
  for (const TrainedShape& shape : sizes.frozen.shapes) {
    if (shape.rank > 0)
      sizes.frozen.bytes += TrainedLora::BytesFor(config, shape.rank, DType::kF32);
    if (shape.virtual_tokens == 0) continue;
    sizes.frozen.bytes +=
        TrainedPrompt::BytesFor(config, shape.kind, shape.virtual_tokens, DType::kF32);
  }
  return sizes;
}

Result<std::vector<std::string>> EncodeDocuments(const KnownEncoder& encoder,
                                                 const AskedForm& texts, int32_t compression,
                                                 const LearningPlan& plan, LoadedModel& model,
                                                 const BaseIdentity& base,
                                                 const TrainingLimits& limits) {
  Trainer trainer(model.config, model.weights, limits, model.stream);
  const MemoryForm& form = encoder.form.memory;
  const int32_t reads = trainer.Add(encoder.encoder.shape);
  const int32_t answers = trainer.Add(encoder.decoder.shape);
  RETURN_IF_ERROR(
      ReadInto(encoder.encoder, model.config, trainer.lora(reads), trainer.prompt(reads)));
  RETURN_IF_ERROR(ReadInto(encoder.decoder, model.config, trainer.lora(answers), nullptr));
  std::vector<std::string> hashes;
  for (const LearningDocument& document : plan.documents) {
    const MemoryReading reading =
        ReadingOf(texts.start(), document.input.tokens, form, compression);
    const bool has_states = form.carrier == MemoryCarrier::kStates;
    const int32_t memory = trainer.Add(
        {.virtual_tokens = reading.memory_tokens,
         .kind = has_states ? VirtualTokenKind::kEmbedding : VirtualTokenKind::kKeysValues});
    std::vector<ReadText> read;
    std::vector<EncodedText> states;
    for (size_t i = 0; i < reading.windows.size(); ++i) {
      read.push_back({reading.windows[i], memory, reading.rows[i], reading.is_between});
      states.push_back({reading.windows[i], memory, reading.rows[i].front().token});
    }
    if (has_states) {
      trainer.Encode(reads, states);
    } else {
      trainer.EncodeKeysValues(reads, read);
    }
    OrderedJson provenance =
        OriginJson(plan.recipe, *plan.learner,
                   {.rank = encoder.decoder.shape.rank, .virtual_tokens = reading.memory_tokens},
                   model, base, document.document, document.input.tokens.size());
    provenance["learner"] = {{"name", WordOf(LearnerKind::kEncoder)},
                             {"encoder", encoder.encoder.hash},
                             {"decoder", encoder.decoder.hash},
                             {"compression", compression},
                             {"virtual_tokens", reading.memory_tokens}};
    ASSIGN_OR_RETURN(std::string hash,
                     WriteAdapter(document.folder, {trainer.lora(answers), trainer.prompt(memory)},
                                  provenance, model));
    hashes.push_back(std::move(hash));
  }
  return hashes;
}

}  // namespace graft
