// A level of base/log.h as spdlog has it. For the files of base/ that drive spdlog. Any thread.
#pragma once

#include <spdlog/common.h>

#include "base/log.h"

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

}  // namespace graft
