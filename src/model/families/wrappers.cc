// All wrappers: classes of HF that see, of which the text part is one of our families.
#include "model/wrapper.h"

#include <algorithm>

#include "base/check.h"
#include "base/json.h"
#include "base/strings.h"
#include "model/config_layers.h"

namespace graft {
namespace {

// What HF's classes of text_config take for sizes that are absent, and for other numbers where
// these differ from the family's own.
constexpr std::string_view kLlamaAbsent = R"({"vocab_size": 32000, "hidden_size": 4096,
    "intermediate_size": 11008, "num_hidden_layers": 32, "num_attention_heads": 32,
    "max_position_embeddings": 2048})";
constexpr std::string_view kMistralAbsent = R"({"vocab_size": 32000, "hidden_size": 4096,
    "intermediate_size": 14336, "num_hidden_layers": 32, "num_attention_heads": 32,
    "num_key_value_heads": 8, "max_position_embeddings": 131072})";
constexpr std::string_view kQwen2Absent = R"({"vocab_size": 151936, "hidden_size": 4096,
    "intermediate_size": 22016, "num_hidden_layers": 32, "num_attention_heads": 32,
    "num_key_value_heads": 32, "max_position_embeddings": 32768})";
constexpr std::string_view kGemma3Absent = R"({"vocab_size": 262208, "hidden_size": 2304,
    "intermediate_size": 9216, "num_hidden_layers": 26, "num_attention_heads": 8,
    "num_key_value_heads": 4, "max_position_embeddings": 131072})";
// Qwen2-VL's and Qwen2.5-VL's.
constexpr std::string_view kQwen2VlAbsent = R"({"vocab_size": 152064, "hidden_size": 8192,
    "intermediate_size": 29568, "num_hidden_layers": 80, "num_attention_heads": 64,
    "num_key_value_heads": 8, "max_position_embeddings": 32768, "rms_norm_eps": 1e-5,
    "rope_theta": 1000000.0, "max_window_layers": 80})";
constexpr std::string_view kQwen3VlAbsent = R"({"vocab_size": 151936, "hidden_size": 4096,
    "intermediate_size": 22016, "num_hidden_layers": 32, "num_attention_heads": 32,
    "num_key_value_heads": 32, "max_position_embeddings": 128000, "rope_theta": 500000.0})";
constexpr std::string_view kMinistral3Absent = R"({"vocab_size": 131072, "hidden_size": 4096,
    "intermediate_size": 14336, "num_hidden_layers": 34, "num_attention_heads": 32,
    "num_key_value_heads": 8, "max_position_embeddings": 262144})";

constexpr WrappedText kGemma3Texts[] = {{"gemma3_text", &kGemma3Family, kGemma3Absent}};
constexpr WrappedText kMistral3Texts[] = {{"mistral", &kMistralFamily, kMistralAbsent},
                                          {"ministral3", &kMinistral3Family, kMinistral3Absent}};
constexpr WrappedText kQwen2VlTexts[] = {{"qwen2_vl_text", &kQwen2Family, kQwen2VlAbsent}};
constexpr WrappedText kQwen25VlTexts[] = {{"qwen2_5_vl_text", &kQwen2Family, kQwen2VlAbsent}};
constexpr WrappedText kQwen3VlTexts[] = {{"qwen3_vl_text", &kQwen3Family, kQwen3VlAbsent}};
constexpr WrappedText kLlavaTexts[] = {{"llama", &kLlamaFamily, kLlamaAbsent},
                                       {"mistral", &kMistralFamily, kMistralAbsent},
                                       {"qwen2", &kQwen2Family, kQwen2Absent}};
constexpr WrappedText kIdefics3Texts[] = {{"llama", &kLlamaFamily, kLlamaAbsent}};

constexpr ModelWrapper kWrappers[] = {
    {.name = "Gemma3ForConditionalGeneration",
     .model_type = "gemma3",
     .texts = kGemma3Texts,
     .text_type_absent = "gemma3_text",
     .tied_embeddings = true},
    {.name = "Mistral3ForConditionalGeneration",
     .model_type = "mistral3",
     .texts = kMistral3Texts,
     .tied_embeddings = true},
    {.name = "Qwen2VLForConditionalGeneration",
     .model_type = "qwen2_vl",
     .texts = kQwen2VlTexts,
     .text_type_absent = "qwen2_vl_text",
     .may_be_flat = true,
     .mixes_positions = true},
    {.name = "Qwen2_5_VLForConditionalGeneration",
     .model_type = "qwen2_5_vl",
     .texts = kQwen25VlTexts,
     .text_type_absent = "qwen2_5_vl_text",
     .may_be_flat = true,
     .mixes_positions = true},
    {.name = "Qwen3VLForConditionalGeneration",
     .model_type = "qwen3_vl",
     .texts = kQwen3VlTexts,
     .text_type_absent = "qwen3_vl_text",
     .mixes_positions = true},
    {.name = "LlavaForConditionalGeneration",
     .model_type = "llava",
     .texts = kLlavaTexts,
     .text_type_absent = "llama"},
    {.name = "LlavaNextForConditionalGeneration",
     .model_type = "llava_next",
     .texts = kLlavaTexts,
     .text_type_absent = "llama"},
    {.name = "Idefics3ForConditionalGeneration",
     .model_type = "idefics3",
     .texts = kIdefics3Texts,
     .text_type_absent = "llama",
     .text_prefix = "model.text_model."},
    {.name = "SmolVLMForConditionalGeneration",
     .model_type = "smolvlm",
     .texts = kIdefics3Texts,
     .text_type_absent = "llama",
     .text_prefix = "model.text_model."},
};

