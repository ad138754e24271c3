#include "adapters/peft_json.h"

#include <algorithm>

#include "adapters/peft_config.h"

namespace graft::peft_json {
namespace {

// `"key" = value`, the value cut where it is long.
std::string Quote(std::string_view key, const OrderedJson& value) {
  constexpr size_t kValueBytesMax = 96;
  std::string text = value.dump(-1, ' ', true, OrderedJson::error_handler_t::replace);
  if (text.size() > kValueBytesMax) text = text.substr(0, kValueBytesMax) + "...";
  return "\"" + std::string(key) + "\" = " + text;
}

}  // namespace

// The order of rank_pattern's keys counts, and Json sorts. An OrderedJson looks keys up one by one.
Result<OrderedJson> Parse(std::string_view text) {
  ASSIGN_OR_RETURN(OrderedJson json, ParseOrderedJson(text, {.keys_max = 2 * kPeftPatternKeysMax}));
  if (!json.is_object()) return InvalidArgumentError("expected a JSON object");
  return json;
}

Status Malformed(std::string_view key, const OrderedJson& value, std::string_view wanted) {
  return InvalidArgumentError(Quote(key, value) + ": " + std::string(wanted));
}

Status Unsupported(std::string_view key, const OrderedJson& value, std::string_view why) {
  return UnimplementedError(Quote(key, value) + " " + std::string(why));
}

bool IsOff(const OrderedJson& value) {
  if (value.is_null()) return true;
  if (value.is_boolean()) return !value.get<bool>();
  if (value.is_string()) return value.get_ref<const std::string&>().empty();
  return value.is_structured() && value.empty();
}

const OrderedJson& Value(const OrderedJson& json, std::string_view key) {
  static const OrderedJson kNull;
  const auto found = json.find(key);
  return found == json.end() ? kNull : *found;
}

Status CheckKeys(const OrderedJson& json, std::span<const std::string_view> known,
                 std::span<const UnappliedKey> unapplied) {
  for (const auto& [key, value] : json.items()) {
    if (IsOff(value) || std::ranges::find(known, key) != known.end()) continue;
    const auto found = std::ranges::find(unapplied, key, &UnappliedKey::key);
    return Unsupported(key, value,
                       found != unapplied.end()
                           ? found->why
                           : "is not a key this program knows, and it may change what the adapter "
                             "computes; set it to null if it does not");
  }
  return OkStatus();
}

Status CheckTask(const OrderedJson& json) {
  const OrderedJson& task = Value(json, "task_type");
  if (task.is_null()) return OkStatus();
  if (!task.is_string()) return Malformed("task_type", task, "expected a string or null");
  if (task.get_ref<const std::string&>() == "CAUSAL_LM") return OkStatus();
  return Unsupported("task_type", task, "is not served: only \"CAUSAL_LM\" is");
}

Result<std::string> ReadText(const OrderedJson& json, std::string_view key) {
  const OrderedJson& value = Value(json, key);
  if (value.is_null()) return std::string();
  if (!value.is_string()) return Malformed(key, value, "expected a string or null");
  return value.get<std::string>();
}

}  // namespace graft::peft_json
