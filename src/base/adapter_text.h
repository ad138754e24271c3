// What an adapter's folder says of texts where its base says otherwise: how conversations are
// written for it, and which tokens end its answers. Plain data; any thread.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace graft {

struct AdapterText {
  // Its chat template; "": the base's.
  std::string chat_template;
  // Another one for conversations with tools; "": there is none. Not without chat_template.
  std::string tool_template;
  // Why it brings a template of which nothing can be kept; "": it does not.
  std::string template_error;
  // What templates know by these names; "": the base's.
  std::string bos_token;
  std::string eos_token;
  // That end its answers, beside the base's. Ascending.
  std::vector<int32_t> stop_token_ids;

  bool brings_template() const { return !chat_template.empty() || !template_error.empty(); }
  bool operator==(const AdapterText&) const = default;
};

// Null: all is as the base has it.
using AdapterTextPtr = std::shared_ptr<const AdapterText>;

// Equal texts share one pointer while any of them lives: thousands of adapters may bring one
// template, and each of many lists would have a copy. Null for an empty text.
AdapterTextPtr ShareAdapterText(AdapterText text);

// As one line, for records and messages; "" for null.
std::string EncodeAdapterText(const AdapterTextPtr& text);
// What it was made of. Fields that are not known are skipped; kDataLoss for what is no such text.
Result<AdapterTextPtr> DecodeAdapterText(std::string_view encoded);

// The bytes of a file beside an adapter's weights, by its name in the folder; nothing where there
// is none.
using ReadBesideAdapter = std::function<Result<std::optional<std::string>>(const std::string&)>;

}  // namespace graft
