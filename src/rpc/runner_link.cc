#include "rpc/runner_link.h"

#include <grpcpp/grpcpp.h>
#include <grpcpp/support/sync_stream.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "rpc/credentials.h"
#include "rpc/request_proto.h"
#include "rpc/runner.grpc.pb.h"
#include "rpc/runner_news.h"

namespace graft {
namespace {

constexpr int64_t kReconnectMinMs = 100;
constexpr int64_t kReconnectMaxMs = 500;
// From the first byte to the runner's welcome.
constexpr int64_t kConnectNs = 5'000'000'000;
constexpr size_t kMessageBytes = size_t{1} << 20;

grpc::ChannelArguments ChannelArgumentsOf() {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(-1);
  arguments.SetMaxSendMessageSize(-1);
  // How long an attempt may take, TLS included.
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, static_cast<int>(kConnectNs / 1'000'000));
  // Links of one process share no connection, one's burst is not another's wait; nor do a link's
  // channels share what they remember of failures.
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  return arguments;
}

class GrpcLink : public RunnerLink {
 public:
  using Stream = grpc::ClientReaderWriter<rpc::FrontendMessage, rpc::RunnerMessage>;

  GrpcLink(const RunnerLinkOptions& options, size_t runner, RunnerListener& listener,
           const std::shared_ptr<grpc::ChannelCredentials>& credentials)
      : options_(options),
        runner_(runner),
        listener_(listener),
        credentials_(credentials),
        thread_([this] { Loop(); }) {}

  ~GrpcLink() override {
    {
      std::lock_guard lock(mutex_);
      stopping_ = true;
      if (context_ != nullptr) context_->TryCancel();
      wake_.notify_all();
    }
    thread_.join();
  }

  void Submit(const Request& request) override {
    Request copy = request;
    std::lock_guard lock(mutex_);
    if (!is_up_) return;
    outbox_.submit.push_back(std::move(copy));
    has_outbox_ = true;
    wake_.notify_all();
  }

  void Cancel(uint64_t number) override {
    std::lock_guard lock(mutex_);
    if (!is_up_) return;
    outbox_.cancel.push_back(number);
    has_outbox_ = true;
    wake_.notify_all();
  }

  void Tick(int64_t now_ns, bool forgives) override {
    std::lock_guard lock(mutex_);
    if (context_ == nullptr) return;
    if (forgives) {
      heard_ns_ = std::max(heard_ns_.load(), now_ns);
      return;
    }
    const int64_t silence_ns = now_ns - heard_ns_;
    if (silence_ns <= (is_up_ ? options_.silence_ns : kConnectNs)) return;
    was_silent_ = true;
    context_->TryCancel();
  }

 private:
  // What is to be sent. As requests, since the choices of one share what is large, and messages
  // do not.
  struct Outbox {
    std::vector<Request> submit;
    std::vector<uint64_t> cancel;
  };

  void Loop() {
    int64_t wait_ms = kReconnectMinMs;
    while (true) {
      const bool was_up = Run();
      wait_ms = was_up ? kReconnectMinMs : std::min(2 * wait_ms, kReconnectMaxMs);
      std::unique_lock lock(mutex_);
      wake_.wait_for(lock, std::chrono::milliseconds(wait_ms), [this] { return stopping_; });
      if (stopping_) return;
    }
  }

  // One connection, from its begin to its end; whether it came up. On a channel of its own: one
  // that has failed refuses for seconds without asking, and asks a name's addresses every 30 s.
  bool Run() {
    // The certificates may be others by now. While they cannot be read the former ones hold.
    if (auto read = MakeChannelCredentials(options_.tls); read.ok()) credentials_ = *read;
    const std::unique_ptr<rpc::Runner::Stub> stub = rpc::Runner::NewStub(
        grpc::CreateCustomChannel(options_.address, credentials_, ChannelArgumentsOf()));
    grpc::ClientContext context;
    {
      std::lock_guard lock(mutex_);
      if (stopping_) return false;
      context_ = &context;
      was_silent_ = false;
      heard_ns_ = SteadyClock::Get().NowNs();
    }
    const std::unique_ptr<Stream> stream = stub->Connect(&context);
    rpc::RunnerMessage message;
    const bool is_up = SayHello(*stream) && stream->Read(&message) && message.has_welcome();
    if (is_up) {
      RunnerFacts facts = FactsOf(message.welcome());
      const Status same_base = CheckSameBase(options_.base, facts.base);
      if (!same_base.ok()) return End(*stream, context, same_base, /*was_up=*/false);
      {
        std::lock_guard lock(mutex_);
        heard_ns_ = SteadyClock::Get().NowNs();
        is_up_ = true;
      }
      const Status taken = listener_.OnUp(runner_, std::move(facts));
      if (!taken.ok()) return End(*stream, context, taken, /*was_up=*/false);
      std::thread writer([&] { WriteLoop(*stream, context); });
      while (stream->Read(&message)) Take(message);
      {
        std::lock_guard lock(mutex_);
        is_up_ = false;
        wake_.notify_all();
      }
      context.TryCancel();  // a write that waits for its reader
      writer.join();
    }
    return End(*stream, context, OkStatus(), is_up);
  }

