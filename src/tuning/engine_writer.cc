#include "tuning/engine_writer.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "base/check.h"

namespace graft {
namespace {

constexpr int32_t kChoicesMax = 20;  // what a request may ask for

void AddChoices(const std::vector<TokenLogprob>& choices, int32_t num_choices, TaughtText* text) {
  for (size_t i = 0; i < static_cast<size_t>(num_choices); ++i) {
    const bool is_there = i < choices.size();
    text->ids.push_back(is_there ? choices[i].token : 0);
    text->probabilities.push_back(is_there ? std::exp(choices[i].logprob) : 0.0f);
  }
}

}  // namespace

EngineWriter::EngineWriter(Generator& generator, WriterSettings settings)
    : generator_(generator), settings_(std::move(settings)), next_id_(settings_.first_id) {}

int32_t EngineWriter::num_choices() const {
  return std::min(kChoicesMax, generator_.limits().vocab_size);
}

Result<std::vector<TaughtText>> EngineWriter::Write(std::span<const WriteOrder> orders) {
  Result<std::vector<TaughtText>> texts = WriteAll(orders);
  for (const Pending& pending : pending_) generator_.Cancel(pending.id);
  pending_.clear();
  return texts;
}

Result<std::vector<TaughtText>> EngineWriter::WriteAll(std::span<const WriteOrder> orders) {
  std::vector<TaughtText> texts;
  for (size_t next = 0; texts.size() < orders.size();) {
    for (; next < orders.size() && pending_.size() < settings_.orders_at_once; ++next) {
      RETURN_IF_ERROR(Submit(orders[next]));
    }
    ASSIGN_OR_RETURN(TaughtText text, Collect(orders[texts.size()], *pending_.front().stream));
    pending_.pop_front();
    texts.push_back(std::move(text));
    if (settings_.on_text && !settings_.on_text(static_cast<int64_t>(texts.size()),
                                                static_cast<int64_t>(orders.size()))) {
      return Status(StatusCode::kCancelled, "the writing was given up");
    }
  }
  return texts;
}

Status EngineWriter::Submit(const WriteOrder& order) {
  Request request;
  request.id = next_id_++;
  request.tenant = settings_.tenant;
  request.tenant_weight = settings_.tenant_weight;
  request.prompt_tokens = order.prompt;
  request.prompt_tokens.insert(request.prompt_tokens.end(), order.given.begin(), order.given.end());
  request.sampling.tokens_max = order.given.empty() ? order.tokens_max : 1;
  request.sampling.temperature = order.temperature;
  request.sampling.top_p = order.top_p;
  request.sampling.seed = order.seed;
  request.sampling.num_logprobs = num_choices();
  request.sampling.prompt_logprobs = !order.given.empty();
  Pending pending = {request.id, std::make_shared<TokenStream>()};
  RETURN_IF_ERROR(generator_.Submit(std::move(request), pending.stream));
  pending_.push_back(std::move(pending));
  return OkStatus();
}

Result<TaughtText> EngineWriter::Collect(const WriteOrder& order, TokenStream& stream) const {
  TaughtText text{.tokens = order.given};
  for (bool more = true; more;) {
    const TokenEvent event = stream.Pop();
    if (event.finish_reason == FinishReason::kError) return event.status;
    more = event.finish_reason == FinishReason::kNone;
    for (size_t i = 0; !event.prompt_top_logprobs.empty() && i < order.given.size(); ++i) {
      AddChoices(event.prompt_top_logprobs[order.prompt.size() + i], num_choices(), &text);
    }
    if (!order.given.empty() || event.token < 0) continue;
    text.tokens.push_back(event.token);  // the model's own end, too: it is to be learned
    AddChoices(event.top_logprobs, num_choices(), &text);
  }
  CHECK_EQ(text.ids.size(), text.tokens.size() * static_cast<size_t>(num_choices()));
  return text;
}

}  // namespace graft
