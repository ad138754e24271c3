// How a server understands what lies beside its adapters' weights. Any thread.
#pragma once

#include <cstdint>
#include <string>

#include "adapters/peft_backend.h"
#include "model/config.h"
#include "options/option.h"

namespace graft {

enum class AdapterTextUse : uint8_t {
  kAdapter,  // an adapter's chat template and end of answers hold for it
  kBase,     // nothing beside the weights is looked at
};
inline constexpr OptionWord<AdapterTextUse> kAdapterTextWords[] = {
    {AdapterTextUse::kAdapter, "adapter"}, {AdapterTextUse::kBase, "base"}};

Option AdapterTextOptionRow(AdapterTextUse& use);

// The hooks for adapters of the model in `model_dir`. Its tokenizer is read when the first adapter
// comes that brings such files.
AdapterTextHooks MakeAdapterTextHooks(AdapterTextUse use, const std::string& model_dir,
                                      const ModelConfig& model);

}  // namespace graft
