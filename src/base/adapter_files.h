// The files of an adapter's folder. It is a PEFT folder, with the first two; or a bundle, with the
// others: graft.json and PEFT folders lora and prompt, of which one may be missing.
#pragma once

#include <array>

namespace graft {

inline constexpr std::array<const char*, 2> kPeftFiles = {"adapter_config.json",
                                                          "adapter_model.safetensors"};
inline constexpr std::array<const char*, 5> kBundleFiles = {
    "graft.json", "lora/adapter_config.json", "lora/adapter_model.safetensors",
    "prompt/adapter_config.json", "prompt/adapter_model.safetensors"};
inline constexpr const char* kBundleManifest = kBundleFiles[0];

}  // namespace graft
