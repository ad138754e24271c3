#include "hostile/hostile_link.h"

#include <algorithm>
#include <utility>

#include "rpc/request_proto.h"
#include "rpc/runner_news.h"

namespace graft {
namespace {

constexpr int64_t kConnectNs = 5'000'000'000;
constexpr int64_t kReconnectMinNs = 100'000'000;
constexpr int64_t kReconnectMaxNs = 500'000'000;

}  // namespace

HostileLink::HostileLink(const HostileLinkWorld& world, const RunnerLinkOptions& options,
                         size_t runner, RunnerListener& listener)
    : world_(world), options_(options), runner_(runner), listener_(listener) {
  if (world_.on_link) world_.on_link(ledger_);
  InProcess(0, [this] { Call(); });
}

HostileLink::~HostileLink() {
  *lives_ = false;
  if (stream_ != nullptr) stream_->at_frontend = nullptr;
}

// Unless it has ended by then.
void HostileLink::InProcess(int64_t delay_ns, std::function<void()> call) {
  world_.process->After(delay_ns, [lives = lives_, call = std::move(call)] {
    if (*lives) call();
  });
}

void HostileLink::Call() {
  heard_ns_ = world_.loop->now_ns();
  stream_ = world_.call(world_.frontend, options_.address);
  stream_->at_frontend = [this, process = world_.process,
                          lives = lives_](const ToFrontend& message) {
    process->Run([this, lives, message, from = std::weak_ptr(stream_)] {
      if (*lives && stream_ != nullptr && from.lock() == stream_) Take(message);
    });
  };
  auto hello = std::make_shared<rpc::FrontendMessage>();
  hello->mutable_hello()->set_protocol(options_.protocol);
  hello->mutable_hello()->set_frontend(options_.frontend);
  world_.network->Send(stream_, ToRunner(std::move(hello)));
}

void HostileLink::Take(const ToFrontend& message) {
  if (message == nullptr) {
    if (is_up_) CheckTruth(ledger_->Charged());
    return Down(UnavailableError("the connection has ended"));
  }
  heard_ns_ = world_.loop->now_ns();
  if (is_up_) {
    ledger_->OnMessage(*message);
    TellListener(*message, runner_, &listener_);
    return;
  }
  is_up_ = true;
  ledger_->OnWelcome(message->welcome());
  Beat(stream_);
  const Status taken = listener_.OnUp(runner_, FactsOf(message->welcome()));
  if (taken.ok()) return;
  Break();
  Down(taken);
}

void HostileLink::Beat(const std::shared_ptr<SimStream>& stream) {
  if (stream_ != stream) return;
  world_.network->Send(stream, ToRunner(std::make_shared<rpc::FrontendMessage>()));
  InProcess(kHeartbeatNs, [this, stream] { Beat(stream); });
}

void HostileLink::Submit(const Request& request) {
  if (!is_up_) return;
  world_.findings->Note("frontend {} asks runner {} for number {}", world_.frontend,
                        options_.address, request.id.number);
  world_.on_submit(request, ledger_);
  ledger_->OnSubmit(request);

  auto message = std::make_shared<rpc::FrontendMessage>();
  *message->add_submit() = ToProto(request);
  world_.network->Send(stream_, ToRunner(std::move(message)));
}

void HostileLink::Cancel(uint64_t number) {
  if (!is_up_) return;
  world_.findings->Note("frontend {} tells runner {} to stop number {}", world_.frontend,
                        options_.address, number);
  ledger_->OnCancel(number);
  auto message = std::make_shared<rpc::FrontendMessage>();
  message->add_cancel(number);
  world_.network->Send(stream_, ToRunner(std::move(message)));
}

void HostileLink::Tick(int64_t now_ns, bool forgives) {
  if (stream_ == nullptr) return;
  if (forgives) {
    heard_ns_ = std::max(heard_ns_, now_ns);
    return;
  }
  if (now_ns - heard_ns_ <= (is_up_ ? options_.silence_ns : kConnectNs)) return;
  // The caller of Tick holds a lock that the listener takes.
  InProcess(0, [this, silent = stream_] {
    if (stream_ != silent) return;
    Break();
    Down(UnavailableError("it has been silent"));
  });
}

void HostileLink::Break() {
  if (world_.random->Below(2) == 0) HostileNetwork::Lose(*stream_, Way::kToRunner);
  world_.network->Send(stream_, ToRunner());
}

void HostileLink::Down(const Status& why) {
  const std::set<int32_t> charged = is_up_ ? ledger_->Charged() : std::set<int32_t>();
  for (const int32_t key : charged) world_.on_death(key);
  world_.findings->Note("frontend {}: runner {} is down: {}", world_.frontend, options_.address,
                        why.message());
  stream_->at_frontend = nullptr;
  stream_.reset();
  is_up_ = false;
  ledger_->Clear(/*tells_steps=*/true);
  if (world_.defect == Defect::kForgetsDeaths) return;
  listener_.OnDown(runner_, why);
  InProcess(kReconnectMinNs + static_cast<int64_t>(world_.random->Below(
                                  static_cast<uint64_t>(kReconnectMaxNs - kReconnectMinNs))),
            [this] { Call(); });
}

// Where all that a dead runner wrote has arrived, the frontend knows what its last step held.
void HostileLink::CheckTruth(const std::set<int32_t>& charged) const {
  if (!stream_->counts_truth || ledger_->is_draining() || !ledger_->tells_steps()) return;
  const std::set<int32_t> sent = ledger_->Sent();
  for (const int32_t key : stream_->undrawn) {
    if (sent.contains(key) && !charged.contains(key) && !stream_->unsure.contains(key)) {
      world_.findings->Add("a death in a step with request {} does not count", key);
    }
  }
  if (!stream_->all_was_written) return;
  for (const int32_t key : charged) {
    if (!stream_->undrawn.contains(key) && !stream_->unsure.contains(key)) {
      world_.findings->Add("a death counts against request {}, which no step held", key);
    }
  }
}

}  // namespace graft
