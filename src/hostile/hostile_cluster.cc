#include "hostile/hostile_cluster.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "hostile/token_law.h"

namespace graft {
namespace {

constexpr int64_t kMsNs = 1'000'000;
constexpr int64_t kFaultsEndNs = 4'000 * kMsNs;
// From the last fault on all requests end in that time, or something is wrong.
constexpr int64_t kPatienceNs = 60'000 * kMsNs;
// Then the rest of dead frontends goes, and calls that were not answered are given up and made
// anew.
constexpr int64_t kRestNs = 7'000 * kMsNs;
constexpr int32_t kNumAdapters = 3;
constexpr int32_t kContextTokens = 64;
constexpr int32_t kDeathsMax = 3;
constexpr int32_t kKeysFrom = 1000;  // keys of requests are no tokens of other prompts

}  // namespace

HostileCluster::HostileCluster(const HostileOptions& options)
    : options_(options),
      random_(options.seed),
      findings_(loop_.clock(), options.keeps_lines),
      network_(loop_, random_) {
  DrawCluster();
  for (size_t i = 0; i < runners_.size(); ++i) StartRunner(i);
  for (size_t i = 0; i < frontends_.size(); ++i) StartFrontend(i);
}

HostileCluster::~HostileCluster() {
  for (FrontendMachine& frontend : frontends_) frontend.set.reset();
  for (RunnerMachine& runner : runners_) runner.runner.reset();
}

void HostileCluster::DrawCluster() {
  for (int32_t i = 0; i < kNumAdapters; ++i) adapters_.ranks.push_back(i + 1);
  frontends_.resize(static_cast<size_t>(1 + Draw(3)));
  runners_.resize(static_cast<size_t>(2 + Draw(3)));
  num_arithmetics_ = static_cast<int32_t>(1 + Draw(2));
  placement_ = static_cast<PlacementKind>(Draw(static_cast<int64_t>(PlacementKind::kAuto) + 1));
  arrival_every_ns_ = (10 + Draw(80)) * kMsNs;
  consolidates_ = Draw(5) == 0;
  lists_runners_ = Draw(2) == 0;
  for (size_t i = 0; i < runners_.size(); ++i) {
    HostileRunnerOptions& options = runners_[i].options;
    options.number = static_cast<int32_t>(i);
    options.defect = options_.defect;
    options.arithmetic = static_cast<int32_t>(i) % num_arithmetics_;
    options.limits = {.sequences_max = static_cast<int32_t>(2 + Draw(5)),
                      .step_tokens_max = 24,
                      .context_tokens_max = kContextTokens,
                      .num_pages = static_cast<int32_t>(20 + Draw(30)),
                      .page_bytes = int64_t{1} << 17,
                      .page_tokens = 4,
                      .vocab_size = kHostileVocabSize,
                      .adapters_max = static_cast<int32_t>(1 + Draw(kNumAdapters)),
                      .runs_ahead = Draw(2) == 0};
    options.costs.step_ms = 15;
    options.engine.requests_max = static_cast<int32_t>(4 + Draw(20));
    options.protocol = Draw(5) == 0 ? kProtocolWithSteps - 1 : kProtocolVersion;
    options.loader.bytes_per_rank = int64_t{1} << 16;
    for (int32_t adapter = 0; adapter < kNumAdapters; ++adapter) {
      // Each is somewhere in each pool.
      if (static_cast<int32_t>(i) < num_arithmetics_ || Draw(3) > 0) {
        options.adapters.push_back(adapter);
      }
    }
  }
}

void HostileCluster::StartRunner(size_t runner) {
  RunnerMachine& machine = runners_[runner];
  machine.has_power = true;
  if (machine.runner != nullptr) return;
  findings_.Note("runner {} starts", runner);
  const int64_t run = ++machine.num_runs;
  machine.address = std::to_string(runner);
  if (lists_runners_) machine.address += "." + std::to_string(run);
  List(machine.address, true);
  machine.runner =
      std::make_unique<HostileRunner>(machine.options, adapters_, loop_, network_, random_,
                                      findings_, poison_, [this, runner, run] {
                                        if (runners_[runner].num_runs == run)
                                          EndRunner(runner, Ending::kWritten);
                                      });
}

void HostileCluster::EndRunner(size_t runner, Ending ending) {
  RunnerMachine& machine = runners_[runner];
  if (machine.runner == nullptr) return;
  findings_.Note("runner {} dies, ending {}", runner, static_cast<int>(ending));
  ++machine.num_runs;
  machine.has_power = ending != Ending::kPower;
  const std::unique_ptr<HostileRunner> dead = std::move(machine.runner);
  // A process that ends in order leaves the list at once, others when their leases end.
  const int64_t listed_ns = ending == Ending::kWritten ? 0 : (1000 + Draw(2000)) * kMsNs;
  loop_.After(listed_ns, [this, address = machine.address] { List(address, false); });
  if (ending == Ending::kWritten) dead->LeaveTruth();
  for (const auto& stream : dead->Streams()) {
    if (ending != Ending::kWritten) HostileNetwork::Lose(*stream, Way::kToFrontend);
    if (ending != Ending::kPower) network_.Send(stream, ToFrontend());
  }
  loop_.After((100 + Draw(1200)) * kMsNs, [this, runner] { StartRunner(runner); });
}

// A stream ends at the machine until a runner takes it.
std::shared_ptr<SimStream> HostileCluster::Call(int32_t frontend, const std::string& address) {
  const auto runner = static_cast<size_t>(std::stoi(address));
  std::shared_ptr<SimStream> stream = network_.Open(frontend, static_cast<int32_t>(runner));
  const std::weak_ptr<SimStream> weak = stream;
  stream->at_runner = [this, weak, runner, address](const ToRunner& hello) {
    const std::shared_ptr<SimStream> here = weak.lock();
    RunnerMachine& machine = runners_[runner];
    if (here == nullptr || hello == nullptr || !machine.has_power) return;
    if (machine.runner == nullptr || machine.address != address) {
      return network_.Send(here, ToFrontend());
    }
    machine.runner->process().Run(
        [this, here, hello, runner] { runners_[runner].runner->Accept(here, hello); });
  };
  return stream;
}

// Each frontend hears of it some time later.
void HostileCluster::List(const std::string& address, bool is_there) {
  if (!lists_runners_) return;
  if (is_there) {
    listed_.insert(address);
  } else {
    listed_.erase(address);
  }
  for (size_t i = 0; i < frontends_.size(); ++i) TellRunners(i);
}

void HostileCluster::TellRunners(size_t frontend) {
  if (!lists_runners_ || frontends_[frontend].process == nullptr) return;
  frontends_[frontend].process->After(Draw(300) * kMsNs, [this, frontend] {
    frontends_[frontend].set->SetRunners({listed_.begin(), listed_.end()});
  });
}

void HostileCluster::StartFrontend(size_t frontend) {
  FrontendMachine& machine = frontends_[frontend];
  findings_.Note("frontend {} starts", frontend);
  machine.process = std::make_unique<SimProcess>(loop_);
  HostileLinkWorld links{.loop = &loop_,
                         .process = machine.process.get(),
                         .network = &network_,
                         .random = &random_,
                         .findings = &findings_,
                         .frontend = static_cast<int32_t>(frontend),
                         .defect = options_.defect};
  links.call = [this](int32_t from, const std::string& address) { return Call(from, address); };
  links.on_death = [this](int32_t key) { OnDeath(key); };
  links.on_submit = [this](const Request& request, const std::shared_ptr<DeathLedger>& runner) {
    OnSubmitted(request, runner);
  };
  machine.links.clear();
  links.on_link = [this, frontend](const std::shared_ptr<DeathLedger>& ledger) {
    frontends_[frontend].links.push_back(ledger);
  };
  RunnerSetWorld world{.clock = &loop_.clock(), .frontend = ++num_frontends_, .has_ticker = false};
  world.start_link = [links](const RunnerLinkOptions& options, size_t runner,
                             RunnerListener& listener) -> Result<std::unique_ptr<RunnerLink>> {
    return std::unique_ptr<RunnerLink>(
        std::make_unique<HostileLink>(links, options, runner, listener));
  };
  RunnerSetOptions options;
  options.addresses_come_later = lists_runners_;
  if (!lists_runners_) {
    for (const RunnerMachine& runner : runners_) options.addresses.push_back(runner.address);
  }
  options.base.name = "base";
  options.limits = {.context_tokens_max = kContextTokens,
                    .vocab_size = kHostileVocabSize,
                    .requests_max = static_cast<int32_t>(5 + Draw(60))};
  options.placement.kind = placement_;
  options.consolidates = consolidates_;
  options.deaths_max = kDeathsMax;
  machine.set = RunnerSet::Start(options, world).value();
  machine.process->After(RunnerSet::kTickNs, [this, frontend] { TickFrontend(frontend); });
  TellRunners(frontend);
}

void HostileCluster::TickFrontend(size_t frontend) {
  RunnerSet& set = *frontends_[frontend].set;
  set.Tick();
  if (consolidates_ && lists_runners_) {
    if (frontend == 0) spare_ = set.hint().spare;
    set.SetSpare(spare_);
  }
  frontends_[frontend].process->After(RunnerSet::kTickNs,
                                      [this, frontend] { TickFrontend(frontend); });
}

// Its clients are lost with it.
void HostileCluster::EndFrontend(size_t frontend, Ending ending) {
  FrontendMachine& machine = frontends_[frontend];
  if (machine.process == nullptr) return;
  findings_.Note("frontend {} dies, ending {}", frontend, static_cast<int>(ending));
  for (const auto& stream : network_.StreamsOf(static_cast<int32_t>(frontend))) {
    if (ending != Ending::kWritten) HostileNetwork::Lose(*stream, Way::kToRunner);
    if (ending != Ending::kPower) network_.Send(stream, ToRunner());
  }
  machine.process.reset();
  machine.set.reset();
  for (const int32_t key : std::set<int32_t>(open_)) {
    Client& client = *clients_[static_cast<size_t>(key - kKeysFrom)];
    if (client.frontend != frontend) continue;
    client.has_ended = true;
    open_.erase(key);
    findings_.Note("request {} is lost with it", key);
  }
  loop_.After((100 + Draw(1200)) * kMsNs, [this, frontend] { StartFrontend(frontend); });
}

void HostileCluster::Arrive() {
  if (is_healed_) return;
  loop_.After(static_cast<int64_t>(random_.Exponential() * arrival_every_ns_),
              [this] { Arrive(); });
  const auto frontend = static_cast<size_t>(Draw(std::ssize(frontends_)));
  if (frontends_[frontend].process == nullptr) return;
  const auto key = static_cast<int32_t>(kKeysFrom + std::ssize(clients_));
  clients_.push_back(std::make_unique<Client>());
  Client& client = *clients_.back();
  client.frontend = frontend;
  client.stream = std::make_shared<TokenStream>();
  Request& request = client.request;
  request.id = static_cast<uint64_t>(key);
  const auto adapter = static_cast<int32_t>(Draw(kNumAdapters + 1));
  if (adapter < kNumAdapters) request.UseAdapter(SimAdapters::HashOf(adapter));
  // Many begin alike, so that they share pages.
  const int64_t prompt_tokens = Draw(24);
  for (int64_t i = 0; i < prompt_tokens; ++i) {
    request.prompt_tokens.push_back(static_cast<int32_t>(i));
  }
  request.prompt_tokens.push_back(key);
  request.sampling.tokens_max = static_cast<int32_t>(1 + Draw(30));
  request.sampling.ignore_eos = true;
  const int32_t rank = adapter < kNumAdapters ? adapters_.RankOf(adapter) : 0;
  for (int32_t arithmetic = 0; arithmetic < num_arithmetics_; ++arithmetic) {
    client.answers.push_back(
        WholeAnswer(arithmetic, rank, request.prompt_tokens, request.sampling.tokens_max));
  }
  if (poison_.empty() && Draw(60) == 0) poison_.insert(key);
  open_.insert(key);
  frontends_[frontend].process->Run([this, key] { Submit(key); });
}

void HostileCluster::Submit(int32_t key) {
  Client& client = *clients_[static_cast<size_t>(key - kKeysFrom)];
  client.is_submitted = true;
  client.stream->SetReadyCallback([this, key] { ready_.push_back(key); });
  RunnerSet& set = *frontends_[client.frontend].set;
  const Status status = set.Submit(client.request, client.stream);
  findings_.Note("request {} to frontend {}: {}", key, client.frontend, status.ToString());
  if (!status.ok()) {
    if (status.code() != StatusCode::kUnavailable && status.code() != StatusCode::kNotFound &&
        status.code() != StatusCode::kResourceExhausted) {
      findings_.Add("request {} is refused: {}", key, status.ToString());
    }
    client.has_ended = true;
    open_.erase(key);
    return;
  }
  if (Draw(6) > 0) return;
  frontends_[client.frontend].process->After(Draw(800) * kMsNs, [this, key] { CancelSome(key); });
}

void HostileCluster::CancelSome(int32_t key) {
  Client& client = *clients_[static_cast<size_t>(key - kKeysFrom)];
  client.is_cancelled = true;
  findings_.Note("request {} is cancelled", key);
  frontends_[client.frontend].set->Cancel(client.request.id);
}

void HostileCluster::OnSubmitted(const Request& request,
                                 const std::shared_ptr<DeathLedger>& runner) {
  const int32_t key = request.prompt_tokens.back();
  Client& client = *clients_[static_cast<size_t>(key - kKeysFrom)];
  findings_.Note("request {} goes to a runner with {} tokens", key, request.output_tokens.size());
  const std::shared_ptr<DeathLedger> last = client.asked.lock();
  if (last != nullptr && last->Sent().contains(key)) {
    findings_.Add("request {} is asked of two runners", key);
  }
  client.asked = runner;
  if (client.is_cancelled) findings_.Add("request {} is cancelled, and a runner is asked", key);
  if (client.has_ended) findings_.Add("request {} has ended, and a runner is asked for it", key);
  if (request.output_tokens.size() > 0 && client.num_deaths > kDeathsMax) {
    findings_.Add("request {} goes on after {} deaths", key, client.num_deaths);
  }
  if (request.runs_alone != (client.num_deaths >= kDeathsMax)) {
    findings_.Add("request {} has {} deaths, and runs_alone is {}", key, client.num_deaths,
                  request.runs_alone);
  }
}

void HostileCluster::OnDeath(int32_t key) {
  ++clients_[static_cast<size_t>(key - kKeysFrom)]->num_deaths;
  findings_.Note("a death counts against request {}", key);
}

void HostileCluster::ReadClients() {
  for (const int32_t key : std::exchange(ready_, {})) {
    Client& client = *clients_[static_cast<size_t>(key - kKeysFrom)];
    while (const std::optional<TokenEvent> event = client.stream->TryPop()) Read(client, *event);
  }
}

void HostileCluster::Read(Client& client, const TokenEvent& event) {
  const int32_t key = client.request.prompt_tokens.back();
  if (client.has_ended) return findings_.Add("request {} has ended, and has an event", key);
  if (event.token >= 0) {
    findings_.Note("request {} reads token {}", key, event.token);
    bool is_right = false;
    for (std::vector<int32_t>& answer : client.answers) {
      if (client.num_tokens >= answer.size() || answer[client.num_tokens] != event.token) {
        answer.clear();
      }
      is_right |= !answer.empty();
    }
    if (!is_right) findings_.Add("request {} has a wrong token at {}", key, client.num_tokens);
    ++client.num_tokens;
  }
  if (event.finish_reason != FinishReason::kNone) EndClient(client, event);
}

void HostileCluster::EndClient(Client& client, const TokenEvent& event) {
  const int32_t key = client.request.prompt_tokens.back();
  client.has_ended = true;
  open_.erase(key);
  findings_.Note("request {} ends: {} after {} tokens {}", key, NameOf(event.finish_reason),
                 client.num_tokens, event.status.ToString());
  switch (event.finish_reason) {
    case FinishReason::kLength:
      if (static_cast<int32_t>(client.num_tokens) != client.request.sampling.tokens_max ||
          event.usage.output_tokens != client.request.sampling.tokens_max) {
        findings_.Add("request {} ends after {} tokens, asked for {}, told {}", key,
                      client.num_tokens, client.request.sampling.tokens_max,
                      event.usage.output_tokens);
      }
      return;
    case FinishReason::kCancelled:
      if (!client.is_cancelled) findings_.Add("request {} ends as nobody cancelled it", key);
      return;
    case FinishReason::kError:
      if (event.status.code() == StatusCode::kInternal && client.num_deaths == kDeathsMax + 1) {
        return;
      }
      // Its runner has unloaded the adapter, and none that the frontend can use has it.
      if (event.status.code() == StatusCode::kNotFound && client.num_tokens == 0 &&
          !IsOffered(client)) {
        return;
      }
      [[fallthrough]];
    default:
      findings_.Add("request {} ends with {}: {} after {} deaths", key, NameOf(event.finish_reason),
                    event.status.ToString(), client.num_deaths);
  }
}

// A runner that its frontend has a link to could be asked for it.
bool HostileCluster::IsOffered(const Client& client) const {
  const int32_t key = client.request.prompt_tokens.back();
  for (const std::weak_ptr<DeathLedger>& link : frontends_[client.frontend].links) {
    const std::shared_ptr<DeathLedger> ledger = link.lock();
    if (ledger != nullptr && ledger->Offers(client.request.adapter_hash(), key)) return true;
  }
  return false;
}

HostileResult HostileCluster::Run() {
  loop_.After(500 * kMsNs, [this] { Arrive(); });
  loop_.After(600 * kMsNs, [this] { Fault(); });
  loop_.After(kFaultsEndNs, [this] { Heal(); });
  int64_t done_ns = -1;
  while (findings_.found().empty()) {
    loop_.RunNext();
    ReadClients();
    CheckFrontends();
    if (is_healed_ && open_.empty() && done_ns < 0) done_ns = loop_.now_ns();
    if (done_ns >= 0 && loop_.now_ns() > done_ns + kRestNs) break;
    if (loop_.now_ns() > kFaultsEndNs + kPatienceNs) {
      findings_.Add("request {} does not end", open_.empty() ? -1 : *open_.begin());
    }
  }
  if (findings_.found().empty()) CheckEnd();
  return {findings_.found(), findings_.hash(), findings_.lines()};
}

void HostileCluster::CheckFrontends() {
  for (size_t i = 0; i < frontends_.size(); ++i) {
    if (frontends_[i].set == nullptr) continue;
    const Status status = frontends_[i].set->CheckIntegrity();
    if (!status.ok()) findings_.Add("frontend {}: {}", i, status.ToString());
  }
}

void HostileCluster::CheckEnd() {
  for (const FrontendMachine& machine : frontends_) {
    if (machine.set == nullptr) continue;
    if (machine.set->num_waiting() > 0) findings_.Add("a request waits that has ended");
    if (!machine.set->ready().ok()) findings_.Add("{}", machine.set->ready().ToString());
  }
  for (const RunnerMachine& machine : runners_) {
    if (machine.runner != nullptr) machine.runner->CheckIdle();
  }
}

}  // namespace graft
