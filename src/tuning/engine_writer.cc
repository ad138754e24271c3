#include "tuning/engine_writer.h"

#include <algorithm>
#include <cmath>
#include <thread>
#include <utility>
#include <vector>

#include "base/check.h"

namespace graft {
namespace {

constexpr int32_t kWaitSecondsMax = 10;

Status GivenUp() { return CancelledError("the writing was given up"); }

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
  return std::min(kTextChoicesMax, generator_.limits().vocab_size);
}

Result<std::vector<TaughtText>> EngineWriter::Write(std::span<const WriteOrder> orders) {
  Result<std::vector<TaughtText>> texts = WriteAll(orders);
  for (const Pending& pending : pending_) generator_.Cancel(pending.id);
  pending_.clear();
  if (texts.status().code() == StatusCode::kInvalidArgument) {
    return InternalError("the engine takes no such text: " + texts.status().message());
  }
  return texts;
}

Result<std::vector<TaughtText>> EngineWriter::WriteAll(std::span<const WriteOrder> orders) {
  std::vector<TaughtText> texts;
  for (size_t next = 0; texts.size() < orders.size();) {
    RETURN_IF_ERROR(SubmitMore(orders, &next));
    if (pending_.empty()) {
      RETURN_IF_ERROR(WaitForRoom());
      continue;
    }
    const WriteOrder& order = orders[texts.size()];
    Result<TaughtText> text = Collect(order, *pending_.front().stream);
    while (text.status().code() == StatusCode::kResourceExhausted) {
      // Its place was given to another request.
      RETURN_IF_ERROR(WaitForRoom());
      Result<Pending> again = Submit(order);
      if (again.ok()) {
        pending_.front() = *again;
        text = Collect(order, *pending_.front().stream);
      } else {
        text = again.status();
      }
    }
    pending_.pop_front();
    RETURN_IF_ERROR(text.status());
    texts.push_back(std::move(*text));
    if (settings_.on_text && !settings_.on_text(static_cast<int64_t>(texts.size()),
                                                static_cast<int64_t>(orders.size()))) {
      return GivenUp();
    }
  }
  return texts;
}

Status EngineWriter::SubmitMore(std::span<const WriteOrder> orders, size_t* next) {
  for (; *next < orders.size() && pending_.size() < settings_.orders_at_once; ++*next) {
    Result<Pending> pending = Submit(orders[*next]);
    if (pending.status().code() == StatusCode::kResourceExhausted) return OkStatus();
    RETURN_IF_ERROR(pending.status());
    pending_.push_back(std::move(*pending));
  }
  return OkStatus();
}

Status EngineWriter::WaitForRoom() {
  const std::chrono::seconds time(std::clamp(
      generator_.RetryAfterS(settings_.tenant, settings_.tenant_weight), 1, kWaitSecondsMax));
  if (!settings_.wait) {
    std::this_thread::sleep_for(time);
    return OkStatus();
  }
  return settings_.wait(time) ? OkStatus() : GivenUp();
}

Result<EngineWriter::Pending> EngineWriter::Submit(const WriteOrder& order) {
  Request request;
  request.id = next_id_++;
  request.tenant = settings_.tenant;
  request.tenant_weight = settings_.tenant_weight;
  request.UseAdapter(settings_.adapter);
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
  return pending;
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