// How names begin that belong to towers and to what joins them to the text, in HF's classes of
// today and in those before them.
constexpr std::string_view kTowers[] = {"visual.",    "vision_tower.", "vision_model.",
                                        "connector.", "image_newline", "multi_modal_projector."};
// Parts of a family's names.
constexpr std::string_view kModelParts[] = {"layers.", "norm.", "embed_tokens."};
constexpr std::string_view kHead = "lm_head.";
constexpr std::string_view kWrappedHead = "language_model.lm_head.";

// What may stand beside text_config. It then goes before what text_config says, which for some of
// these is only its class's default.
constexpr const char* kOuterFields[] = {
    "_name_or_path", "bos_token_id", "compression_config", "eos_token_id", "quantization_config",
    "torch_dtype",   "dtype"};
// What flat configs have besides the text's fields.
constexpr const char* kTowerFields[] = {"vision_config", "audio_config"};

Result<const WrappedText*> FindText(const ModelWrapper& wrapper, const ConfigFields& text) {
  ASSIGN_OR_RETURN(std::string type, text.String("model_type", ""));
  // A flat config's is the wrapper's own.
  if (type.empty() || type == wrapper.model_type) type = wrapper.text_type_absent;
  if (type.empty()) return text.Missing("model_type");
  for (const WrappedText& one : wrapper.texts) {
    if (one.model_type == type) return &one;
  }
  const auto name = [](const WrappedText& one) { return one.model_type; };
  return text.Unsupported("model_type", Json(type),
                          Joined(wrapper.texts, ", ", name) + " in " + std::string(wrapper.name));
}

// How the three positions of a token share the dimensions. HF splits a head by it.
Status CheckSections(const Json& sections, const std::string& where, const Json& text) {
  const auto is_count = [](const Json& n) {
    return n.is_number_integer() && n.get<int64_t>() >= 0 && n.get<int64_t>() <= kConfigContextMax;
  };
  const auto size = [&](const char* name) {
    const Json value = text.value(name, Json());
    return is_count(value) ? value.get<int64_t>() : 0;
  };
  int64_t sum = 0;
  bool is_right = sections.is_array() && sections.size() == 3;
  for (size_t i = 0; is_right && i < sections.size(); ++i) {
    is_right = is_count(sections[i]);
    if (is_right) sum += sections[i].get<int64_t>();
  }
  int64_t head_dim = size("head_dim");
  if (head_dim == 0 && size("num_attention_heads") > 0) {
    head_dim = size("hidden_size") / size("num_attention_heads");
  }
  if (is_right && (head_dim == 0 || sum == head_dim / 2)) return OkStatus();
  return InvalidArgumentError(where + ".mrope_section is " + DumpJson(sections) +
                              ", expected three counts, together half of head_dim");
}

// Rope parameters without what images alone have.
Status PlainRope(const std::string& where, const Json& text, Json& rope) {
  if (!rope.is_object()) return OkStatus();  // refused where it is read
  for (const char* const key : {"type", "rope_type"}) {
    const auto type = rope.find(key);
    if (type != rope.end() && *type == "mrope") *type = "default";
  }
  const auto sections = rope.find("mrope_section");
  if (sections != rope.end()) RETURN_IF_ERROR(CheckSections(*sections, where, text));
  rope.erase("mrope_section");
  rope.erase("mrope_interleaved");
  return OkStatus();
}

// Embeddings are tied where either config says so. Classes before transformers 5 asked the text's,
// those of today ask the wrapper's, which some of them take for true where it is absent.
Result<bool> TiedEmbeddings(const ModelWrapper& wrapper, const ConfigFields& outer,
                            const ConfigFields& text) {
  ASSIGN_OR_RETURN(const bool tied, outer.Bool("tie_word_embeddings", wrapper.tied_embeddings));
  ASSIGN_OR_RETURN(const bool text_tied, text.Bool("tie_word_embeddings", false));
  return tied || text_tied;
}

}  // namespace

std::span<const ModelWrapper> ModelWrappers() { return kWrappers; }

