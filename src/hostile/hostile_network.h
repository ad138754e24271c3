// HostileNetwork: a network between frontends and runners that delays, cuts and breaks. Messages of
// one stream keep their order, as gRPC's do; messages of several streams overtake each other.
// Messages wait while the connection between two machines is cut, and are lost with a broken
// stream. One thread.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "base/random.h"
#include "hostile/event_loop.h"
#include "rpc/runner.pb.h"

namespace graft {

// From a machine with a frontend to one with a runner, or back.
enum class Way : uint8_t { kToRunner, kToFrontend };

// Null: the other side has ended the stream.
using ToRunner = std::shared_ptr<const rpc::FrontendMessage>;
using ToFrontend = std::shared_ptr<const rpc::RunnerMessage>;

// One stream. Both ends have it, and what is on its way.
struct SimStream {
  int32_t frontend = 0;  // the machines' numbers
  int32_t runner = 0;
  std::function<void(ToRunner)> at_runner;  // {}: it has gone
  std::function<void(ToFrontend)> at_frontend;

  struct Lane {
    int64_t delay_ns = 0;  // of the stream
    int64_t last_ns = 0;   // when what was sent last arrives
    std::deque<std::pair<int64_t, std::function<void()>>> on_its_way;
  };
  Lane lanes[2];
  bool is_broken = false;
  bool counts_truth = false;  // its runner died, and all that it wrote arrives; then:
  std::set<int32_t> undrawn;  // the frontend's requests in its last step that had drawn nothing
  std::set<int32_t> unsure;   // requests of which that is not known
  bool all_was_written = false;
};

class HostileNetwork {
 public:
  HostileNetwork(EventLoop& loop, Random& random) : loop_(loop), random_(random) {}

  std::shared_ptr<SimStream> Open(int32_t frontend, int32_t runner);
  void Send(const std::shared_ptr<SimStream>& stream, ToRunner message);
  void Send(const std::shared_ptr<SimStream>& stream, ToFrontend message);
  // What is on its way is lost.
  static void Lose(SimStream& stream, Way way) { LaneOf(stream, way).on_its_way.clear(); }

  void Cut(int32_t frontend, int32_t runner, Way way) { cuts_.emplace(frontend, runner, way); }
  void Heal(int32_t frontend, int32_t runner);
  std::vector<std::shared_ptr<SimStream>> StreamsOf(int32_t frontend);
  // Both ends hear that the stream has ended, and nothing else; false: there is none.
  bool BreakAny();

 private:
  static SimStream::Lane& LaneOf(SimStream& stream, Way way) {
    return stream.lanes[static_cast<size_t>(way)];
  }
  void Post(const std::shared_ptr<SimStream>& stream, Way way, std::function<void()> arrive);
  void Deliver(SimStream& stream, Way way);
  std::vector<std::shared_ptr<SimStream>> Streams();

  EventLoop& loop_;
  Random& random_;
  std::set<std::tuple<int32_t, int32_t, Way>> cuts_;
  std::vector<std::weak_ptr<SimStream>> streams_;  // their ends own them
};

}  // namespace graft
