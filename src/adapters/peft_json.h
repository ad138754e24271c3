// What the readers of PEFT's adapter_config.json share, whatever the method: keys are known or
// refused, and errors quote key and value. Pure functions.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/json.h"
#include "base/status.h"

namespace graft::peft_json {

// A key that changes the forward pass and is not applied.
struct UnappliedKey {
  std::string_view key;
  std::string_view why;  // ends the sentence "key = value ..."
};

inline constexpr UnappliedKey kModulesToSave = {
    "modules_to_save", "replaces whole modules of the base, which one shared base cannot do"};

// The file's object, keys in its order. Checks syntax, depth, UTF-8 and the number of keys.
Result<OrderedJson> Parse(std::string_view text);

Status Malformed(std::string_view key, const OrderedJson& value, std::string_view wanted);
Status Unsupported(std::string_view key, const OrderedJson& value, std::string_view why);

// Null, false or empty.
bool IsOff(const OrderedJson& value);
// The key's value, or null: PEFT's own way to say "not given".
const OrderedJson& Value(const OrderedJson& json, std::string_view key);

// Refuses the unapplied keys and those in neither list, unless they are off.
Status CheckKeys(const OrderedJson& json, std::span<const std::string_view> known,
                 std::span<const UnappliedKey> unapplied);
// Adapters of causal language models alone.
Status CheckTask(const OrderedJson& json);
// A string; "" where it is not given.
Result<std::string> ReadText(const OrderedJson& json, std::string_view key);

}  // namespace graft::peft_json
