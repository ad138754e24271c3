#include "openai/adapter_shares.h"

#include <algorithm>
#include <cmath>

#include "request/request.h"

namespace graft {
namespace {

AdapterShare ReadShare(FieldReader& reader, const Json& json, const std::string& path) {
  AdapterShare share;
  FieldReader fields(json, path + ".");
  fields.String("name", &share.name, kNameBytesMax);
  if (share.name.empty()) fields.Fail("name", "is required: an adapter's name, see /v1/models");
  fields.Float("weight", &share.weight);
  if (!(std::abs(share.weight) <= Request::kAdapterWeightMax)) {
    fields.Fail("weight", "must be between -100 and 100");
  }
  if (auto error = fields.Finish()) reader.Fail(std::move(*error));
  return share;
}

}  // namespace

void ReadAdapterShares(FieldReader& reader, std::vector<AdapterShare>* shares) {
  const Json* json = reader.Take("adapters");
  if (json == nullptr) return;
  if (!json->is_array()) {
    return reader.Fail("adapters", std::string("must be a list of {\"name\", \"weight\"}, got ") +
                                       JsonTypeName(*json));
  }
  if (json->size() > Request::kAdaptersMax) {
    return reader.Fail("adapters", "has more than " + std::to_string(Request::kAdaptersMax) +
                                       " entries; a request adds so many adapters at most");
  }
  for (size_t i = 0; i < json->size() && !reader.failed(); ++i) {
    const std::string path = "adapters[" + std::to_string(i) + "]";
    AdapterShare share = ReadShare(reader, (*json)[i], path);
    const bool is_twice = std::any_of(shares->begin(), shares->end(),
                                      [&](const auto& other) { return other.name == share.name; });
    if (is_twice) return reader.Fail(path + ".name", "names '" + share.name + "' twice");
    shares->push_back(std::move(share));
  }
}

}  // namespace graft
