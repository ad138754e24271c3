#include "rpc/request_proto.h"

#include <algorithm>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace graft {
namespace {

void SetSampling(const SamplingParams& params, rpc::SamplingParams* proto) {
  proto->set_temperature(params.temperature);
  proto->set_top_p(params.top_p);
  proto->set_top_k(params.top_k);
  proto->set_min_p(params.min_p);
  proto->set_seed(params.seed);
  proto->set_repetition_penalty(params.repetition_penalty);
  proto->set_frequency_penalty(params.frequency_penalty);
  proto->set_presence_penalty(params.presence_penalty);
  for (const auto& [token, bias] : params.logit_bias) {
    rpc::LogitBias* const one = proto->add_logit_bias();
    one->set_token(token);
    one->set_bias(bias);
  }
  proto->set_num_logprobs(params.num_logprobs);
  proto->set_prompt_logprobs(params.prompt_logprobs);
  proto->set_tokens_max(params.tokens_max);
  proto->set_tokens_min(params.tokens_min);
  proto->mutable_stop_token_ids()->Add(params.stop_token_ids.begin(), params.stop_token_ids.end());
  proto->set_ignore_eos(params.ignore_eos);
  proto->mutable_allowed_token_ids()->Add(params.allowed_token_ids.begin(),
                                          params.allowed_token_ids.end());
  for (const std::vector<int32_t>& word : params.bad_words) {
    proto->add_bad_words()->mutable_tokens()->Add(word.begin(), word.end());
  }
}

SamplingParams SamplingOf(const rpc::SamplingParams& proto, RequestContents& contents) {
  SamplingParams params = {
      .temperature = proto.temperature(),
      .top_p = proto.top_p(),
      .top_k = proto.top_k(),
      .min_p = proto.min_p(),
      .seed = proto.seed(),
      .repetition_penalty = proto.repetition_penalty(),
      .frequency_penalty = proto.frequency_penalty(),
      .presence_penalty = proto.presence_penalty(),
      .num_logprobs = proto.num_logprobs(),
      .prompt_logprobs = proto.prompt_logprobs(),
      .tokens_max = proto.tokens_max(),
      .tokens_min = proto.tokens_min(),
      .stop_token_ids = {proto.stop_token_ids().begin(), proto.stop_token_ids().end()},
      .allowed_token_ids =
          contents.TokensOf({proto.allowed_token_ids().data(),
                             static_cast<size_t>(proto.allowed_token_ids().size())}),
      .ignore_eos = proto.ignore_eos()};
  for (const rpc::LogitBias& one : proto.logit_bias()) {
    params.logit_bias.emplace_back(one.token(), one.bias());
  }
  for (const rpc::TokenRun& word : proto.bad_words()) {
    params.bad_words.emplace_back(word.tokens().begin(), word.tokens().end());
  }
  return params;
}

using LogprobsField = google::protobuf::RepeatedPtrField<rpc::TokenLogprob>;

void SetLogprobs(const std::vector<TokenLogprob>& logprobs, LogprobsField* field) {
  field->Reserve(static_cast<int>(logprobs.size()));
  for (const TokenLogprob& one : logprobs) {
    rpc::TokenLogprob* proto = field->Add();
    proto->set_token(one.token);
    proto->set_logprob(one.logprob);
  }
}

std::vector<TokenLogprob> LogprobsOf(const LogprobsField& field) {
  std::vector<TokenLogprob> logprobs;
  logprobs.reserve(static_cast<size_t>(field.size()));
  for (const rpc::TokenLogprob& one : field) {
    logprobs.push_back({.token = one.token(), .logprob = one.logprob()});
  }
  return logprobs;
}

constexpr size_t kSweptMin = 64;

bool IsSame(const SharedText& shared, const std::string& text) { return shared.text() == text; }
bool IsSame(const TokenSet& shared, std::span<const int32_t> tokens) {
  return std::equal(shared.begin(), shared.end(), tokens.begin(), tokens.end());
}

SharedText Make(const std::string& text) { return text; }
TokenSet Make(std::span<const int32_t> tokens) {
  return std::vector<int32_t>(tokens.begin(), tokens.end());
}

}  // namespace

