// Logging: LOG_INFO("listening on {}:{}", host, port), with fmt's format strings, checked at
// compile time. Lines go to stderr; stdout is for results. Levels: debug, info, warn, error, off.
// Only base/ includes spdlog, so that code that logs need not compile it. Thread-safe.
#pragma once

#include <fmt/core.h>

#include <string>

#include "base/status.h"

namespace graft {

enum class LogLevel { kDebug, kInfo, kWarn, kError };

// Sets up the process's logger; call once at start. `level` as above.
Status InitLog(const std::string& level);

namespace internal {

// A line, unless the process's logger leaves out its level.
void WriteLog(LogLevel level, fmt::string_view format, fmt::format_args args);

template <typename... Args>
void Log(LogLevel level, fmt::format_string<Args...> format, Args&&... args) {
  WriteLog(level, format, fmt::make_format_args(args...));
}

}  // namespace internal

}  // namespace graft

#define LOG_DEBUG(...) ::graft::internal::Log(::graft::LogLevel::kDebug, __VA_ARGS__)
#define LOG_INFO(...) ::graft::internal::Log(::graft::LogLevel::kInfo, __VA_ARGS__)
#define LOG_WARN(...) ::graft::internal::Log(::graft::LogLevel::kWarn, __VA_ARGS__)
#define LOG_ERROR(...) ::graft::internal::Log(::graft::LogLevel::kError, __VA_ARGS__)
