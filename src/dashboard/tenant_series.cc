#include "dashboard/tenant_series.h"

#include <algorithm>

namespace graft {
namespace {

constexpr const char* kRequests = "graft_tenant_requests_total";
constexpr const char* kLimited = "graft_tenant_requests_limited_total";
constexpr const char* kPromptTokens = "graft_tenant_prompt_tokens_total";
constexpr const char* kOutputTokens = "graft_tenant_output_tokens_total";
constexpr int kTooManyRequests = 429;

}  // namespace

TenantSeries::Counters TenantSeries::Make(const std::string& tenant) {
  const Metrics::Labels labels = {{"tenant", tenant}};
  return {
      .requests = &metrics_.Counter(kRequests, "Requests for text that ended, by tenant.", labels),
      .limited = &metrics_.Counter(
          kLimited, "Of those, answered 429: over a limit, or the queue was full.", labels),
      .prompt_tokens = &metrics_.Counter(kPromptTokens, "Tokens of their prompts.", labels),
      .output_tokens = &metrics_.Counter(kOutputTokens, "Tokens of their answers.", labels)};
}

void TenantSeries::RemoveOldest() {
  const auto oldest = std::min_element(
      tenants_.begin(), tenants_.end(),
      [](const auto& a, const auto& b) { return a.second.used_at < b.second.used_at; });
  metrics_.RemoveCounter(kRequests, *oldest->second.requests);
  metrics_.RemoveCounter(kLimited, *oldest->second.limited);
  metrics_.RemoveCounter(kPromptTokens, *oldest->second.prompt_tokens);
  metrics_.RemoveCounter(kOutputTokens, *oldest->second.output_tokens);
  tenants_.erase(oldest);
}

void TenantSeries::RequestEnded(const std::string& tenant, int status, int64_t prompt_tokens,
                                int64_t output_tokens) {
  if (tenant.empty()) return;
  const std::lock_guard lock(mutex_);
  auto counters = tenants_.find(tenant);
  if (counters == tenants_.end()) {
    if (tenants_.size() >= tenants_max_) RemoveOldest();
    counters = tenants_.emplace(tenant, Make(tenant)).first;
  }
  counters->second.used_at = ++num_uses_;
  counters->second.requests->Increment();
  if (status == kTooManyRequests) counters->second.limited->Increment();
  counters->second.prompt_tokens->Increment(static_cast<double>(prompt_tokens));
  counters->second.output_tokens->Increment(static_cast<double>(output_tokens));
}

}  // namespace graft
