#include "engine/engine.h"

#include <algorithm>
#include <cmath>
#include <unordered_set>
#include <utility>

#include "base/thread_name.h"

namespace graft {
namespace {

// In metric labels, of all weighted sums.
constexpr char kSumLabel[] = "sum";

RowPooling RowPoolingOf(Pooling pooling) {
  if (pooling == Pooling::kNone) return RowPooling::kNone;
  return pooling == Pooling::kLast ? RowPooling::kLast : RowPooling::kMean;
}

TokenLogprob ToTokenLogprob(const LogprobEntry& entry) {
  return {.token = entry.token, .logprob = entry.logprob};
}

std::vector<TokenLogprob> ToTokenLogprobs(const std::vector<LogprobEntry>& entries) {
  std::vector<TokenLogprob> logprobs(entries.size());
  std::transform(entries.begin(), entries.end(), logprobs.begin(), ToTokenLogprob);
  return logprobs;
}

}  // namespace

Engine::Engine(Executor& executor, ContentTable& adapters, AdapterLoader& loader, Clock& clock,
               Metrics& metrics, const EngineOptions& options)
    : executor_(executor),
      adapters_(adapters),
      clock_(clock),
      runs_ahead_(options.runs_ahead && executor.limits().runs_ahead),
      ahead_ns_(options.ahead_ns),
      metrics_(metrics, options.adapter_label),
      queue_(options.requests_max, executor.limits().sequences_max, clock),
      scheduler_(options.scheduler, executor, adapters, loader, clock,
                 [this](int32_t content) { metrics_.ForgetAdapter(content); }),
      limits_{.context_tokens_max = scheduler_.limits().context_tokens_max,
              .vocab_size = executor.limits().vocab_size,
              .requests_max = options.requests_max},
      grammars_(options.grammars) {
  executor_.SetMasks(&scheduler_);
  if (grammars_ != nullptr) grammars_->SetWaker([this] { queue_.Wake(); });
  loader.SetWaker([this] { queue_.Wake(); });
  // Wakes the engine when an adapter's content is no longer used, so that its memory is freed now
  // and not with the next request.
  adapters_.SetWaker([this] { queue_.Wake(); });
  // Where a step waits for an adapter's layers, Begin returns only once the last one is on its way.
  executor_.SetWorkWhileBlocked([this] { Deliver(); });
  RecordGoal(options.scheduler, scheduler_.limits(), metrics);
  metrics_.RecordState(scheduler_);
}

void Engine::SplitPool(int32_t adapter_pages) {
  scheduler_.SplitPool(adapter_pages);
  limits_.context_tokens_max = scheduler_.limits().context_tokens_max;
}

Engine::~Engine() {
  Stop();
  executor_.SetWorkWhileBlocked({});
  executor_.SetMasks(nullptr);
  adapters_.SetWaker({});
  if (grammars_ != nullptr) grammars_->SetWaker({});
}

Status Engine::Submit(Request request, std::shared_ptr<TokenStream> stream) {
  CHECK(stream != nullptr);
  RETURN_IF_ERROR(CheckRequest(request));
  auto sequence = std::make_unique<Sequence>();
  ASSIGN_OR_RETURN(sequence->bounds, BoundsOf(request));
  std::string adapter_hash = request.adds_adapters() ? kSumLabel : request.adapter_hash();
  ASSIGN_OR_RETURN(sequence->adapter, AcquireAdapter(request));
  sequence->counters = metrics_.CountersFor(adapter_hash, sequence->adapter.content());
  sequence->id = request.id;
  sequence->tenant = request.tenant;
  sequence->key_id = std::move(request.key_id);
  sequence->tenant_weight = request.tenant_weight;
  sequence->priority = request.priority;
  if (!request.cache_salt.empty()) request.tenant += '\0' + request.cache_salt;
  sequence->prefix_key = {.tenant = std::move(request.tenant),
                          .adapter_hash = std::move(adapter_hash)};
  const int64_t now_ns = clock_.NowNs();
  sequence->arrival_ns = now_ns - request.age_ns;
  if (on_times_ && !request.traceparent.empty()) {
    sequence->times = std::make_unique<RequestTimes>(
        RequestTimes{.traceparent = std::move(request.traceparent),
                     .log_id = std::move(request.log_id),
                     .adapter_hash = sequence->prefix_key.adapter_hash,
                     .arrival_ns = now_ns});
  }
  sequence->tokens = std::move(request.prompt_tokens);
  sequence->num_prompt_tokens = sequence->num_tokens();
  sequence->tokens.insert(sequence->tokens.end(), request.output_tokens.begin(),
                          request.output_tokens.end());
  sequence->output_tokens_max = std::min(request.sampling.tokens_max,
                                         limits_.context_tokens_max - sequence->num_prompt_tokens);
  sequence->sampling = std::move(request.sampling);
  sequence->pooling = RowPoolingOf(request.pooling);
  // Where the answer is bound, what may be drawn after a draft depends on the draft.
  if (sequence->bounds == nullptr) {
    sequence->draft_tokens_max = DraftTokensMax(request.draft_tokens_max, sequence->sampling);
  }
  if (sequence->draft_tokens_max > 0) sequence->lookup = std::make_unique<PromptLookup>();
  sequence->runs_alone = request.runs_alone;
  sequence->activation_position = request.activation_position;
  sequence->stream = std::move(stream);
  return queue_.Push(std::move(sequence));
}

// Null: there are none.
Result<std::unique_ptr<AnswerBounds>> Engine::BoundsOf(const Request& request) const {
  std::shared_ptr<const SharedGrammar> grammar;
  if (!request.grammar.empty()) {
    if (grammars_ == nullptr) return UnimplementedError("this engine compiles no grammars");
    ASSIGN_OR_RETURN(grammar, grammars_->Want(request.grammar, request.tenant));
  }
  if (grammar == nullptr && !request.reasoning.is_bound()) return std::unique_ptr<AnswerBounds>();
  AnswerBounds::Ends ends = {scheduler_.end_token_ids(), request.sampling.stop_token_ids};
  return std::make_unique<AnswerBounds>(grammar, request.reasoning, std::move(ends), grammars_,
                                        request.tenant);
}

Result<ContentLease> Engine::AcquireAdapter(const Request& request) const {
  if (request.adapters.empty()) return ContentLease();
  if (!request.adds_adapters()) return adapters_.Acquire(request.adapter_hash());
  std::vector<AdapterPart> parts;
  for (const AdapterUse& use : request.adapters) {
    parts.push_back({.path = "", .hash = "", .key = use.hash, .weight = use.weight});
  }
  return adapters_.AcquireSum(std::move(parts), request.tenant);
}

// What the request asks for and the engine allows; 0 where a draw has to wait for the last one.
int32_t Engine::DraftTokensMax(int32_t wanted, const SamplingParams& sampling) const {
  const int32_t most = scheduler_.limits().draft_tokens_max;
  if (!CanDraft(sampling)) return 0;
  return wanted < 0 ? most : std::min(wanted, most);
}

Status Engine::CheckTokens(const std::string& which, const std::vector<int32_t>& tokens) const {
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (tokens[i] >= 0 && tokens[i] < limits_.vocab_size) continue;
    return InvalidArgumentError(which + " token " + std::to_string(i) + " is " +
                                std::to_string(tokens[i]) + ", the vocabulary ends at " +
                                std::to_string(limits_.vocab_size - 1));
  }
  return OkStatus();
}

