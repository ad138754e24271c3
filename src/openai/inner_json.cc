#include "openai/inner_json.h"

#include <utility>

#include "base/check.h"

namespace graft {
namespace {

constexpr JsonLimits kLimits = {.keys_max = 4096, .tree_bytes_max = InnerTrees::kBytesMax};

}  // namespace

InnerTrees::InnerTrees(Hold hold) : hold_(std::move(hold)) {
  CHECK(now_ == nullptr);
  now_ = this;
}

InnerTrees::~InnerTrees() { now_ = nullptr; }

Status InnerTrees::Count(std::string_view text) {
  InnerTrees* const trees = now_;
  if (trees == nullptr) return OkStatus();
  if (!trees->error_.has_value()) {
    const int64_t bytes = trees->bytes_ + MeasureJson(text).tree_bytes;
    if (bytes > kBytesMax) {
      return ResourceExhaustedError("JSON with too many values, beside what came before it");
    }
    trees->error_ = trees->hold_(bytes);
    if (!trees->error_.has_value()) trees->bytes_ = bytes;
  }
  if (!trees->error_.has_value()) return OkStatus();
  return ResourceExhaustedError(trees->error_->message);
}

Result<Json> ParseInnerJson(std::string_view text) {
  RETURN_IF_ERROR(InnerTrees::Count(text));
  return ParseJson(text, kLimits);
}

Result<OrderedJson> ParseInnerOrderedJson(std::string_view text) {
  RETURN_IF_ERROR(InnerTrees::Count(text));
  return ParseOrderedJson(text, kLimits);
}

}  // namespace graft
