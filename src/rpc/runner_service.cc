#include "rpc/runner_service.h"

#include <grpcpp/ext/health_check_service_server_builder_option.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/health_check_service_interface.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <utility>

#include "base/host_port.h"
#include "base/log.h"
#include "base/random.h"
#include "rpc/adapter_proto.h"
#include "rpc/credentials.h"
#include "rpc/frontend_session.h"
#include "rpc/runner.grpc.pb.h"
#include "rpc/runner_news.h"

namespace graft {
namespace {

// A prompt's log-probabilities come in one message.
constexpr int kMessageBytesMax = 1 << 30;
// A step waits so long for frontends to be told of its newcomers.
constexpr std::chrono::milliseconds kTellingMax(2);
// A runner that begins to drain waits so long for frontends to be told.
constexpr std::chrono::seconds kTellingDrainMax(1);
// Between two digests of prefixes to one frontend, if they have changed and if not. Until the next
// one the frontend takes what it has sent meanwhile for cached.
constexpr int64_t kPrefixesEveryNs = 1'000'000'000;
constexpr int64_t kPrefixesAnywayNs = 10'000'000'000;
// Looking through all adapters is done at every so many looks for dead frontends.
constexpr int kWatchesPerHeld = 20;
constexpr char kHealthName[] = "graft.rpc.Runner";

grpc::Status ToGrpc(const Status& status) {
  return {static_cast<grpc::StatusCode>(status.code()), status.message()};
}

class GrpcRunnerService : public RunnerService, private rpc::Runner::Service {
 public:
  GrpcRunnerService(const RunnerServiceOptions& options, Generator& generator,
                    AdapterCatalog& catalog, std::function<RunnerLoad()> load,
                    AdapterService* adapters)
      : options_(options),
        generator_(generator),
        catalog_(catalog),
        load_(std::move(load)),
        adapters_(adapters) {}

  ~GrpcRunnerService() override {
    if (server_ == nullptr) return;
    {
      std::lock_guard lock(mutex_);
      stopping_ = true;
      stop_.notify_one();
    }
    server_->Shutdown(std::chrono::system_clock::now());
    server_->Wait();
    watcher_.join();
  }

  Status Listen() {
    grpc::EnableDefaultHealthCheckService(true);
    ASSIGN_OR_RETURN(const auto credentials, MakeServerCredentials(options_.tls));
    grpc::ServerBuilder builder;
    const std::string address = HostAndPort(options_.host, options_.port);
    builder.AddListeningPort(address, credentials, &port_);
    builder.RegisterService(this);
    if (adapters_ != nullptr) builder.RegisterService(&adapters_->grpc_service());
    builder.SetMaxReceiveMessageSize(kMessageBytesMax);
    builder.SetMaxSendMessageSize(kMessageBytesMax);
    // Else a second process could take the port, and half of the connections.
    builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
    server_ = builder.BuildAndStart();
    if (server_ == nullptr || port_ == 0) {
      server_ = nullptr;
      return UnavailableError("cannot listen on " + address +
                              "; is it in use? --rpc-host, --rpc-port");
    }
    server_->GetHealthCheckService()->SetServingStatus(kHealthName, true);
    watcher_ = std::thread([this] { Watch(); });
    return OkStatus();
  }

  int port() const override { return port_; }

  void OnDelivered() override {
    std::lock_guard lock(mutex_);
    for (FrontendSession* const session : sessions_) session->Flush();
  }

  void OnStep(const StepNews& news) override {
    std::lock_guard lock(mutex_);
    for (FrontendSession* const session : sessions_) session->TellStep(news);
    const auto until = std::chrono::steady_clock::now() + kTellingMax;
    for (FrontendSession* const session : sessions_) session->AwaitTold(until);
  }

  void BeginDrain() override {
    draining_ = true;
    server_->GetHealthCheckService()->SetServingStatus(false);
    SendStates();
    // A runner that has nothing to do ends at once: without the word it would seem to have died.
    const auto until = std::chrono::steady_clock::now() + kTellingDrainMax;
    while (!HaveSentStates() && std::chrono::steady_clock::now() < until) {
      std::this_thread::sleep_for(kTellingMax);
    }
  }