Status Engine::CheckRequest(const Request& request) const {
  RETURN_IF_ERROR(RefuseUnserved(request));
  RETURN_IF_ERROR(ValidateSamplingParams(request.sampling, limits_.vocab_size));
  RETURN_IF_ERROR(CheckCanDraw(request, scheduler_.end_token_ids(), limits_.vocab_size));
  const std::vector<int32_t>& prompt = request.prompt_tokens;
  if (prompt.empty()) return InvalidArgumentError("the prompt holds no tokens");
  // Scoring a prompt (tokens_max 0) needs no room for a token after it.
  const int32_t prompt_max = limits_.context_tokens_max - (request.sampling.tokens_max > 0 ? 1 : 0);
  if (prompt.size() > static_cast<size_t>(prompt_max)) {
    return InvalidArgumentError("the prompt has " + std::to_string(prompt.size()) +
                                " tokens; the context holds " +
                                std::to_string(limits_.context_tokens_max) +
                                ", prompt and output together: shorten the prompt to " +
                                std::to_string(prompt_max) + " tokens or fewer");
  }
  RETURN_IF_ERROR(CheckTokens("prompt", prompt));
  RETURN_IF_ERROR(CheckTokens("output", request.output_tokens));
  if (request.reasoning.is_bound()) {
    const std::vector<int32_t> marks = {request.reasoning.opening, request.reasoning.closing};
    RETURN_IF_ERROR(CheckTokens("reasoning's", marks));
  }
  const int64_t output_max =
      std::min<int64_t>(request.sampling.tokens_max,
                        limits_.context_tokens_max - static_cast<int64_t>(prompt.size()));
  if (!request.output_tokens.empty() &&
      static_cast<int64_t>(request.output_tokens.size()) >= output_max) {
    return InvalidArgumentError("the request has drawn " +
                                std::to_string(request.output_tokens.size()) +
                                " tokens elsewhere and may draw " + std::to_string(output_max) +
                                " here: nothing is left to draw");
  }
  return OkStatus();
}

