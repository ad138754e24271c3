#include "etcd/etcd_patience.h"

#include <condition_variable>
#include <mutex>

#include "base/fault.h"
#include "base/log.h"
#include "base/milliseconds.h"

namespace graft {
namespace {

constexpr int64_t kPauseMs = 200;

}  // namespace

Status UntilAnswered(EtcdClient& client, int64_t patience_ms, const std::function<Status()>& ask) {
  EtcdWorld& world = client.world();
  const int64_t until_ns = world.NowNs() + MsToNs(patience_ms);
  std::mutex mutex;
  std::condition_variable never;
  std::unique_lock lock(mutex);
  Status answer = ask();
  if (IsPassing(answer) && world.NowNs() < until_ns) {
    LOG_WARN("{}; it is asked again for {} s", answer.message(), patience_ms / 1000);
  }
  while (IsPassing(answer) && world.NowNs() < until_ns) {
    world.WaitFor(lock, never, MsToNs(kPauseMs), [] { return false; });
    answer = ask();
  }
  return answer;
}

}  // namespace graft
