// What the start says of a base with weights of codes, before it is read: the format, its bytes in
// the files, and what the numbers made of them take. One thread.
#pragma once

#include <string>

#include "base/status.h"
#include "runtime/server_memory.h"

namespace graft {

// "" for a base of plain numbers. Opens the folder's files; errors are SafetensorsSet::Open's.
Result<std::string> QuantisedNote(const std::string& folder, const ServedShape& shape);

// The same base as plain numbers rounds otherwise: what MakeArithmeticId has of its format, "NF4
// of bitsandbytes" without blanks; "" for plain numbers.
std::string QuantisedWord(const ModelConfig& config);

}  // namespace graft