void Engine::Cancel(RequestId id) { queue_.Cancel(id); }

void Engine::Start() {
  CHECK(!thread_.joinable()) << "started twice";
  thread_ = std::thread([this] {
    NameThread("engine");
    Loop();
  });
}

bool Engine::Drain(std::chrono::nanoseconds timeout) {
  CHECK(thread_.joinable()) << "nobody works the queue off";
  queue_.Close();
  const int64_t until_ns = clock_.NowNs() + timeout.count();
  if (queue_.WaitUntilIdle(clock_, until_ns)) return true;
  queue_.CancelAll();
  queue_.WaitUntilIdle(clock_, kNever);
  return false;
}

void Engine::Stop() {
  queue_.Stop();
  if (thread_.joinable()) {
    thread_.join();
  } else {
    if (is_running()) EndStep();
    AdmitNewRequests();  // the cancellations
    if (scheduler_.is_ahead()) RunStep();
    Deliver();
  }
}

void Engine::Loop() {
  for (;;) {
    if (scheduler_.empty() && !scheduler_.is_ahead()) {
      last_finish_ns_ = 0;
      Deliver();
      executor_.OnIdle();
      if (!queue_.WaitForWork()) return;
    }
    if (RunStep() || scheduler_.empty()) continue;
    if (!scheduler_.adapters().is_busy() && !scheduler_.awaits_masks()) continue;
    // Requests wait for adapters or masks alone: their makers wake the queue.
    Deliver();
    executor_.OnIdle();
    if (!queue_.WaitForWork()) return;
  }
}

bool Engine::Step() {
  const bool ran = RunStep();
  Deliver();
  return ran || !scheduler_.empty() || !compiling_.empty();
}

Status Engine::PinAdapters(const std::vector<std::string>& keys) {
  for (const std::string& key : keys) {
    ASSIGN_OR_RETURN(const ContentLease lease, adapters_.Acquire(key));
    RETURN_IF_ERROR(scheduler_.PinAdapter(lease.content()));
  }
  metrics_.RecordState(scheduler_);
  return OkStatus();
}

bool Engine::RunStep() {
  if (!BeginStep()) return false;
  WaitForStep();
  EndStep();
  return true;
}