rpc::Request ToProto(const Request& request) {
  rpc::Request proto;
  proto.set_frontend(request.id.frontend);
  proto.set_number(request.id.number);
  proto.set_tenant(request.tenant);
  proto.set_cache_salt(request.cache_salt);
  for (const AdapterUse& use : request.adapters) {
    rpc::AdapterUse* const one = proto.add_adapters();
    one->set_hash(use.hash);
    one->set_weight(use.weight);
  }
  proto.mutable_prompt_tokens()->Add(request.prompt_tokens.begin(), request.prompt_tokens.end());
  proto.mutable_output_tokens()->Add(request.output_tokens.begin(), request.output_tokens.end());
  SetSampling(request.sampling, proto.mutable_sampling());
  proto.set_age_ns(request.age_ns);
  proto.set_activation_position(request.activation_position);
  proto.set_grammar(request.grammar.text());
  if (request.reasoning != ReasoningBound()) {
    rpc::ReasoningBound* const reasoning = proto.mutable_reasoning();
    reasoning->set_tokens_max(request.reasoning.tokens_max);
    reasoning->set_opening(request.reasoning.opening);
    reasoning->set_closing(request.reasoning.closing);
    reasoning->set_is_open(request.reasoning.is_open);
  }
  proto.set_draft_tokens_max(request.draft_tokens_max);
  proto.set_priority(request.priority);
  proto.set_tenant_weight(request.tenant_weight);
  proto.set_key_id(request.key_id);
  proto.set_traceparent(request.traceparent);
  proto.set_log_id(request.log_id);
  proto.set_runs_alone(request.runs_alone);
  proto.set_pooling(static_cast<int32_t>(request.pooling));
  return proto;
}

Request FromProto(const rpc::Request& proto) {
  RequestContents contents;
  return FromProto(proto, contents);
}

Request FromProto(const rpc::Request& proto, RequestContents& contents) {
  Request request;
  request.id = {proto.frontend(), proto.number()};
  request.tenant = proto.tenant();
  request.cache_salt = proto.cache_salt();
  for (const rpc::AdapterUse& use : proto.adapters()) {
    request.adapters.push_back({.hash = use.hash(), .weight = use.weight()});
  }
  request.prompt_tokens.assign(proto.prompt_tokens().begin(), proto.prompt_tokens().end());
  request.output_tokens.assign(proto.output_tokens().begin(), proto.output_tokens().end());
  request.sampling = SamplingOf(proto.sampling(), contents);
  request.age_ns = proto.age_ns();
  request.activation_position = proto.activation_position();
  request.grammar = contents.TextOf(proto.grammar());
  if (proto.has_reasoning()) {
    const rpc::ReasoningBound& reasoning = proto.reasoning();
    request.reasoning = {reasoning.tokens_max(), reasoning.opening(), reasoning.closing(),
                         reasoning.is_open()};
  }
  request.draft_tokens_max = proto.draft_tokens_max();
  request.priority = proto.priority();
  request.tenant_weight = proto.tenant_weight();
  request.key_id = proto.key_id();
  request.traceparent = proto.traceparent();
  request.log_id = proto.log_id();
  request.runs_alone = proto.runs_alone();
  // A kind that this version does not know stays one, and is refused.
  request.pooling = static_cast<Pooling>(proto.pooling());
  return request;
}

rpc::Status ToProto(const Status& status) {
  rpc::Status proto;
  proto.set_code(static_cast<uint32_t>(status.code()));
  proto.set_message(status.message());
  return proto;
}

