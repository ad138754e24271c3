// The log of a serving process. A thread of its own writes its lines, as text or JSON, so that
// threads that log never wait for a reader. If the reader falls behind, the oldest waiting lines
// are dropped and counted. LOG_INFO and the other macros write to it. Thread-safe, except for its
// begin and end, which belong to the main thread.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/json_fwd.h"
#include "base/log.h"
#include "base/log_format.h"
#include "base/status.h"

namespace graft {

struct ServerLogOptions {
  std::string level = "info";  // as InitLog's
  LogFormat format = LogFormat::kText;
  int descriptor = 2;  // where lines go
  size_t lines_waiting_max = 8192;
  std::chrono::milliseconds end_limit{1000};
};

// From Begin until it goes, the process's log is this one. One at a time. Its end writes what
// waits, within `end_limit`; later lines are written at once or dropped.
class ServerLog {
 public:
  static Result<std::unique_ptr<ServerLog>> Begin(const ServerLogOptions& options);
  ~ServerLog();
  ServerLog(const ServerLog&) = delete;
  ServerLog& operator=(const ServerLog&) = delete;

  // Waits until what was logged before is written, for no longer than `limit`. Without a ServerLog
  // nothing waits.
  static void Flush(std::chrono::milliseconds limit);
  // Lines, since the process began.
  static int64_t num_dropped();
  // Whether the process's log is one, or was until it ended; and one of JSON that takes lines.
  static bool is_there();
  static bool is_json();

 private:
  explicit ServerLog(std::chrono::milliseconds end_limit) : end_limit_(end_limit) {}

  const std::chrono::milliseconds end_limit_;
};

// A line with fields: "what name=value name=\"a value\"", or members of the JSON object. Values are
// strings and numbers.
void LogFields(LogLevel level, std::string_view what, const OrderedJson& fields);

}  // namespace graft
