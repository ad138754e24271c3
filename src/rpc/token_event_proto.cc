#include "rpc/token_event_proto.h"

#include <string>
#include <vector>

namespace graft {
namespace {

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

}  // namespace

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

}  // namespace graft
