#include "etcd/etcd_channel.h"

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <utility>

#include "etcd/etcd.grpc.pb.h"

namespace graft {
namespace {

using std::chrono::milliseconds;
using std::chrono::system_clock;

// Signs that may be missing in a row: an election takes no longer.
constexpr int kSignsMissingMax = 1;

EtcdChange ToChange(const etcdserverpb::Event& event) {
  const etcdserverpb::KeyValue& item = event.kv();
  return {{item.key(), item.value(), item.create_revision(), item.mod_revision(), item.lease()},
          event.type() == etcdserverpb::Event::DELETE};
}

class GrpcEtcdWatch : public EtcdWatchStream {
 public:
  explicit GrpcEtcdWatch(EtcdChannels& channels) : channels_(channels) {}
  ~GrpcEtcdWatch() override { StopLooking(); }

  Status Open(std::string prefix) {
    prefix_ = std::move(prefix);
    ASSIGN_OR_RETURN(channel_, channels_.Connect(system_clock::now() +
                                                 milliseconds(channels_.options.deadline_ms)));
    RETURN_IF_ERROR(channels_.Prepare(channel_, &context_));
    calls_ = etcdserverpb::Watch::NewStub(channel_)->Watch(&context_);
    AskFor(EtcdPrefixEnd(prefix_));
    looker_ = std::thread([this] { LookForSigns(); });
    return OkStatus();
  }

  std::optional<EtcdNews> Read() override {
    etcdserverpb::WatchResponse response;
    if (!calls_->Read(&response)) return std::nullopt;
    EtcdNews news;
    news.has_ended = response.canceled();
    news.reason = response.cancel_reason();
    if (news.has_ended) channels_.ForgetToken();
    if (response.created() && !has_begun_) watch_id_ = response.watch_id();
    news.is_sign = response.created() && std::exchange(has_begun_, true);
    if (response.watch_id() != watch_id_) return news;
    for (const etcdserverpb::Event& event : response.events()) {
      news.changes.push_back(ToChange(event));
    }
    return news;
  }

  // etcd's own request for progress is not always answered. That a further watch has begun is.
  void AskForSign() override { AskFor(/*range_end=*/""); }

  Status End() override {
    context_.TryCancel();
    StopLooking();
    const grpc::Status ended = calls_->Finish();
    if (is_cancelled_) return OkStatus();
    channels_.Leave(channel_);
    if (ended.error_code() == grpc::StatusCode::UNAUTHENTICATED) channels_.ForgetToken();
    if (!left_.ok()) return left_;
    if (ended.error_code() == grpc::StatusCode::UNAVAILABLE) {
      return UnavailableError(channels_.name + ": following the changes: " + ended.error_message());
    }
    return channels_.Explain(ended, "following the changes");
  }

  void Cancel() override {
    is_cancelled_ = true;
    context_.TryCancel();
  }

 private:
  void AskFor(const std::string& range_end) {
    etcdserverpb::WatchRequest request;
    auto* create = request.mutable_create_request();
    create->set_key(prefix_);
    create->set_range_end(range_end);
    calls_->Write(request);  // where it fails, so does Read
  }

  // By the same connection as the changes, from the same member.
  grpc::Status ReadAnything() {
    grpc::ClientContext context;
    const auto set_reading = [this](grpc::ClientContext* reading) {
      std::lock_guard lock(mutex_);
      reading_ = reading;
      if (is_ending_ && reading != nullptr) reading->TryCancel();
    };
    set_reading(&context);
    const grpc::Status status = ReadAnything(context);
    set_reading(nullptr);
    return status;
  }

  grpc::Status ReadAnything(grpc::ClientContext& context) {
    context.set_deadline(system_clock::now() + milliseconds(channels_.options.deadline_ms));
    const Status prepared = channels_.Prepare(channel_, &context);
    if (!prepared.ok()) return {grpc::StatusCode::UNAVAILABLE, prepared.message()};
    etcdserverpb::RangeRequest request;
    request.set_key(prefix_);
    request.set_count_only(true);
    etcdserverpb::RangeResponse response;
    return etcdserverpb::KV::NewStub(channel_)->Range(&context, request, &response);
  }

  void LookForSigns() {
    int num_missing = 0;
    std::unique_lock lock(mutex_);
    while (!wake_.wait_for(lock, milliseconds(channels_.options.sign_ms),
                           [this] { return is_ending_; })) {
      lock.unlock();
      const grpc::Status sign = ReadAnything();
      lock.lock();
      const bool is_missing = sign.error_code() == grpc::StatusCode::UNAVAILABLE ||
                              sign.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED;
      if (sign.error_code() == grpc::StatusCode::UNAUTHENTICATED) channels_.ForgetToken();
      num_missing = is_missing ? num_missing + 1 : 0;
      if (num_missing <= kSignsMissingMax || is_ending_) continue;
      left_ = UnavailableError(
          channels_.name +
          ": the member that told the changes does not hear the others: " + sign.error_message());
      context_.TryCancel();  // Read and End see it
      return;
    }
  }

  void StopLooking() {
    {
      std::lock_guard lock(mutex_);
      is_ending_ = true;
      if (reading_ != nullptr) reading_->TryCancel();
    }
    wake_.notify_all();
    if (looker_.joinable()) looker_.join();
  }

  EtcdChannels& channels_;
  std::string prefix_;
  bool has_begun_ = false;
  int64_t watch_id_ = 0;  // etcd's, of the one that tells the changes
  grpc::ClientContext context_;
  std::shared_ptr<grpc::Channel> channel_;  // shared: gRPC's interface
  std::unique_ptr<grpc::ClientReaderWriter<etcdserverpb::WatchRequest, etcdserverpb::WatchResponse>>
      calls_;
  std::atomic<bool> is_cancelled_{false};
  std::mutex mutex_;
  std::condition_variable wake_;
  bool is_ending_ = false;
  grpc::ClientContext* reading_ = nullptr;  // of the sign that is asked for, if one is
  Status left_;                             // why the member was left; OK: it was not
  std::thread looker_;                      // last: it uses the others
};

}  // namespace

Result<std::unique_ptr<EtcdWatchStream>> OpenEtcdWatch(EtcdChannels& channels,
                                                       const std::string& prefix) {
  auto watch = std::make_unique<GrpcEtcdWatch>(channels);
  RETURN_IF_ERROR(watch->Open(prefix));
  return std::unique_ptr<EtcdWatchStream>(std::move(watch));
}

}  // namespace graft
