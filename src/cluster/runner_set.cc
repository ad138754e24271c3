#include "cluster/runner_set.h"

#include <chrono>
#include <utility>

namespace graft {
namespace {

constexpr int64_t kPlanEveryNs = 1'000'000'000;

}  // namespace

Result<std::unique_ptr<RunnerSet>> RunnerSet::Start(const RunnerSetOptions& options,
                                                    const RunnerSetWorld& world) {
  if (options.addresses.empty() && !options.addresses_come_later) {
    return InvalidArgumentError("which runners? --runners HOST:PORT,HOST:PORT");
  }
  std::unique_ptr<RunnerSet> set(new RunnerSet(options, world));
  RETURN_IF_ERROR(set->StartLinks());
  return set;
}

RunnerSet::RunnerSet(const RunnerSetOptions& options, const RunnerSetWorld& world)
    : options_(options),
      world_(world),
      catalog_(options.base.name),
      own_metrics_(options.metrics == nullptr ? std::make_unique<Metrics>() : nullptr),
      metrics_(options.metrics == nullptr ? *own_metrics_ : *options.metrics,
               [this](const std::string& hash) { return LabelOf(hash); }),
      chooser_(options.placement),
      sizer_(options.scale, options.placement.costs, options.consolidates),
      requests_(options.limits.requests_max),
      runners_(options.addresses),
      weights_hash_(options.base.weights_hash),
      ticked_ns_(world.clock->NowNs()) {}

Status RunnerSet::StartLinks() {
  std::lock_guard lock(mutex_);  // until all are there, none is heard
  for (size_t i = 0; i < runners_.size(); ++i) RETURN_IF_ERROR(AddLink(i));
  if (world_.has_ticker) ticker_ = std::thread([this] { TickLoop(); });
  return OkStatus();
}

RunnerSet::~RunnerSet() {
  std::unique_lock lock(mutex_);
  stopping_ = true;
  stop_.notify_one();
  lock.unlock();
  if (ticker_.joinable()) ticker_.join();
  lock.lock();
  std::vector<std::unique_ptr<RunnerLink>> links = runners_.TakeAllLinks();
  lock.unlock();
  links.clear();  // their threads may wait for the lock
}

void RunnerSet::TickLoop() {
  std::unique_lock lock(mutex_);
  while (!stop_.wait_for(lock, std::chrono::nanoseconds(kTickNs), [this] { return stopping_; })) {
    lock.unlock();
    Tick();
    lock.lock();
  }
}

// If this process was suspended it missed heartbeats: no runner is declared dead for that.
void RunnerSet::Tick() {
  std::unique_lock lock(mutex_);
  const int64_t now_ns = NowNs();
  const bool forgives = now_ns - std::exchange(ticked_ns_, now_ns) > kRunnerSilenceNs / 2;
  for (const RemoteRunner& runner : runners_.all()) {
    if (runner.link != nullptr) runner.link->Tick(now_ns, forgives);
  }
  if (now_ns - planned_ns_ >= kPlanEveryNs) {
    planned_ns_ = now_ns;
    Plan(now_ns);
  }
  PlaceWaiting(now_ns);
  metrics_.SetUnplaced(requests_.waiting().size());
  EmptySpare();
  std::vector<std::unique_ptr<RunnerLink>> dead = runners_.TakeDeadLinks();
  if (dead.empty()) return;
  lock.unlock();
  dead.clear();
  lock.lock();
  Forget();
}

void RunnerSet::Plan(int64_t now_ns) {
  chooser_.Plan(runners_.all(), now_ns);
  sizer_.Look(runners_, chooser_.fleet(), std::ssize(requests_.waiting()), now_ns);
  if (options_.consolidates && !options_.addresses_come_later) {
    runners_.MarkSpare(sizer_.hint().spare);
  }
}

Status RunnerSet::Submit(Request request, std::shared_ptr<TokenStream> stream) {
  RETURN_IF_ERROR(RefuseUnserved(request));
  std::lock_guard lock(mutex_);
  if (requests_.Find(request.id) != nullptr) {
    return AlreadyExistsError("a request in flight has the id " + ToString(request.id));
  }
  RETURN_IF_ERROR(runners_.WhyNoneIsUp());
  for (const AdapterUse& use : request.adapters) {
    if (catalog_.HasContent(use.hash) || registry_.adapters.contains(use.hash)) continue;
    return NotFoundError("no runner has the adapter any more");
  }
  const auto weight = registry_.tenant_weights.find(request.tenant);
  if (weight != registry_.tenant_weights.end()) request.tenant_weight = weight->second;
  RETURN_IF_ERROR(FindPlace(request));
  Place(requests_.Add(Accept(std::move(request), std::move(stream)), NowNs()));
  return OkStatus();
}

// May end another tenant's request.
Status RunnerSet::FindPlace(const Request& request) {
  InFlight* giver = nullptr;
  if (!requests_.FindPlace(request, &giver)) {
    return ResourceExhaustedError("the frontend has " + std::to_string(requests_.size()) +
                                  " requests in flight, which is all that it may have; try again "
                                  "later");
  }
  if (giver == nullptr) return OkStatus();
  if (giver->IsOnRunner()) runners_[giver->runner].link->Cancel(giver->number);
  End(*giver,
      FailedEvent(ResourceExhaustedError(
          "the frontend is full, and the request's place was given to a tenant with fewer requests "
          "there; try again later")),
      /*gives_place=*/true);
  return OkStatus();
}

std::unique_ptr<InFlight> RunnerSet::Accept(Request request, std::shared_ptr<TokenStream> stream) {
  auto one = std::make_unique<InFlight>();
  one->id = request.id;
  one->accepted_ns = NowNs() - request.age_ns;
  int32_t rank = 0;
  for (const AdapterUse& use : request.adapters) {
    const auto registered = registry_.adapters.find(use.hash);
    const bool is_registered = registered != registry_.adapters.end();
    one->adapter_paths.push_back(is_registered ? registered->second.path : "");
    rank += catalog_.RankOf(use.hash);
  }
  one->placed = chooser_.Arrive(request, rank, NowNs());
  one->counters = metrics_.CountersFor(request.adapter_key(), one->placed.adapter);
  one->counters->requests->Increment();
  one->counters->prompt_tokens->Increment(static_cast<double>(request.prompt_tokens.size()));
  one->request = std::move(request);
  one->stream = std::move(stream);
  return one;
}

void RunnerSet::Cancel(RequestId id) {
  std::lock_guard lock(mutex_);
  InFlight* const one = requests_.Find(id);
  if (one == nullptr) return;
  one->is_cancelled = true;
  if (one->IsOnRunner()) {
    runners_[one->runner].link->Cancel(one->number);
  } else {
    End(*one, {.finish_reason = FinishReason::kCancelled});
  }
}

void RunnerSet::End(InFlight& one, TokenEvent event, bool gives_place) {
  TakeOff(one);
  if (event.finish_reason == FinishReason::kStop || event.finish_reason == FinishReason::kLength) {
    chooser_.OnEnded(NsToSeconds(NowNs() - one.accepted_ns), one.request.output_tokens.size());
  }
  requests_.Remove(one, gives_place, NowNs())->stream->Push(std::move(event));
}

int32_t RunnerSet::RetryAfterS(const std::string& tenant, double weight) {
  std::lock_guard lock(mutex_);
  return requests_.RetryAfterS(tenant, weight, NowNs());
}

GeneratorLimits RunnerSet::limits() const {
  std::lock_guard lock(mutex_);
  return runners_.LimitsOfAll(options_.limits);
}

Status RunnerSet::ready() const {
  std::lock_guard lock(mutex_);
  return runners_.WhyNoneIsUp();
}

int32_t RunnerSet::NumHolders(const std::string& hash) const {
  std::lock_guard lock(mutex_);
  return chooser_.NumHolders(hash);
}

int64_t RunnerSet::num_waiting() const {
  std::lock_guard lock(mutex_);
  return std::ssize(requests_.waiting());
}

Status RunnerSet::CheckIntegrity() const {
  std::lock_guard lock(mutex_);
  std::vector<int64_t> num_on_runner(runners_.size());
  RETURN_IF_ERROR(requests_.CheckIntegrity(&num_on_runner));
  return runners_.CheckIntegrity(num_on_runner);
}

}  // namespace graft
