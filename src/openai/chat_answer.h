// An assistant's answer as OpenAI's JSON: whole as a message, or in pieces as deltas. Pure
// functions; any thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "openai/choice.h"

namespace graft {

// "call_" and random digits; `is_short`: nine letters and digits, which Mistral's templates insist
// on.
std::string NewCallId(bool is_short);

// The answer's message. A call that turned out to be none is the text that it was.
std::string ChatMessage(const ChoicePiece& piece, bool short_call_ids);

// The deltas of a stream that a piece becomes, each a JSON object. A call that turned out to be
// none cannot be taken back: it stays as far as it went.
std::vector<std::string> ChatDeltas(const ChoicePiece& piece, bool short_call_ids);

}  // namespace graft
