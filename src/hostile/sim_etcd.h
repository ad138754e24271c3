// etcd in a hostile simulation: keys with revisions, transactions, leases that end, watches. It can
// be away, come back empty, or as it once was. One thread at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "base/random.h"
#include "etcd/etcd_client.h"
#include "hostile/defect.h"
#include "hostile/event_loop.h"

namespace graft {

class SimEtcd {
 public:
  // What a watch hears.
  using Hear = std::function<void(const EtcdNews& news)>;
  // Looks at each record that is put, with the name of the process that puts it.
  using Look = std::function<void(const std::string& by, const EtcdKeyValue& made)>;

  SimEtcd(EventLoop& loop, Random& random, Defect defect)
      : loop_(loop), random_(random), defect_(defect) {}
  void SetLook(Look look) { look_ = std::move(look); }

  // While it is up.
  EtcdOutcome Commit(const std::string& by, const EtcdTransaction& transaction);
  EtcdLeaseGrant Grant(int64_t ttl_s);
  int64_t Renew(int64_t id);
  void Revoke(int64_t id);
  // From now on; at once news without a change.
  int64_t Watch(const std::string& prefix, Hear hear);
  void Unwatch(int64_t watch) { watches_.erase(watch); }
  // It hears a sign, if etcd has not gone away since it began.
  void GiveSign(int64_t watch);

  bool is_up() const { return is_up_; }
  // How often it went away: connections do not outlive that.
  int64_t num_ends() const { return num_ends_; }
  void GoAway();
  // As it was; its leases begin anew.
  void ComeBack();
  // Without anything, or as it was when Keep was called last.
  void ComeBackEmpty();
  void ComeBackAsKept();
  void Keep() { kept_ = data_; }

  const std::map<std::string, EtcdKeyValue>& items() const { return data_.items; }
  int64_t revision() const { return data_.revision; }
  // When it last knew less than before.
  int64_t set_back_ns() const { return set_back_ns_; }

 private:
  struct Lease {
    int64_t ttl_s = 0;
    int64_t ends_ns = 0;
    std::set<std::string> keys;
  };
  struct Data {
    int64_t revision = 1;
    std::map<std::string, EtcdKeyValue> items;
    std::map<int64_t, Lease> leases;
  };
  struct Watcher {
    std::string prefix;
    Hear hear;
  };

  bool Holds(const EtcdCompare& compare) const;
  void Do(const std::string& by, const EtcdOperation& operation, EtcdOutcome* outcome);
  void Put(const std::string& by, const EtcdOperation& put);
  void Delete(const std::string& key);
  void Tell();
  void SetBack(Data data);
  void RenewAll();
  void AskForEnd(int64_t lease);
  void EndIfDue(int64_t lease);

  EventLoop& loop_;
  Random& random_;
  const Defect defect_;
  Look look_;
  bool is_up_ = true;
  Data data_, kept_;
  std::vector<EtcdChange> made_;  // in the revision that is being made
  std::map<int64_t, Watcher> watches_;
  int64_t num_watches_ = 0;
  int64_t num_leases_ = 0;
  int64_t num_ends_ = 0;
  int64_t set_back_ns_ = -1'000'000'000'000;
};

}  // namespace graft
