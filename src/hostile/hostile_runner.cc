#include "hostile/hostile_runner.h"

#include <algorithm>
#include <utility>

#include "hostile/token_law.h"
#include "rpc/adapter_proto.h"

namespace graft {
namespace {

// The contents of adapters, including those that were unloaded while requests had them.
constexpr int32_t kContentsMax = 1000;
// From what an engine has to tell until a writer wakes.
constexpr int64_t kWriteDelayMaxNs = 300'000;
constexpr int64_t kStatesPerDigest = 4;
// Chances that a defect shows.
constexpr uint64_t kSpoilsOneIn = 20;

}  // namespace

HostileRunner::HostileRunner(const HostileRunnerOptions& options, const SimAdapters& adapters,
                             EventLoop& loop, HostileNetwork& network, Random& random,
                             Findings& findings, const std::set<int32_t>& poison,
                             std::function<void()> on_poisoned)
    : options_(options),
      loop_(loop),
      network_(network),
      random_(random),
      findings_(findings),
      poison_(poison),
      on_poisoned_(std::move(on_poisoned)),
      process_(loop),
      table_(kContentsMax),
      loader_(loop.clock(), adapters, options.costs, options.loader),
      executor_(options.limits, options.costs, options.arithmetic, loop.clock(), loader_, findings),
      engine_(executor_, table_, loader_, loop.clock(), metrics_, options.engine) {
  for (const int32_t adapter : options.adapters) Publish(adapter);
  executor_.SetOnBegin([this] { CheckBegun(); });
  if (Has(Defect::kChangesTokens)) executor_.ChangeResumed();
  engine_.SetOnStep([this](const StepNews& news) { OnStep(news); });
  engine_.SetOnDelivered([this] {
    for (const auto& [number, session] : sessions_) session->requests->Flush();
  });
  beat_ns_ = loop_.now_ns();
  process_.After(kHeartbeatNs, [this] { Beat(); });
}

HostileRunner::~HostileRunner() {
  for (const auto& [number, session] : sessions_) {
    session->stream->at_runner = nullptr;
    session->requests->End();
  }
  kept_.clear();
  engine_.SetOnStep({});
  engine_.SetOnDelivered({});
}

void HostileRunner::Publish(int32_t adapter) {
  const std::string hash = SimAdapters::HashOf(adapter);
  const Status published = table_.Publish({.path = hash, .hash = hash, .key = hash});
  CHECK(published.ok()) << published.ToString();
  adapters_.insert(adapter);
}

void HostileRunner::SwitchAdapter(int32_t adapter) {
  if (adapters_.erase(adapter) > 0) {
    table_.Retire(SimAdapters::HashOf(adapter));
  } else {
    Publish(adapter);
  }
  ++adapters_version_;
  for (const auto& [number, session] : sessions_) Write(*session, /*says_state=*/true);
  BeginIfIdle();  // lets go of contents without requests
  Check();
}

template <typename Message>
void HostileRunner::AddAdapters(Message* message) const {
  for (const int32_t adapter : adapters_) {
    const std::string hash = SimAdapters::HashOf(adapter);
    *message->add_adapters() = ToProto(ListedAdapter{{.name = "adapter " + hash, .hash = hash}});
  }
}

ToFrontend HostileRunner::Welcome() const {
  auto message = std::make_shared<rpc::RunnerMessage>();
  rpc::Welcome* const welcome = message->mutable_welcome();
  welcome->set_protocol(options_.protocol);
  welcome->mutable_base()->set_name("base");
  const int32_t arithmetic = Has(Defect::kMixesArithmetics) ? 0 : options_.arithmetic;
  welcome->set_arithmetic_id("arithmetic " + std::to_string(arithmetic));
  const GeneratorLimits limits = engine_.limits();
  welcome->set_context_tokens_max(limits.context_tokens_max);
  welcome->set_vocab_size(limits.vocab_size);
  welcome->set_requests_max(limits.requests_max);
  welcome->set_page_tokens(options_.limits.page_tokens);
  welcome->set_batch_max(options_.limits.sequences_max);
  welcome->set_adapters_max(options_.limits.adapters_max);
  welcome->set_num_pages(options_.limits.num_pages);
  AddAdapters(welcome);
  return message;
}

void HostileRunner::Accept(const std::shared_ptr<SimStream>& stream, const ToRunner& hello) {
  const int64_t number = num_sessions_++;
  Session& session = *(sessions_[number] = std::make_unique<Session>());
  session.stream = stream;
  session.frontend = hello->hello().frontend();
  session.heard_ns = loop_.now_ns();
  session.adapters_told = adapters_version_;
  session.requests = std::make_unique<FrontendRequests>(
      engine_, session.frontend, /*logs_requests=*/false, [this, &session] { OnNews(session); });
  stream->at_runner = [this, number](const ToRunner& message) {
    process_.Run([this, number, message] {
      const auto it = sessions_.find(number);
      if (it != sessions_.end()) Take(*it->second, message);
    });
  };
  network_.Send(stream, Welcome());
}

void HostileRunner::Take(Session& session, const ToRunner& message) {
  if (message == nullptr) return EndSession(session, /*tells=*/false);
  session.heard_ns = loop_.now_ns();
  for (const rpc::Request& request : message->submit()) {
    const int32_t key = *request.prompt_tokens().rbegin();
    session.asked[request.number()] = key;
    session.taken.insert(key);
    if (!taken_.insert(key).second) unsure_.insert(key);
    drawn_.erase(key);
    if (request.runs_alone()) alone_.insert(key);
  }
  for (const uint64_t number : message->cancel()) session.asked.erase(number);
  rpc::FrontendMessage taken = *message;
  if (Has(Defect::kForgetsCancels)) taken.clear_cancel();
  if (Has(Defect::kForgetsRequests) && random_.Below(kSpoilsOneIn) == 0) taken.clear_submit();
  session.requests->Take(taken);
  if (engine_.is_running()) {
    engine_.OnSubmitted();
    AskForLoads();
  } else {
    BeginIfIdle();
  }
  Check();
}

void HostileRunner::OnNews(Session& session) {
  if (std::exchange(session.write_due, true)) return;
  for (const auto& [number, one] : sessions_) {
    if (one.get() != &session) continue;
    process_.After(static_cast<int64_t>(random_.Below(kWriteDelayMaxNs)), [this, number = number] {
      const auto it = sessions_.find(number);
      if (it != sessions_.end() && it->second->write_due) Write(*it->second, false);
    });
  }
}

void HostileRunner::Write(Session& session, bool says_state) {
  auto message = std::make_shared<rpc::RunnerMessage>();
  session.write_due = false;
  if (session.requests->Collect(message.get())) session.requests->OnTold();
  if (message->has_step()) {
    session.told = {message->step().undrawn().begin(), message->step().undrawn().end()};
  }
  for (const uint64_t number : message->evicted()) {
    findings_.Note("runner {} evicts request {}", options_.number, session.asked[number]);
  }
  Spoil(message.get());
  if (says_state) {
    const EngineSnapshot now = engine_.Snapshot();
    rpc::RunnerState* const state = message->mutable_state();
    state->set_requests_waiting(now.requests_waiting);
    state->set_requests_running(now.requests_running);
    state->set_pages_free(now.pages_free + now.pages_cached + now.pages_adapters_idle);
    state->set_draining(is_draining_);
    if (num_states_++ % kStatesPerDigest == 0) {
      const std::vector<uint64_t> prefixes = engine_.ReadPrefixes();
      *state->mutable_prefixes() = {prefixes.begin(), prefixes.end()};
    }
    if (std::exchange(session.adapters_told, adapters_version_) != adapters_version_) {
      AddAdapters(state->mutable_adapters());
    }
  }
  network_.Send(session.stream, ToFrontend(std::move(message)));
}

void HostileRunner::Spoil(rpc::RunnerMessage* message) {
  if (Has(Defect::kHidesSteps) || options_.protocol < kProtocolWithSteps) message->clear_step();
  const bool loses = Has(Defect::kLosesTokens);
  if (message->events().empty() || !(loses || Has(Defect::kDoublesTokens))) return;
  if (random_.Below(kSpoilsOneIn) > 0) return;
  rpc::RequestEvents* const events = message->mutable_events(0);
  if (events->events(0).finish_reason() != 0) return;
  if (loses) {
    events->mutable_events()->DeleteSubrange(0, 1);
  } else {
    *events->add_events() = events->events(0);
  }
}

void HostileRunner::EndSession(Session& session, bool tells) {
  if (tells) network_.Send(session.stream, ToFrontend());
  session.stream->at_runner = nullptr;
  if (Has(Defect::kServesTheDead)) {
    kept_.push_back(std::move(session.requests));
  } else {
    session.requests->End();
  }
  std::erase_if(sessions_, [&](const auto& one) { return one.second.get() == &session; });
  BeginIfIdle();  // takes in what is cancelled
}

// If this process was stopped it has heard no frontend: none is dead for that.
void HostileRunner::Beat() {
  const int64_t now_ns = loop_.now_ns();
  const bool was_stopped = now_ns - std::exchange(beat_ns_, now_ns) > kFrontendSilenceNs / 2;
  std::vector<Session*> dead;
  for (const auto& [number, session] : sessions_) {
    Write(*session, /*says_state=*/true);
    const bool is_silent = now_ns - session->heard_ns > kFrontendSilenceNs;
    if (is_silent && !was_stopped) dead.push_back(session.get());
  }
  for (Session* const session : dead) EndSession(*session, /*tells=*/true);
  process_.After(kHeartbeatNs, [this] { Beat(); });
  Check();
}

void HostileRunner::BeginDrain() {
  is_draining_ = true;
  for (const auto& [number, session] : sessions_) Write(*session, /*says_state=*/true);
}

void HostileRunner::EndInOrder() {
  engine_.Stop();
  in_step_.clear();
  for (const auto& [number, session] : sessions_) Write(*session, /*says_state=*/false);
}

// Before a step that has newcomers begins they are told.
void HostileRunner::OnStep(const StepNews& news) {
  for (const auto& [number, session] : sessions_) {
    session->requests->TellStep(news);
    if (session->requests->has_newcomers()) Write(*session, /*says_state=*/false);
  }
}

void HostileRunner::BeginIfIdle() {
  if (!engine_.is_running()) wanted_ = Wanted();
  if (!engine_.is_running() && engine_.BeginStep()) {
    CheckStep();
    process_.After(executor_.end_ns() - loop_.now_ns(), [this] { OnStepEnd(); });
    if (engine_.ahead_time_ns() != kNever) {
      process_.After(engine_.ahead_time_ns() - loop_.now_ns(), [this, step = num_steps_] {
        if (!engine_.is_running() || step != num_steps_) return;
        looked_ahead_ = true;
        engine_.OnAheadTime();
      });
    }
  }
  AskForLoads();
}

void HostileRunner::CheckStep() {
  in_step_.clear();
  const std::vector<int32_t> keys = executor_.InStep();
  bool is_poisoned = false;
  for (const int32_t key : keys) {
    if (drawn_.contains(key)) continue;
    in_step_.insert(key);
    is_poisoned |= poison_.contains(key);
    if (alone_.contains(key) && keys.size() > 1) {
      findings_.Add("request {} was to run alone, and is one of {}", key, keys.size());
    }
  }
  if (is_poisoned) loop_.After((executor_.end_ns() - loop_.now_ns()) / 2, on_poisoned_);
}

void HostileRunner::CheckBegun() const {
  const std::vector<int32_t> keys = executor_.InLastBegun();
  CheckTold(keys);
  CheckOwners(keys);
}

// A frontend with newcomers in a step is told before it, and so knows a step that ends the runner.
void HostileRunner::CheckTold(const std::vector<int32_t>& keys) const {
  std::set<int32_t> newcomers(keys.begin(), keys.end());
  std::erase_if(newcomers,
                [&](int32_t key) { return drawn_.contains(key) || unsure_.contains(key); });
  for (const auto& [idx, session] : sessions_) {
    for (const auto& [number, key] : session->asked) {
      if (!newcomers.contains(key) || session->told.contains(number)) continue;
      findings_.Add("a step begins with request {}, and its frontend is not told", key);
    }
  }
}

// Requests that frontends which are still there have not cancelled.
std::multiset<int32_t> HostileRunner::Wanted() const {
  std::multiset<int32_t> wanted;
  for (const auto& [number, session] : sessions_) {
    for (const auto& [request, key] : session->asked) wanted.insert(key);
  }
  return wanted;
}

// A frontend waits for each row, or did when the step before began, if this one is begun ahead.
void HostileRunner::CheckOwners(const std::vector<int32_t>& keys) const {
  std::multiset<int32_t> wanted = wanted_;
  for (const int32_t key : keys) {
    const auto it = wanted.find(key);
    if (it == wanted.end()) {
      return findings_.Add("runner {} computes for request {}, which nobody there waits for",
                           options_.number, key);
    }
    wanted.erase(it);
  }
}

void HostileRunner::OnStepEnd() {
  ++num_steps_;
  looked_ahead_ = false;
  engine_.EndStep();
  for (const int32_t key : executor_.Drew()) drawn_.insert(key);
  in_step_.clear();
  BeginIfIdle();
  Check();
}

// While a step runs its end takes in what was loaded.
void HostileRunner::AskForLoads() {
  const int64_t next_ns = loader_.next_event_ns();
  if (engine_.is_running() || next_ns == kNever || asks_for_loads_) return;
  asks_for_loads_ = true;
  process_.After(next_ns - loop_.now_ns(), [this] {
    asks_for_loads_ = false;
    BeginIfIdle();
  });
}

// A sequence that was to be in a step ahead has pages for tokens that are not there yet.
void HostileRunner::Check() const {
  if (looked_ahead_) return;
  const Status integrity = engine_.CheckIntegrity();
  if (!integrity.ok()) findings_.Add("runner {}: {}", options_.number, integrity.message());
}

void HostileRunner::CheckIdle() const {
  const EngineSnapshot now = engine_.Snapshot();
  const int64_t in_flight = now.requests_waiting + now.requests_running;
  if (in_flight > 0) {
    findings_.Add("runner {} has {} requests of nobody's", options_.number, in_flight);
  }
  Check();
  const int64_t held = now.pages_cached + now.pages_adapters;
  if (now.pages_free + held != options_.limits.num_pages || now.pages_referenced > 0) {
    findings_.Add("runner {}: {} pages are free and {} held for later, of {}", options_.number,
                  now.pages_free, held, options_.limits.num_pages);
  }
  if (table_.num_contents() != static_cast<int32_t>(adapters_.size())) {
    findings_.Add("runner {} holds {} adapters, and nobody has requests there for more than {}",
                  options_.number, table_.num_contents(), adapters_.size());
  }
}

std::vector<std::shared_ptr<SimStream>> HostileRunner::Streams() const {
  std::vector<std::shared_ptr<SimStream>> streams;
  for (const auto& [number, session] : sessions_) streams.push_back(session->stream);
  return streams;
}

void HostileRunner::LeaveTruth() {
  for (const auto& [number, session] : sessions_) {
    SimStream& stream = *session->stream;
    stream.counts_truth = !stream.is_broken;
    stream.unsure = unsure_;
    stream.all_was_written = !session->write_due;
    for (const int32_t key : in_step_) {
      if (session->taken.contains(key)) stream.undrawn.insert(key);
    }
  }
}

}  // namespace graft
