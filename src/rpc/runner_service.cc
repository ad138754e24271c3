#include "rpc/runner_service.h"

#include <grpcpp/ext/health_check_service_server_builder_option.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/health_check_service_interface.h>
#include <grpcpp/support/sync_stream.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/host_port.h"
#include "base/log.h"
#include "base/random.h"
#include "request/generator.h"
#include "request/step_news.h"
#include "rpc/adapter_proto.h"
#include "rpc/credentials.h"
#include "rpc/frontend_requests.h"
#include "rpc/protocol.h"
#include "rpc/runner.grpc.pb.h"
#include "rpc/runner.pb.h"
#include "rpc/runner_load.h"
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

// A runner's end of one frontend's stream, which carries what FrontendRequests has to tell. The
// caller's thread reads (Run), one of its own writes; events come on the engine's.
class FrontendSession {
 public:
  using Stream = grpc::ServerReaderWriter<rpc::RunnerMessage, rpc::FrontendMessage>;

  // What the frontend has been told, of what is told again only where it has changed.
  struct Told {
    uint64_t adapters = 0;           // the version of their list
    std::vector<uint64_t> prefixes;  // see RunnerLoad
    int64_t prefixes_ns = 0;         // when
    uint64_t held = 0;               // the version of what the device holds
  };
  // What a heartbeat says, and what is news to the frontend, which is noted there.
  using MakeState = std::function<rpc::RunnerState(Told* told)>;

  // All referred to must outlive it. The frontend has the list of version `adapters_told`.
  FrontendSession(Generator& generator, grpc::ServerContext& context, Stream& stream,
                  uint64_t frontend, MakeState state, uint64_t adapters_told, bool logs_requests)
      : context_(context),
        stream_(stream),
        frontend_(frontend),
        state_(std::move(state)),
        what_is_told_{.adapters = adapters_told},
        heard_ns_(SteadyClock::Get().NowNs()),
        requests_(generator, frontend, logs_requests, [this] { OnNews(); }) {}

  FrontendSession(const FrontendSession&) = delete;
  FrontendSession& operator=(const FrontendSession&) = delete;

  // Until the stream ends; then what the frontend asked for is cancelled.
  void Run() {
    std::thread writer([this] { WriteLoop(); });
    rpc::FrontendMessage message;
    while (stream_.Read(&message)) {
      heard_ns_ = SteadyClock::Get().NowNs();
      requests_.Take(message);
    }
    {
      std::lock_guard lock(mutex_);
      ended_ = true;
      wake_.notify_one();
      told_.notify_one();
    }
    context_.TryCancel();  // a write that waits for its reader
    writer.join();
    requests_.End();
  }

  // The engine's thread: what is ready so far may leave, in one message.
  void Flush() { requests_.Flush(); }
  // The engine's thread: the frontend's part of the news is told soon.
  void TellStep(const StepNews& news) { requests_.TellStep(news); }
  // After TellStep: waits until `until` for the frontend to be told of the step's newcomers. A
  // frontend that takes nothing is not waited for.
  void AwaitTold(std::chrono::steady_clock::time_point until) {
    std::unique_lock lock(mutex_);
    if (stuck_ || !requests_.has_newcomers()) return;
    stuck_ =
        !told_.wait_until(lock, until, [this] { return !requests_.has_newcomers() || ended_; });
  }

  // Any thread: ends the stream of a frontend that was silent, or took nothing, for `silence_ns`.
  void EndIfDead(int64_t now_ns, int64_t silence_ns) {
    const int64_t write_ns = write_begun_ns_;
    const bool is_stuck = write_ns != 0 && now_ns - write_ns > silence_ns;
    const bool is_silent = now_ns - heard_ns_ > silence_ns;
    if (!is_stuck && !is_silent) return;
    LOG_WARN("frontend {:016x} {} for {:.1f} s: its requests are cancelled", frontend_,
             is_stuck ? "took no tokens" : "was silent", NsToSeconds(silence_ns));
    context_.TryCancel();
  }

  // Any thread: the next heartbeat is now.
  void SendState() {
    std::lock_guard lock(mutex_);
    state_due_ = true;
    state_is_written_ = false;
    wake_.notify_one();
  }
  // Any thread: whether it was written since, or never will be.
  bool HasSentState() const {
    std::lock_guard lock(mutex_);
    return state_is_written_ || ended_;
  }

 private:
  void OnNews() {
    std::lock_guard lock(mutex_);
    news_due_ = true;
    wake_.notify_one();
  }

  void WriteLoop() {
    auto heartbeat = std::chrono::steady_clock::now();
    while (true) {
      rpc::RunnerMessage message;
      bool says_state = false;
      {
        std::unique_lock lock(mutex_);
        wake_.wait_until(lock, heartbeat, [this] { return ended_ || state_due_ || news_due_; });
        if (ended_) return;
        says_state = std::exchange(state_due_, false);
        news_due_ = false;
      }
      const bool says_step = requests_.Collect(&message);
      if (says_state || std::chrono::steady_clock::now() >= heartbeat) {
        *message.mutable_state() = state_(&what_is_told_);
        heartbeat = std::chrono::steady_clock::now() + std::chrono::nanoseconds(kHeartbeatNs);
      }
      write_begun_ns_ = SteadyClock::Get().NowNs();
      const bool written = stream_.Write(message);
      write_begun_ns_ = 0;
      if (says_step) {
        requests_.OnTold();
        std::lock_guard lock(mutex_);
        stuck_ = false;
        told_.notify_one();
      }
      if (says_state) {
        std::lock_guard lock(mutex_);
        state_is_written_ = !state_due_;
      }
      if (written) continue;
      context_.TryCancel();  // Run sees the end
      return;
    }
  }

  grpc::ServerContext& context_;
  Stream& stream_;
  const uint64_t frontend_;
  const MakeState state_;
  Told what_is_told_;  // the writing thread's
  std::atomic<int64_t> heard_ns_;
  std::atomic<int64_t> write_begun_ns_{0};  // 0: no write waits
  mutable std::mutex mutex_;
  std::condition_variable wake_;
  bool news_due_ = false;
  bool stuck_ = false;  // newcomers were to be told in vain
  std::condition_variable told_;
  bool state_due_ = false;
  bool state_is_written_ = true;  // since SendState was called last
  bool ended_ = false;
  FrontendRequests requests_;  // last: its news come here
};

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
