#include "dashboard/vllm_metrics.h"

#include <algorithm>
#include <optional>
#include <utility>

namespace graft {
namespace {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;
using Labels = std::vector<ClientMetric::Label>;

// A family of one series that goes by another name.
struct Renamed {
  const char* name;
  const char* source;
};

constexpr Renamed kRenamed[] = {
    {"vllm:num_preemptions_total", "graft_preemptions_total"},
    {"vllm:prefix_cache_queries_total", "graft_prefix_lookup_tokens_total"},
    {"vllm:prefix_cache_hits_total", "graft_prefix_hit_tokens_total"},
    {"vllm:spec_decode_num_drafts_total", "graft_drafts_total"},
    {"vllm:spec_decode_num_draft_tokens_total", "graft_draft_tokens_total"},
    {"vllm:spec_decode_num_accepted_tokens_total", "graft_accepted_draft_tokens_total"},
    {"vllm:prompt_tokens_total", "graft_http_prompt_tokens_total"},
    {"vllm:generation_tokens_total", "graft_http_output_tokens_total"},
    {"vllm:time_to_first_token_seconds", "graft_time_to_first_token_seconds"},
    {"vllm:inter_token_latency_seconds", "graft_inter_token_seconds"},
    {"vllm:time_per_output_token_seconds", "graft_inter_token_seconds"},
};

class VllmPage {
 public:
  VllmPage(const std::vector<MetricFamily>& families, const VllmFacts& facts)
      : families_(families),
        labels_({{.name = "model_name", .value = facts.base_model},
                 {.name = "engine", .value = "0"}}) {}

  void Rename(const Renamed& renamed) {
    const MetricFamily* source = Find(renamed.source);
    if (source == nullptr) return;
    MetricFamily family = *source;
    family.name = renamed.name;
    for (ClientMetric& metric : family.metric) metric.label = labels_;
    page_.push_back(std::move(family));
  }

  void AddGauge(const std::string& name, const std::string& help, double value, Labels more = {}) {
    ClientMetric metric;
    metric.label = labels_;
    metric.label.insert(metric.label.end(), more.begin(), more.end());
    metric.gauge.value = value;
    Add(name, help, MetricType::Gauge, std::move(metric));
  }

  // The value of a gauge of the server's, where it has one.
  std::optional<double> Gauge(const std::string& name, const std::string& label = "") const {
    const MetricFamily* family = Find(name);
    if (family == nullptr) return std::nullopt;
    for (const ClientMetric& metric : family->metric) {
      const bool fits = label.empty() || (!metric.label.empty() && metric.label[0].value == label);
      if (fits) return metric.gauge.value;
    }
    return std::nullopt;
  }

  // The sum of a gauge's series, where there are any.
  std::optional<double> SumOf(const std::string& name) const {
    const MetricFamily* family = Find(name);
    if (family == nullptr) return std::nullopt;
    double sum = 0.0;
    for (const ClientMetric& metric : family->metric) sum += metric.gauge.value;
    return sum;
  }

  // Requests that ended well, or because their client left: vLLM's three reasons.
  void AddSuccesses() {
    const MetricFamily* source = Find("graft_requests_finished_total");
    if (source == nullptr) return;
    MetricFamily family = *source;
    family.name = "vllm:request_success_total";
    family.metric.clear();
    for (ClientMetric metric : source->metric) {
      const std::string reason = metric.label.at(0).value;
      if (reason != "stop" && reason != "length" && reason != "cancelled") continue;
      metric.label = labels_;
      metric.label.push_back({"finished_reason", reason == "cancelled" ? "abort" : reason});
      family.metric.push_back(std::move(metric));
    }
    page_.push_back(std::move(family));
  }

  // All requests for text, whatever their route.
  void AddLatency(const std::vector<std::string>& routes) {
    const MetricFamily* source = Find("graft_http_request_seconds");
    if (source == nullptr) return;
    std::optional<ClientMetric> sum;
    for (const ClientMetric& metric : source->metric) {
      const std::string& route = metric.label.at(0).value;
      if (std::find(routes.begin(), routes.end(), route) == routes.end()) continue;
      if (!sum.has_value()) {
        sum = metric;
        continue;
      }
      sum->histogram.sample_count += metric.histogram.sample_count;
      sum->histogram.sample_sum += metric.histogram.sample_sum;
      for (size_t i = 0; i < sum->histogram.bucket.size(); ++i) {
        sum->histogram.bucket[i].cumulative_count += metric.histogram.bucket[i].cumulative_count;
      }
    }
    if (!sum.has_value()) return;
    sum->label = labels_;
    Add("vllm:e2e_request_latency_seconds", "Seconds from a request's head to its answer's end",
        MetricType::Histogram, std::move(*sum));
  }

  std::vector<MetricFamily> Take() { return std::move(page_); }

 private:
  const MetricFamily* Find(const std::string& name) const {
    for (const MetricFamily& family : families_) {
      if (family.name == name) return &family;
    }
    return nullptr;
  }

  void Add(const std::string& name, const std::string& help, MetricType type, ClientMetric metric) {
    page_.push_back({.name = name, .help = help, .type = type, .metric = {std::move(metric)}});
  }

  const std::vector<MetricFamily>& families_;
  const Labels labels_;
  std::vector<MetricFamily> page_;
};

// Pages that a new request could have count as free, whatever they still hold.
void AddPageUsage(VllmPage* page) {
  const double used = page->Gauge("graft_pages", "referenced").value_or(0);
  const double all = used + page->Gauge("graft_pages", "free").value_or(0) +
                     page->Gauge("graft_pages", "cached").value_or(0);
  if (all <= 0) return;
  const std::string help = "Share of the pages for KV that requests hold";
  page->AddGauge("vllm:kv_cache_usage_perc", help, used / all);
  page->AddGauge("vllm:gpu_cache_usage_perc", help, used / all);
}

void AppendName(const std::string& name, std::string* names) {
  *names += (names->empty() ? "" : ",") + name;
}

}  // namespace

std::vector<MetricFamily> VllmFamilies(const std::vector<MetricFamily>& families,
                                       const ModelsInFlight& models, const VllmFacts& facts) {
  VllmPage page(families, facts);
  const ModelsInFlight::Counts sum = models.Sum();
  page.AddGauge("vllm:num_requests_running", "Requests in the batch",
                page.Gauge("graft_requests_running").value_or(static_cast<double>(sum.running)));
  page.AddGauge("vllm:num_requests_waiting", "Requests in the queue",
                page.Gauge("graft_requests_waiting").value_or(static_cast<double>(sum.waiting)));
  AddPageUsage(&page);
  for (const Renamed& renamed : kRenamed) page.Rename(renamed);
  page.AddSuccesses();
  page.AddLatency(facts.text_routes);
  // The names are the labels, and the value says how new they are.
  std::string running, waiting;
  for (const auto& [model, counts] : models.models()) {
    if (model == facts.base_model) continue;
    if (counts.running > 0) AppendName(model, &running);
    if (counts.waiting > 0) AppendName(model, &waiting);
  }
  const auto adapters_max =
      static_cast<int64_t>(page.SumOf("graft_runner_adapters_max").value_or(facts.adapters_max));
  page.AddGauge("vllm:lora_requests_info", "Adapters of the requests in flight",
                static_cast<double>(facts.unix_time),
                {{"max_lora", std::to_string(adapters_max)},
                 {"running_lora_adapters", running},
                 {"waiting_lora_adapters", waiting}});
  return page.Take();
}

}  // namespace graft
