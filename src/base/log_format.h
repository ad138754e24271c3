// How a line of the log looks. A line may hold texts of others (paths, names, messages). It stays
// one line all the same, sends no control codes to a terminal, and cannot be displayed in another
// order than it has. Pure functions; any thread.
#pragma once

#include <memory>
#include <string>
#include <string_view>

namespace spdlog {
class formatter;
}  // namespace spdlog

namespace graft {

enum class LogFormat { kText, kJson };

// `text` with line ends, control characters, marks of direction, invisible characters and bytes
// that are not UTF-8 written as escapes: "\n", "\x1b", "\u202e", "\xff".
std::string EscapeForLog(std::string_view text);

// Text: "2026-11-24T22:54:58.123+00:00 info what happened". JSON: an object with "time", "level",
// "message", and the fields of LogFields.
std::unique_ptr<spdlog::formatter> MakeLogFormatter(LogFormat format);

// A logger of this name hands the JSON formatter the members of an object, without its braces.
inline constexpr char kFieldsLogger[] = "graft fields";

}  // namespace graft
