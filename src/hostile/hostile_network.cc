#include "hostile/hostile_network.h"

#include <algorithm>

namespace graft {
namespace {

constexpr int64_t kDelayMaxNs = 2'000'000;
constexpr int64_t kLateMaxNs = 300'000'000;
// Messages of which one is late, and with it all behind it.
constexpr uint64_t kLateOneIn = 100;

}  // namespace

std::shared_ptr<SimStream> HostileNetwork::Open(int32_t frontend, int32_t runner) {
  auto stream = std::make_shared<SimStream>();
  stream->frontend = frontend;
  stream->runner = runner;
  for (SimStream::Lane& lane : stream->lanes) {
    lane.delay_ns = static_cast<int64_t>(random_.Below(kDelayMaxNs));
  }
  std::erase_if(streams_, [](const auto& old) { return old.expired(); });
  streams_.push_back(stream);
  return stream;
}

void HostileNetwork::Send(const std::shared_ptr<SimStream>& stream, ToRunner message) {
  SimStream* const at = stream.get();
  Post(stream, Way::kToRunner, [at, message = std::move(message)] {
    const auto call = at->at_runner;  // which may be taken away meanwhile
    if (call) call(message);
  });
}

void HostileNetwork::Send(const std::shared_ptr<SimStream>& stream, ToFrontend message) {
  SimStream* const at = stream.get();
  Post(stream, Way::kToFrontend, [at, message = std::move(message)] {
    const auto call = at->at_frontend;  // which may be taken away meanwhile
    if (call) call(message);
  });
}

void HostileNetwork::Post(const std::shared_ptr<SimStream>& stream, Way way,
                          std::function<void()> arrive) {
  SimStream::Lane& lane = LaneOf(*stream, way);
  int64_t delay_ns = lane.delay_ns + static_cast<int64_t>(random_.Below(kDelayMaxNs / 4));
  if (random_.Below(kLateOneIn) == 0) delay_ns += static_cast<int64_t>(random_.Below(kLateMaxNs));
  lane.last_ns = std::max(lane.last_ns, loop_.now_ns() + delay_ns);
  lane.on_its_way.emplace_back(lane.last_ns, std::move(arrive));
  loop_.After(lane.last_ns - loop_.now_ns(), [this, stream, way] { Deliver(*stream, way); });
}

void HostileNetwork::Deliver(SimStream& stream, Way way) {
  SimStream::Lane& lane = LaneOf(stream, way);
  while (!lane.on_its_way.empty() && lane.on_its_way.front().first <= loop_.now_ns()) {
    if (cuts_.contains({stream.frontend, stream.runner, way})) return;
    const std::function<void()> arrive = std::move(lane.on_its_way.front().second);
    lane.on_its_way.pop_front();
    arrive();
  }
}

std::vector<std::shared_ptr<SimStream>> HostileNetwork::Streams() {
  std::vector<std::shared_ptr<SimStream>> there;
  for (const auto& stream : streams_) {
    if (auto one = stream.lock()) there.push_back(std::move(one));
  }
  return there;
}

std::vector<std::shared_ptr<SimStream>> HostileNetwork::StreamsOf(int32_t frontend) {
  auto streams = Streams();
  std::erase_if(streams, [&](const auto& one) { return one->frontend != frontend; });
  return streams;
}

void HostileNetwork::Heal(int32_t frontend, int32_t runner) {
  for (const Way way : {Way::kToRunner, Way::kToFrontend}) {
    if (cuts_.erase({frontend, runner, way}) == 0) continue;
    for (const auto& stream : Streams()) {
      if (stream->frontend != frontend || stream->runner != runner) continue;
      loop_.After(0, [this, stream, way] { Deliver(*stream, way); });
    }
  }
}

bool HostileNetwork::BreakAny() {
  const auto there = Streams();
  if (there.empty()) return false;
  const std::shared_ptr<SimStream>& stream = there[random_.Below(there.size())];
  stream->is_broken = true;
  stream->counts_truth = false;
  Lose(*stream, Way::kToRunner);
  Lose(*stream, Way::kToFrontend);
  Send(stream, ToRunner());
  Send(stream, ToFrontend());
  return true;
}

}  // namespace graft
