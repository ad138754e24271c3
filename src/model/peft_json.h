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

// What PEFT does with a key that is not read into a config.
enum class KeyKind : unsigned char {
  kRead,       // it is read
  kHarmless,   // about training, provenance or loading: the forward pass is the same
  kMustBeOff,  // changes the forward pass and is not applied
};

struct KeyRule {
  std::string_view key;
  KeyKind kind;
  std::string_view why;  // kMustBeOff: ends the sentence "key = value ..."
};

// The file's object, keys in its order. Checks syntax, depth, UTF-8 and the number of keys.
Result<OrderedJson> Parse(std::string_view text);

Status Malformed(std::string_view key, const OrderedJson& value, std::string_view wanted);
Status Unsupported(std::string_view key, const OrderedJson& value, std::string_view why);

// Null, false or empty.
bool IsOff(const OrderedJson& value);
// The key's value, or null: PEFT's own way to say "not given".
const OrderedJson& Value(const OrderedJson& json, std::string_view key);

// Refuses keys that no rule knows and those that must be off, unless they are.
Status CheckKeys(const OrderedJson& json, std::span<const KeyRule> rules);
// Adapters of causal language models alone.
Status CheckTask(const OrderedJson& json);
// A string; "" where it is not given.
Result<std::string> ReadText(const OrderedJson& json, std::string_view key);

}  // namespace graft::peft_json