// A step's events are delivered while the device works on the next step: waking their readers takes
// longer than planning does.
bool Engine::BeginStep() {
  CHECK(!is_running()) << "EndStep comes first";
  running_ = {.was_ahead = scheduler_.is_ahead(), .plan_ns = clock_.NowNs()};
  AdmitNewRequests();
  const StepPlan& plan = scheduler_.Plan();
  PublishFailed();
  steps_.BeforeStep(scheduler_.planned(), scheduler_.TakeEvicted());
  if (plan.sequences.empty()) {
    last_finish_ns_ = 0;
    metrics_.RecordState(scheduler_);
    Deliver();
    steps_.AfterDelivery();
    return false;
  }
  running_.plan = &plan;
  const int64_t launch_ns = clock_.NowNs();
  if (on_times_) NoteFirstSteps(launch_ns);
  if (running_.was_ahead) {
    executor_.Continue();
  } else {
    executor_.Begin(plan);
  }
  running_.begun_ns = clock_.NowNs();
  running_.inside_ns = running_.begun_ns - launch_ns;
  running_.since_ns = running_.was_ahead ? last_finish_ns_ : launch_ns;
  running_.ahead_ns = AheadTimeOf(plan, running_.since_ns);
  Deliver();
  steps_.AfterDelivery();
  running_.wait_ns = clock_.NowNs();
  return true;
}

int64_t Engine::AheadTimeOf(const StepPlan& plan, int64_t since_ns) const {
  const int64_t step_ns = runs_ahead_ ? duration_.Expect(plan) : -1;
  return step_ns < 0 ? kNever : since_ns + step_ns - ahead_ns_;
}

void Engine::WaitForStep() {
  const auto timeout_ns = [this] {
    return ahead_time_ns() == kNever ? kNever : ahead_time_ns() - clock_.NowNs();
  };
  while (!executor_.Wait(queue_.has_submitted(), timeout_ns())) {
    if (queue_.has_submitted()) {
      OnSubmitted();
    } else {
      OnAheadTime();
    }
  }
}

void Engine::OnSubmitted() {
  CHECK(is_running()) << "BeginStep takes them in";
  Add(queue_.TakeSubmitted());
  scheduler_.LoadAhead();
}

void Engine::OnAheadTime() {
  CHECK(is_running()) << "ahead of nothing";
  running_.ahead_ns = kNever;
  if (executor_.IsFollowed()) return;
  const StepPlan* const plan = scheduler_.PlanAhead();
  PublishFailed();
  if (plan != nullptr) executor_.Begin(*plan);
}

void Engine::EndStep() {
  CHECK(is_running()) << "no step was begun";
  const StepPlan& plan = *running_.plan;
  const StepResult result = executor_.Finish();
  const int64_t finish_ns = clock_.NowNs();
  scheduler_.Commit(plan, result);
  Publish(plan, result);
  RecordStep(plan, result.times, finish_ns);
  running_.plan = nullptr;
  running_.ahead_ns = kNever;
}

void Engine::RecordStep(const StepPlan& plan, const StepTimes& times, int64_t finish_ns) {
  const RunningStep& step = running_;
  const int64_t inside_ns = step.inside_ns + (finish_ns - step.wait_ns);
  StepHostTimes host;
  host.gap_ns = GapBefore(times, step.was_ahead ? last_finish_ns_ : step.begun_ns);
  host.executor_ns = step.was_ahead ? finish_ns - step.since_ns : inside_ns;
  host.overhead_ns = clock_.NowNs() - step.plan_ns - inside_ns;
  host.step_ns = step.was_ahead ? host.executor_ns : host.executor_ns + host.overhead_ns;
  last_finish_ns_ = finish_ns;
  duration_.Learn(plan, std::max<int64_t>(0, finish_ns - step.since_ns - times.others_ns));
  host.iteration_ns = finish_ns - (running_since_ns_ == 0 ? step.plan_ns : running_since_ns_);
  running_since_ns_ = scheduler_.num_running() == 0 ? 0 : finish_ns;
  metrics_.RecordStep(plan, times, host);
}

void Engine::Deliver() {
  // Booked before the streams hear of it: a reader of a last event finds the counts right.
  if (!finished_.empty()) queue_.Finished(std::exchange(finished_, {}));
  if (events_.empty()) return;
  for (auto& [stream, event] : events_) stream->Push(std::move(event));
  events_.clear();
  if (on_delivered_) on_delivered_();
}

void Engine::AdmitNewRequests() {
  RequestQueue::Batch batch = queue_.Take();
  Add(std::move(batch.submitted));
  AddCompiled();
  GiveUp(batch.displaced);
  Cancel(batch);
}

