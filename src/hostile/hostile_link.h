// A frontend's link to a runner over a simulated stream, without threads and gRPC. If the runner
// dies, a DeathLedger checks which requests the RunnerSet counts that death against. One thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <string>

#include "hostile/death_ledger.h"
#include "hostile/defect.h"
#include "hostile/event_loop.h"
#include "hostile/findings.h"
#include "hostile/hostile_network.h"
#include "rpc/runner_link.h"

namespace graft {

// What a link has of its world.
struct HostileLinkWorld {
  EventLoop* loop = nullptr;
  SimProcess* process = nullptr;  // the frontend's
  HostileNetwork* network = nullptr;
  Random* random = nullptr;
  Findings* findings = nullptr;
  int32_t frontend = 0;  // its machine
  Defect defect = Defect::kNone;
  // A stream to the runner's machine, which takes what arrives.
  std::function<std::shared_ptr<SimStream>(int32_t frontend, const std::string& address)> call;
  std::function<void(int32_t key)> on_death;  // it counts against this request
  // A runner is asked; the ledger is that runner's.
  std::function<void(const Request&, const std::shared_ptr<DeathLedger>&)> on_submit;
  std::function<void(const std::shared_ptr<DeathLedger>&)> on_link;  // there is a new one
};

class HostileLink : public RunnerLink {
 public:
  HostileLink(const HostileLinkWorld& world, const RunnerLinkOptions& options, size_t runner,
              RunnerListener& listener);
  ~HostileLink() override;

  void Submit(const Request& request) override;
  void Cancel(uint64_t number) override;
  void Tick(int64_t now_ns, bool forgives) override;

 private:
  void InProcess(int64_t delay_ns, std::function<void()> call);
  void Call();
  void Take(const ToFrontend& message);
  void Beat(const std::shared_ptr<SimStream>& stream);
  void Break();
  void Down(const Status& why);
  void CheckTruth(const std::set<int32_t>& charged) const;

  const HostileLinkWorld world_;
  const RunnerLinkOptions options_;
  const size_t runner_;
  RunnerListener& listener_;
  // Shared with the simulation, which looks whether it still holds a request.
  const std::shared_ptr<DeathLedger> ledger_ = std::make_shared<DeathLedger>();
  std::shared_ptr<SimStream> stream_;  // null: none
  bool is_up_ = false;
  int64_t heard_ns_ = 0;
  std::shared_ptr<bool> lives_ = std::make_shared<bool>(true);  // shared with calls to come
};

}  // namespace graft
