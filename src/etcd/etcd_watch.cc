#include "etcd/etcd_watch.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "base/milliseconds.h"

namespace graft {
namespace {

constexpr int64_t kWatchRetryMs = 250;

}  // namespace

EtcdWatch::EtcdWatch(EtcdClient& client, std::string prefix, std::optional<EtcdCompare> guard,
                     std::string guard_failure, EtcdListener& listener)
    : client_(client),
      world_(client.world()),
      prefix_(std::move(prefix)),
      guard_(std::move(guard)),
      guard_failure_(std::move(guard_failure)),
      listener_(listener),
      thread_(world_.Start([this] { Run(); })) {}

EtcdWatch::~EtcdWatch() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
    if (stream_ != nullptr) stream_->Cancel();
  }
  wake_.notify_all();
  thread_.reset();
}

bool EtcdWatch::stopping() {
  std::lock_guard lock(mutex_);
  return stopping_;
}

bool EtcdWatch::Wait(int64_t ms) {
  std::unique_lock lock(mutex_);
  return !world_.WaitFor(lock, wake_, MsToNs(ms), [this] { return stopping_; });
}

void EtcdWatch::Run() {
  while (!stopping()) {
    const Status status = Follow();
    if (stopping()) return;
    if (status.ok()) continue;
    if (status.code() != away_) listener_.OnAway(status);
    away_ = status.code();
    if (!Wait(kWatchRetryMs)) return;
  }
}

Status EtcdWatch::Follow() {
  ASSIGN_OR_RETURN(const std::unique_ptr<EtcdWatchStream> stream, client_.Watch(prefix_));
  bool is_stopping = false;
  {
    std::lock_guard lock(mutex_);
    is_stopping = stopping_;
    stream_ = stream.get();
  }
  const Status status = is_stopping ? OkStatus() : Read(*stream);
  {
    std::lock_guard lock(mutex_);
    stream_ = nullptr;
  }
  if (!status.ok() || is_stopping) stream->Cancel();  // nothing is wrong with the connection
  const Status ended = stream->End();
  return status.ok() ? ended : status;
}

// OK when the stream has ended.
Status EtcdWatch::Read(EtcdWatchStream& stream) {
  std::optional<EtcdNews> news = stream.Read();
  if (!news) return OkStatus();
  RETURN_IF_ERROR(CheckGoesOn(*news));
  ASSIGN_OR_RETURN(const EtcdOutcome all, ReadAll());
  // All may be of an etcd that came after the stream's: this process may have been stopped, or the
  // reading has waited until etcd came back. Then the stream breaks without a sign.
  stream.AskForSign();
  std::vector<EtcdNews> since;  // the stream began
  while (since.empty() || !since.back().is_sign) {
    news = stream.Read();
    if (!news) return OkStatus();
    RETURN_IF_ERROR(CheckGoesOn(*news));
    since.push_back(std::move(*news));
  }
  TellAll(all);
  for (const EtcdNews& one : since) TellChanges(one);
  while ((news = stream.Read())) {
    RETURN_IF_ERROR(CheckGoesOn(*news));
    TellChanges(*news);
  }
  return OkStatus();
}

Status EtcdWatch::CheckGoesOn(const EtcdNews& news) const {
  if (!news.has_ended) return OkStatus();
  return UnavailableError(client_.name() + ": it ended the watch: " + news.reason);
}

Result<EtcdOutcome> EtcdWatch::ReadAll() {
  EtcdTransaction look;
  if (guard_) look.compares.push_back(*guard_);
  look.then.push_back(EtcdOperation::GetPrefix(prefix_));
  ASSIGN_OR_RETURN(EtcdOutcome outcome, client_.Commit(look));
  if (!outcome.succeeded) return FailedPreconditionError(client_.name() + ": " + guard_failure_);
  return outcome;
}

void EtcdWatch::TellAll(const EtcdOutcome& all) {
  const bool set_back = all.revision < revision_;
  revision_ = all.revision;
  away_ = StatusCode::kOk;
  listener_.OnAll(all.found[0], revision_, set_back);
}

void EtcdWatch::TellChanges(const EtcdNews& news) {
  std::vector<EtcdChange> changes;
  int64_t revision = revision_;
  for (const EtcdChange& change : news.changes) {
    if (change.item.mod_revision <= revision_) continue;  // it is in what was read
    changes.push_back(change);
    revision = std::max(revision, change.item.mod_revision);
  }
  revision_ = revision;
  if (!changes.empty()) listener_.OnChanges(changes, revision);
}

}  // namespace graft
