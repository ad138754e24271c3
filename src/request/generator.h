// Waist 1, the interface of what turns a Request into TokenEvents. The engine is one; a remote
// worker behind an RPC is another. Thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "request/request.h"
#include "request/token_stream.h"

namespace graft {

// What a client may ask of the model behind a Generator.
struct GeneratorLimits {
  int32_t context_tokens_max = 0;  // prompt and output together
  int32_t vocab_size = 0;
  int32_t requests_max = 0;  // in flight, at most
};

class Generator {
 public:
  virtual ~Generator() = default;

  // Takes the request, or refuses it, by the returned status or by a first event of kError without
  // a token. kInvalidArgument: the request can never run (too long, bad sampling values).
  // kUnimplemented: see RefuseUnserved. kNotFound: there is no adapter of that hash.
  // kResourceExhausted: the queue is full, try later. kUnavailable: the server is draining. After
  // OK the stream gets events until one with a finish reason. The stream is shared because writer
  // and reader are on different threads and either may end first.
  virtual Status Submit(Request request, std::shared_ptr<TokenStream> stream) = 0;

  // Ends the request within one step; its stream gets a last event kCancelled. Unknown ids are
  // ignored.
  virtual void Cancel(RequestId id) = 0;

  virtual GeneratorLimits limits() const = 0;

  // After kResourceExhausted: seconds until a request of this tenant, of this weight, will be
  // taken. That time is promised to the caller; later callers are told later times.
  virtual int32_t RetryAfterS(const std::string& /*tenant*/, double /*weight*/) { return 1; }
};

// The first field out of range, by name, or OK. Token ids are checked against `vocab_size`.
Status ValidateSamplingParams(const SamplingParams& params, int32_t vocab_size);

// Whether `banned` leaves none of the tokens that these parameters allow to be drawn.
bool AllowsNone(const SamplingParams& params, std::vector<int32_t> banned, int32_t vocab_size);

// kInvalidArgument where the request's first token could be none. `end_token_ids` end an answer
// besides its own.
Status CheckCanDraw(const Request& request, const std::vector<int32_t>& end_token_ids,
                    int32_t vocab_size);

// kUnimplemented with the name of the first field that asks for what no engine serves.
Status RefuseUnserved(const Request& request);

}  // namespace graft
