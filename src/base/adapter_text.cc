#include "base/adapter_text.h"

#include <mutex>
#include <unordered_map>
#include <utility>

#include "base/json.h"
#include "base/json_fields.h"

namespace graft {
namespace {

// Texts by their encoded form, as long as they are held.
class SharedTexts {
 public:
  AdapterTextPtr Of(AdapterText text, const std::string& encoded) {
    const std::lock_guard lock(mutex_);
    std::weak_ptr<const AdapterText>& known = texts_[encoded];
    if (AdapterTextPtr shared = known.lock()) return shared;
    AdapterTextPtr shared(new AdapterText(std::move(text)), [this, encoded](const AdapterText* it) {
      delete it;
      Forget(encoded);
    });
    known = shared;
    return shared;
  }

 private:
  // Unless another one has its place by now.
  void Forget(const std::string& encoded) {
    const std::lock_guard lock(mutex_);
    const auto it = texts_.find(encoded);
    if (it != texts_.end() && it->second.expired()) texts_.erase(it);
  }

  std::mutex mutex_;
  std::unordered_map<std::string, std::weak_ptr<const AdapterText>> texts_;
};

std::string Encode(const AdapterText& text) {
  Json json = Json::object();
  const auto add = [&](const char* key, const std::string& value) {
    if (!value.empty()) json[key] = value;
  };
  add("chat_template", text.chat_template);
  add("tool_template", text.tool_template);
  add("template_error", text.template_error);
  add("bos_token", text.bos_token);
  add("eos_token", text.eos_token);
  if (!text.stop_token_ids.empty()) json["stop_token_ids"] = text.stop_token_ids;
  return DumpJson(json);
}

}  // namespace

AdapterTextPtr ShareAdapterText(AdapterText text) {
  static SharedTexts* const texts = new SharedTexts;  // never destroyed: texts may outlive all else
  if (text == AdapterText()) return nullptr;
  const std::string encoded = Encode(text);
  return texts->Of(std::move(text), encoded);
}

std::string EncodeAdapterText(const AdapterTextPtr& text) {
  return text == nullptr ? std::string() : Encode(*text);
}

Result<AdapterTextPtr> DecodeAdapterText(std::string_view encoded) {
  if (encoded.empty()) return AdapterTextPtr();
  const Result<Json> json = ParseJson(encoded);
  if (!json.ok() || !json->is_object()) {
    return DataLossError("what an adapter says of its texts is no JSON object");
  }
  AdapterText text;
  ReadField(*json, "chat_template", &text.chat_template);
  ReadField(*json, "tool_template", &text.tool_template);
  ReadField(*json, "template_error", &text.template_error);
  ReadField(*json, "bos_token", &text.bos_token);
  ReadField(*json, "eos_token", &text.eos_token);
  const auto stops = json->find("stop_token_ids");
  if (stops != json->end() && stops->is_array()) {
    for (const Json& id : *stops) {
      if (id.is_number_integer()) text.stop_token_ids.push_back(id.get<int32_t>());
    }
  }
  return ShareAdapterText(std::move(text));
}

}  // namespace graft
