#include "rpc/request_proto.h"

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

}  // namespace graft
