// Tells base models apart without reading all of their bytes. Any thread.
#pragma once

#include <string>

#include "base/status.h"

namespace graft {

struct BaseIdentity {
  std::string text_hash;     // of config and tokenizer
  std::string weights_hash;  // of the weights' sizes, headers and samples; "" where there are none
};

// The identity of an HF folder. A frontend's folder has no weights.
Result<BaseIdentity> IdentifyBase(const std::string& folder);

}  // namespace graft