void Engine::Cancel(const RequestQueue::Batch& batch) {
  Sequences::List cancelled =
      batch.cancel_all ? scheduler_.RemoveAll() : scheduler_.Remove(batch.cancelled);
  if (!compiling_.empty()) {
    const std::unordered_set<RequestId> ids(batch.cancelled.begin(), batch.cancelled.end());
    for (auto& sequence : compiling_) {
      if (batch.cancel_all || ids.contains(sequence->id)) cancelled.push_back(std::move(sequence));
    }
  }
  std::erase(compiling_, nullptr);
  if (cancelled.empty()) return;
  metrics_.RecordState(scheduler_);
  for (const auto& sequence : cancelled) {
    sequence->finish_reason = FinishReason::kCancelled;
    PublishLast(*sequence);
  }
}

// Places that others have taken already.
void Engine::GiveUp(const std::vector<std::string>& tenants) {
  for (const std::string& tenant : tenants) {
    const Status status = ResourceExhaustedError(
        "the queue is full, and others have fewer requests in it; try again later");
    if (!scheduler_.FailNewestWaiting(tenant, status)) queue_.KeptPlace(tenant);
  }
}

void Engine::Add(std::vector<std::unique_ptr<Sequence>> submitted) {
  for (auto& sequence : submitted) {
    metrics_.RecordAccepted(*sequence);
    if (sequence->bounds == nullptr || !sequence->bounds->has_grammar()) {
      scheduler_.Add(std::move(sequence));
    } else {
      compiling_.push_back(std::move(sequence));
    }
  }
}

void Engine::AddCompiled() {
  for (auto& waiting : compiling_) {
    if (!waiting->bounds->is_compiled()) continue;
    std::unique_ptr<Sequence> sequence = std::move(waiting);
    const Status& status = sequence->bounds->status();
    if (status.ok()) {
      scheduler_.Add(std::move(sequence));
      continue;
    }
    sequence->finish_reason = FinishReason::kError;
    sequence->status = status;
    PublishLast(*sequence);
  }
  std::erase(compiling_, nullptr);
}

// What the device measured; of one that did not, how long it had nothing to do for all the host
// knows.
int64_t Engine::GapBefore(const StepTimes& times, int64_t begun_ns) const {
  if (last_finish_ns_ == 0) return 0;
  return times.idle_ns >= 0 ? times.idle_ns : begun_ns - last_finish_ns_;
}

void Engine::PublishFailed() {
  const std::vector<std::unique_ptr<Sequence>> failed = scheduler_.TakeFailed();
  for (const auto& sequence : failed) PublishLast(*sequence);
}

void Engine::Publish(const StepPlan& plan, const StepResult& result) {
  CHECK_EQ(plan.step_id, result.step_id);
  const std::vector<std::unique_ptr<Sequence>> finished = scheduler_.TakeFinished();
  metrics_.RecordState(scheduler_);
  const std::span<Sequence* const> planned = scheduler_.planned();
  for (size_t i = 0; i < planned.size(); ++i) {
    if (planned[i] == nullptr) continue;  // ended since it was planned
    PublishOne(*planned[i], plan.sequences[i], result.sequences[i]);
  }
}

void Engine::PublishOne(Sequence& sequence, const PlannedSequence& planned,
                        const SequenceResult& result) {
  const bool has_failed = sequence.finish_reason == FinishReason::kError;
  if (planned.prompt_logprobs && !has_failed) KeepPromptLogprobs(sequence, planned, result);
  const bool is_last = sequence.finish_reason != FinishReason::kNone;
  const int32_t num_tokens = sequence.num_new_tokens;  // further ones may stand behind a stop
  if (num_tokens == 0 && !is_last) return;
  const size_t first = events_.size();
  if (num_tokens > 0) TellToken(sequence, result);
  for (int32_t i = 1; i < num_tokens; ++i) {
    TellToken(sequence, result.further[static_cast<size_t>(i) - 1]);
  }
  if (num_tokens == 0) events_.emplace_back(sequence.stream, TokenEvent());
  if (!has_failed) {
    TokenEvent& event = events_[first].second;
    if (sequence.sampling.prompt_logprobs) {
      event.prompt_logprobs = std::exchange(sequence.prompt_logprobs, {});
      event.prompt_top_logprobs = std::exchange(sequence.prompt_top_logprobs, {});
    }
    event.embedding = result.embedding;
  }
  if (is_last) TellEnd(sequence, &events_.back().second);
}

