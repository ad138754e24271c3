#include "openai/generation_session.h"

#include <algorithm>
#include <utility>

#include "base/log.h"
#include "openai/embeddings_writer.h"
#include "openai/openai_response.h"

namespace graft {
namespace {

std::unique_ptr<AnswerWriter> MakeWriter(const ApiContext& context, GenerationPlan& plan) {
  if (plan.embeddings.has_value()) {
    return std::make_unique<EmbeddingsWriter>(plan.head.model, *plan.embeddings);
  }
  if (plan.make_writer) return plan.make_writer(context, std::move(plan.head));
  return std::make_unique<ResponseWriter>(context.tokenizer, std::move(plan.head));
}

}  // namespace

GenerationSession::GenerationSession(const ApiContext& context, GenerationPlan plan)
    : context_(context),
      is_stream_(plan.stream),
      choices_per_prompt_(plan.n),
      model_(plan.head.model),
      tenant_(plan.requests.front().tenant),
      tenant_weight_(plan.requests.front().tenant_weight),
      requests_(std::move(plan.requests)),
      writer_(MakeWriter(context, plan)) {
  choices_.reserve(requests_.size());
  for (size_t i = 0; i < requests_.size(); ++i) {
    const std::vector<int32_t>& prompt = requests_[i].prompt_tokens;
    prompt_tokens_.push_back(static_cast<int64_t>(prompt.size()));
    choices_.push_back({.choice = Choice(context.tokenizer, std::move(plan.choices[i]), prompt)});
  }
}

GenerationSession::~GenerationSession() {
  CancelAll();
  for (RunningChoice& running : choices_) {
    if (running.stream != nullptr) running.stream->SetReadyCallback({});
  }
}

std::optional<ApiError> GenerationSession::Submit(std::atomic<uint64_t>* next_id,
                                                  std::function<void()> on_ready) {
  arrival_ns_ = context_.clock.NowNs();
  for (size_t i = 0; i < requests_.size(); ++i) {
    Request& request = requests_[i];
    request.id = next_id->fetch_add(1);
    const RequestId id = request.id;
    auto stream = std::make_shared<TokenStream>();
    stream->SetReadyCallback(on_ready);
    const Status status = context_.generator.Submit(std::move(request), stream);
    if (status.ok()) {
      choices_[i].id = id;
      choices_[i].stream = std::move(stream);
      continue;
    }
    stream->SetReadyCallback({});
    CancelAll();
    error_ = DescribeFailure(status);
    return error_;
  }
  requests_.clear();
  return std::nullopt;
}

void GenerationSession::Poll() {
  for (RunningChoice& running : choices_) PollChoice(running);
  if (first_event_ns_ == 0 && started()) first_event_ns_ = context_.clock.NowNs();
}

void GenerationSession::PollChoice(RunningChoice& running) {
  if (running.stream == nullptr || running.choice.closed()) return;
  while (std::optional<TokenEvent> event = running.stream->TryPop()) {
    running.choice.Push(*event);
    if (running.choice.closed()) break;
  }
  if (running.choice.wants_cancel()) Cancel(running);
  if (error_.has_value()) return;
  if (running.choice.finish() == FinishReason::kError) {
    error_ = DescribeFailure(running.choice.status());
  } else if (running.choice.finish() == FinishReason::kCancelled) {
    error_ = ErrorFromStatus(UnavailableError("The server cancelled the request."));
  }
  if (error_.has_value()) CancelAll();
}

ApiError GenerationSession::DescribeFailure(const Status& status) const {
  ApiError error = ErrorFromStatus(status);
  if (status.code() == StatusCode::kResourceExhausted) {
    error.retry_after_s = context_.generator.RetryAfterS(tenant_, tenant_weight_);
  }
  if (status.code() == StatusCode::kUnavailable) {
    error.retry_after_s = context_.UnavailableRetryAfterS();
  }
  // The one thing of a checked request that can be missing is its adapter, unloaded meanwhile.
  if (status.code() == StatusCode::kNotFound) {
    error.param = "model";
    error.code = "model_not_found";
  }
  const Result<AdapterInfo> adapter = context_.catalog.Find(model_);
  const std::string path = adapter.ok() ? adapter->path : "";
  std::string reason = HidePath(error.message, path);
  if (reason == error.message) return error;
  LOG_WARN("a request for adapter '{}' failed: {}", model_, status.message());
  error.message = "adapter '" + model_ + "': " + reason;
  return error;
}

void GenerationSession::Cancel(RunningChoice& running) {
  if (running.stream == nullptr || running.cancelled || running.choice.closed()) return;
  running.cancelled = true;
  context_.generator.Cancel(running.id);
}

void GenerationSession::CancelAll() {
  for (RunningChoice& running : choices_) Cancel(running);
}

bool GenerationSession::started() const {
  return error_.has_value() ||
         std::any_of(choices_.begin(), choices_.end(),
                     [](const RunningChoice& running) { return running.choice.started(); });
}

bool GenerationSession::done() const {
  return error_.has_value() ||
         std::all_of(choices_.begin(), choices_.end(),
                     [](const RunningChoice& running) { return running.choice.closed(); });
}

// Prompt tokens count once per prompt; of its n choices the first says what was cached, since the
// others may well have found the first one's pages.
ResponseUsage GenerationSession::SumUsage() const {
  ResponseUsage usage;
  for (size_t i = 0; i < choices_.size(); ++i) {
    usage.output_tokens += choices_[i].choice.output_tokens();
    if (i % static_cast<size_t>(choices_per_prompt_) != 0) continue;
    usage.prompt_tokens += prompt_tokens_[i];
    usage.cached_tokens += choices_[i].choice.cached_tokens();
  }
  return usage;
}

int64_t GenerationSession::NumTokensOfBegun() const {
  int64_t num_tokens = 0;
  for (size_t i = 0; i < choices_.size(); ++i) {
    const int32_t drawn = choices_[i].choice.output_tokens();
    if (drawn > 0) num_tokens += prompt_tokens_[i] + drawn;
  }
  return num_tokens;
}

int64_t GenerationSession::pending_bytes() const {
  int64_t bytes = 0;
  for (const RunningChoice& running : choices_) bytes += running.choice.held_bytes();
  return bytes;
}

void GenerationSession::AppendEvents(std::string* out) {
  if (end_sent_) return;
  writer_->SetUsage(SumUsage());
  for (size_t i = 0; i < choices_.size(); ++i) {
    RunningChoice& running = choices_[i];
    if (!running.choice.started() || running.finish_sent) continue;
    const int32_t idx = static_cast<int32_t>(i);
    if (!running.role_sent) writer_->AppendBeginning(idx, out);
    running.role_sent = true;
    const FinishReason finish = running.choice.finish();
    const bool is_good = finish == FinishReason::kStop || finish == FinishReason::kLength;
    writer_->AppendChunk(idx, running.choice.TakePiece(), is_good ? finish : FinishReason::kNone,
                         out);
    running.finish_sent = is_good;
  }
  if (error_.has_value()) {
    writer_->AppendError(*error_, out);
    end_sent_ = true;
  } else if (done()) {
    writer_->AppendEnd(SumUsage(), out);
    end_sent_ = true;
  }
}

std::string GenerationSession::Body() {
  std::vector<ChoicePiece> pieces;
  std::vector<FinishReason> finishes;
  for (RunningChoice& running : choices_) {
    pieces.push_back(running.choice.TakePiece());
    finishes.push_back(running.choice.finish());
  }
  return writer_->Body(std::move(pieces), finishes, SumUsage());
}

}  // namespace graft
