#include "base/log_format.h"

#include <spdlog/pattern_formatter.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <utility>

#include "base/json.h"

namespace graft {
namespace {

struct CodePoint {
  uint32_t value = 0;
  size_t bytes = 0;  // 0: not UTF-8
};

// At the front of `text`, which is not empty.
CodePoint DecodeFirst(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(text[i]); };
  const uint8_t first = byte(0);
  if (first < 0x80) return {first, 1};
  const size_t bytes = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  if (first < 0xc2 || first > 0xf4 || text.size() < bytes) return {};
  uint32_t value = first & (0x7fu >> bytes);
  for (size_t i = 1; i < bytes; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return {};
    value = value << 6 | (byte(i) & 0x3f);
  }
  constexpr uint32_t kLeast[] = {0, 0, 0x80, 0x800, 0x10000};
  const bool is_surrogate = value >= 0xd800 && value < 0xe000;
  if (value < kLeast[bytes] || value > 0x10ffff || is_surrogate) return {};
  return {value, bytes};
}

bool IsEscaped(uint32_t c) {
  using Range = std::pair<uint32_t, uint32_t>;
  // Controls; the Arabic letter mark; zero-width ones and marks of direction; separators of lines,
  // embeddings and overrides; invisible operators and isolates; others that show as nothing.
  constexpr std::array<Range, 8> kRanges = {{{0x00, 0x1f},
                                             {0x7f, 0x9f},
                                             {0x061c, 0x061c},
                                             {0x200b, 0x200f},
                                             {0x2028, 0x202e},
                                             {0x2060, 0x206f},
                                             {0xfeff, 0xfeff},
                                             {0xe0000, 0xe007f}}};
  return std::any_of(kRanges.begin(), kRanges.end(),
                     [c](const Range& range) { return c >= range.first && c <= range.second; });
}

void AppendEscape(uint32_t c, std::string* out) {
  if (c == '\n') {
    *out += "\\n";
  } else if (c == '\r') {
    *out += "\\r";
  } else if (c == '\t') {
    *out += "\\t";
  } else {
    char digits[16];
    std::snprintf(digits, sizeof(digits), c < 0x80 ? "\\x%02x" : "\\u%04x", c);
    *out += digits;
  }
}

std::string_view View(const spdlog::string_view_t& text) { return {text.data(), text.size()}; }

void Append(std::string_view text, spdlog::memory_buf_t* out) {
  out->append(text.data(), text.data() + text.size());
}

// The pattern's "%*": what was logged.
class PayloadFlag : public spdlog::custom_flag_formatter {
 public:
  explicit PayloadFlag(LogFormat format) : format_(format) {}

  void format(const spdlog::details::log_msg& line, const std::tm&,
              spdlog::memory_buf_t& out) override {
    const std::string_view payload = View(line.payload);
    if (format_ == LogFormat::kText) return Append(EscapeForLog(payload), &out);
    if (View(line.logger_name) == kFieldsLogger) return Append(payload, &out);
    const Json message = std::string(payload);
    Append("\"message\":", &out);
    Append(message.dump(-1, ' ', /*ensure_ascii=*/true, Json::error_handler_t::replace), &out);
  }

  std::unique_ptr<custom_flag_formatter> clone() const override {
    return std::make_unique<PayloadFlag>(format_);
  }

 private:
  const LogFormat format_;
};

}  // namespace

std::string EscapeForLog(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const CodePoint c = DecodeFirst(text);
    if (c.bytes == 0) {
      char digits[8];
      std::snprintf(digits, sizeof(digits), "\\x%02x", static_cast<uint8_t>(text[0]));
      out += digits;
    } else if (IsEscaped(c.value)) {
      AppendEscape(c.value, &out);
    } else {
      out += text.substr(0, c.bytes);
    }
    text.remove_prefix(std::max<size_t>(c.bytes, 1));
  }
  return out;
}

std::unique_ptr<spdlog::formatter> MakeLogFormatter(LogFormat format) {
  auto formatter = std::make_unique<spdlog::pattern_formatter>();
  formatter->add_flag<PayloadFlag>('*', format);
  formatter->set_pattern(format == LogFormat::kText
                             ? "%Y-%m-%dT%H:%M:%S.%e%z %^%l%$ %*"
                             : R"({"time":"%Y-%m-%dT%H:%M:%S.%e%z","level":"%l",%*})");
  return formatter;
}

}  // namespace graft
