// EtcdWatch: all keys with a prefix, and every change of them in order. A thread of its own asks
// for the changes, reads all keys once the changes are on their way, and then follows them. When
// the connection breaks, it begins again with a full reading, because etcd may have been restored
// from a backup meanwhile, and its revisions do not show that once it has made as many since. A
// restore may also happen between the start of the changes and the reading. So nothing is reported
// before the stream has shown that it lived on after the reading. The listener is called on that
// thread alone.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "etcd/etcd_client.h"

namespace graft {

class EtcdListener {
 public:
  virtual ~EtcdListener() = default;
  // All there is; takes the place of what was told before. `set_back`: revisions are those of an
  // etcd that knows less than was told before.
  virtual void OnAll(const std::vector<EtcdKeyValue>& items, int64_t revision, bool set_back) = 0;
  // What happened next, in order.
  virtual void OnChanges(const std::vector<EtcdChange>& changes, int64_t revision) = 0;
  // Nothing is heard from now on until OnAll. Again when the reason changes.
  virtual void OnAway(const Status& why) = 0;
};

class EtcdWatch {
 public:
  // Both must outlive it. While `guard` does not hold, etcd counts as away with kFailedPrecondition
  // and `guard_failure`: it is another one than the listener means.
  EtcdWatch(EtcdClient& client, std::string prefix, std::optional<EtcdCompare> guard,
            std::string guard_failure, EtcdListener& listener);
  // The listener is not called any more.
  ~EtcdWatch();

 private:
  void Run();
  // Until the connection ends.
  Status Follow();
  Status Read(EtcdWatchStream& stream);
  Status CheckGoesOn(const EtcdNews& news) const;
  Result<EtcdOutcome> ReadAll();
  void TellAll(const EtcdOutcome& all);
  void TellChanges(const EtcdNews& news);
  bool Wait(int64_t ms);  // false: the end was asked for
  bool stopping();

  EtcdClient& client_;
  EtcdWorld& world_;
  const std::string prefix_;
  const std::optional<EtcdCompare> guard_;
  const std::string guard_failure_;
  EtcdListener& listener_;
  int64_t revision_ = 0;               // told so far
  StatusCode away_ = StatusCode::kOk;  // as the listener was told
  std::mutex mutex_;
  std::condition_variable wake_;
  bool stopping_ = false;
  EtcdWatchStream* stream_ = nullptr;  // open; to be cancelled
  std::unique_ptr<EtcdWorld::Thread> thread_;
};

}  // namespace graft
