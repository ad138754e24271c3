#include "base/check.h"

#include <cstdio>
#include <cstdlib>

#include "base/server_log.h"

namespace graft::internal {

CheckFailure::CheckFailure(const char* file, int line, const char* expression) {
  stream_ << file << ":" << line << ": CHECK failed: " << expression << " ";
}

CheckFailure::~CheckFailure() {
  ServerLog::Flush(std::chrono::milliseconds(200));  // what led here
  std::fprintf(stderr, "%s\n", stream_.str().c_str());
  std::fflush(stderr);
  std::abort();
}

}  // namespace graft::internal
