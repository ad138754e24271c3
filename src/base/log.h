// Logging through spdlog: LOG_INFO("listening on {}:{}", host, port). Lines go to stderr; stdout is
// for results. Thread-safe. Levels: debug, info, warn, error, off.
#pragma once

#include <spdlog/spdlog.h>

#include <string>

#include "base/status.h"

namespace graft {

// Sets up the process's logger; call once at start. `level` as above.
Status InitLog(const std::string& level);

}  // namespace graft

#define LOG_DEBUG(...) ::spdlog::debug(__VA_ARGS__)
#define LOG_INFO(...) ::spdlog::info(__VA_ARGS__)
#define LOG_WARN(...) ::spdlog::warn(__VA_ARGS__)
#define LOG_ERROR(...) ::spdlog::error(__VA_ARGS__)
