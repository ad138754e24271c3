#include "model/peft_json.h"

#include <algorithm>

#include "base/check.h"
#include "model/peft_config.h"

namespace graft::peft_json {
namespace {

// An upper bound of the keys of all objects of the file together.
constexpr int64_t kKeysMax = 2 * kPeftPatternKeysMax + 1024;

// The keys of all objects in it. They nest no deeper than ParseJson allows.
int64_t NumKeys(const Json& json) {
  int64_t count = json.is_object() ? static_cast<int64_t>(json.size()) : 0;
  if (json.is_structured()) {
    for (const Json& element : json) count += NumKeys(element);
  }
  return count;
}

// `"key" = value`, the value cut where it is long.
std::string Quote(std::string_view key, const OrderedJson& value) {
  constexpr size_t kValueBytesMax = 96;
  std::string text = value.dump(-1, ' ', true, OrderedJson::error_handler_t::replace);
  if (text.size() > kValueBytesMax) text = text.substr(0, kValueBytesMax) + "...";
  return "\"" + std::string(key) + "\" = " + text;
}

}  // namespace

// The order of rank_pattern's keys counts, and Json sorts.
Result<OrderedJson> Parse(std::string_view text) {
  const Result<Json> checked = ParseJson(text);
  if (!checked.ok()) return checked.status();
  // OrderedJson looks keys up one by one: too many of them would take minutes.
  const int64_t num_keys = NumKeys(*checked);
  if (num_keys > kKeysMax) {
    return InvalidArgumentError("the config has " + std::to_string(num_keys) +
                                " keys, the limit is " + std::to_string(kKeysMax));
  }
  OrderedJson json = OrderedJson::parse(text, nullptr, /*allow_exceptions=*/false);
  CHECK(!json.is_discarded()) << "parsed once already";
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

Status CheckKeys(const OrderedJson& json, std::span<const KeyRule> rules) {
  for (const auto& [key, value] : json.items()) {
    const auto rule =
        std::ranges::find_if(rules, [&key = key](const KeyRule& one) { return one.key == key; });
    if (rule == rules.end()) {
      if (IsOff(value)) continue;
      return Unsupported(key, value,
                         "is not a key this program knows, and it may change what the adapter "
                         "computes; set it to null if it does not");
    }
    if (rule->kind == KeyKind::kMustBeOff && !IsOff(value)) {
      return Unsupported(key, value, rule->why);
    }
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
