// A level of base/log.h as spdlog has it. For the files of base/ that drive spdlog. Any thread.
#pragma once

#include <spdlog/common.h>

#include <string>

#include "base/log.h"
#include "base/status.h"

namespace graft {

inline spdlog::level::level_enum SpdlogLevel(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return spdlog::level::debug;
    case LogLevel::kInfo:
      return spdlog::level::info;
    case LogLevel::kWarn:
      return spdlog::level::warn;
    case LogLevel::kError:
      break;
  }
  return spdlog::level::err;
}

inline Result<spdlog::level::level_enum> ParseSpdlogLevel(const std::string& level) {
  const auto parsed = spdlog::level::from_str(level);
  if (parsed != spdlog::level::off || level == "off") return parsed;
  return InvalidArgumentError("unknown log level '" + level +
                              "'; use debug, info, warn, error or off");
}

}  // namespace graft