  void OnAdaptersChanged() override {
    ++adapters_version_;
    SendStates();
  }

  grpc::Status Connect(grpc::ServerContext* context, FrontendSession::Stream* stream) override {
    rpc::FrontendMessage first;
    if (!stream->Read(&first)) return grpc::Status::CANCELLED;
    const Result<uint32_t> protocol = AgreeOnProtocol(kProtocolVersion, first.hello().protocol());
    if (!protocol.ok()) return ToGrpc(protocol.status());
    const Status same_base = CheckSameBase(FromProto(first.hello().base()), options_.base);
    if (!same_base.ok()) return ToGrpc(same_base);
    const uint64_t adapters_told = adapters_version_;
    const uint64_t frontend = first.hello().frontend();
    FrontendSession session(
        generator_, *context, *stream, frontend,
        [this](FrontendSession::Told* told) { return State(told); }, adapters_told,
        options_.logs_requests);
    {
      // Before the welcome: from then on the frontend is told of every step.
      std::lock_guard lock(mutex_);
      if (stopping_) return grpc::Status::CANCELLED;
      sessions_.insert(&session);
    }
    const bool is_welcome = stream->Write(MakeWelcome(*protocol));
    if (is_welcome) Serve(session, frontend, context->peer());
    std::lock_guard lock(mutex_);
    sessions_.erase(&session);
    return is_welcome ? grpc::Status::OK : grpc::Status::CANCELLED;
  }

 private:
  static void Serve(FrontendSession& session, uint64_t frontend, const std::string& peer) {
    LOG_INFO("frontend {:016x} has connected from {}", frontend, peer);
    session.Run();
    LOG_INFO("frontend {:016x} has gone", frontend);
  }

  rpc::RunnerMessage MakeWelcome(uint32_t protocol) const {
    rpc::RunnerMessage message;
    rpc::Welcome* const welcome = message.mutable_welcome();
    welcome->set_protocol(protocol);
    *welcome->mutable_base() = ToProto(options_.base);
    welcome->set_arithmetic_id(options_.arithmetic_id);
    const GeneratorLimits limits = generator_.limits();
    welcome->set_context_tokens_max(limits.context_tokens_max);
    welcome->set_vocab_size(limits.vocab_size);
    welcome->set_requests_max(limits.requests_max);
    welcome->set_page_tokens(options_.page_tokens);
    welcome->set_batch_max(options_.batch_max);
    welcome->set_adapters_max(options_.adapters_max);
    welcome->set_num_pages(options_.num_pages);
    welcome->set_startup_ms(options_.startup_ms);
    welcome->set_instance(instance_);
    welcome->set_without_prefix_cache(!options_.prefix_cache);
    ToProto(Adapters(), welcome->mutable_adapters());
    return message;
  }

  void SendStates() {
    std::lock_guard lock(mutex_);
    for (FrontendSession* const session : sessions_) session->SendState();
  }

  bool HaveSentStates() {
    std::lock_guard lock(mutex_);
    return std::ranges::all_of(sessions_, &FrontendSession::HasSentState);
  }

  std::vector<ListedAdapter> Adapters() const {
    std::vector<ListedAdapter> adapters;
    for (AdapterInfo& info : catalog_.List()) {
      const AdapterState state = catalog_.StateOf(info);
      adapters.push_back({std::move(info), state});
    }
    return adapters;
  }

