#include "request/adapter_series.h"

#include <utility>

namespace graft {
namespace {

constexpr size_t kLabelDigits = 12;
constexpr const char* kRequests = "graft_adapter_requests_total";
constexpr const char* kPromptTokens = "graft_adapter_prompt_tokens_total";
constexpr const char* kOutputTokens = "graft_adapter_output_tokens_total";

}  // namespace

AdapterSeries::AdapterSeries(Metrics& metrics, std::function<std::string(const std::string&)> label,
                             size_t names_max)
    : metrics_(metrics), label_(std::move(label)), names_max_(names_max), base_(Make("base")) {}

std::shared_ptr<const AdapterCounters> AdapterSeries::Make(const std::string& name) {
  const Metrics::Labels labels = {{"adapter", name}};
  return std::make_shared<const AdapterCounters>(AdapterCounters{
      .requests = &metrics_.Counter(kRequests, "Requests accepted, by adapter", labels),
      .prompt_tokens =
          &metrics_.Counter(kPromptTokens, "Prompt tokens accepted, by adapter", labels),
      .output_tokens = &metrics_.Counter(kOutputTokens, "Tokens generated, by adapter", labels)});
}

std::shared_ptr<const AdapterCounters> AdapterSeries::Of(const std::string& key, int32_t content) {
  if (content < 0) return base_;
  const std::string label = label_ ? label_(key) : key.substr(0, kLabelDigits);
  const std::lock_guard lock(mutex_);
  auto name = names_.find(label);
  if (name == names_.end()) {
    if (names_.size() >= names_max_ && !RemoveOldest()) {
      if (other_ == nullptr) other_ = Make("other");
      return other_;
    }
    name = names_.try_emplace(label).first;
    name->second.counters = Make(label);
  }
  const auto [known, is_new] = name_of_content_.try_emplace(content, label);
  if (!is_new && known->second != label) {  // it goes by another name since
    names_.at(known->second).contents.erase(content);
    known->second = label;
  }
  name->second.contents.insert(content);
  name->second.used_at = ++num_uses_;
  return name->second.counters;
}

void AdapterSeries::Forget(int32_t content) {
  const std::lock_guard lock(mutex_);
  const auto known = name_of_content_.find(content);
  if (known == name_of_content_.end()) return;
  const auto name = names_.find(known->second);
  name_of_content_.erase(known);
  name->second.contents.erase(content);
  // One that is still counted in goes when others need its place.
  if (name->second.contents.empty() && !IsInUse(name->second)) Remove(name);
}

bool AdapterSeries::RemoveOldest() {
  auto oldest = names_.end();
  for (auto name = names_.begin(); name != names_.end(); ++name) {
    if (IsInUse(name->second)) continue;
    if (oldest == names_.end() || name->second.used_at < oldest->second.used_at) oldest = name;
  }
  if (oldest == names_.end()) return false;
  Remove(oldest);
  return true;
}

void AdapterSeries::Remove(Names::iterator name) {
  for (const int32_t content : name->second.contents) name_of_content_.erase(content);
  const AdapterCounters& counters = *name->second.counters;
  metrics_.RemoveCounter(kRequests, *counters.requests);
  metrics_.RemoveCounter(kPromptTokens, *counters.prompt_tokens);
  metrics_.RemoveCounter(kOutputTokens, *counters.output_tokens);
  names_.erase(name);
}

}  // namespace graft
