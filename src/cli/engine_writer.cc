#include "cli/engine_writer.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <utility>

namespace graft {
namespace {

constexpr int32_t kChoicesMax = 20;  // what a request may ask for
constexpr float kTopP = 0.8f;        // of what is written
constexpr size_t kOrdersAtOnce = 256;

void AddChoices(const std::vector<TokenLogprob>& choices, int32_t num_choices, TaughtText* text) {
  for (size_t i = 0; i < static_cast<size_t>(num_choices); ++i) {
    const bool is_there = i < choices.size();
    text->ids.push_back(is_there ? choices[i].token : 0);
    text->probabilities.push_back(is_there ? std::exp(choices[i].logprob) : 0.0f);
  }
}

}  // namespace

Result<std::unique_ptr<EngineWriter>> EngineWriter::Create(const RuntimeOptions& options,
                                                           LoadedModel& model, bool quiet) {
  std::unique_ptr<EngineWriter> writer(new EngineWriter(quiet));
  ASSIGN_OR_RETURN(writer->runtime_, Runtime::Create(options, model, /*lora=*/false));
  writer->runtime_->engine().Start();
  return writer;
}

int32_t EngineWriter::num_choices() const {
  return std::min(kChoicesMax, runtime_->limits().vocab_size);
}

Result<std::vector<TaughtText>> EngineWriter::Write(std::span<const WriteOrder> orders) {
  ProgressBar bar("writing", quiet_);
  std::vector<TaughtText> texts;
  std::deque<std::shared_ptr<TokenStream>> streams;  // the engine's end, too
  for (size_t next = 0; texts.size() < orders.size();) {
    for (; next < orders.size() && streams.size() < kOrdersAtOnce; ++next) {
      const WriteOrder& order = orders[next];
      Request request;
      request.id = ++num_requests_;
      request.prompt_tokens = order.prompt;
      request.prompt_tokens.insert(request.prompt_tokens.end(), order.given.begin(),
                                   order.given.end());
      request.sampling.tokens_max = order.given.empty() ? order.tokens_max : 1;
      request.sampling.top_p = kTopP;
      request.sampling.seed = order.seed;
      request.sampling.num_logprobs = num_choices();
      request.sampling.prompt_logprobs = !order.given.empty();
      streams.push_back(std::make_shared<TokenStream>());
      RETURN_IF_ERROR(runtime_->engine().Submit(std::move(request), streams.back()));
    }
    ASSIGN_OR_RETURN(TaughtText text, Collect(orders[texts.size()], *streams.front()));
    streams.pop_front();
    texts.push_back(std::move(text));
    bar.Update(static_cast<int64_t>(texts.size()), static_cast<int64_t>(orders.size()));
  }
  return texts;
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