const ModelWrapper* FindWrapper(const ConfigFields& fields) {
  const Json* const architectures = fields.Find("architectures");
  const Json* name = fields.Find("model_type");
  const bool by_class = architectures != nullptr;
  if (by_class) {
    if (!architectures->is_array() || architectures->size() != 1) return nullptr;
    name = &(*architectures)[0];
  }
  if (name == nullptr || !name->is_string()) return nullptr;
  for (const ModelWrapper& wrapper : kWrappers) {
    if (name->get_ref<const std::string&>() == (by_class ? wrapper.name : wrapper.model_type)) {
      return &wrapper;
    }
  }
  return nullptr;
}

Result<Json> TextConfigOf(const ModelWrapper& wrapper, const Json& json) {
  const ConfigFields outer(json, "");
  ASSIGN_OR_RETURN(const std::string model_type, outer.String("model_type", ""));
  if (!model_type.empty() && model_type != wrapper.model_type) {
    return InvalidArgumentError("model_type \"" + model_type + "\" contradicts architectures \"" +
                                std::string(wrapper.name) + "\"");
  }
  const Json* const nested = outer.Find("text_config");
  if (nested == nullptr && !wrapper.may_be_flat) return outer.Missing("text_config");
  if (nested != nullptr && !nested->is_object()) {
    return outer.Wrong("text_config", *nested, "an object");
  }
  const Json& given = nested != nullptr ? *nested : json;
  const std::string where = nested != nullptr ? "text_config." : "";
  const ConfigFields fields(given, where);
  ASSIGN_OR_RETURN(const WrappedText* const kind, FindText(wrapper, fields));
  Result<Json> text = ParseJson(kind->absent);
  CHECK(text.ok()) << text.status().ToString();
  // A null counts: it means what the family takes where a field is absent.
  text->update(given);
  if (outer.Find("torch_dtype") != nullptr) text->erase("dtype");
  for (const char* const key : kOuterFields) {
    const Json* const value = outer.Find(key);
    if (value != nullptr) (*text)[key] = *value;
  }
  for (const char* const key : kTowerFields) text->erase(key);
  if (wrapper.mixes_positions) {
    for (const char* const key : {"rope_scaling", "rope_parameters"}) {
      const auto rope = text->find(key);
      if (rope != text->end()) RETURN_IF_ERROR(PlainRope(where + key, *text, *rope));
    }
  }
  ASSIGN_OR_RETURN((*text)["tie_word_embeddings"], TiedEmbeddings(wrapper, outer, fields));
  (*text)["architectures"] = Json::array({kind->family->name});
  (*text)["model_type"] = kind->family->model_type;
  return text;
}

std::optional<std::string> TextNameOf(std::string_view name) {
  // The head's module, without a parameter behind it.
  const std::string_view head = kHead.substr(0, kHead.size() - 1);
  if (name == head || name == kWrappedHead.substr(0, kWrappedHead.size() - 1)) {
    return std::string(head);
  }
  if (name.starts_with(kWrappedHead)) {
    return std::string(kHead) + std::string(name.substr(kWrappedHead.size()));
  }
  if (name.starts_with(kHead)) return std::string(name);
  for (const std::string_view prefix : kTextPrefixes) {
    if (!name.starts_with(prefix)) continue;
    const std::string_view part = name.substr(prefix.size());
    const auto begins = [part](std::string_view known) { return part.starts_with(known); };
    if (std::ranges::any_of(kModelParts, begins)) return "model." + std::string(part);
  }
  return std::nullopt;
}

std::vector<std::string> WrappedNamesOf(std::string_view of_family) {
  const std::string_view prefix = kTextPrefixes[std::size(kTextPrefixes) - 1];  // "model."
  if (!of_family.starts_with(prefix)) {
    return {std::string(of_family), "language_model." + std::string(of_family)};
  }
  std::vector<std::string> names;
  for (const std::string_view other : kTextPrefixes) {
    names.push_back(std::string(other) + std::string(of_family.substr(prefix.size())));
  }
  return names;
}

std::string_view TextPrefixOf(std::string_view path) {
  for (const std::string_view prefix : kTextPrefixes) {
    if (path.starts_with(prefix) && path.substr(prefix.size()).starts_with(kModelParts[0])) {
      return prefix;
    }
  }
  return "";
}

bool IsOfTower(std::string_view name) {
  if (name.starts_with("model.")) name.remove_prefix(6);
  return std::ranges::any_of(kTowers,
                             [name](std::string_view tower) { return name.starts_with(tower); });
}

Result<std::map<std::string, std::string>> StoredTextNames(const std::vector<std::string>& names) {
  std::map<std::string, std::string> stored;
  for (const std::string& name : names) {
    const std::optional<std::string> text = TextNameOf(name);
    if (!text.has_value()) continue;
    const auto [at, is_new] = stored.emplace(*text, name);
    if (is_new) continue;
    return InvalidArgumentError("tensors " + at->second + " and " + name +
                                " are the same part of the model's text");
  }
  return stored;
}

}  // namespace graft
