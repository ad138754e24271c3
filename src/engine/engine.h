// Engine: requests in, token events out, one step at a time over whatever executor it is given.
// Submit and Cancel are thread-safe. Everything else happens on one thread: the engine's own after
// Start(), else the caller's. The caller calls Step(), or the functions that a step consists of, so
// that one thread can drive many engines on a clock of its own. None of these functions waits,
// except EndStep if the executor has not finished its step. State crosses threads through queues:
// RequestQueue downwards, TokenStream upwards, and those of ContentTable and AdapterLoader.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/metrics.h"
#include "cache/content_table.h"
#include "engine/engine_metrics.h"
#include "engine/request_queue.h"
#include "engine/scheduler.h"
#include "engine/step_duration.h"
#include "engine/step_teller.h"
#include "grammar/grammar_store.h"
#include "request/generator.h"
#include "step/adapter_loader.h"
#include "step/executor.h"

namespace graft {

struct EngineOptions {
  SchedulerOptions scheduler;
  int32_t requests_max = 4096;  // in flight, waiting included
  // Begins a step before the one that runs has ended, where the executor can and only its tokens
  // are unknown.
  bool runs_ahead = true;
  // How long before a step's end the next step is planned and launched, if it can have no new
  // request. It is a few times what planning takes. The few requests that come in this time wait
  // for one step more.
  int64_t ahead_ns = 700'000;
  // Compiles the grammars of requests, and outlives the engine; null: such requests are refused.
  GrammarStore* grammars = nullptr;
  // Names an adapter in metric labels, given its hash; called on submitting threads. Empty: the
  // hash's first digits.
  std::function<std::string(const std::string&)> adapter_label;
};

class Engine : public Generator {
 public:
  // All referred to must outlive the engine.
  Engine(Executor& executor, ContentTable& adapters, AdapterLoader& loader, Clock& clock,
         Metrics& metrics, const EngineOptions& options);
  ~Engine() override;  // Stop()s

  // Any thread. tokens_max is cut where the context ends; a prompt that leaves no room for a token
  // is refused. An event with kStop carries the token that stopped it (EOS or a stop id).
  Status Submit(Request request, std::shared_ptr<TokenStream> stream) override;
  void Cancel(RequestId id) override;
  GeneratorLimits limits() const override { return limits_; }
  int32_t RetryAfterS(const std::string& tenant, double weight) override {
    return queue_.RetryAfterS(tenant, weight);
  }

  // Called on the engine's thread when all events of a step have been pushed, so that they can be
  // sent on together. {}: nothing. Not to be set while the thread runs.
  void SetOnDelivered(std::function<void()> on_delivered) {
    on_delivered_ = std::move(on_delivered);
  }

  // What the engine's thread is told of its steps, see StepNews. {}: nothing. Not while the thread
  // runs.
  void SetOnStep(StepTeller::Listener on_step) { steps_.SetListener(std::move(on_step)); }

  // Takes the times of requests that came with a traceparent, when they end. {}: they are dropped.
  // To be set before the first request.
  void SetOnTimes(RequestTimesListener on_times) { on_times_ = std::move(on_times); }

  // Sets so many pages of the pool apart for adapters, the others being KV's, to compare with one
  // pool for both. Before the first request, and before PinAdapters.
  void SplitPool(int32_t adapter_pages);

  // Starts the engine's thread; once.
  void Start();
  // Refuses new requests from now on and waits until those in flight are done. After `timeout` the
  // rest is cancelled; then false. Needs the thread.
  bool Drain(std::chrono::nanoseconds timeout);
  // Refuses new requests, cancels those in flight and ends the thread. Every accepted request has
  // had its last event when this returns.
  void Stop();

  // One step, for callers without Start(). False if nothing is in flight. While requests wait for
  // adapters alone it returns at once.
  bool Step();

  // The parts of Step(), for a caller that must not wait. BeginStep is called while no step runs.
  // It takes in new requests and cancels, plans, lets the executor begin, and delivers the last
  // step's events. False: there is nothing to run until a request is submitted or cancelled, or the
  // loader has an event; all events are delivered then.
  bool BeginStep();
  // While a step runs: a request was submitted.
  void OnSubmitted();
  // While a step runs, at ahead_time_ns(): begins the next one if it can be.
  void OnAheadTime();
  // A time of the engine's clock; kNever: not in this step any more.
  int64_t ahead_time_ns() const { return running_.ahead_ns; }
  // The executor has done the step: books its tokens. Their events are delivered with the next
  // BeginStep, or by Deliver.
  void EndStep();
  void Deliver();
  bool is_running() const { return running_.plan != nullptr; }