  bool SayHello(Stream& stream) {
    rpc::FrontendMessage message;
    rpc::Hello* const hello = message.mutable_hello();
    hello->set_protocol(options_.protocol);
    hello->set_frontend(options_.frontend);
    *hello->mutable_base() = ToProto(options_.base);
    (void)stream.Write(message);  // what the runner answers says more than a write that failed
    return true;
  }

  // `why`: this side's reason, if it has one.
  bool End(Stream& stream, grpc::ClientContext& context, const Status& why, bool was_up) {
    if (!why.ok()) context.TryCancel();
    const grpc::Status finish = stream.Finish();
    bool was_silent = false;
    {
      std::lock_guard lock(mutex_);
      context_ = nullptr;
      is_up_ = false;
      outbox_ = Outbox();
      has_outbox_ = false;
      was_silent = was_silent_;
      if (stopping_) return was_up;
    }
    Status status = why;
    if (status.ok() && was_silent) {
      status = UnavailableError(was_up ? "it has been silent" : "it does not answer");
    } else if (status.ok() && finish.error_code() == grpc::StatusCode::FAILED_PRECONDITION) {
      status = FailedPreconditionError(finish.error_message());
    } else if (status.ok()) {
      status =
          UnavailableError(was_up ? "the connection has ended"
                                  : DescribeConnectFailure(finish.error_message(), options_.tls));
    }
    listener_.OnDown(runner_, status);
    return was_up;
  }

  void Take(const rpc::RunnerMessage& message) {
    heard_ns_ = SteadyClock::Get().NowNs();
    TellListener(message, runner_, &listener_);
  }

  // In messages of about kMessageBytes. What is cancelled was sent before.
  static bool Send(Outbox outbox, Stream& stream) {
    rpc::FrontendMessage message;
    size_t bytes = 0;
    for (Request& request : outbox.submit) {
      rpc::Request* const proto = message.add_submit();
      *proto = ToProto(request);
      request = Request();
      bytes += proto->ByteSizeLong();
      if (bytes < kMessageBytes) continue;
      if (!stream.Write(message)) return false;
      message.Clear();
      bytes = 0;
    }
    message.mutable_cancel()->Add(outbox.cancel.begin(), outbox.cancel.end());
    return stream.Write(message);
  }

  void WriteLoop(Stream& stream, grpc::ClientContext& context) {
    while (true) {
      Outbox outbox;
      {
        std::unique_lock lock(mutex_);
        wake_.wait_for(lock, std::chrono::nanoseconds(kHeartbeatNs),
                       [this] { return stopping_ || !is_up_ || has_outbox_; });
        if (stopping_ || !is_up_) return;
        std::swap(outbox, outbox_);
        has_outbox_ = false;
      }
      if (Send(std::move(outbox), stream)) continue;
      context.TryCancel();  // Run sees the end
      return;
    }
  }

  const RunnerLinkOptions options_;
  const size_t runner_;
  RunnerListener& listener_;
  std::shared_ptr<grpc::ChannelCredentials> credentials_;  // shared with its channels
  std::atomic<int64_t> heard_ns_{0};
  std::mutex mutex_;
  std::condition_variable wake_;
  grpc::ClientContext* context_ = nullptr;  // of the connection that is, borrowed from Run
  Outbox outbox_;
  bool has_outbox_ = false;
  bool is_up_ = false;
  bool was_silent_ = false;
  bool stopping_ = false;
  std::thread thread_;  // last: it uses the others
};

}  // namespace

Result<std::unique_ptr<RunnerLink>> StartGrpcLink(const RunnerLinkOptions& options, size_t runner,
                                                  RunnerListener& listener) {
  ASSIGN_OR_RETURN(const auto credentials, MakeChannelCredentials(options.tls));
  return std::unique_ptr<RunnerLink>(
      std::make_unique<GrpcLink>(options, runner, listener, credentials));
}

}  // namespace graft
