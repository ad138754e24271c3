// The names of files in an adapter's folder. The folder is a PEFT folder, with the first two files,
// or a bundle: graft.json beside PEFT folders lora and prompt, of which one may be missing. Either
// may also have files of texts.
#pragma once

#include <array>
#include <string>

namespace graft {

inline constexpr std::array<const char*, 2> kPeftFiles = {"adapter_config.json",
                                                          "adapter_model.safetensors"};
inline constexpr std::array<const char*, 5> kBundleFiles = {
    "graft.json", "lora/adapter_config.json", "lora/adapter_model.safetensors",
    "prompt/adapter_config.json", "prompt/adapter_model.safetensors"};
// What stands in place of adapter_model.safetensors where a folder has none: torch's file, or
// mlx-lm's.
inline constexpr std::array<const char*, 2> kOtherWeightsFiles = {"adapter_model.bin",
                                                                  "adapters.safetensors"};
inline constexpr const char* kBundleManifest = kBundleFiles[0];
// How conversations are written for it and what ends its answers. They are part of its content.
inline constexpr std::array<const char*, 6> kAdapterTextFiles = {
    "chat_template.jinja",   "additional_chat_templates/tool_use.jinja",
    "tokenizer_config.json", "special_tokens_map.json",
    "added_tokens.json",     "generation_config.json"};
// Compared with the base's, and no part of its content.
inline constexpr std::array<const char*, 3> kVocabularyFiles = {"tokenizer.json", "tokenizer.model",
                                                                "vocab.json"};

// Where a folder's `file`, one of the names above, is read: its own path, or for the file of
// weights that is not there the one that stands in its place. An absolute path if `folder` is one.
std::string AdapterFilePath(const std::string& folder, const std::string& file);

// Says which sub-folders of `path` are adapters, for an error about a folder that is not one:
// trainers write checkpoints into sub-folders, and PEFT names several adapters so. "" if there are
// none. Looks at `path` alone, which must lie where adapters may be read, and at a bounded number
// of folders in it.
std::string TellAdaptersBelow(const std::string& path);

}  // namespace graft
