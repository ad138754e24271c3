#include "trace/trace_context.h"

#include <cstdint>

#include "base/random.h"

namespace graft {
namespace {

constexpr std::string_view kHexDigits = "0123456789abcdef";
constexpr size_t kTraceAt = 3;
constexpr size_t kSpanAt = 36;
constexpr size_t kFlagsAt = 53;
constexpr size_t kTraceDigits = 32;
constexpr size_t kSpanDigits = 16;
constexpr size_t kTraceparentBytes = 55;

// Digits of which not all are zeros.
std::string RandomDigits(size_t digits) {
  std::string text;
  while (text.find_first_not_of('0') == std::string::npos) {
    text.clear();
    for (uint64_t bits = 0; text.size() < digits; bits >>= 4) {
      if (text.size() % 16 == 0) bits = RandomSeed();
      text += kHexDigits[bits & 15];
    }
  }
  return text;
}

bool IsId(std::string_view digits) {
  return digits.find_first_not_of(kHexDigits) == std::string_view::npos &&
         digits.find_first_not_of('0') != std::string_view::npos;
}

}  // namespace

std::optional<TraceContext> ParseTraceparent(std::string_view traceparent) {
  if (traceparent.size() != kTraceparentBytes || !traceparent.starts_with("00-")) return {};
  if (traceparent[kSpanAt - 1] != '-' || traceparent[kFlagsAt - 1] != '-') return {};
  const std::string_view trace_id = traceparent.substr(kTraceAt, kTraceDigits);
  const std::string_view span_id = traceparent.substr(kSpanAt, kSpanDigits);
  const std::string_view flags = traceparent.substr(kFlagsAt);
  if (!IsId(trace_id) || !IsId(span_id)) return {};
  if (flags.find_first_not_of(kHexDigits) != std::string_view::npos) return {};
  const bool is_sampled = kHexDigits.find(flags[1]) % 2 == 1;
  return TraceContext{std::string(trace_id), std::string(span_id), is_sampled};
}

std::string FormatTraceparent(const TraceContext& context) {
  return "00-" + context.trace_id + "-" + context.span_id + (context.is_sampled ? "-01" : "-00");
}

TraceContext BeginTrace() {
  return {.trace_id = RandomDigits(kTraceDigits), .span_id = RandomDigits(kSpanDigits)};
}

TraceContext ChildOf(const TraceContext& parent) {
  return {parent.trace_id, RandomDigits(kSpanDigits), parent.is_sampled};
}

}  // namespace graft
