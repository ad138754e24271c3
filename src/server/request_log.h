// One line of the log for every request, under the id that its answer has. Any thread.
#pragma once

#include <cstdint>
#include <string>

#include "openai/routes.h"

namespace graft {

struct RequestRecord {
  std::string id;
  // The server's own span where it traces requests, else the client's; "": none.
  std::string traceparent;
  std::string method;
  std::string path;  // as sent, without its query
  Route route = Route::kUnknown;
  int status = 0;  // 499: the client left before its answer
  double seconds = 0;
  std::string key;  // its first digits of SHA-256; "": no key
  std::string tenant;
  std::string model;           // "": none was found
  int64_t prompt_tokens = -1;  // -1: nothing was generated
  int64_t output_tokens = -1;
  std::string error;     // what the client was told, or would have been
  int error_status = 0;  // of the error: a stream that fails has had its status 200
};

// Whether the server itself has failed.
inline bool IsServerFailure(const RequestRecord& record) { return record.error_status == 500; }

// At level info; failures of the server at error, and probes that went well at debug.
void LogRequest(const RequestRecord& record);

// The id that a client gave its request if it has 1 to 128 letters, digits and "._:/+=@-", else a
// new one.
std::string RequestIdFor(const std::string& given);
// W3C's trace context as a client gave it (version 00), or "" where it is none.
std::string TraceparentFrom(const std::string& given);

}  // namespace graft