  rpc::RunnerState State(FrontendSession::Told* told) const {
    RunnerLoad load = load_();
    rpc::RunnerState state;
    state.set_requests_waiting(load.requests_waiting);
    state.set_requests_running(load.requests_running);
    state.set_pages_free(load.pages_free);
    state.set_draining(draining_);
    *state.mutable_figures() = ToProto(load.figures);
    TellHeld(told, &state);
    const int64_t now_ns = SteadyClock::Get().NowNs();
    const int64_t since_ns = now_ns - told->prefixes_ns;
    const bool are_due = load.prefixes != told->prefixes ? since_ns >= kPrefixesEveryNs
                                                         : since_ns >= kPrefixesAnywayNs;
    if (are_due && options_.prefix_cache) {
      *state.mutable_prefixes() = {load.prefixes.begin(), load.prefixes.end()};
      told->prefixes = std::move(load.prefixes);
      told->prefixes_ns = now_ns;
    }
    const uint64_t version = adapters_version_;
    if (version == std::exchange(told->adapters, version)) return state;
    ToProto(Adapters(), state.mutable_adapters()->mutable_adapters());
    return state;
  }

  void TellHeld(FrontendSession::Told* told, rpc::RunnerState* state) const {
    std::lock_guard lock(held_mutex_);
    if (std::exchange(told->held, held_version_) == held_version_) return;
    rpc::HeldAdapters* const held = state->mutable_held();
    *held->mutable_resident() = {held_.resident.begin(), held_.resident.end()};
    *held->mutable_loading() = {held_.loading.begin(), held_.loading.end()};
    held->set_is_whole(held_.is_whole);
  }

  void LookWhatIsHeld() {
    HeldAdapters now;
    for (const AdapterInfo& info : catalog_.List()) {
      const AdapterState state = catalog_.StateOf(info);
      const bool is_held = state == AdapterState::kResident || state == AdapterState::kLoading;
      if (!is_held || info.hash.empty()) continue;
      if (now.resident.size() + now.loading.size() == kHeldToldMax) {
        now.is_whole = false;
        break;
      }
      (state == AdapterState::kResident ? now.resident : now.loading).push_back(info.hash);
    }
    std::lock_guard lock(held_mutex_);
    if (held_version_ != 0 && now == held_) return;
    held_ = std::move(now);
    ++held_version_;
  }

  void Watch() {
    std::unique_lock lock(mutex_);
    int num_watches = 0;
    while (!stop_.wait_for(lock, std::chrono::nanoseconds(kHeartbeatNs),
                           [this] { return stopping_; })) {
      if (num_watches++ % kWatchesPerHeld == 0) {
        lock.unlock();
        LookWhatIsHeld();
        lock.lock();
      }
      const int64_t now_ns = SteadyClock::Get().NowNs();
      // If this process was suspended it missed heartbeats: no frontend is declared dead.
      const bool was_stopped = now_ns - watched_ns_ > options_.frontend_silence_ns / 2;
      watched_ns_ = now_ns;
      if (was_stopped) continue;
      for (FrontendSession* const session : sessions_) {
        session->EndIfDead(now_ns, options_.frontend_silence_ns);
      }
    }
  }

  const RunnerServiceOptions options_;
  Generator& generator_;
  AdapterCatalog& catalog_;
  const std::function<RunnerLoad()> load_;
  AdapterService* const adapters_;
  const uint64_t instance_ = RandomSeed() | 1;  // 0 would be: it does not say
  mutable std::mutex held_mutex_;
  HeldAdapters held_;
  uint64_t held_version_ = 0;
  std::atomic<bool> draining_{false};
  std::atomic<uint64_t> adapters_version_{0};
  std::mutex mutex_;
  std::condition_variable stop_;
  bool stopping_ = false;
  std::set<FrontendSession*> sessions_;  // each is its stream's thread's
  int64_t watched_ns_ = 0;               // the watcher's
  int port_ = 0;
  std::thread watcher_;
  std::unique_ptr<grpc::Server> server_;
};

}  // namespace

Result<std::unique_ptr<RunnerService>> RunnerService::Start(const RunnerServiceOptions& options,
                                                            Generator& generator,
                                                            AdapterCatalog& catalog,
                                                            std::function<RunnerLoad()> load,
                                                            AdapterService* adapters) {
  auto service =
      std::make_unique<GrpcRunnerService>(options, generator, catalog, std::move(load), adapters);
  RETURN_IF_ERROR(service->Listen());
  return std::unique_ptr<RunnerService>(std::move(service));
}

}  // namespace graft
