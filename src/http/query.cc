#include "http/query.h"

#include "http/http_message.h"

namespace graft {

std::vector<std::pair<std::string, std::string>> QueryFields(std::string_view query) {
  std::vector<std::pair<std::string, std::string>> fields;
  while (!query.empty()) {
    const std::string_view field = query.substr(0, query.find('&'));
    query.remove_prefix(std::min(field.size() + 1, query.size()));
    const size_t equals = std::min(field.find('='), field.size());
    if (field.empty()) continue;
    const std::string_view value = field.substr(std::min(equals + 1, field.size()));
    fields.emplace_back(PercentDecode(field.substr(0, equals)), PercentDecode(value));
  }
  return fields;
}

}  // namespace graft
