#include "hostile/sim_etcd_client.h"

#include <algorithm>
#include <deque>
#include <optional>
#include <utility>

namespace graft {
namespace {

constexpr int64_t kCallNs = 3'000'000'000;
constexpr int64_t kLookNs = 100'000'000;
// gRPC's keepalive finds out that a connection is dead.
constexpr int64_t kDeadWatchNs = 9'000'000'000;

// What is on its way outlives the call that it is of.
struct CallState {
  bool is_answered = false;
};

struct WatchState {
  std::deque<EtcdNews> news;
  std::function<void()> waker;
  bool is_broken = false;
  bool is_cancelled = false;
  int64_t last_ns = 0;  // when what came last arrives
};

class SimWatchStream : public EtcdWatchStream {
 public:
  SimWatchStream(SimEtcd& etcd, EtcdWay& way, EventLoop& loop, SimThreads& threads,
                 std::function<int64_t()> delay)
      : etcd_(etcd),
        way_(way),
        loop_(loop),
        threads_(threads),
        delay_(std::move(delay)),
        num_ends_(etcd.num_ends()) {}
  ~SimWatchStream() override { etcd_.Unwatch(watch_); }

  void Open(const std::string& prefix) {
    watch_ = etcd_.Watch(prefix, [this, state = state_](const EtcdNews& news) {
      // What was lost is never told again on this stream, and nothing after it.
      state->is_broken |= way_.is_silent || way_.is_cut;
      if (state->is_broken) return;
      state->last_ns = std::max(state->last_ns, loop_.now_ns() + delay_());
      loop_.After(state->last_ns - loop_.now_ns(), [state, news] {
        state->news.push_back(news);
        if (state->waker) std::exchange(state->waker, {})();
      });
    });
  }

  std::optional<EtcdNews> Read() override {
    int64_t dead_since_ns = -1;
    while (state_->news.empty()) {
      const bool is_gone = etcd_.num_ends() != num_ends_;
      if (state_->is_cancelled || threads_.has_ended() || is_gone) return std::nullopt;
      const bool is_dead = state_->is_broken || way_.is_silent || way_.is_cut;
      if (!is_dead) dead_since_ns = -1;
      if (is_dead && dead_since_ns < 0) dead_since_ns = loop_.now_ns();
      if (is_dead && loop_.now_ns() - dead_since_ns >= kDeadWatchNs) return std::nullopt;
      state_->waker = threads_.NextWaker();
      threads_.Wait(kLookNs);
    }
    const EtcdNews news = std::move(state_->news.front());
    state_->news.pop_front();
    return news;
  }
  // The stream may have ended by the time at which that arrives.
  void AskForSign() override {
    loop_.After(delay_(), [&etcd = etcd_, watch = watch_] { etcd.GiveSign(watch); });
  }
  Status End() override {
    if (state_->is_cancelled) return OkStatus();
    return DeadlineExceededError("etcd of the simulation: the watch broke");
  }
  void Cancel() override { state_->is_cancelled = true; }

 private:
  SimEtcd& etcd_;
  EtcdWay& way_;
  EventLoop& loop_;
  SimThreads& threads_;
  const std::function<int64_t()> delay_;
  const int64_t num_ends_;
  int64_t watch_ = 0;
  const std::shared_ptr<WatchState> state_ = std::make_shared<WatchState>();  // see CallState
};

}  // namespace

// A connection is tried again until then.
Status SimEtcdClient::AwaitWay(int64_t until_ns) {
  while (!Reaches()) {
    if (threads_.has_ended() || loop_.now_ns() >= until_ns) {
      return UnavailableError(name_ + " does not answer");
    }
    const int64_t before_ns = loop_.now_ns();
    threads_.Wait(kLookNs);
    if (loop_.now_ns() == before_ns) return UnavailableError(name_ + " does not answer");
  }
  return OkStatus();
}

// `call` is done when it arrives, which may be after its caller has given up.
Status SimEtcdClient::Call(bool is_repeatable, const std::function<void()>& call) {
  const int64_t until_ns = loop_.now_ns() + kCallNs;
  RETURN_IF_ERROR(AwaitWay(until_ns));
  const auto state = std::make_shared<CallState>();
  const auto wake = threads_.NextWaker();
  const int64_t num_ends = etcd_.num_ends();
  // The client may have ended by then.
  loop_.After(Delay(), [&etcd = etcd_, &way = way_, &loop = loop_, state, wake, call, num_ends,
                        back_ns = Delay()] {
    if (!etcd.is_up() || etcd.num_ends() != num_ends) return wake();
    if (way.is_cut) return;
    call();
    loop.After(back_ns, [&etcd, &way, state, wake, num_ends] {
      if (way.is_cut) return;
      state->is_answered = etcd.num_ends() == num_ends;
      wake();
    });
  });
  threads_.Wait(until_ns - loop_.now_ns());
  if (state->is_answered) return OkStatus();
  if (is_repeatable || defect_ == Defect::kHidesDoubt)
    return UnavailableError(name_ + " does not answer");
  return DeadlineExceededError(name_ + ": whether it was done is not known");
}

Result<EtcdOutcome> SimEtcdClient::Commit(const EtcdTransaction& transaction) {
  const auto only_reads = [](const std::vector<EtcdOperation>& operations) {
    return std::all_of(operations.begin(), operations.end(), [](const EtcdOperation& operation) {
      return operation.kind == EtcdOperation::Kind::kGet ||
             operation.kind == EtcdOperation::Kind::kGetPrefix;
    });
  };
  const auto outcome = std::make_shared<EtcdOutcome>();  // shared with the call, if that is late
  const bool reads = only_reads(transaction.then) && only_reads(transaction.otherwise);
  RETURN_IF_ERROR(Call(reads, [etcd = &etcd_, by = caller_, transaction, outcome] {
    *outcome = etcd->Commit(by, transaction);
  }));
  if (outcome->revision < 0) return NotFoundError(name_ + ": there is no such lease");
  return *outcome;
}

Result<EtcdLeaseGrant> SimEtcdClient::GrantLease(int64_t ttl_s) {
  const auto grant = std::make_shared<EtcdLeaseGrant>();
  RETURN_IF_ERROR(Call(true, [etcd = &etcd_, ttl_s, grant] { *grant = etcd->Grant(ttl_s); }));
  return *grant;
}

Result<int64_t> SimEtcdClient::RenewLease(int64_t id) {
  const auto left_s = std::make_shared<int64_t>(0);
  RETURN_IF_ERROR(Call(true, [etcd = &etcd_, id, left_s] { *left_s = etcd->Renew(id); }));
  return *left_s;
}

Status SimEtcdClient::RevokeLease(int64_t id) {
  return Call(true, [etcd = &etcd_, id] { etcd->Revoke(id); });
}

Result<std::unique_ptr<EtcdWatchStream>> SimEtcdClient::Watch(const std::string& prefix) {
  RETURN_IF_ERROR(AwaitWay(loop_.now_ns() + kCallNs));
  threads_.Wait(Delay() + 1);
  if (!Reaches()) return UnavailableError(name_ + " does not answer");
  auto stream =
      std::make_unique<SimWatchStream>(etcd_, way_, loop_, threads_, [this] { return Delay(); });
  stream->Open(prefix);
  return std::unique_ptr<EtcdWatchStream>(std::move(stream));
}

}  // namespace graft
