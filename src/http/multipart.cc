#include "http/multipart.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/strings.h"

namespace graft {
namespace {

constexpr size_t kPartsMax = 64;
constexpr size_t kBoundaryBytesMax = 70;  // RFC 2046
constexpr size_t kHeadBytesMax = 8 << 10;
constexpr std::string_view kFormType = "multipart/form-data";
constexpr std::string_view kLineEnd = "\r\n";
constexpr std::string_view kHeadEnd = "\r\n\r\n";

ApiError NoForm(const std::string& why) {
  return InvalidRequestError("", "The body is no multipart/form-data: " + why + ".");
}

// Takes a value, quoted or not, from the front; what follows is left.
std::string TakeValue(std::string_view* text) {
  std::string value;
  if (text->empty() || text->front() != '"') {
    const size_t end = std::min(text->find(';'), text->size());
    value = Trimmed(text->substr(0, end));
    text->remove_prefix(end);
    return value;
  }
  size_t i = 1;
  for (; i < text->size() && (*text)[i] != '"'; ++i) {
    if ((*text)[i] == '\\' && i + 1 < text->size()) ++i;
    value += (*text)[i];
  }
  text->remove_prefix(std::min(i + 1, text->size()));
  return value;
}

// The value of `name` among "; name=value" parameters.
std::optional<std::string> Parameter(std::string_view header, std::string_view name) {
  size_t at = std::min(header.find(';'), header.size());
  header.remove_prefix(at);
  while (!header.empty()) {
    header.remove_prefix(1);  // the semicolon
    const size_t equals = header.find_first_of("=;");
    if (equals == std::string_view::npos) return std::nullopt;
    const std::string key = LowerCase(Trimmed(header.substr(0, equals)));
    const bool has_value = header[equals] == '=';
    header.remove_prefix(equals + (has_value ? 1 : 0));
    std::string value = has_value ? TakeValue(&header) : "";
    if (key == name) return value;
    header.remove_prefix(std::min(header.find(';'), header.size()));
  }
  return std::nullopt;
}

// The Content-Disposition among a part's headers.
std::string_view DispositionOf(std::string_view head) {
  while (!head.empty()) {
    const size_t end = std::min(head.find(kLineEnd), head.size());
    const std::string_view line = head.substr(0, end);
    const size_t colon = line.find(':');
    if (colon != std::string_view::npos &&
        LowerCase(Trimmed(line.substr(0, colon))) == "content-disposition") {
      return Trimmed(line.substr(colon + 1));
    }
    head.remove_prefix(std::min(end + kLineEnd.size(), head.size()));
  }
  return "";
}

ApiResult<FormPart> ParsePart(std::string_view text) {
  const size_t head_end = text.starts_with(kLineEnd) ? 0 : text.find(kHeadEnd);
  if (head_end > kHeadBytesMax) {  // npos, too
    return NoForm("a part's headers do not end");
  }
  const std::string_view disposition = DispositionOf(text.substr(0, head_end));
  const std::optional<std::string> name = Parameter(disposition, "name");
  if (!LowerCase(disposition).starts_with("form-data") || !name.has_value()) {
    return NoForm("a part has no Content-Disposition: form-data with a name");
  }
  FormPart part;
  part.name = *name;
  if (const auto file = Parameter(disposition, "filename")) {
    part.is_file = true;
    part.file_name = file->substr(file->find_last_of("/\\") + 1);
  }
  part.content = text.substr(head_end + kHeadEnd.size());
  return part;
}

}  // namespace

bool IsFormType(std::string_view content_type) {
  return LowerCase(Trimmed(content_type.substr(0, content_type.find(';')))) == kFormType;
}

ApiResult<std::vector<FormPart>> ParseForm(std::string_view content_type, std::string_view body) {
  const std::optional<std::string> boundary = Parameter(content_type, "boundary");
  if (!boundary.has_value() || boundary->empty() || boundary->size() > kBoundaryBytesMax) {
    return NoForm("its Content-Type has no boundary of 1 to 70 characters");
  }
  const std::string first = "--" + *boundary;
  const std::string next = "\r\n" + first;
  // Text before the first boundary belongs to no part.
  size_t at = body.starts_with(first) ? first.size() : body.find(next);
  if (at == std::string_view::npos) return NoForm("its boundary is not in it");
  if (at != first.size() || !body.starts_with(first)) at += next.size();
  std::vector<FormPart> parts;
  while (!body.substr(at).starts_with("--")) {
    const size_t line_end = body.find(kLineEnd, at);
    if (line_end == std::string_view::npos || !Trimmed(body.substr(at, line_end - at)).empty()) {
      return NoForm("a boundary's line goes on");
    }
    const size_t begin = line_end + kLineEnd.size();
    const size_t end = body.find(next, begin);
    if (end == std::string_view::npos) return NoForm("its last boundary is missing");
    if (parts.size() == kPartsMax) return NoForm("it has more than 64 parts");
    ASSIGN_OR_RETURN_ERROR(FormPart part, ParsePart(body.substr(begin, end - begin)));
    const auto is_same = [&part](const FormPart& other) { return other.name == part.name; };
    if (std::any_of(parts.begin(), parts.end(), is_same)) {
      return InvalidRequestError(part.name, "'" + part.name.substr(0, 200) + "' comes twice");
    }
    parts.push_back(std::move(part));
    at = end + next.size();
  }
  return parts;
}

}  // namespace graft
