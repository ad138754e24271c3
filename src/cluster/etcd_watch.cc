#include "cluster/etcd_watch.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <utility>

#include "cluster/etcd.grpc.pb.h"
#include "cluster/etcd_channel.h"

namespace graft {
namespace {

constexpr int64_t kWatchRetryMs = 250;
constexpr int64_t kWatchPollMs = 20;

EtcdChange ToChange(const etcdserverpb::Event& event) {
  const etcdserverpb::KeyValue& item = event.kv();
  return {{item.key(), item.value(), item.create_revision(), item.mod_revision(), item.lease()},
          event.type() == etcdserverpb::Event::DELETE};
}

}  // namespace

struct EtcdWatch::Stream {
  grpc::ClientContext context;
  std::shared_ptr<grpc::Channel> channel;
  std::unique_ptr<grpc::ClientReaderWriter<etcdserverpb::WatchRequest, etcdserverpb::WatchResponse>>
      calls;
};

EtcdWatch::EtcdWatch(EtcdClient& client, std::string prefix, std::optional<EtcdCompare> guard,
                     std::string guard_failure, EtcdListener& listener)
    : client_(client),
      prefix_(std::move(prefix)),
      guard_(std::move(guard)),
      guard_failure_(std::move(guard_failure)),
      listener_(listener),
      thread_([this] { Run(); }) {}

EtcdWatch::~EtcdWatch() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
    if (stream_ != nullptr) stream_->context.TryCancel();
  }
  thread_.join();
}

bool EtcdWatch::stopping() {
  std::lock_guard lock(mutex_);
  return stopping_;
}

bool EtcdWatch::Wait(int64_t ms) {
  for (int64_t waited = 0; waited < ms && !stopping(); waited += kWatchPollMs) {
    std::this_thread::sleep_for(std::chrono::milliseconds(kWatchPollMs));
  }
  return !stopping();
}

void EtcdWatch::Run() {
  while (!stopping()) {
    Status status = CatchUp();
    if (status.ok()) status = Follow();
    if (stopping()) return;
    if (status.ok()) continue;
    if (status.code() != away_) listener_.OnAway(status);
    away_ = status.code();
    if (!Wait(kWatchRetryMs)) return;
  }
}

Status EtcdWatch::CatchUp() {
  EtcdTransaction look;
  if (guard_) look.compares.push_back(*guard_);
  if (!complete_) look.then.push_back(EtcdOperation::GetPrefix(prefix_));
  ASSIGN_OR_RETURN(const EtcdOutcome outcome, client_.Commit(look));
  if (!outcome.succeeded) return FailedPreconditionError(client_.name() + ": " + guard_failure_);
  const bool set_back = outcome.revision < revision_;
  if (complete_ && set_back) {
    complete_ = false;
    return CatchUp();
  }
  if (!complete_) {
    revision_ = outcome.revision;
    complete_ = true;
    away_ = StatusCode::kOk;
    listener_.OnAll(outcome.found[0], revision_, set_back);
  } else if (away_ != StatusCode::kOk) {
    away_ = StatusCode::kOk;
    listener_.OnBack();
  }
  return OkStatus();
}

Status EtcdWatch::Follow() {
  EtcdClient::Impl& impl = client_.impl();
  Stream stream;
  ASSIGN_OR_RETURN(stream.channel,
                   impl.Connect(std::chrono::system_clock::now() +
                                std::chrono::milliseconds(impl.options.deadline_ms)));
  RETURN_IF_ERROR(impl.Prepare(stream.channel, &stream.context));
  {
    std::lock_guard lock(mutex_);
    if (stopping_) return OkStatus();
    stream_ = &stream;
  }
  const auto stub = etcdserverpb::Watch::NewStub(stream.channel);
  stream.calls = stub->Watch(&stream.context);
  etcdserverpb::WatchRequest request;
  auto* create = request.mutable_create_request();
  create->set_key(prefix_);
  create->set_range_end(EtcdPrefixEnd(prefix_));
  create->set_start_revision(revision_ + 1);
  Status status;
  if (stream.calls->Write(request)) status = Read(stream);
  {
    std::lock_guard lock(mutex_);
    stream_ = nullptr;
  }
  stream.context.TryCancel();
  const grpc::Status ended = stream.calls->Finish();
  if (!status.ok() || !complete_) return status;
  impl.Leave(stream.channel);
  if (ended.error_code() == grpc::StatusCode::UNAUTHENTICATED) impl.ForgetToken();
  return impl.Explain(ended, "following the changes");
}

// OK when the stream has ended; what was forgotten is to be read anew.
Status EtcdWatch::Read(Stream& stream) {
  etcdserverpb::WatchResponse response;
  while (stream.calls->Read(&response)) {
    if (response.compact_revision() > 0) {
      complete_ = false;
      return OkStatus();
    }
    if (response.canceled()) {
      client_.impl().ForgetToken();
      return UnavailableError(client_.name() + ": it ended the watch: " + response.cancel_reason());
    }
    std::vector<EtcdChange> changes;
    int64_t revision = revision_;
    for (const etcdserverpb::Event& event : response.events()) {
      changes.push_back(ToChange(event));
      revision = std::max(revision, event.kv().mod_revision());
    }
    revision_ = revision;
    if (!changes.empty()) listener_.OnChanges(changes, revision);
  }
  return OkStatus();
}

}  // namespace graft
