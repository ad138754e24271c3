#include "cli/verify_census.h"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <string_view>

#include "adapters/adapter_census.h"
#include "base/file.h"
#include "base/log_format.h"
#include "base/strings.h"

namespace graft {
namespace {

constexpr int64_t kCensusBytesMax = int64_t{256} << 20;

// The classes that are served are the same for all lines.
std::string_view WithoutList(std::string_view message) {
  return message.substr(0, message.find("; supported: "));
}

void PrintCensusVerdict(int64_t line, const CensusVerdict& verdict) {
  std::string text = std::to_string(line) + " " + (verdict.name.empty() ? "-" : verdict.name) +
                     (verdict.base_class.empty() ? "" : " (" + verdict.base_class + ")");
  if (verdict.status.ok()) {
    text += ": served";
    if (!verdict.base_quant.empty()) {
      text += " with the original of this base, whose weights are " + verdict.base_quant;
    }
  } else {
    text += ": refused: ";
    text += WithoutList(verdict.status.message());
  }
  std::printf("%s\n", EscapeForLog(text).c_str());
}

}  // namespace

Status VerifyCensus(const std::string& path) {
  ASSIGN_OR_RETURN(const std::string text, ReadFile(path, kCensusBytesMax));
  int64_t num_lines = 0, num_tried = 0, num_served = 0, num_originals = 0;
  for (std::string_view rest = text; !rest.empty();) {
    const size_t end = std::min(rest.find('\n'), rest.size());
    const std::string_view line = Trimmed(rest.substr(0, end), " \t\r");
    rest.remove_prefix(std::min(end + 1, rest.size()));
    ++num_lines;
    if (line.empty()) continue;
    ++num_tried;
    CensusVerdict verdict;
    if (line.size() > static_cast<size_t>(kCensusLineBytesMax)) {
      verdict.status = InvalidArgumentError("the line has more than 4 MiB");
    } else {
      verdict = TryCensusLine(line);
    }
    PrintCensusVerdict(num_lines, verdict);
    if (!verdict.status.ok()) continue;
    ++num_served;
    num_originals += verdict.base_quant.empty() ? 0 : 1;
  }
  if (num_tried == 0) return InvalidArgumentError(path + " has no lines");
  std::printf("%lld of %lld adapters can be served, %lld of them with the original of their base\n",
              static_cast<long long>(num_served), static_cast<long long>(num_tried),
              static_cast<long long>(num_originals));
  if (num_served == num_tried) return OkStatus();
  return FailedPreconditionError(std::to_string(num_tried - num_served) + " of " +
                                 std::to_string(num_tried) + " adapters cannot be served");
}

}  // namespace graft
