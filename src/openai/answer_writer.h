// How an answer is written for the client: each endpoint for text has its own form. One thread at a
// time.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/check.h"
#include "http/api_error.h"
#include "openai/choice.h"
#include "request/token_event.h"

namespace graft {

struct ResponseUsage {
  int64_t prompt_tokens = 0;
  int64_t cached_tokens = 0;
  int64_t output_tokens = 0;
};

class AnswerWriter {
 public:
  virtual ~AnswerWriter() = default;

  // What events say from now on where they tell the usage so far.
  virtual void SetUsage(const ResponseUsage& /*usage*/) {}

  // A stream of server-sent events: AppendBeginning writes what comes before choice `idx`'s first
  // chunk; the others write what the choice has gained (`finish` is kNone while it goes on), what
  // comes behind all choices, or a failure. They are called only for endpoints that stream.
  virtual void AppendBeginning(int32_t /*idx*/, std::string* /*out*/) { CHECK(false); }
  virtual void AppendChunk(int32_t /*idx*/, const ChoicePiece& /*piece*/, FinishReason /*finish*/,
                           std::string* /*out*/) {
    CHECK(false);
  }
  virtual void AppendEnd(const ResponseUsage& /*usage*/, std::string* /*out*/) { CHECK(false); }
  virtual void AppendError(const ApiError& /*error*/, std::string* /*out*/) { CHECK(false); }

  // What it keeps of a stream for AppendEnd, which goes through all of it once more.
  virtual int64_t kept_bytes() const { return 0; }

  // The whole answer; choice i has pieces[i] and finishes[i]. A piece's memory is free once it is
  // written.
  virtual std::string Body(std::vector<ChoicePiece> pieces,
                           const std::vector<FinishReason>& finishes,
                           const ResponseUsage& usage) = 0;
};

}  // namespace graft