Status FromProto(const rpc::Status& proto) {
  constexpr uint32_t kLastCode = 16;  // gRPC's numbers end there
  if (proto.code() == 0) return OkStatus();
  if (proto.code() > kLastCode) {
    return InternalError("status " + std::to_string(proto.code()) +
                         ", which this version does not know: " + proto.message());
  }
  return Status(static_cast<StatusCode>(proto.code()), proto.message());
}

rpc::TokenEvent ToProto(const TokenEvent& event) {
  rpc::TokenEvent proto;
  proto.set_token(event.token);
  proto.set_logprob(event.logprob);
  SetLogprobs(event.top_logprobs, proto.mutable_top_logprobs());
  SetLogprobs(event.prompt_logprobs, proto.mutable_prompt_logprobs());
  for (const std::vector<TokenLogprob>& one : event.prompt_top_logprobs) {
    SetLogprobs(one, proto.add_prompt_top_logprobs()->mutable_logprobs());
  }
  proto.mutable_embedding()->Add(event.embedding.begin(), event.embedding.end());
  proto.set_finish_reason(static_cast<uint32_t>(event.finish_reason));
  if (!event.status.ok()) *proto.mutable_status() = ToProto(event.status);
  if (event.finish_reason != FinishReason::kNone) {
    rpc::Usage* usage = proto.mutable_usage();
    usage->set_prompt_tokens(event.usage.prompt_tokens);
    usage->set_cached_tokens(event.usage.cached_tokens);
    usage->set_output_tokens(event.usage.output_tokens);
  }
  return proto;
}

TokenEvent FromProto(const rpc::TokenEvent& proto) {
  TokenEvent event;
  event.token = proto.token();
  event.logprob = proto.logprob();
  event.top_logprobs = LogprobsOf(proto.top_logprobs());
  event.prompt_logprobs = LogprobsOf(proto.prompt_logprobs());
  for (const rpc::TokenLogprobs& one : proto.prompt_top_logprobs()) {
    event.prompt_top_logprobs.push_back(LogprobsOf(one.logprobs()));
  }
  event.embedding.assign(proto.embedding().begin(), proto.embedding().end());
  event.usage = {.prompt_tokens = proto.usage().prompt_tokens(),
                 .cached_tokens = proto.usage().cached_tokens(),
                 .output_tokens = proto.usage().output_tokens()};
  event.status = FromProto(proto.status());
  if (proto.finish_reason() > static_cast<uint32_t>(FinishReason::kError)) {
    event.finish_reason = FinishReason::kError;
    event.status = InternalError("finish reason " + std::to_string(proto.finish_reason()) +
                                 ", which this version does not know");
  } else {
    event.finish_reason = static_cast<FinishReason>(proto.finish_reason());
  }
  return event;
}

template <typename Shared, typename Content>
Shared RequestContents::Find(const Content& content, size_t hash, Table<Shared>* table) {
  auto& by_hash = table->by_hash;
  const auto [begin, end] = by_hash.equal_range(hash);
  for (auto it = begin; it != end; ++it) {
    Shared shared = it->second.Lock();
    if (IsSame(shared, content)) return shared;
  }
  // Those that have gone meanwhile, each time there are twice as many as were left.
  if (by_hash.size() >= std::max(kSweptMin, 2 * table->swept_size)) {
    std::erase_if(by_hash, [](const auto& one) { return one.second.Lock().empty(); });
    table->swept_size = by_hash.size();
  }
  Shared shared = Make(content);
  by_hash.emplace(hash, typename Shared::Weak(shared));
  return shared;
}

SharedText RequestContents::TextOf(const std::string& text) {
  if (text.empty()) return {};
  return Find<SharedText>(text, std::hash<std::string>()(text), &texts_);
}

TokenSet RequestContents::TokensOf(std::span<const int32_t> tokens) {
  if (tokens.empty()) return {};
  const std::string_view bytes(reinterpret_cast<const char*>(tokens.data()), tokens.size_bytes());
  return Find<TokenSet>(tokens, std::hash<std::string_view>()(bytes), &token_sets_);
}

}  // namespace graft
