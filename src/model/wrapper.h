// ModelWrapper: a class of HF that puts a model of text beside towers that see, for example
// Gemma3ForConditionalGeneration. Its text part is served as the family that it is, by the same
// code; the towers are never read. Here is what a wrapper adds: where its text's config stands,
// what is taken where that leaves fields out, and other names of tensors and modules. All wrappers
// stand in families/wrappers.cc. Constants and pure functions; any thread.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/json_fwd.h"
#include "base/status.h"
#include "model/config_fields.h"
#include "model/family.h"

namespace graft {

// A kind of text that a wrapper may hold.
struct WrappedText {
  std::string_view model_type;  // of text_config
  const ModelFamily* family;    // what computes it
  // What HF's class of this text_config takes for fields that are absent, as a JSON object. Sizes
  // are among them: published configs leave out those that are their class's.
  std::string_view absent;
};

struct ModelWrapper {
  std::string_view name;        // HF's class
  std::string_view model_type;  // of config.json
  std::span<const WrappedText> texts;
  // Which of them it is where text_config does not say; "": it must.
  std::string_view text_type_absent = "";
  // Whether text_config may be missing, and its fields stand beside vision_config.
  bool may_be_flat = false;
  // For a tie_word_embeddings that is absent.
  bool tied_embeddings = false;
  // Rope parameters may say how positions in images are mixed (mrope). Text has three equal
  // positions, for which each of these mixtures is plain RoPE.
  bool mixes_positions = false;
  // How HF's class of today begins the names of its text part's modules: kTextPrefixes.
  std::string_view text_prefix = "model.language_model.";
};

// In the order in which errors and docs/models.md name them.
std::span<const ModelWrapper> ModelWrappers();

// Null: config.json is none of a wrapper.
const ModelWrapper* FindWrapper(const ConfigFields& fields);

// The config of the text part, as the family's own config.json would say it.
Result<Json> TextConfigOf(const ModelWrapper& wrapper, const Json& json);

// What stands for "model." of a family's names in files and modules of wrappers: in HF's classes
// of today, in those before them, in SmolVLM, and in Qwen2-VL's files.
inline constexpr std::string_view kTextPrefixes[] = {
    "model.language_model.", "language_model.model.", "model.text_model.", "model."};

// A family's name of what a wrapper calls so: "model.layers.0.mlp.up_proj.weight" of
// "language_model.model.layers.0.mlp.up_proj.weight"; nothing where it is no part of the text.
std::optional<std::string> TextNameOf(std::string_view name);
// What a wrapper's files and configs may call a module of its text that the family calls
// `of_family`.
std::vector<std::string> WrappedNamesOf(std::string_view of_family);
// Which of kTextPrefixes a module of a layer has; "": it is no part of the text.
std::string_view TextPrefixOf(std::string_view path);
// Whether a name begins as those of a tower, or of what joins it to the text.
bool IsOfTower(std::string_view name);

// The names of the text's tensors in files of a wrapper, by the family's names. An error where two
// are the same.
Result<std::map<std::string, std::string>> StoredTextNames(const std::vector<std::string>& names);

}  // namespace graft
