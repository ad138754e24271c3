#include "base/log.h"

#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include <memory>

#include "base/log_format.h"
#include "base/spdlog_level.h"
#include "base/start_notes.h"

namespace graft {

Status InitLog(const std::string& level) {
  ASSIGN_OR_RETURN(const auto parsed, ParseSpdlogLevel(level));
  auto logger = std::make_shared<spdlog::logger>(
      "graft", std::make_shared<spdlog::sinks::stderr_color_sink_mt>());
  logger->set_formatter(MakeLogFormatter(LogFormat::kText));
  logger->set_level(parsed);
  spdlog::set_default_logger(std::move(logger));
  for (const std::string& note : TakeStartNotes()) LOG_WARN("{}", note);
  return OkStatus();
}

void internal::WriteLog(LogLevel level, fmt::string_view format, fmt::format_args args) {
  spdlog::logger& logger = *spdlog::default_logger_raw();
  const spdlog::level::level_enum spdlog_level = SpdlogLevel(level);
  if (!logger.should_log(spdlog_level)) return;
  const std::string text = fmt::vformat(format, args);
  logger.log(spdlog_level, spdlog::string_view_t(text));
}

}  // namespace graft
