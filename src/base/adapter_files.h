// The files of an adapter's folder. It is a PEFT folder, with the first two; or a bundle, with the
// next ones: graft.json and PEFT folders lora and prompt, of which one may be missing. Either may
// have files of texts beside them.
#pragma once

#include <array>
#include <string>

namespace graft {

inline constexpr std::array<const char*, 2> kPeftFiles = {"adapter_config.json",
                                                          "adapter_model.safetensors"};
inline constexpr std::array<const char*, 5> kBundleFiles = {
    "graft.json", "lora/adapter_config.json", "lora/adapter_model.safetensors",
    "prompt/adapter_config.json", "prompt/adapter_model.safetensors"};
inline constexpr const char* kBundleManifest = kBundleFiles[0];
// How conversations are written for it and what ends its answers. They are part of its content.
inline constexpr std::array<const char*, 6> kAdapterTextFiles = {
    "chat_template.jinja",   "additional_chat_templates/tool_use.jinja",
    "tokenizer_config.json", "special_tokens_map.json",
    "added_tokens.json",     "generation_config.json"};
// Compared with the base's, and no part of its content.
inline constexpr std::array<const char*, 3> kVocabularyFiles = {"tokenizer.json", "tokenizer.model",
                                                                "vocab.json"};

// What to say of a folder that is no adapter while sub-folders of it are, as trainers leave
// checkpoints and PEFT names several adapters; "" where none is. Looks at `path` alone, which lies
// where adapters may be read, and at a bounded number of folders in it.
std::string TellAdaptersBelow(const std::string& path);

}  // namespace graft