// Written where it stays: of several hundred a step each move of an event would cost.
void Engine::TellToken(Sequence& sequence, const DrawnToken& drawn) {
  metrics_.RecordToken(sequence, clock_.NowNs());
  if (sequence.times != nullptr && sequence.times->output_tokens++ == 0) {
    sequence.times->first_token_ns = sequence.last_token_ns;
  }
  TokenEvent& event = events_.emplace_back(sequence.stream, TokenEvent()).second;
  event.token = drawn.token;
  event.logprob = drawn.logprob;
  if (!drawn.top_logprobs.empty()) event.top_logprobs = ToTokenLogprobs(drawn.top_logprobs);
}

// Entry i of a result is about the prompt token after the chunk's row i.
void Engine::KeepPromptLogprobs(Sequence& sequence, const PlannedSequence& planned,
                                const SequenceResult& result) {
  const auto num_prompt = static_cast<size_t>(sequence.num_asked_tokens());
  const int32_t num_virtual = sequence.num_virtual_tokens;
  if (sequence.prompt_logprobs.empty()) {
    sequence.prompt_logprobs.resize(num_prompt);
    sequence.prompt_top_logprobs.resize(num_prompt);
    sequence.prompt_logprobs[0] = {.token = sequence.tokens[static_cast<size_t>(num_virtual)],
                                   .logprob = std::nanf("")};
  }
  const int32_t first_told = std::max(0, planned.position_begin - num_virtual);
  const size_t first = static_cast<size_t>(first_told) + 1;
  for (size_t i = 0; i < result.prompt_logprobs.size() && first + i < num_prompt; ++i) {
    sequence.prompt_logprobs[first + i] = ToTokenLogprob(result.prompt_logprobs[i]);
  }
  for (size_t i = 0; i < result.prompt_top_logprobs.size() && first + i < num_prompt; ++i) {
    sequence.prompt_top_logprobs[first + i] = ToTokenLogprobs(result.prompt_top_logprobs[i]);
  }
}

void Engine::PublishLast(Sequence& sequence) {
  TellEnd(sequence, &events_.emplace_back(sequence.stream, TokenEvent()).second);
}

void Engine::TellEnd(Sequence& sequence, TokenEvent* event) {
  metrics_.RecordFinished(sequence);
  if (!sequence.is_displaced) finished_.push_back(sequence.tenant);
  event->finish_reason = sequence.finish_reason;
  event->status = sequence.status;
  event->usage = {.prompt_tokens = sequence.num_asked_tokens(),
                  .cached_tokens = std::max(0, sequence.cached_tokens),
                  .output_tokens = sequence.num_output_tokens()};
  if (sequence.times != nullptr) TellTimes(sequence);
}

void Engine::NoteFirstSteps(int64_t now_ns) {
  for (Sequence* const sequence : scheduler_.planned()) {
    if (sequence == nullptr || sequence->times == nullptr) continue;
    if (sequence->times->first_step_ns == 0) sequence->times->first_step_ns = now_ns;
  }
}

void Engine::TellTimes(Sequence& sequence) {
  RequestTimes& times = *sequence.times;
  const Residency::LoadTimes load = scheduler_.adapters().LoadTimesOf(sequence.adapter.content());
  // The request may have named a folder that had not been read: by now its hash is known.
  if (load.end_ns > 0)
    times.adapter_hash = scheduler_.adapters().HashOf(sequence.adapter.content());
  times.load_begin_ns = load.begin_ns;
  times.load_end_ns = load.end_ns;
  times.end_ns = clock_.NowNs();
  times.prompt_tokens = sequence.num_asked_tokens();
  times.cached_tokens = std::max(0, sequence.cached_tokens);
  times.finish_reason = sequence.finish_reason;
  times.status = sequence.status;
  on_times_(std::move(times));
}

}  // namespace graft