  // Makes these contents resident for good, by their keys; before the first step. Fails with the
  // reason where one cannot be read or they do not all fit.
  Status PinAdapters(const std::vector<std::string>& keys);

  EngineSnapshot Snapshot() const { return metrics_.Snapshot(); }
  // Which prefixes are cached, as PrefixDigest::Read has it; any thread.
  std::vector<uint64_t> ReadPrefixes() const { return scheduler_.prefixes().Read(); }
  // Not while the thread runs.
  Status CheckIntegrity() const { return scheduler_.CheckIntegrity(); }

 private:
  // The step that runs, by the engine's clock.
  struct RunningStep {
    const StepPlan* plan = nullptr;  // null: none
    bool was_ahead = false;          // begun before the last one had ended
    int64_t plan_ns = 0;             // when the host began with it
    int64_t since_ns = 0;            // when the executor did
    int64_t begun_ns = 0;            // when Begin had returned
    int64_t inside_ns = 0;           // spent in Begin
    int64_t wait_ns = 0;             // when the host had nothing else to do
    int64_t ahead_ns = kNever;
  };

  void Loop();
  // Step() without delivering its own events, which wait for the next one. False if no rows could
  // be computed.
  bool RunStep();
  void PublishFailed();
  void AdmitNewRequests();
  void Add(std::vector<std::unique_ptr<Sequence>> submitted);
  void GiveUp(const std::vector<std::string>& tenants);
  // Requests with grammars that are compiled by now join the line, or fail with them.
  void AddCompiled();
  void Cancel(const RequestQueue::Batch& batch);
  // Waits until the step is done. Meanwhile the adapters of requests that come are loaded beside
  // the step, not after it.
  void WaitForStep();
  int64_t AheadTimeOf(const StepPlan& plan, int64_t since_ns) const;
  void RecordStep(const StepPlan& plan, const StepTimes& times, int64_t finish_ns);
  int64_t GapBefore(const StepTimes& times, int64_t begun_ns) const;
  void Publish(const StepPlan& plan, const StepResult& result);
  void PublishOne(Sequence& sequence, const PlannedSequence& planned, const SequenceResult& result);
  void TellToken(Sequence& sequence, const DrawnToken& drawn);
  void KeepPromptLogprobs(Sequence& sequence, const PlannedSequence& planned,
                          const SequenceResult& result);
  void PublishLast(Sequence& sequence);
  void TellEnd(Sequence& sequence, TokenEvent* event);
  void NoteFirstSteps(int64_t now_ns);
  void TellTimes(Sequence& sequence);
  int32_t DraftTokensMax(int32_t wanted, const SamplingParams& sampling) const;
  Result<std::unique_ptr<AnswerBounds>> BoundsOf(const Request& request) const;
  Result<ContentLease> AcquireAdapter(const Request& request) const;
  Status CheckRequest(const Request& request) const;
  Status CheckTokens(const std::string& which, const std::vector<int32_t>& tokens) const;

  Executor& executor_;
  ContentTable& adapters_;
  Clock& clock_;
  const bool runs_ahead_;
  const int64_t ahead_ns_;
  EngineMetrics metrics_;
  RequestQueue queue_;
  Scheduler scheduler_;
  GeneratorLimits limits_;  // const from the first request on
  GrammarStore* const grammars_;
  std::vector<std::unique_ptr<Sequence>> compiling_;  // wait for their grammars
  // The last step's events that are not pushed yet, and the requests that ended with them. The
  // pointers are shared with the readers, which may hang up first.
  std::vector<std::pair<std::shared_ptr<TokenStream>, TokenEvent>> events_;
  std::vector<std::string> finished_;  // their tenants
  std::function<void()> on_delivered_;
  StepTeller steps_;
  RequestTimesListener on_times_;
  RunningStep running_;
  int64_t last_finish_ns_ = 0;    // of the step before, if this one follows it at once
  StepDuration duration_;         // of the steps so far
  int64_t running_since_ns_ = 0;  // when the step before ended, if requests have run since
  std::thread thread_;
};

}  // namespace graft
