// EtcdWatch: all keys with a prefix, and every change of them in order. A thread of its own reads
// them all once, then follows the changes; when the connection breaks it goes on from the last
// revision that it has told, and where etcd has forgotten that one (or was set back to an earlier
// one, from a backup) it reads them all again. The listener is called on that thread alone.
#pragma once

#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/status.h"
#include "cluster/etcd_client.h"

namespace graft {

struct EtcdChange {
  EtcdKeyValue item;  // of one that was deleted the key alone, and the revision of it
  bool deleted = false;
};

class EtcdListener {
 public:
  virtual ~EtcdListener() = default;
  // All there is; takes the place of what was told before. `set_back`: revisions are those of an
  // etcd that knows less than was told before.
  virtual void OnAll(const std::vector<EtcdKeyValue>& items, int64_t revision, bool set_back) = 0;
  // What happened next, in order.
  virtual void OnChanges(const std::vector<EtcdChange>& changes, int64_t revision) = 0;
  // Nothing is heard from now on until one of the others is called. Again when the reason changes.
  virtual void OnAway(const Status& why) = 0;
  // Heard again, and nothing was missed.
  virtual void OnBack() = 0;
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
  struct Stream;

  void Run();
  // Reads all if that is needed, else makes sure that etcd is the one that was heard last.
  Status CatchUp();
  // Until the connection ends.
  Status Follow();
  Status Read(Stream& stream);
  bool Wait(int64_t ms);  // false: the end was asked for
  bool stopping();

  EtcdClient& client_;
  const std::string prefix_;
  const std::optional<EtcdCompare> guard_;
  const std::string guard_failure_;
  EtcdListener& listener_;
  int64_t revision_ = 0;               // told so far
  bool complete_ = false;              // what was told is all there is at revision_
  StatusCode away_ = StatusCode::kOk;  // as the listener was told
  std::mutex mutex_;
  bool stopping_ = false;
  Stream* stream_ = nullptr;  // open; to be cancelled
  std::thread thread_;
};

}  // namespace graft
