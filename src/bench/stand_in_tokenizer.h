// A tokenizer for random weights, which come without one: every id is a word of its own, so that an
// answer over HTTP has as much text as a real one. Main thread.
#pragma once

#include <cstdint>
#include <memory>

#include "base/status.h"
#include "text/tokenizer.h"

namespace graft {

// Ids [0, vocab_size).
Result<std::unique_ptr<Tokenizer>> MakeStandInTokenizer(int32_t vocab_size);

}  // namespace graft
