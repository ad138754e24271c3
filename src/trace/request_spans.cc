#include "trace/span.h"

#include <optional>
#include <string>
#include <utility>

namespace graft {
namespace {

constexpr size_t kHashDigitsShown = 12;

}  // namespace

std::vector<Span> SpansOf(const RequestTimes& times) {
  const std::optional<TraceContext> parent = ParseTraceparent(times.traceparent);
  if (!parent.has_value() || !parent->is_sampled) return {};
  std::vector<Span> spans;
  const auto add = [&](const char* name, int64_t begin_ns, int64_t end_ns) -> Span& {
    Span span{.name = name, .context = ChildOf(*parent), .parent_id = parent->span_id};
    span.begin_ns = begin_ns;
    span.end_ns = end_ns;
    span.attributes.emplace_back("graft.request_id", times.log_id);
    spans.push_back(std::move(span));
    return spans.back();
  };
  const bool ran = times.first_step_ns > 0;
  add("queue", times.arrival_ns, ran ? times.first_step_ns : times.end_ns);
  if (times.load_end_ns > times.arrival_ns) {
    add("adapter load", times.load_begin_ns, times.load_end_ns)
        .attributes.emplace_back("graft.adapter", times.adapter_hash.substr(0, kHashDigitsShown));
  }
  const bool has_drawn = times.first_token_ns > 0;
  if (ran) {
    Span& prefill =
        add("prefill", times.first_step_ns, has_drawn ? times.first_token_ns : times.end_ns);
    prefill.attributes.emplace_back("gen_ai.usage.input_tokens", times.prompt_tokens);
    prefill.attributes.emplace_back("graft.cached_tokens", times.cached_tokens);
  }
  if (has_drawn) {
    Span& decode = add("decode", times.first_token_ns, times.end_ns);
    decode.attributes.emplace_back("gen_ai.usage.output_tokens", times.output_tokens);
    decode.attributes.emplace_back("graft.preemptions", times.preemptions);
  }
  Span& last = spans.back();
  last.attributes.emplace_back("graft.finish_reason", std::string(NameOf(times.finish_reason)));
  if (!times.status.ok()) last.error = times.status.message();
  return spans;
}

}  // namespace graft
