// SimEtcdClient: a simulated process's EtcdClient for SimEtcd. Calls take time, are lost before or
// after they took effect, or come too late. Watches break or fall silent. The results are those
// that EtcdClient promises. Runs on the process's threads.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "base/random.h"
#include "etcd/etcd_client.h"
#include "hostile/sim_etcd.h"
#include "hostile/sim_threads.h"

namespace graft {

// Between a process and etcd; the process's client and watches have it.
struct EtcdWay {
  bool is_cut = false;     // nothing arrives, and neither side is told
  bool is_silent = false;  // what etcd tells its watches does not arrive; else all does
  int64_t delay_max_ns = 2'000'000;
};

class SimEtcdClient : public EtcdClient {
 public:
  // Borrows all. `name` is the caller's.
  SimEtcdClient(std::string name, SimEtcd& etcd, EtcdWay& way, EventLoop& loop, Random& random,
                SimThreads& threads, Defect defect)
      : caller_(std::move(name)),
        etcd_(etcd),
        way_(way),
        loop_(loop),
        random_(random),
        threads_(threads),
        defect_(defect) {}

  Result<EtcdOutcome> Commit(const EtcdTransaction& transaction) override;
  Result<EtcdLeaseGrant> GrantLease(int64_t ttl_s) override;
  Result<int64_t> RenewLease(int64_t id) override;
  Status RevokeLease(int64_t id) override;
  Result<std::unique_ptr<EtcdWatchStream>> Watch(const std::string& prefix) override;
  const std::string& name() const override { return name_; }
  EtcdWorld& world() override { return threads_; }

 private:
  bool Reaches() const { return etcd_.is_up() && !way_.is_cut && !threads_.has_ended(); }
  int64_t Delay() {
    return static_cast<int64_t>(random_.Below(static_cast<uint64_t>(way_.delay_max_ns)));
  }
  Status AwaitWay(int64_t until_ns);
  Status Call(bool is_repeatable, const std::function<void()>& call);

  const std::string caller_;
  const std::string name_ = "etcd of the simulation";
  SimEtcd& etcd_;
  EtcdWay& way_;
  EventLoop& loop_;
  Random& random_;
  SimThreads& threads_;
  const Defect defect_;
};

}  // namespace graft
