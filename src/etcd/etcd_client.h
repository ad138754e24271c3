// EtcdClient: the calls to etcd, the cluster's memory, that Graft needs: keys, transactions,
// leases. A call blocks for `deadline_ms` at most, and tries the other endpoints if one does not
// answer. This is an interface: Make returns a client that speaks to etcd, and simulations have
// their own. Thread-safe.
//
// Errors. kUnavailable: nothing was changed, because no endpoint could be reached, or none has
// answered a call that only reads. kDeadlineExceeded: the connection broke, or the time ran out,
// while etcd had the call, so it is not known whether a change was made. kUnauthenticated and
// kPermissionDenied say what to check. All of them name the endpoints.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "etcd/etcd_world.h"

namespace graft {

struct EtcdOptions {
  std::vector<std::string> endpoints;  // "host:port", with or without "http://" or "https://"
  std::string ca_file;                 // PEM; not empty: TLS
  std::string cert_file, key_file;     // ours, if etcd asks for one
  std::string user, password;          // "": without
  int deadline_ms = 3000;              // of one call, all endpoints together
  int sign_ms = 5000;  // between two checks that a watch's member still hears the others
};

struct EtcdKeyValue {
  std::string key;
  std::string value;
  int64_t create_revision = 0;
  int64_t mod_revision = 0;
  int64_t lease = 0;  // 0: none
};

// One condition of a transaction. Revisions of a key that is not there are 0.
struct EtcdCompare {
  enum class Target { kCreateRevision, kModRevision, kValue };
  enum class Relation { kEqual, kGreater };
  std::string key;
  Target target = Target::kModRevision;
  int64_t number = 0;
  std::string value;  // for kValue, of a key that is there
  Relation relation = Relation::kEqual;

  static EtcdCompare Absent(std::string key) { return {std::move(key)}; }
  static EtcdCompare Present(std::string key) {
    return {std::move(key), Target::kCreateRevision, 0, "", Relation::kGreater};
  }
  static EtcdCompare ModRevision(std::string key, int64_t revision) {
    return {std::move(key), Target::kModRevision, revision};
  }
  static EtcdCompare CreateRevision(std::string key, int64_t revision) {
    return {std::move(key), Target::kCreateRevision, revision};
  }
  static EtcdCompare Value(std::string key, std::string value) {
    return {std::move(key), Target::kValue, 0, std::move(value)};
  }
};

struct EtcdOperation {
  enum class Kind { kGet, kGetPrefix, kPut, kDelete, kDeletePrefix };
  Kind kind = Kind::kGet;
  std::string key;  // or the prefix
  std::string value;
  int64_t lease = 0;
  int64_t keys_max =
      0;  // of kGetPrefix: the first so many keys, without their values; 0: all items

  static EtcdOperation Get(std::string key) { return {Kind::kGet, std::move(key)}; }
  static EtcdOperation GetPrefix(std::string prefix) {
    return {Kind::kGetPrefix, std::move(prefix)};
  }
  static EtcdOperation GetKeys(std::string prefix, int64_t keys_max) {
    EtcdOperation operation = GetPrefix(std::move(prefix));
    operation.keys_max = keys_max;
    return operation;
  }
  static EtcdOperation Put(std::string key, std::string value, int64_t lease = 0) {
    return {Kind::kPut, std::move(key), std::move(value), lease};
  }
  static EtcdOperation Delete(std::string key) { return {Kind::kDelete, std::move(key)}; }
  static EtcdOperation DeletePrefix(std::string prefix) {
    return {Kind::kDeletePrefix, std::move(prefix)};
  }
};

// If all compares hold, `then` is done, else `otherwise`; in one revision or not at all. etcd takes
// kEtcdOperationsMax operations at most, and compares as many.
inline constexpr size_t kEtcdOperationsMax = 128;
struct EtcdTransaction {
  std::vector<EtcdCompare> compares;
  std::vector<EtcdOperation> then;
  std::vector<EtcdOperation> otherwise;
};

struct EtcdOutcome {
  bool succeeded = false;  // the compares held
  int64_t revision = 0;    // of the store afterwards
  // One per operation that was done: what a get found; empty for other operations.
  std::vector<std::vector<EtcdKeyValue>> found;
};

struct EtcdLeaseGrant {
  int64_t id = 0;
  int64_t ttl_s = 0;
};

struct EtcdChange {
  EtcdKeyValue item;  // of one that was deleted the key alone, and the revision of it
  bool deleted = false;
};

// What one message of a watch says.
struct EtcdNews {
  std::vector<EtcdChange> changes;  // in order
  bool has_ended = false;           // etcd ended the watch:
  std::string reason;
  bool is_sign = false;  // that was asked for
};

// A stream of changes. The first news has no change: from then on all changes are reported, until
// the stream is over. News that has arrived may be read after the etcd that sent it has ended. One
// thread reads, asks for signs of life, and ends the stream.
class EtcdWatchStream {
 public:
  virtual ~EtcdWatchStream() = default;
  // Waits. None: the stream is over.
  virtual std::optional<EtcdNews> Read() = 0;
  // Some news from now on is a sign that the etcd which tells the changes was there when it was
  // asked. None comes once that has ended.
  virtual void AskForSign() = 0;
  // After that, why; OK where it was cancelled.
  virtual Status End() = 0;
  // Any thread: it is over.
  virtual void Cancel() = 0;
};

class EtcdClient {
 public:
  // Checks the options and reads the certificates' files; connects when first used.
  static Result<std::unique_ptr<EtcdClient>> Make(const EtcdOptions& options);
  virtual ~EtcdClient() = default;

  // A transaction that only reads is asked for again elsewhere when a connection breaks.
  virtual Result<EtcdOutcome> Commit(const EtcdTransaction& transaction) = 0;
  // All keys with this prefix, sorted.
  Result<EtcdOutcome> ReadPrefix(const std::string& prefix);

  // etcd may grant a longer time than asked for.
  virtual Result<EtcdLeaseGrant> GrantLease(int64_t ttl_s) = 0;
  // The seconds that it has from now on; 0: there is no such lease any more.
  virtual Result<int64_t> RenewLease(int64_t id) = 0;
  // Ends it, and the keys under it go. It may be gone already.
  virtual Status RevokeLease(int64_t id) = 0;

  // All changes of keys with this prefix from now on.
  virtual Result<std::unique_ptr<EtcdWatchStream>> Watch(const std::string& prefix) = 0;

  // How messages and logs name it: "etcd at a:1, b:2".
  virtual const std::string& name() const = 0;
  // The clock and the threads of its users.
  virtual EtcdWorld& world() { return EtcdWorld::Real(); }
};

// The end of the range of keys that begin with `prefix`, as etcd wants it.
std::string EtcdPrefixEnd(const std::string& prefix);

}  // namespace graft
